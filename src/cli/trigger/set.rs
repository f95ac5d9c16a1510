//! `trigger set`: makes a trigger, or changes when one starts its task.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::task;
use super::super::time::rfc3339;
use super::{path, put, trigger_id};
use crate::model::trigger::{BOOT_SCHEMA, CRON_SCHEMA, RUN_FINISHED_SCHEMA};
use crate::model::word::Exit;
use crate::schedule::cron;
use crate::schedule::host_zone;
use serde_json::{Value, json};

/// The command.
pub const COMMAND: Command = Command {
    words: "trigger set",
    args: &["ID"],
    rest: None,
    flags: &[
        Flag::value("task", "TASK", "what it starts"),
        Flag::value("cron", "EXPR", "at these times: 5 fields, 6 with leading seconds, or @hourly and the like"),
        Flag::value("zone", "ZONE", "whose time: like Europe/Prague or CST-8; the host's when not given"),
        Flag::value("on", "boot", "once each boot, when the daemon has started"),
        Flag::value("after", "TASK", "when a run of TASK has ended so"),
        Flag::value("outcome", "LIST", "of succeeded, failed, cancelled, timed_out, lost; for --after"),
        Flag::value(
            "misfire",
            "skip|fire-once",
            "a time that was missed is skipped (the default), or made up for once",
        ),
        Flag::value(
            "overlap",
            "skip|allow|queue",
            "while its last run goes on: skip (the default), start beside, wait",
        ),
        Flag::switch("disabled", "store it switched off"),
    ],
    summary: "start a task by itself",
    more: "Three forms:\n\n  qinglet trigger set nightly --task backup --cron '30 3 * * *' --zone Europe/Prague\n  \
           qinglet trigger set at-boot --task mount-disk --on boot\n  \
           qinglet trigger set tell-me --task mail --after backup --outcome failed,timed_out\n\n\
           `qinglet trigger preview '30 3 * * *'` shows when an expression comes due.",
    body: set,
};

fn set(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = trigger_id(given.arg(0))?;
    let of = given.text("task")?.ok_or_else(|| Failure::usage("say what it starts: --task TASK"))?;
    let of = task::task_id(of)?;
    let spec = spec(given)?;
    let client = context.client();
    let what = format!("set trigger \"{id}\"");
    let before = client.send_patiently("GET", &path(&id), None)?;
    let expected_revision = match before.status {
        404 => None,
        _ => before.done(&what)?["trigger"]["revision"].as_i64(),
    };
    let answer = put::send(&client, &id, expected_revision, &of, &spec, !given.has("disabled"))?.done(&what)?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let trigger = &answer["trigger"];
    print(&format!("trigger {id}: {} starts {of}\n", trigger["schedule"].as_str().unwrap_or_default()))?;
    if let Some(advice) = super::advice(trigger) {
        note(&advice);
    }
    Ok(Exit::Done)
}

fn spec(given: &Given) -> Result<Value, Failure> {
    let forms = [given.text("cron")?, given.text("on")?, given.text("after")?];
    let only = |flag: &str, form: &str| match given.text(flag) {
        Ok(Some(_)) => Err(Failure::usage(format!("--{flag} goes with --{form} only"))),
        Ok(None) => Ok(()),
        Err(failure) => Err(failure),
    };
    let mut spec = match forms {
        [Some(text), None, None] => {
            only("outcome", "after")?;
            let expression = cron::expand(text);
            let zone = if let Some(zone) = given.text("zone")? {
                zone.to_owned()
            } else {
                let host = host_zone::read();
                note(&format!("zone {} (from {})", host.zone, host.source));
                host.zone
            };
            let misfire = match given.text("misfire")? {
                None | Some("skip") => "skip",
                Some("fire-once" | "fire_once") => "fire_once",
                Some(_) => return Err(Failure::usage("--misfire must be skip or fire-once")),
            };
            let config = json!({"expression": expression, "timezone": zone, "misfirePolicy": misfire});
            json!({"schema": CRON_SCHEMA, "config": config})
        }
        [None, Some("boot"), None] => json!({"schema": BOOT_SCHEMA, "config": {}}),
        [None, Some(_), None] => return Err(Failure::usage("--on must be boot")),
        [None, None, Some(watched)] => {
            let outcomes = given.text("outcome")?.ok_or_else(|| {
                Failure::usage("--after needs --outcome: a list of succeeded, failed, cancelled, timed_out, lost")
            })?;
            let outcomes: Vec<&str> = outcomes.split(',').map(str::trim).collect();
            json!({"schema": RUN_FINISHED_SCHEMA, "config": {"taskId": watched, "outcomes": outcomes}})
        }
        _ => return Err(Failure::usage("say when: one of --cron EXPR, --on boot, --after TASK --outcome LIST")),
    };
    if forms[0].is_none() {
        only("zone", "cron")?;
        only("misfire", "cron")?;
    }
    if let Some(overlap) = given.text("overlap")? {
        spec["config"]["overlap"] = overlap.into();
    }
    Ok(spec)
}

/// When it is due next, for people.
pub fn next(trigger: &Value) -> String {
    trigger["nextFireAtMs"].as_i64().map_or_else(|| "-".into(), rfc3339)
}
