//! `task show`: one task with what it runs, as far as the token may see it.

use super::super::args::Given;
use super::super::cell::{cell, time};
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::quote::quote;
use super::super::table::{Table, printable};
use super::super::time::took;
use super::confine;
use crate::model::secret::SecretRef;
use crate::model::word::Exit;
use serde_json::Value;

/// The command.
pub const COMMAND: Command = Command {
    words: "task show",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "show a task and what it runs",
    more: "",
    body: show,
};

fn show(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = super::task_id(given.arg(0))?;
    let answer = context.client().get(&super::path(&id), &format!("show task \"{id}\""))?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let task = &answer["task"];
    let mut rows = Table::plain();
    let mut line = |key: &str, value: String| rows.row([key.to_owned(), printable(&value)]);
    line("task", cell(&task["taskId"]));
    line("name", cell(&task["name"]));
    if let Some(text) = task["description"].as_str() {
        line("description", text.to_owned());
    }
    line("enabled", if task["enabled"] == true { "yes".into() } else { "no".into() });
    line("revision", cell(&task["revision"]));
    line("digest", cell(&task["contentDigest"]));
    line("created", time(&task["createdAtMs"]));
    line("changed", time(&task["updatedAtMs"]));
    for (name, value) in task["labels"].as_object().into_iter().flatten() {
        line("label", format!("{name}={}", cell(value)));
    }
    let config = &task["spec"]["config"];
    if config.is_object() {
        line("runs", program(&config["command"]));
        for entry in config["environment"].as_array().into_iter().flatten() {
            let secret = entry["secretRef"].as_str().and_then(SecretRef::parse);
            let value = secret.map_or_else(|| cell(&entry["value"]), |secret| shown(&secret));
            line("env", format!("{}={value}", cell(&entry["name"])));
        }
        line("starts in", config["workingDirectory"].as_str().unwrap_or("/").to_owned());
        if let Some(timeout) = config["timeoutMs"].as_i64() {
            line("timeout", took(timeout));
        }
        if let Some(grace) = config["terminationGraceMs"].as_i64() {
            line("grace", took(grace));
        }
        if let Some(attempts) = config["retry"]["maxAttempts"].as_i64() {
            line("attempts", tries(attempts, &config["retry"]));
        }
        if let Some(word) = config["leftovers"].as_str() {
            line("leftovers", word.to_owned());
        }
        for (key, value) in confine::rows(config) {
            line(key, value);
        }
    }
    print(&rows.to_string())?;
    Ok(Exit::Done)
}

/// How often it is tried, after what, and how long it waits in between.
fn tries(attempts: i64, retry: &Value) -> String {
    let on: Vec<&str> = retry["on"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let then = if retry["backoff"] == "exponential" { ", then twice as long each time" } else { " each time" };
    let wait = took(retry["delayMs"].as_i64().unwrap_or(0));
    format!("{attempts} at most, after {}; after {wait}{then}", on.join(", "))
}

/// The command as one could type it: an argument that a shell would take apart is quoted.
fn program(command: &Value) -> String {
    if command["kind"] == "shell" {
        return format!("{} -c {}", cell(&command["shell"]), quote(&cell(&command["command"])));
    }
    let args = command["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<String> = command["file"].as_str().into_iter().chain(args).map(quote).collect();
    words.join(" ")
}

/// A secret by its name, as a log shows it.
fn shown(secret: &SecretRef) -> String {
    match secret.version {
        Some(version) => format!("[secret {} version {version}]", secret.name),
        None => format!("[secret {}]", secret.name),
    }
}
