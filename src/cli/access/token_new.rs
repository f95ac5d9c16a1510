//! `access token new`: makes a token; the only moment its secret is shown.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::super::time::{parse_duration, rfc3339};
use super::subject;
use crate::model::limits::{DAY_MS, TOKEN_LIFE_MS_MAX, TOKEN_LIFE_MS_MIN};
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "access token new",
    args: &["SUBJECT"],
    rest: None,
    flags: &[Flag::value("expires", "TIME", "let it end by itself after 90d, 12h, 30m or the like")],
    summary: "make a token for a subject and print it, once",
    more: "Keep it in a file that only you can read: umask 077; qinglet access token new alice > alice.token\n\
           Without --expires it works until it is revoked.",
    body: new,
};

fn new(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let who = subject(given.arg(0))?;
    let mut body = json!({
        "schema": "qinglong/credential@v1",
        "mutationId": mutation::fresh()?.to_string(),
        "subject": super::wire(&who),
    });
    if let Some(text) = given.text("expires")? {
        body["expiresInMs"] = json!(life(text)?);
    }
    let reply = context.client().send_patiently("POST", "/access/tokens", Some(&body))?;
    let answer = reply.done(&format!("make a token for {who}"))?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let Some(token) = answer["token"].as_str() else {
        return Err(Failure::unavailable(
            "the token was made, but its answer was lost; list it with `qinglet access list`, revoke it and make another",
        ));
    };
    print(&format!("{token}\n"))?;
    let end = match answer["credential"]["expiresAtMs"].as_i64() {
        Some(at_ms) => format!("; it works until {}", rfc3339(at_ms)),
        None => String::new(),
    };
    note(&format!("this token of {who} is shown only now{end}"));
    Ok(Exit::Done)
}

fn life(text: &str) -> Result<i64, Failure> {
    let within = |ms: &i64| (TOKEN_LIFE_MS_MIN..=TOKEN_LIFE_MS_MAX).contains(ms);
    parse_duration(text).filter(within).ok_or_else(|| {
        let days = TOKEN_LIFE_MS_MAX / DAY_MS;
        Failure::usage(format!(
            "--expires {}: must be a time like 90d, 12h or 30m, from 1s to {days}d; leave it out for no end",
            text.escape_debug()
        ))
    })
}
