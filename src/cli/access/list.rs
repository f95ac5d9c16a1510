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
    more: "Tokens are shown by their ids; a secret is shown once, when it is made. LAST USED is a day in UTC.",
    body: list,
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
    let mut table = Table::headed(["SUBJECT", "ROLE", "TOKEN", "STATE", "CHANGED", "EXPIRES", "LAST USED"]);
    for entry in &subjects {
        let (who, role) = (subject_cell(&entry["subject"]), entry["role"].as_str().unwrap_or("(none)").to_owned());
        let tokens = entry["credentials"].as_array().map_or(&[][..], Vec::as_slice);
        if tokens.is_empty() {
            let changed = time(&entry["changedAtMs"]);
            table.row([who.clone(), role.clone(), "-".into(), "-".into(), changed, "-".into(), "-".into()]);
        }
        for token in tokens {
            table.row([
                who.clone(),
                role.clone(),
                cell(&token["credentialId"]),
                cell(&token["state"]),
                time(&token["changedAtMs"]),
                time(&token["expiresAtMs"]),
                cell(&token["lastUsedDay"]),
            ]);
        }
    }
    print(&table.to_string())?;
    Ok(Exit::Done)
}
