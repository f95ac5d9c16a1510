//! `access list`: every subject with its role and its tokens' ids.

use super::super::args::Given;
use super::super::cell::{cell, subject_cell, time};
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::table::Table;
use crate::model::word::Exit;
use serde_json::Value;

/// The command.
pub const COMMAND: Command = Command {
    words: "access list",
    args: &[],
    rest: None,
    flags: &[],
    summary: "list subjects, their roles and their tokens",
    more: "Tokens are shown by their ids; a secret is shown once, when it is made.",
    body: Some(list),
};

fn list(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let client = context.client();
    let mut subjects: Vec<Value> = Vec::new();
    let mut after = String::new();
    loop {
        let mut page = client.get(&format!("/access{after}"), "list the subjects")?;
        subjects.extend(page["access"].as_array_mut().map(std::mem::take).unwrap_or_default());
        match page["next"]["afterSubject"].as_str() {
            Some(next) if page["hasMore"] == true => after = format!("?after_subject={next}"),
            _ => break,
        }
    }
    if context.json {
        subjects.iter().try_for_each(print_json)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::headed(["SUBJECT", "ROLE", "TOKEN", "STATE", "CHANGED"]);
    for entry in &subjects {
        let (who, role) = (subject_cell(&entry["subject"]), entry["role"].as_str().unwrap_or("(none)").to_owned());
        let tokens = entry["credentials"].as_array().map_or(&[][..], Vec::as_slice);
        if tokens.is_empty() {
            table.row([who.clone(), role.clone(), "-".into(), "-".into(), time(&entry["changedAtMs"])]);
        }
        for token in tokens {
            let state = if token["active"] == true { "active" } else { "revoked" };
            table.row([
                who.clone(),
                role.clone(),
                cell(&token["credentialId"]),
                state.into(),
                time(&token["changedAtMs"]),
            ]);
        }
    }
    print(&table.to_string())?;
    Ok(Exit::Done)
}
