//! `run`: starts a task, and may follow its log and wait for its end.

use super::args::Given;
use super::cell::cell;
use super::client::{Client, Pause};
use super::command::{Command, Flag};
use super::context::{Context, note, print};
use super::failure::Failure;
use super::follow::follow;
use super::{mutation, outcome, task};
use crate::model::name::Name;
use crate::model::word::Exit;
use serde_json::{Value, json};

/// Waiting for the end of a Run that the command has made.
pub const WAIT: Flag = Flag::switch("wait", "wait for the end; exit 0 when it succeeded, 1 when not").short('w');
/// Following the log of a Run that the command has made.
pub const FOLLOW: Flag = Flag::switch("follow", "write its log as it grows, until it ended").short('f');

/// The command.
pub const COMMAND: Command = Command {
    words: "run",
    args: &["TASK"],
    rest: None,
    flags: &[WAIT, FOLLOW],
    summary: "start a task and print the run's id",
    more: "With --follow the standard output is the log, byte for byte, and the run's id goes to the\n\
           standard error. A daemon that restarts meanwhile is waited for.",
    body: run,
};

fn run(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = task::task_id(given.arg(0))?;
    let client = context.client();
    let started = start(&client, &id)?;
    see_to_its_end(context, given, &client, &started)
}

/// Prints the id of a Run that was just made, then follows it or waits for it as the flags say.
pub fn see_to_its_end(context: &Context, given: &Given, client: &Client, started: &Value) -> Result<Exit, Failure> {
    let run = started["runId"].as_str().ok_or_else(|| Failure::unavailable("the daemon's answer has no run id"))?;
    let line = if context.json { started.to_string() } else { run.to_owned() };
    let (wait_for_it, follow_it) = (given.has("wait"), given.has("follow"));
    if follow_it {
        note(&line);
        let attempt = started["attemptId"].as_str().unwrap_or_default();
        follow(client, run, attempt, false)?;
    } else {
        print(&format!("{line}\n"))?;
    }
    if !(wait_for_it || follow_it) {
        return Ok(Exit::Done);
    }
    let ended = wait(client, run)?;
    note(&format!("run {run} of {} {}", cell(&started["taskId"]), outcome::sentence(&ended)));
    Ok(if wait_for_it && !outcome::succeeded(&ended) { Exit::RunFailed } else { Exit::Done })
}

/// Starts exactly the definition that was just read. One that changes in between is read again,
/// once: the person asked for the task, not for a revision of it.
fn start(client: &Client, id: &Name) -> Result<Value, Failure> {
    let what = format!("run task \"{id}\"");
    let mut changed_before = false;
    loop {
        let task = task::get(client, id, &what)?;
        let body = json!({
            "schema": "qinglong/task-start@v1",
            "mutationId": mutation::fresh()?.to_string(),
            "expectedRevision": task["revision"],
            "expectedContentDigest": task["contentDigest"],
        });
        let reply = client.send_patiently("POST", &format!("{}/runs", task::path(id)), Some(&body))?;
        if reply.reason() == "definition_changed" && !changed_before {
            changed_before = true;
            continue;
        }
        return reply.done(&what);
    }
}

/// Looks at a Run until it is over.
pub fn wait(client: &Client, run: &str) -> Result<Value, Failure> {
    let mut pause = Pause::new();
    loop {
        let run = get(client, run)?;
        if outcome::is_over(&run) {
            return Ok(run);
        }
        pause.wait();
    }
}

/// Reads a Run, outlasting a restart of the daemon.
pub fn get(client: &Client, run: &str) -> Result<Value, Failure> {
    let mut answer = client.send_patiently("GET", &format!("/runs/{run}"), None)?.done(&format!("read run {run}"))?;
    Ok(answer["run"].take())
}
