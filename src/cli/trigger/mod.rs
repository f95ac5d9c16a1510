//! `qinglet trigger ...`: a file for each verb, and what they share.

pub mod delete;
pub mod list;
pub mod preview;
pub mod put;
pub mod set;
pub mod show;
pub mod switch;

use super::client::Client;
use super::failure::Failure;
use crate::model::name::{NAME_RULE, Name};
use serde_json::Value;

/// Reads a trigger id from the command line.
pub fn trigger_id(text: &str) -> Result<Name, Failure> {
    Name::parse(text).ok_or_else(|| {
        Failure::usage(format!("\"{}\" cannot be a trigger id; one is {NAME_RULE}", text.escape_debug()))
    })
}

/// The trigger's path below the project.
pub fn path(trigger: &Name) -> String {
    format!("/triggers/{trigger}")
}

/// Reads the `trigger` object.
pub fn get(client: &Client, trigger: &Name, what: &str) -> Result<Value, Failure> {
    Ok(client.get(&path(trigger), what)?["trigger"].take())
}

/// What a state means for people, where there is something to do about it.
pub fn advice(trigger: &Value) -> Option<String> {
    let (id, task) = (trigger["triggerId"].as_str()?, trigger["taskId"].as_str()?);
    Some(match trigger["state"].as_str()? {
        "pin_stale" => format!(
            "Its task has changed since: it starts nothing until `qinglet trigger enable {id}` takes the task as it is now."
        ),
        "task_disabled" => {
            format!("Its task is disabled: it starts nothing until `qinglet task enable {task}`.")
        }
        "task_deleted" => format!("Its task was deleted: it starts nothing; `qinglet trigger delete {id}` removes it."),
        "clock_untrusted" => {
            "The clock cannot be trusted yet: it waits until a time server has answered, or until ten \
                              minutes after boot; `serve --clock always` takes the clock as it is."
                .into()
        }
        _ => return None,
    })
}
