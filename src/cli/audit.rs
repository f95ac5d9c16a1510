//! `audit`: who asked for what, and what came of it.

use super::args::Given;
use super::cell::{cell, subject_cell, time};
use super::command::{Command, Flag};
use super::context::{Context, print, print_json};
use super::failure::Failure;
use super::runs::limit;
use super::table::Table;
use crate::model::limits::AUDIT_PAGE_MAX;
use crate::model::word::Exit;
use serde_json::Value;

/// The command.
pub const COMMAND: Command = Command {
    words: "audit",
    args: &[],
    rest: None,
    flags: &[Flag::value("limit", "N", "at most so many; 20 when not given")],
    summary: "list changes and refusals, newest first",
    more: "",
    body: Some(audit),
};

fn audit(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let limit = limit(given)?;
    let client = context.client();
    let mut rows: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let size = AUDIT_PAGE_MAX.min(limit - rows.len());
        let mut page = client.get(&format!("/audit?limit={size}{after}"), "read the audit")?;
        rows.extend(page["audit"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match rows.last().and_then(|row| row["eventId"].as_str()) {
            Some(last) if page["hasMore"] == true && rows.len() < limit => after = format!("&after={last}"),
            _ => break,
        }
    }
    if context.json {
        rows.iter().try_for_each(print_json)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::headed(["TIME", "WHO", "OPERATION", "TARGET", "OUTCOME", "REASON", "COUNT"]);
    for row in &rows {
        table.row([
            time(&row["occurredAtMs"]),
            subject_cell(&row["subject"]),
            cell(&row["operation"]),
            cell(&row["target"]),
            cell(&row["outcome"]),
            cell(&row["reason"]),
            cell(&row["count"]),
        ]);
    }
    print(&table.to_string())?;
    Ok(Exit::Done)
}
