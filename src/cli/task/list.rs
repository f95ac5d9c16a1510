//! `task list`: every task, by id.

use super::super::args::Given;
use super::super::cell::{cell, time};
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::table::Table;
use crate::model::limits::PAGE_MAX;
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command =
    Command { words: "task list", args: &[], rest: None, flags: &[], summary: "list the tasks", more: "", body: list };

fn list(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let client = context.client();
    let mut tasks = Vec::new();
    let mut after = String::new();
    loop {
        let mut page = client.get(&format!("/tasks?limit={PAGE_MAX}{after}"), "list the tasks")?;
        tasks.extend(page["tasks"].as_array_mut().map(std::mem::take).unwrap_or_default());
        let last = tasks.last().and_then(|task| task["taskId"].as_str());
        match last {
            Some(last) if page["hasMore"] == true => after = format!("&after_task_id={last}"),
            _ => break,
        }
    }
    if context.json {
        tasks.iter().try_for_each(print_json)?;
    } else if tasks.is_empty() {
        let state = context.state_option();
        print(&format!("no tasks yet; add one with `qinglet {state}task add hello -- /bin/echo hello`\n"))?;
    } else {
        let mut table = Table::headed(["ID", "NAME", "ENABLED", "REVISION", "CHANGED"]);
        for task in &tasks {
            let enabled = if task["enabled"] == true { "yes" } else { "no" };
            let (id, name) = (cell(&task["taskId"]), cell(&task["name"]));
            table.row([id, name, enabled.into(), cell(&task["revision"]), time(&task["updatedAtMs"])]);
        }
        print(&table.to_string())?;
    }
    Ok(Exit::Done)
}
