//! `show`: one run, and how it ended.

use super::args::Given;
use super::cell::{cell, time};
use super::command::Command;
use super::context::{Context, print, print_json};
use super::failure::Failure;
use super::table::{Table, printable};
use super::{outcome, runs};
use crate::model::id::RunId;
use crate::model::task::TaskRef;
use crate::model::word::Exit;
use serde_json::Value;

/// The command.
pub const COMMAND: Command = Command {
    words: "show",
    args: &["RUN"],
    rest: None,
    flags: &[],
    summary: "show a run and how it ended",
    more: "",
    body: show,
};

/// Reads a run id from the command line.
pub fn run_id(text: &str) -> Result<RunId, Failure> {
    RunId::parse(text).ok_or_else(|| {
        Failure::usage(format!("\"{}\" is not a run id; `qinglet runs` shows them", text.escape_debug()))
    })
}

fn show(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = run_id(given.arg(0))?;
    let answer = context.client().get(&format!("/runs/{id}"), &format!("show run {id}"))?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let run = &answer["run"];
    let logs = if run["latestAttempt"]["logAvailable"] == true {
        format!("Its log: qinglet {}logs {id}\n", context.state_option())
    } else {
        String::new()
    };
    print(&format!("{}\nThe run {}.\n{logs}", lines(run), outcome::sentence(run)))?;
    Ok(Exit::Done)
}

fn lines(run: &Value) -> Table {
    let mut rows = Table::plain();
    let mut line = |key: &str, value: String| {
        if value != "-" {
            rows.row([key.to_owned(), printable(&value)]);
        }
    };
    let revision = run["taskRevision"].as_str().and_then(TaskRef::parse);
    let revision = revision.map(|task| format!(" (revision {})", task.revision)).unwrap_or_default();
    line("run", cell(&run["id"]));
    line("task", cell(&run["taskId"]) + &revision);
    line("status", cell(&run["status"]));
    line("queued", time(&run["queuedAtMs"]));
    line("started", time(&run["startedAtMs"]));
    line("finished", time(&run["finishedAtMs"]));
    line("took", runs::duration(run).unwrap_or_else(|| "-".into()));
    let attempt = &run["latestAttempt"];
    line("attempt", cell(&attempt["number"]));
    line("next attempt", time(&run["nextAttemptAtMs"]));
    line("retry of", cell(&run["retryOfRunId"]));
    line("exit code", cell(&attempt["exitCode"]));
    if let Some(signal) = attempt["signal"].as_i64() {
        line("signal", format!("{signal}{}", outcome::signal_name(signal)));
    }
    line("undecided", cell(&run["undecided"]));
    line("descendants", cell(&attempt["descendants"]));
    line("error", cell(&run["errorCode"]));
    if attempt["errorCode"] != run["errorCode"] {
        line("attempt error", cell(&attempt["errorCode"]));
    }
    line("why", cell(&attempt["errorSummary"]));
    rows
}
