//! `audit`: who asked for what, and what came of it.

use super::args::Given;
use super::cell::{cell, subject_cell, time};
use super::command::{Command, Flag};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use super::runs::limit;
use super::table::Table;
use crate::model::id::EventId;
use crate::model::limits::AUDIT_PAGE_MAX;
use crate::model::word::Exit;
use serde_json::Value;

/// The command.
pub const COMMAND: Command = Command {
    words: "audit",
    args: &[],
    rest: None,
    flags: &[
        Flag::value("limit", "N", "at most so many; 20 when not given"),
        Flag::value("after", "ID", "go on after this row of the list, with older ones"),
    ],
    summary: "list changes and refusals, newest first",
    more: "For owners and admins. COUNT is how many alike a row stands for; ID is what --after takes.",
    body: audit,
};

fn audit(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let limit = limit(given)?;
    let client = context.client();
    let mut rows: Vec<Value> = Vec::new();
    let mut after = match given.text("after")? {
        None => String::new(),
        Some(text) => {
            let id = EventId::parse(text)
                .ok_or_else(|| Failure::usage("--after takes the id of a row, as `qinglet audit` lists them"))?;
            format!("&after={id}")
        }
    };
    let older = loop {
        let size = AUDIT_PAGE_MAX.min(limit - rows.len());
        let mut page = client.get(&format!("/audit?limit={size}{after}"), "read the audit")?;
        rows.extend(page["audit"].as_array_mut().map(std::mem::take).unwrap_or_default());
        let last = rows.last().and_then(|row| row["eventId"].as_str()).filter(|_| page["hasMore"] == true);
        match last {
            Some(last) if rows.len() < limit => after = format!("&after={last}"),
            last => break last.map(str::to_owned),
        }
    };
    if context.json {
        rows.iter().try_for_each(print_json)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::headed(["TIME", "WHO", "TOKEN", "OPERATION", "TARGET", "OUTCOME", "REASON", "COUNT", "ID"]);
    for row in &rows {
        table.row([
            time(&row["occurredAtMs"]),
            subject_cell(&row["subject"]),
            cell(&row["credentialId"]),
            cell(&row["operation"]),
            cell(&row["target"]),
            cell(&row["outcome"]),
            cell(&row["reason"]),
            cell(&row["count"]),
            cell(&row["eventId"]),
        ]);
    }
    print(&table.to_string())?;
    if let Some(id) = older {
        note(&format!("older ones: qinglet {}audit --after {id}", context.state_option()));
    }
    Ok(Exit::Done)
}
