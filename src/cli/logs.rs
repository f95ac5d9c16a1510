//! `logs`: what a run wrote, byte for byte.

use super::args::Given;
use super::command::{Command, Flag};
use super::context::{Context, note};
use super::failure::Failure;
use super::follow::{Written, drain, follow};
use super::outcome;
use super::show::run_id;
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command = Command {
    words: "logs",
    args: &["RUN"],
    rest: None,
    flags: &[
        Flag::switch("follow", "go on as it grows, until the run ended").short('f'),
        Flag::value("attempt", "N", "of this attempt; the latest when not given"),
    ],
    summary: "write a run's log",
    more: "The bytes are written as the task wrote them. A daemon that restarts meanwhile is waited for.\n\
           A run that is tried again has a log for each attempt; --follow goes on from one to the next.",
    body: logs,
};

fn logs(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = run_id(given.arg(0))?;
    let number = given.text("attempt")?.map(attempt_number).transpose()?;
    let client = context.client();
    let query = number.map(|number| format!("?attempt={number}")).unwrap_or_default();
    let answer = client.get(&format!("/runs/{id}{query}"), &format!("read the log of run {id}"))?;
    let run = &answer["run"];
    let attempt = &run["latestAttempt"];
    let found = number.is_none_or(|number| attempt["number"].as_i64() == Some(number));
    let Some(attempt_id) = attempt["id"].as_str().filter(|_| found) else {
        return Err(Failure::refused(format!("run {id} has no such attempt; `qinglet show {id}` shows the latest")));
    };
    let run_text = id.to_string();
    let written = if given.has("follow") {
        follow(&client, &run_text, attempt_id, number.is_some())?
    } else {
        let mut written = Written::default();
        drain(&client, &run_text, attempt_id, &mut written)?;
        written.tell(attempt);
        written
    };
    if !written.found {
        note(&format!("(no log: the run {})", outcome::sentence(run)));
    }
    Ok(Exit::Done)
}

fn attempt_number(text: &str) -> Result<i64, Failure> {
    let number = text.parse().ok().filter(|number| *number >= 1);
    number.ok_or_else(|| Failure::usage("--attempt must be a whole number from 1"))
}
