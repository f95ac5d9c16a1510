//! `check` without a run: the whole state, step by step, a line for each check.

use crate::cli::client::Client;
use crate::cli::context::{Context, print, print_json};
use crate::cli::failure::Failure;
use crate::cli::table::printable;
use crate::http::check::shape;
use crate::model::word::Exit;
use crate::runtime::{FIRST_STEP as FIRST, Unserved};
use serde_json::{Value, json};

/// Asks a daemon.
pub(super) fn served(context: &Context, client: &Client) -> Result<Exit, Failure> {
    let ask = |step: &str| client.send_patiently("GET", &format!("/check?step={step}"), None)?.done("check the state");
    let mut report = Report::new(context);
    report.walk(&ask)
}

/// Looks for itself.
pub(super) fn unserved(context: &Context, unserved: &Unserved) -> Result<Exit, Failure> {
    let mut report = Report::new(context);
    if !unserved.is_whole() {
        let message = "a killed daemon left a journal, and there is no space for a copy to look at what is in it";
        report.line("journal", "warn", message, "make space in the folder for temporary files, or start the daemon")?;
    }
    let look = |step: &str| {
        let step = unserved.step(step).ok_or_else(|| Failure::unavailable("cannot check the state: no such step"))?;
        Ok(shape(&step))
    };
    report.walk(&look)
}

struct Report<'a> {
    context: &'a Context,
    failed: bool,
}

impl<'a> Report<'a> {
    fn new(context: &'a Context) -> Self {
        Self { context, failed: false }
    }

    /// Does step after step; a check that found nothing gets a line of its own when it is over.
    fn walk(&mut self, step: &dyn Fn(&str) -> Result<Value, Failure>) -> Result<Exit, Failure> {
        let mut next = Some(FIRST.to_owned());
        let (mut check, mut seen, mut clean) = (String::new(), 0, true);
        while let Some(name) = next {
            let answer = step(&name)?;
            next = answer["next"].as_str().map(str::to_owned);
            let current = answer["check"].as_str().unwrap_or("");
            if current != check {
                self.over(&check, seen, clean)?;
                (check, seen, clean) = (current.to_owned(), 0, true);
            }
            seen += answer["seen"].as_u64().unwrap_or(0);
            for finding in answer["findings"].as_array().map_or(&[][..], Vec::as_slice) {
                let text = |name: &str| finding[name].as_str().unwrap_or("");
                self.line(&check, text("level"), text("message"), text("todo"))?;
                clean = false;
            }
        }
        self.over(&check, seen, clean)?;
        Ok(if self.failed { Exit::RunFailed } else { Exit::Done })
    }

    fn over(&mut self, check: &str, seen: u64, clean: bool) -> Result<(), Failure> {
        if check.is_empty() || !clean {
            return Ok(());
        }
        self.line(check, "ok", &looked_at(check, seen), "")
    }

    fn line(&mut self, check: &str, level: &str, message: &str, todo: &str) -> Result<(), Failure> {
        self.failed |= level == "fail";
        if self.context.json {
            let todo = (!todo.is_empty()).then_some(todo);
            return print_json(&json!({"check": check, "level": level, "message": message, "todo": todo}));
        }
        let todo = if todo.is_empty() { String::new() } else { format!("; {todo}") };
        print(&format!("{level:<4}  {check:<8}  {}{}\n", printable(message), printable(&todo)))
    }
}

fn looked_at(check: &str, seen: u64) -> String {
    match check {
        "shape" => format!("schema {seen}, as this version makes it"),
        "pages" => format!("{seen} tables with their indexes and references"),
        "tasks" | "triggers" => format!("{seen} revisions match their digests"),
        "secrets" => format!("every key is there; {seen} values open"),
        "folder" => "nothing foreign, nothing that others may read".into(),
        "logs" => format!("{seen} logs are there"),
        "files" => format!("{seen} log files belong to runs"),
        _ => format!("{seen} receipts belong to runs"),
    }
}
