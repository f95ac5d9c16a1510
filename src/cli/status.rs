//! `status`: how the daemon is.

use super::args::Given;
use super::cell::cell;
use super::command::Command;
use super::context::{Context, print, print_json};
use super::failure::Failure;
use super::table::{Table, printable};
use super::time::took;
use crate::model::word::Exit;
use serde_json::Value;

/// The command.
pub const COMMAND: Command = Command {
    words: "status",
    args: &[],
    rest: None,
    flags: &[],
    summary: "show how the daemon is",
    more: "",
    body: Some(status),
};

fn status(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let answer = context.client().get("/status", "read the status")?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let mut rows = Table::plain();
    rows.row(["state".into(), context.state.display().to_string()]);
    for (key, value) in answer["status"].as_object().into_iter().flatten() {
        if key == "settings" {
            continue;
        }
        if key == "undecided" {
            rows.row([key.clone(), undecided(context, value)]);
            continue;
        }
        if key == "machine" {
            machine(&mut rows, value);
            continue;
        }
        add(&mut rows, &words(key), key, value);
    }
    print(&rows.to_string())?;
    print(&format!("\nsettings\n{}", settings(&answer["status"]["settings"])))?;
    Ok(Exit::Done)
}

/// What the machine can do for a task, and what not, each with its reason.
fn machine(rows: &mut Table, value: &Value) {
    let can: Vec<String> = value["can"].as_array().into_iter().flatten().map(cell).collect();
    rows.row(["machine can".into(), printable(&can.join(", "))]);
    for (word, why) in value["cannot"].as_object().into_iter().flatten() {
        rows.row(["machine cannot".into(), printable(&format!("{word}: {}", cell(why)))]);
    }
}

/// Each setting in force and where it came from.
fn settings(settings: &Value) -> Table {
    let mut rows = Table::plain();
    for (key, set) in settings.as_object().into_iter().flatten() {
        rows.row([format!("  {}", printable(key)), printable(&cell(&set["value"])), printable(&cell(&set["from"]))]);
    }
    rows
}

/// How many runs nobody can decide, and the way out.
fn undecided(context: &Context, value: &Value) -> String {
    let count = cell(&value["count"]);
    match value["runs"][0]["runId"].as_str() {
        Some(run) => format!("{count}; see `qinglet {}check {}`", context.state_option(), printable(run)),
        None => count,
    }
}

/// Adds a value, or one row for each value of an object.
fn add(rows: &mut Table, label: &str, key: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                add(rows, &format!("{label} {}", words(key)), key, value);
            }
        }
        Value::Null => {}
        Value::Number(ms) if key.ends_with("Ms") => rows.row([label.to_owned(), took(ms.as_i64().unwrap_or(0))]),
        Value::Array(items) => {
            for item in items {
                rows.row([label.to_owned(), printable(&cell(item))]);
            }
        }
        value => rows.row([label.to_owned(), printable(&cell(value))]),
    }
}

/// `uptimeMs` as `uptime`, `waitReason` as `wait reason`.
fn words(key: &str) -> String {
    let mut words = String::new();
    for c in key.strip_suffix("Ms").unwrap_or(key).chars() {
        if c.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    printable(&words)
}
