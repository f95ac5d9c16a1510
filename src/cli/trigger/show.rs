//! `trigger show`: one trigger, how far it has come, and what keeps it from starting its task.

use super::super::args::Given;
use super::super::cell::{cell, time};
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::table::{Table, printable};
use super::{advice, path, trigger_id};
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command = Command {
    words: "trigger show",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "show a trigger and how far it has come",
    more: "",
    body: show,
};

fn show(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = trigger_id(given.arg(0))?;
    let answer = context.client().get(&path(&id), &format!("show trigger \"{id}\""))?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let trigger = &answer["trigger"];
    let mut rows = Table::plain();
    let mut line = |key: &str, value: String| {
        if value != "-" {
            rows.row([key.to_owned(), printable(&value)]);
        }
    };
    let config = &trigger["spec"]["config"];
    line("trigger", cell(&trigger["triggerId"]));
    line("starts", format!("{} (revision {})", cell(&trigger["taskId"]), cell(&trigger["taskRevision"])));
    line("when", cell(&trigger["schedule"]));
    line("misfire", cell(&config["misfirePolicy"]));
    line("overlap", cell(&config["overlap"]));
    line("state", cell(&trigger["state"]));
    line("revision", cell(&trigger["revision"]));
    line("next", time(&trigger["nextFireAtMs"]));
    line("last", time(&trigger["lastScheduledAtMs"]));
    line("last run", cell(&trigger["lastRunId"]));
    if trigger["skipped"].as_i64().is_some_and(|skipped| skipped > 0) {
        line("skipped", cell(&trigger["skipped"]));
        line("last skipped", time(&trigger["lastSkippedAtMs"]));
        line("because of", cell(&trigger["lastSkipReason"]));
    }
    line("created", time(&trigger["createdAtMs"]));
    line("changed", time(&trigger["updatedAtMs"]));
    let advice = advice(trigger).map(|advice| format!("\n{advice}\n")).unwrap_or_default();
    print(&format!("{rows}{advice}"))?;
    Ok(Exit::Done)
}
