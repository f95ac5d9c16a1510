//! `trigger list`: every trigger, by id.

use super::super::args::Given;
use super::super::cell::cell;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::table::Table;
use super::set::next;
use crate::model::limits::PAGE_MAX;
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command = Command {
    words: "trigger list",
    args: &[],
    rest: None,
    flags: &[],
    summary: "list the triggers",
    more: "STATE says whether it starts its task, and if not, why; `trigger show` says what to do about it.",
    body: list,
};

fn list(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let client = context.client();
    let mut triggers = Vec::new();
    let mut after = String::new();
    loop {
        let mut page = client.get(&format!("/triggers?limit={PAGE_MAX}{after}"), "list the triggers")?;
        triggers.extend(page["triggers"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match triggers.last().and_then(|trigger| trigger["triggerId"].as_str()) {
            Some(last) if page["hasMore"] == true => after = format!("&after_trigger_id={last}"),
            _ => break,
        }
    }
    if context.json {
        triggers.iter().try_for_each(print_json)?;
    } else if triggers.is_empty() {
        let state = context.state_option();
        print(&format!("no triggers yet; `qinglet {state}help trigger set` shows how to make one\n"))?;
    } else {
        let mut table = Table::headed(["ID", "TASK", "WHEN", "STATE", "NEXT"]);
        for trigger in &triggers {
            let (id, task) = (cell(&trigger["triggerId"]), cell(&trigger["taskId"]));
            table.row([id, task, cell(&trigger["schedule"]), cell(&trigger["state"]), next(trigger)]);
        }
        print(&table.to_string())?;
    }
    Ok(Exit::Done)
}
