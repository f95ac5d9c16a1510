//! `stop`: asks a run to end, and may wait until it has.

use super::args::Given;
use super::command::{Command, Flag};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use super::{mutation, outcome, run, show};
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "stop",
    args: &["RUN"],
    rest: None,
    flags: &[Flag::switch("wait", "wait until it has ended").short('w')],
    summary: "end a run",
    more: "Everything the run has started gets TERM and, after the task's grace, KILL. A run that is\n\
           still waiting never starts.",
    body: stop,
};

fn stop(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = show::run_id(given.arg(0))?;
    let client = context.client();
    let body = json!({"schema": "qinglong/run-cancellation@v1", "mutationId": mutation::fresh()?.to_string()});
    let reply = client.send_patiently("POST", &format!("/runs/{id}/cancellation"), Some(&body))?;
    let answer = reply.done(&format!("stop run {id}"))?;
    if context.json {
        print_json(&answer)?;
    } else {
        print(match answer["status"].as_str() {
            Some("accepted") => "asked it to end\n",
            Some("already_requested") => "it was asked to end before\n",
            _ => "it has ended already\n",
        })?;
    }
    if given.has("wait") {
        let ended = run::wait(&client, &id.to_string())?;
        note(&format!("run {id} {}", outcome::sentence(&ended)));
    }
    Ok(Exit::Done)
}
