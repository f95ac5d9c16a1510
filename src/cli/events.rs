//! `events`: everything that happened to a run, in order.

use super::args::Given;
use super::cell::cell;
use super::command::Command;
use super::context::{Context, print, print_json};
use super::failure::Failure;
use super::show::run_id;
use super::table::Table;
use super::time::rfc3339_ms;
use crate::model::limits::PAGE_MAX;
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command = Command {
    words: "events",
    args: &["RUN"],
    rest: None,
    flags: &[],
    summary: "list what happened to a run",
    more: "",
    body: events,
};

fn events(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = run_id(given.arg(0))?;
    let client = context.client();
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let path = format!("/runs/{id}/events?after_sequence={after}&limit={PAGE_MAX}");
        let mut page = client.get(&path, &format!("list the events of run {id}"))?;
        events.extend(page["events"].as_array_mut().map(std::mem::take).unwrap_or_default());
        let last = events.last().and_then(|event| event["sequence"].as_i64());
        match last {
            Some(last) if page["hasMore"] == true && last > after => after = last,
            _ => break,
        }
    }
    if context.json {
        events.iter().try_for_each(print_json)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::headed(["SEQ", "TIME", "EVENT", "ACTOR"]);
    for event in &events {
        let time = event["createdAtMs"].as_i64().map_or_else(|| "-".into(), rfc3339_ms);
        table.row([cell(&event["sequence"]), time, cell(&event["type"]), cell(&event["actorType"])]);
    }
    print(&table.to_string())?;
    Ok(Exit::Done)
}
