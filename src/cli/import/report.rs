//! What became of each line, as a table for people and as JSON for scripts.

use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::table::{Table, printable};
use super::plan::{Becomes, Entry};
use super::store::Done;
use crate::model::name::Name;
use serde_json::{Value, json};

/// One line and what was done with it.
pub struct Row<'a> {
    entry: &'a Entry,
    result: &'static str,
    reason: Option<String>,
}

impl<'a> Row<'a> {
    /// A line that is not stored, or not yet.
    pub fn planned(entry: &'a Entry) -> Self {
        let (result, reason) = match &entry.becomes {
            Becomes::Job(_) => ("taken", None),
            Becomes::Setting => ("set", None),
            Becomes::Skipped => ("skipped", None),
            Becomes::Refused(why) => ("not taken", Some(why.clone())),
        };
        Self { entry, result, reason }
    }

    /// A line that was stored.
    pub fn stored(entry: &'a Entry, done: Done) -> Self {
        let result = match done {
            Done::Taken => "taken",
            Done::Unchanged => "unchanged",
            Done::Updated => "updated",
        };
        Self { entry, result, reason: None }
    }

    /// A line that could not be stored.
    pub fn failed(entry: &'a Entry, why: String) -> Self {
        Self { entry, result: "not taken", reason: Some(why) }
    }

    /// Whether the line was not taken, though it should have been.
    pub fn is_refused(&self) -> bool {
        self.reason.is_some()
    }

    fn to_json(&self) -> Value {
        let entry = self.entry;
        let mut value = json!({"line": entry.line, "result": self.result.replace(' ', "_"), "text": entry.text});
        if let Becomes::Job(job) = &entry.becomes {
            value["taskId"] = job.id.as_str().into();
            value["triggerId"] = job.id.as_str().into();
            value["trigger"] = job.trigger.clone();
            value["command"] = job.definition.command.to_spec()["config"]["command"]["command"].take();
        }
        value["changes"] = json!(entry.changes);
        value["notes"] = json!(entry.notes);
        if let Some(reason) = &self.reason {
            value["reason"] = reason.as_str().into();
        }
        value
    }
}

/// Prints the lines and the tasks whose lines are gone.
pub fn show(context: &Context, rows: &[Row<'_>], gone: &[(Name, String)]) -> Result<(), Failure> {
    if context.json {
        rows.iter().map(Row::to_json).try_for_each(|row| print_json(&row))?;
        return gone.iter().try_for_each(|(id, name)| {
            print_json(
                &json!({"line": null, "result": "gone", "text": name, "taskId": id.as_str(), "triggerId": id.as_str()}),
            )
        });
    }
    if rows.is_empty() && gone.is_empty() {
        return print("there is nothing in it to take\n");
    }
    let mut table = Table::headed(["LINE", "RESULT", "TASK", "WHEN", "TEXT"]);
    let mut remarks = Table::plain();
    for row in rows {
        let entry = row.entry;
        let (task, when) = match &entry.becomes {
            Becomes::Job(job) => (job.id.to_string(), job.when.clone()),
            _ => ("-".into(), "-".into()),
        };
        table.row([entry.line.to_string(), row.result.into(), task, when, entry.text.replace('\t', " ")]);
        let mut say = |what: &str, text: &str| {
            remarks.row([format!("line {}", entry.line), what.to_owned(), printable(text)]);
        };
        entry.changes.iter().for_each(|text| say("changed", text));
        entry.notes.iter().for_each(|text| say("note", text));
        row.reason.iter().for_each(|text| say("not taken", text));
    }
    for (id, name) in gone {
        table.row(["-".into(), "gone".into(), id.to_string(), "-".into(), name.clone()]);
        let option = context.state_option();
        let way = format!(
            "is in the file no more and still runs; `qinglet {option}trigger delete {id}` and `qinglet {option}task delete {id}` end it"
        );
        remarks.row([id.to_string(), "gone".into(), way]);
    }
    let remarks = remarks.to_string();
    print(&format!("{table}{}{remarks}", if remarks.is_empty() { "" } else { "\n" }))
}
