//! The options of `task add` and the rows of `task show` that say how a task is held apart from the
//! rest of the machine.

use super::super::args::Given;
use super::super::cell::cell;
use super::super::failure::Failure;
use crate::model::{limits, size};
use serde_json::{Map, Value, json};

/// Puts what was given into the spec's `config`.
pub fn put(given: &Given, config: &mut Value) -> Result<(), Failure> {
    let mut requires = Map::new();
    if let Some(text) = given.text("memory")? {
        let (least, most) = (limits::TASK_MEMORY_BYTES_MIN, limits::TASK_MEMORY_BYTES_MAX);
        let bytes = size::parse(text).filter(|bytes| (least..=most).contains(bytes)).ok_or_else(|| {
            Failure::usage(format!("--memory must be a size like 16MiB, 512K or 1G, {} at least", size::text(least)))
        })?;
        requires.insert("memoryBytes".into(), bytes.into());
    }
    if let Some(pids) = number(given, "pids", 1, limits::TASK_PIDS_MAX)? {
        requires.insert("pids".into(), pids.into());
    }
    if let Some(percent) = number(given, "cpu", 1, limits::TASK_CPU_PERCENT_MAX)? {
        requires.insert("cpuPercent".into(), percent.into());
    }
    let words = given.texts("require")?;
    if !words.is_empty() {
        requires.insert("capabilities".into(), json!(words));
    }
    if !requires.is_empty() {
        config["requires"] = requires.into();
    }
    if let Some(user) = given.text("run-as")? {
        config["runAs"] = user.into();
    }
    if let Some(nice) = number(given, "nice", -20, 19)? {
        config["nice"] = nice.into();
    }
    if let Some(adj) = number(given, "oom-score-adj", -1000, 1000)? {
        config["oomScoreAdj"] = adj.into();
    }
    if given.has("inherit-env") {
        config["environmentPolicy"] = "inherit".into();
    }
    Ok(())
}

/// A whole number; a percent sign after it may stand there for a share.
fn number(given: &Given, option: &str, least: i64, most: i64) -> Result<Option<i64>, Failure> {
    let Some(text) = given.text(option)? else { return Ok(None) };
    let digits = if option == "cpu" { text.strip_suffix('%').unwrap_or(text) } else { text };
    let number = digits.parse().ok().filter(|number| (least..=most).contains(number));
    let refused = || Failure::usage(format!("--{option} must be a whole number from {least} to {most}"));
    number.ok_or_else(refused).map(Some)
}

/// The rows of what was given: what it is called, and its value.
pub fn rows(config: &Value) -> Vec<(&'static str, String)> {
    let requires = &config["requires"];
    let words = requires["capabilities"].as_array().into_iter().flatten().map(cell).collect::<Vec<_>>();
    let given = |value: &Value, text: String| (!value.is_null()).then_some(text);
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let rows = [
        ("memory", given(&requires["memoryBytes"], size::text(number(&requires["memoryBytes"])))),
        ("pids", given(&requires["pids"], cell(&requires["pids"]))),
        ("cpu", given(&requires["cpuPercent"], format!("{} % of one core", cell(&requires["cpuPercent"])))),
        ("requires", (!words.is_empty()).then(|| words.join(", "))),
        ("runs as", given(&config["runAs"], cell(&config["runAs"]))),
        ("nice", given(&config["nice"], cell(&config["nice"]))),
        ("oom score adj", given(&config["oomScoreAdj"], cell(&config["oomScoreAdj"]))),
        ("inherits", (config["environmentPolicy"] == "inherit").then(|| "the daemon's environment".to_owned())),
    ];
    rows.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
}
