//! `secret list`: every secret by name. Values are never shown.

use super::super::args::Given;
use super::super::cell::{cell, time};
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::table::Table;
use crate::model::limits::PAGE_MAX;
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command = Command {
    words: "secret list",
    args: &[],
    rest: None,
    flags: &[],
    summary: "list the secrets",
    more: "No command shows a value.",
    body: list,
};

fn list(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let client = context.client();
    let mut secrets = Vec::new();
    let mut after = String::new();
    loop {
        let mut page = client.get(&format!("/secrets?limit={PAGE_MAX}{after}"), "list the secrets")?;
        secrets.extend(page["secrets"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match secrets.last().and_then(|secret| secret["name"].as_str()) {
            Some(last) if page["hasMore"] == true => after = format!("&after_name={last}"),
            _ => break,
        }
    }
    if context.json {
        secrets.iter().try_for_each(print_json)?;
    } else if secrets.is_empty() {
        let state = context.state_option();
        print(&format!("no secrets yet; `qinglet {state}help secret set` shows how to store one\n"))?;
    } else {
        let mut table = Table::headed(["NAME", "VERSION", "SET"]);
        for secret in &secrets {
            table.row([cell(&secret["name"]), cell(&secret["version"]), time(&secret["updatedAtMs"])]);
        }
        print(&table.to_string())?;
    }
    Ok(Exit::Done)
}
