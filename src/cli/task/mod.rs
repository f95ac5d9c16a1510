//! `qinglet task ...`: a file for each verb, and what they share.

pub mod add;
pub mod apply;
mod confine;
pub mod delete;
pub mod list;
pub mod put;
pub mod show;
pub mod switch;

use super::client::Client;
use super::failure::Failure;
use crate::model::name::{NAME_RULE, Name};
use serde_json::Value;

/// Reads a task id from the command line.
pub fn task_id(text: &str) -> Result<Name, Failure> {
    Name::parse(text)
        .ok_or_else(|| Failure::usage(format!("\"{}\" cannot be a task id; one is {NAME_RULE}", text.escape_debug())))
}

/// The task's path below the project.
pub fn path(task: &Name) -> String {
    format!("/tasks/{task}")
}

/// Reads the `task` object.
pub fn get(client: &Client, task: &Name, what: &str) -> Result<Value, Failure> {
    Ok(client.get(&path(task), what)?["task"].take())
}

/// Its current revision.
pub fn revision(task: &Value) -> Result<i64, Failure> {
    task["revision"].as_i64().ok_or_else(|| Failure::unavailable("the daemon's answer has no task revision"))
}
