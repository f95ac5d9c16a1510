//! `task delete`: removes a task; its runs stay in the history.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "task delete",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "delete a task and cancel its waiting runs",
    more: "What is running already goes on; past runs stay visible.",
    body: delete,
};

fn delete(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = super::task_id(given.arg(0))?;
    let client = context.client();
    let what = format!("delete task \"{id}\"");
    let revision = super::revision(&super::get(&client, &id, &what)?)?;
    let body = json!({
        "schema": "qinglong/task-deletion@v1",
        "mutationId": mutation::fresh()?.to_string(),
        "expectedRevision": revision,
    });
    let answer = client.send_patiently("DELETE", &super::path(&id), Some(&body))?.done(&what)?;
    if context.json {
        print_json(&answer)?;
    } else {
        print(&format!("deleted task {id}\n"))?;
    }
    Ok(Exit::Done)
}
