//! The daemon's answer: reading it from bytes, and turning a refusal into a sentence.

use super::failure::Failure;
use super::table::printable;
use crate::model::word::{Exit, exit_code};
use serde_json::Value;
use std::io::{self, ErrorKind};

/// One answer.
#[derive(Debug, PartialEq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body; null when there was none.
    pub body: Value,
}

/// Reads an answer; `None` while bytes are missing.
pub fn parse(bytes: &[u8]) -> io::Result<Option<Reply>> {
    let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, format!("its answer is not HTTP ({what})"));
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong("head"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| wrong("status line"))?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let length = length.and_then(Result::ok).ok_or_else(|| wrong("no length"))?;
    let Some(body) = bytes[end + 4..].get(..length) else { return Ok(None) };
    let body = match body {
        [] => Value::Null,
        body => serde_json::from_slice(body).map_err(|_| wrong("body"))?,
    };
    Ok(Some(Reply { status, body }))
}

impl Reply {
    /// The body of a success; a refusal becomes a sentence that begins with what could not be done.
    pub fn done(self, what: &str) -> Result<Value, Failure> {
        if matches!(self.status, 200..=299) { Ok(self.body) } else { Err(self.refusal(what)) }
    }

    /// The refusal's machine word.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }

    /// The refusal's reason, where its code has several.
    pub fn reason(&self) -> &str {
        self.body["reason"].as_str().unwrap_or("")
    }

    /// Whether the same request may well succeed in a moment.
    pub fn is_passing(&self) -> bool {
        self.status == 503 && matches!(self.code(), "server_overloaded" | "server_draining")
    }

    /// The sentence for a person.
    pub fn refusal(&self, what: &str) -> Failure {
        let (code, reason) = (printable(self.code()), printable(self.reason()));
        let said = self.body["message"].as_str().map(printable).filter(|message| !message.is_empty());
        let why = said.unwrap_or_else(|| explain(&code, &reason).to_owned()) + way_out(&code);
        let word = match (code.as_str(), reason.as_str()) {
            ("", _) => format!("HTTP status {}", self.status),
            (code, "") => code.to_owned(),
            (code, reason) => format!("{code}: {reason}"),
        };
        let exit = match exit_code(self.status) {
            Exit::Done => Exit::Unavailable,
            exit => exit,
        };
        Failure { exit, message: format!("cannot {what}: {why} ({word})") }
    }
}

/// What a machine word means, where the daemon sent no message with it.
fn explain(code: &str, reason: &str) -> &'static str {
    match (code, reason) {
        ("authentication_required", _) => "the token is not accepted",
        ("forbidden", _) => "the role of this token does not allow it",
        ("task_not_found", _) => "there is no such task",
        ("run_not_found", _) => "there is no such run",
        ("artifact_not_found", _) => "there is no such log",
        (_, "definition_changed") => "the task was changed meanwhile; look at it and try again",
        (_, "task_disabled") => "the task is disabled; `qinglet task enable` changes that",
        (_, "authorization_changed") => "the rights of this token changed meanwhile; try again",
        (_, "mutation_conflict") => "the mutation id was used for something else; try again",
        (_, "last_owner") => "nobody could manage the project any more; grant another owner first",
        ("server_overloaded", _) => "the daemon has too much to do; try again",
        ("server_draining", _) => "the daemon is stopping",
        _ => "the daemon said no",
    }
}

/// What to type next, where that does not depend on the case.
fn way_out(code: &str) -> &'static str {
    match code {
        "authentication_required" => {
            "; with the daemon stopped, `qinglet init --reissue-owner` makes a new owner token"
        }
        "forbidden" => "; an admin can change that with `qinglet access grant`",
        "task_not_found" => "; `qinglet task list` shows all",
        "run_not_found" => "; `qinglet runs` shows the newest",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 7\r\n\r\n{\"a\":1}";
        for cut in 0..whole.len() {
            assert_eq!(parse(&whole[..cut]).unwrap(), None, "{cut}");
        }
        assert_eq!(parse(whole).unwrap().unwrap().body["a"], 1);
        for bad in ["x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_why_and_what_to_do() {
        let body = serde_json::json!({"code": "task_start_fence_rejected", "reason": "task_disabled"});
        let failure = Reply { status: 409, body }.refusal("start task \"a\"");
        assert_eq!(failure.exit, Exit::Refused);
        assert_eq!(
            failure.message,
            "cannot start task \"a\": the task is disabled; `qinglet task enable` changes that (task_start_fence_rejected: task_disabled)"
        );
        assert_eq!(Reply { status: 503, body: Value::Null }.refusal("x").exit, Exit::Unavailable);
        assert_eq!(Reply { status: 400, body: Value::Null }.refusal("x").exit, Exit::Usage);
    }
}
