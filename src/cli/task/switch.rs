//! `task enable` and `task disable`: stores the current definition again with the switch turned.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::put;
use crate::model::word::Exit;
use serde_json::json;

/// `task enable`.
pub const ENABLE: Command = Command {
    words: "task enable",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "switch a task on",
    more: "",
    body: |context, given| switch(context, given, true),
};

/// `task disable`.
pub const DISABLE: Command = Command {
    words: "task disable",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "switch a task off and cancel its waiting runs",
    more: "What is running already goes on.",
    body: |context, given| switch(context, given, false),
};

fn switch(context: &Context, given: &Given, enabled: bool) -> Result<Exit, Failure> {
    let id = super::task_id(given.arg(0))?;
    let client = context.client();
    let (verb, done) = if enabled { ("enable", "enabled") } else { ("disable", "disabled") };
    let what = format!("{verb} task \"{id}\"");
    let mut task = super::get(&client, &id, &what)?;
    let answer = if task["enabled"] == enabled {
        json!({"status": "existing", "task": task.take()})
    } else {
        if task["spec"].is_null() {
            return Err(Failure::refused(format!("cannot {what}: the role of this token may not change tasks")));
        }
        let revision = super::revision(&task)?;
        let mut definition = put::check(&task)?;
        definition.enabled = enabled;
        put::send(&client, &id, Some(revision), &definition)?.done(&what)?
    };
    if context.json {
        print_json(&answer)?;
    } else {
        let already = if answer["status"] == "existing" { "already " } else { "" };
        print(&format!("task {id} is {already}{done}\n"))?;
    }
    Ok(Exit::Done)
}
