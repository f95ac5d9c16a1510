//! `task apply`: makes a task be as a file says, whether it is there or not.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::nearest::nearest;
use super::put;
use crate::model::limits::CLI_TASK_FILE_BYTES_MAX;
use crate::model::name::Name;
use crate::model::word::Exit;
use crate::model::{json, task::Definition};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;

/// The command.
pub const COMMAND: Command = Command {
    words: "task apply",
    args: &["FILE|-"],
    rest: None,
    flags: &[],
    summary: "create or change a task as a JSON file says",
    more: "The file is what `qinglet task show ID --json` prints; `taskId`, `name` and `spec` are needed.\n\
           Applying the same file again changes nothing. `-` reads the standard input.",
    body: apply,
};

/// What a definition may say.
const WRITTEN: &[&str] = &["taskId", "name", "description", "kind", "spec", "labels", "enabled"];
/// What a shown task says besides, and what applying it does not need.
const SHOWN: &[&str] = &["projectId", "revision", "contentDigest", "specSchema", "createdAtMs", "updatedAtMs"];

fn apply(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let (id, wanted) = read(given.arg(0))?;
    let client = context.client();
    let what = format!("apply task \"{id}\"");
    let reply = client.send("GET", &super::path(&id), None)?;
    let (answer, done) = if reply.code() == "task_not_found" {
        (put::send(&client, &id, None, &wanted)?.done(&what)?, "created")
    } else {
        let mut current = reply.done(&what)?;
        let revision = super::revision(&current["task"])?;
        // A task whose spec may not be read, or that this version cannot read, is simply replaced.
        if put::check(&current["task"]).is_ok_and(|current| current == wanted) {
            (json!({"status": "existing", "task": current["task"].take()}), "unchanged")
        } else {
            (put::send(&client, &id, Some(revision), &wanted)?.done(&what)?, "updated")
        }
    };
    if context.json {
        print_json(&answer)?;
    } else {
        let revision = answer["task"]["revision"].as_i64().map(|r| format!(", revision {r}")).unwrap_or_default();
        print(&format!("task {id} {done}{revision}\n"))?;
    }
    Ok(Exit::Done)
}

fn read(file: &str) -> Result<(Name, Definition), Failure> {
    let shown = if file == "-" { "the standard input".to_owned() } else { file.escape_debug().to_string() };
    let wrong = |why: String| Failure::usage(format!("{shown}: {why}"));
    let mut bytes = Vec::new();
    let result = if file == "-" {
        std::io::stdin().lock().take(CLI_TASK_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|opened| opened.take(CLI_TASK_FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    result.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > CLI_TASK_FILE_BYTES_MAX {
        return Err(wrong(format!("longer than {CLI_TASK_FILE_BYTES_MAX} bytes")));
    }
    let mut value = json::parse(&bytes).map_err(|error| wrong(format!("not a JSON task: {error}")))?;
    if value.as_object().is_some_and(|object| object.len() == 1 && object.contains_key("task")) {
        value = value["task"].take();
    }
    let Some(fields) = value.as_object() else { return Err(wrong("must be a JSON object".into())) };
    let unknown = fields.keys().find(|key| !WRITTEN.contains(&key.as_str()) && !SHOWN.contains(&key.as_str()));
    if let Some(key) = unknown {
        let near = nearest(key, WRITTEN.iter().copied()).unwrap_or_default();
        return Err(wrong(format!("unknown field `{}`; the nearest known one is `{near}`", key.escape_debug())));
    }
    let Some(id) = value["taskId"].as_str() else { return Err(wrong("`taskId` must be there and a string".into())) };
    let id = super::task_id(id)?;
    if value["spec"] == Value::Null {
        return Err(wrong("`spec` must be there".into()));
    }
    let definition = put::check(&value).map_err(|failure| wrong(failure.message))?;
    Ok((id, definition))
}
