//! `trigger delete`: removes a trigger; its runs stay in the history.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::{get, path, trigger_id};
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "trigger delete",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "delete a trigger and cancel its waiting runs",
    more: "What is running already goes on; past runs stay visible.",
    body: delete,
};

fn delete(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = trigger_id(given.arg(0))?;
    let client = context.client();
    let what = format!("delete trigger \"{id}\"");
    let trigger = get(&client, &id, &what)?;
    let body = json!({
        "schema": "qinglong/trigger-deletion@v1",
        "mutationId": mutation::fresh()?.to_string(),
        "expectedRevision": trigger["revision"],
    });
    let answer = client.send_patiently("DELETE", &path(&id), Some(&body))?.done(&what)?;
    if context.json {
        print_json(&answer)?;
    } else {
        print(&format!("deleted trigger {id}\n"))?;
    }
    Ok(Exit::Done)
}
