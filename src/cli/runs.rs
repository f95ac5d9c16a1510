//! `runs`: the newest runs.

use super::args::Given;
use super::cell::{cell, time};
use super::client::Client;
use super::command::{Command, Flag};
use super::context::{Context, print, print_json};
use super::failure::Failure;
use super::nearest::nearest;
use super::table::Table;
use super::time::{now_ms, took};
use super::{outcome, task};
use crate::model::life::RunState;
use crate::model::limits::{CLI_ROWS_DEFAULT, CLI_ROWS_MAX, PAGE_MAX};
use crate::model::word::{Exit, OUT_OF_MEMORY};
use serde_json::Value;
use std::fmt::Write as _;

/// The command.
pub const COMMAND: Command = Command {
    words: "runs",
    args: &[],
    rest: None,
    flags: &[
        Flag::value("task", "ID", "only this task's"),
        Flag::value("status", "STATUS", "only those in this state, like running or failed"),
        Flag::value("limit", "N", "at most so many; 20 when not given"),
    ],
    summary: "list runs, newest first",
    more: "",
    body: Some(runs),
};

fn runs(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let mut filter = String::new();
    if let Some(id) = given.text("task")? {
        let _ = write!(filter, "&task={}", task::task_id(id)?);
    }
    if let Some(status) = given.text("status")? {
        let _ = write!(filter, "&status={}", state(status)?.word());
    }
    let client = context.client();
    let runs = read(&client, &filter, limit(given)?)?;
    if context.json {
        runs.iter().try_for_each(print_json)?;
    } else if runs.is_empty() {
        let state = context.state_option();
        let hint = if filter.is_empty() { "start one with" } else { "start another with" };
        let which = if filter.is_empty() { "no runs yet" } else { "no such runs" };
        print(&format!("{which}; {hint} `qinglet {state}run TASK`\n"))?;
    } else {
        print(&table(&client, &runs)?.to_string())?;
    }
    Ok(Exit::Done)
}

fn state(word: &str) -> Result<RunState, Failure> {
    RunState::parse(word).ok_or_else(|| {
        let words: Vec<&str> = RunState::ALL.iter().map(|state| state.word()).collect();
        let near = nearest(word, words.iter().copied()).unwrap_or_default();
        let all = words.join(", ");
        Failure::usage(format!("--status {}: the nearest state is {near}; there are {all}", word.escape_debug()))
    })
}

/// Reads `--limit`.
pub fn limit(given: &Given) -> Result<usize, Failure> {
    let Some(text) = given.text("limit")? else { return Ok(CLI_ROWS_DEFAULT) };
    text.parse()
        .ok()
        .filter(|limit| (1..=CLI_ROWS_MAX).contains(limit))
        .ok_or_else(|| Failure::usage(format!("--limit must be a whole number from 1 to {CLI_ROWS_MAX}")))
}

fn read(client: &Client, filter: &str, limit: usize) -> Result<Vec<Value>, Failure> {
    let mut runs = Vec::new();
    let mut after = String::new();
    loop {
        let size = PAGE_MAX.min(limit - runs.len());
        let mut page = client.get(&format!("/runs?limit={size}{filter}{after}"), "list the runs")?;
        runs.extend(page["runs"].as_array_mut().map(std::mem::take).unwrap_or_default());
        let last = runs.last().and_then(|run: &Value| Some((run["createdAtMs"].as_i64()?, run["id"].as_str()?)));
        match last {
            Some((created, id)) if page["hasMore"] == true && runs.len() < limit => {
                after = format!("&after_created_at_ms={created}&after_run_id={id}");
            }
            _ => return Ok(runs),
        }
    }
}

fn table(client: &Client, runs: &[Value]) -> Result<Table, Failure> {
    let mut table = Table::headed(["RUN ID", "TASK", "STATUS", "STARTED", "TOOK", "EXIT"]);
    for run in runs {
        table.row([
            cell(&run["id"]),
            cell(&run["taskId"]),
            status(run),
            time(&run["startedAtMs"]),
            duration(run).unwrap_or_else(|| "-".into()),
            exit(client, run)?,
        ]);
    }
    Ok(table)
}

fn status(run: &Value) -> String {
    match run["undecided"].as_str() {
        Some(word) => format!("{}, {word}", cell(&run["status"])),
        None if run["errorCode"] == OUT_OF_MEMORY => format!("{}, out of memory", cell(&run["status"])),
        None => cell(&run["status"]),
    }
}

/// How long it ran, or runs by now.
pub fn duration(run: &Value) -> Option<String> {
    let started = run["startedAtMs"].as_i64()?;
    let ended = match run["finishedAtMs"].as_i64() {
        Some(finished) => finished,
        None if outcome::is_over(run) => return None,
        None => now_ms(),
    };
    Some(took(ended - started))
}

/// The exit code; `-` when there is none yet, or never was one.
fn exit(client: &Client, run: &Value) -> Result<String, Failure> {
    if outcome::succeeded(run) {
        return Ok("0".into());
    }
    if !outcome::is_over(run) || run["startedAtMs"].is_null() {
        return Ok("-".into());
    }
    // The list does not carry it; of the runs on one screen few did not succeed.
    let whole = client.get(&format!("/runs/{}", cell(&run["id"])), "list the runs")?;
    Ok(cell(&whole["run"]["latestAttempt"]["exitCode"]))
}
