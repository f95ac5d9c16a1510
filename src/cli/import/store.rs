//! Storing one line's task and trigger, so that doing it again changes nothing, and nothing that
//! somebody has changed by hand since is overwritten.

use super::super::client::Client;
use super::super::failure::Failure;
use super::super::{task, trigger};
use super::job::{IMPORTED, Job, SOURCE, imported};
use crate::model::limits::PAGE_MAX;
use crate::model::name::Name;
use serde_json::Value;
use std::collections::BTreeSet;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The task, its trigger or both are new.
    Taken,
    /// They are there as the line says.
    Unchanged,
    /// The settings before the line have changed, and so have they.
    Updated,
}

/// Stores a job. A refusal is a [`Failure`], whose message says what to do.
pub fn put(client: &Client, job: &Job) -> Result<Done, Failure> {
    let id = &job.id;
    let what = format!("take it as task \"{id}\"");
    let reply = client.send_patiently("GET", &task::path(id), None)?;
    if reply.code() == "task_not_found" {
        let stored = task::put::send(client, id, None, &job.definition)?.done(&what)?["task"].take();
        put_trigger(client, job, &stored, find_trigger(client, id)?.as_ref())?;
        return Ok(Done::Taken);
    }
    let current = reply.done(&what)?["task"].take();
    let Some(stored) = current["labels"][IMPORTED].as_str() else {
        return Err(Failure::refused(format!("there is a task \"{id}\" that no import has made; delete it first")));
    };
    let shot = find_trigger(client, id)?;
    if job.definition.labels.get(IMPORTED).is_some_and(|wanted| wanted == stored) {
        return match shot {
            Some(_) => Ok(Done::Unchanged),
            None => put_trigger(client, job, &current, None).map(|()| Done::Taken),
        };
    }
    let by_hand = |shot: &Value| imported(&current["spec"], &shot["spec"]) != stored;
    if shot.as_ref().is_none_or(by_hand) {
        return Err(Failure::refused(format!(
            "the settings before it have changed, and task or trigger \"{id}\" was changed by hand; delete both to take \
             the line anew"
        )));
    }
    let mut definition = job.definition.clone();
    definition.enabled = current["enabled"] != false;
    let revision = task::revision(&current)?;
    let stored = task::put::send(client, id, Some(revision), &definition)?.done(&what)?["task"].take();
    // The task has taken its triggers along, so this one has another revision now.
    put_trigger(client, job, &stored, find_trigger(client, id)?.as_ref())?;
    Ok(Done::Updated)
}

fn find_trigger(client: &Client, id: &Name) -> Result<Option<Value>, Failure> {
    let reply = client.send_patiently("GET", &trigger::path(id), None)?;
    if reply.code() == "trigger_not_found" {
        return Ok(None);
    }
    Ok(Some(reply.done(&format!("read trigger \"{id}\""))?["trigger"].take()))
}

fn put_trigger(client: &Client, job: &Job, stored: &Value, current: Option<&Value>) -> Result<(), Failure> {
    let revision = current.and_then(|current| current["revision"].as_i64());
    let enabled = current.is_none_or(|current| current["enabled"] != false);
    let what = format!("set its trigger \"{}\"", job.id);
    trigger::put::pinned(client, &job.id, revision, stored, &job.trigger, enabled)?.done(&what)?;
    Ok(())
}

/// The tasks that came from this file and whose lines are in it no more.
pub fn gone(client: &Client, source: &str, there: &BTreeSet<&Name>) -> Result<Vec<(Name, String)>, Failure> {
    let mut gone = Vec::new();
    let mut after = String::new();
    loop {
        let page = client.get(&format!("/tasks?limit={PAGE_MAX}{after}"), "look for lines that are gone")?;
        let ids =
            page["tasks"].as_array().into_iter().flatten().filter_map(|task| Name::parse(task["taskId"].as_str()?));
        let ids: Vec<Name> = ids.collect();
        for id in ids.iter().filter(|id| id.as_str().starts_with("cron-") && !there.contains(id)) {
            let task = task::get(client, id, &format!("read task \"{id}\""))?;
            if task["labels"][SOURCE] == source && task["labels"][IMPORTED].is_string() {
                gone.push((id.clone(), task["name"].as_str().unwrap_or_default().to_owned()));
            }
        }
        match ids.last() {
            Some(last) if page["hasMore"] == true => after = format!("&after_task_id={last}"),
            _ => return Ok(gone),
        }
    }
}
