//! `retry`: starts an ended run again, as a new run of the same revision.

use super::args::Given;
use super::command::Command;
use super::context::Context;
use super::failure::Failure;
use super::{mutation, run, show};
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "retry",
    args: &["RUN"],
    rest: None,
    flags: &[run::WAIT, run::FOLLOW],
    summary: "start an ended run again, as a new run",
    more: "For a run that failed, was cancelled or timed out. The new run is of the same revision of the\n\
           task, whatever the task says by now; `qinglet run TASK` starts what it says now. A task tries\n\
           again by itself with `qinglet task add --retry N`.",
    body: retry,
};

fn retry(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = show::run_id(given.arg(0))?;
    let client = context.client();
    let body = json!({"schema": "qinglong/run-retry@v1", "mutationId": mutation::fresh()?.to_string()});
    let reply = client.send_patiently("POST", &format!("/runs/{id}/retry"), Some(&body))?;
    let started = reply.done(&format!("retry run {id}"))?;
    run::see_to_its_end(context, given, &client, &started)
}
