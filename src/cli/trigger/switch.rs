//! `trigger enable` and `trigger disable`. Enabling takes the task as it is now.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::task;
use super::{get, put, trigger_id};
use crate::model::word::Exit;
use serde_json::{Value, json};

/// `trigger enable`.
pub const ENABLE: Command = Command {
    words: "trigger enable",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "switch a trigger on, for its task as it is now",
    more: "",
    body: enable,
};

/// `trigger disable`.
pub const DISABLE: Command = Command {
    words: "trigger disable",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "switch a trigger off and cancel its waiting runs",
    more: "What is running already goes on.",
    body: disable,
};

fn enable(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = trigger_id(given.arg(0))?;
    let client = context.client();
    let what = format!("enable trigger \"{id}\"");
    let trigger = get(&client, &id, &what)?;
    if trigger["enabled"] == true && trigger["state"] != "pin_stale" {
        return done(context, &json!({"status": "existing", "trigger": trigger}), "enabled");
    }
    let of = task::task_id(trigger["taskId"].as_str().unwrap_or_default())?;
    let revision = trigger["revision"].as_i64();
    let answer = put::send(&client, &id, revision, &of, &trigger["spec"], true)?.done(&what)?;
    done(context, &answer, "enabled")
}

/// With the pin it has: one whose task has changed or is gone can be switched off all the same.
fn disable(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = trigger_id(given.arg(0))?;
    let client = context.client();
    let what = format!("disable trigger \"{id}\"");
    let trigger = get(&client, &id, &what)?;
    if trigger["enabled"] == false {
        return done(context, &json!({"status": "existing", "trigger": trigger}), "disabled");
    }
    let pin = json!({"taskId": trigger["taskId"], "revision": trigger["taskRevision"],
        "contentDigest": trigger["taskContentDigest"]});
    let revision = trigger["revision"].as_i64();
    let answer = put::pinned(&client, &id, revision, &pin, &trigger["spec"], false)?.done(&what)?;
    done(context, &answer, "disabled")
}

fn done(context: &Context, answer: &Value, state: &str) -> Result<Exit, Failure> {
    if context.json {
        print_json(answer)?;
    } else {
        let already = if answer["status"] == "existing" { "already " } else { "" };
        print(&format!(
            "trigger {} is {already}{state}\n",
            answer["trigger"]["triggerId"].as_str().unwrap_or_default()
        ))?;
    }
    Ok(Exit::Done)
}
