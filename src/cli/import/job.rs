//! One line that is to run something: its task and its trigger, with an id of the line's own.

use super::changes;
use super::expression::{Expression, Reading};
use super::percent;
use super::plan::{Entry, Rules, Settings};
use crate::model::command::{self, Leftovers};
use crate::model::digest::Digest;
use crate::model::json::canonical;
use crate::model::limits::{CRONTAB_JOBS_MAX, DESCRIPTION_BYTES_MAX};
use crate::model::name::Name;
use crate::model::task::Definition;
use crate::model::trigger::{BOOT_SCHEMA, CRON_SCHEMA};
use crate::schedule::cron::{self, Cron};
use crate::schedule::zone::Zone;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The label with the file that a task came from.
pub const SOURCE: &str = "crontab";
/// The label with what was imported, so that a later change by hand is seen.
pub const IMPORTED: &str = "crontab-digest";
/// The domain of the digests that name lines and what became of them.
const DOMAIN: &str = "qinglet.crontab-line.v1";

/// A task and its trigger, which have one id.
pub struct Job {
    /// Their id.
    pub id: Name,
    /// The task.
    pub definition: Definition,
    /// The trigger's `{schema, config}`, as the store keeps it.
    pub trigger: Value,
    /// When, for people.
    pub when: String,
}

/// Makes a job of a line's fields, or short form, and what follows them. The error says why not.
pub fn of(
    fields: Result<[&str; 5], &str>,
    rest: &str,
    rules: &Rules<'_>,
    settings: &mut Settings,
    entry: &mut Entry,
) -> Result<Job, String> {
    if rest.is_empty() {
        return Err("there is no command after the user".into());
    }
    // Vixie's cron starts a line beside its last run; busybox crond leaves it out while that goes on.
    let overlap = if rules.reading == Reading::Busybox { "skip" } else { "allow" };
    let (when, trigger) = if fields == Err("@reboot") {
        ("at boot".to_owned(), json!({"schema": BOOT_SCHEMA, "config": {"overlap": overlap}}))
    } else {
        let expression = expression(fields, rules.reading, entry)?;
        let zone = settings.zone.clone()?;
        if let (Ok(cron), Ok(known)) = (Cron::parse(&expression), Zone::parse(&zone))
            && changes::matter(&cron, &known, rules.now_ms)
        {
            // Vixie's cron takes only lines without a star for minute and hour as times of the clock.
            let whose = if expression.starts_with('*') { "crond" } else { "busybox crond" };
            entry.notes.push(format!("when the clocks change it runs once; {whose} skips or doubles it"));
        }
        let config = json!({"expression": expression, "timezone": zone, "misfirePolicy": "skip", "overlap": overlap});
        (format!("{expression} {zone}"), json!({"schema": CRON_SCHEMA, "config": config}))
    };
    let command = command(rest, rules.reading, entry);
    // A line that is there twice runs twice.
    let key = format!("{} {rest}", trigger["config"]["expression"].as_str().unwrap_or("@reboot"));
    let count = settings.seen.entry(key.clone()).or_insert(0);
    *count += 1;
    let digest = Digest::of(DOMAIN, format!("{count} {key}").as_bytes()).to_string();
    let id = Name::parse(&format!("cron-{}", &digest[..8])).ok_or("it has no id")?;
    settings.jobs += 1;
    if settings.jobs > CRONTAB_JOBS_MAX {
        return Err(format!("there are more than {CRONTAB_JOBS_MAX} such lines"));
    }
    let definition = definition(&command, rules, settings, &trigger, entry)?;
    Ok(Job { id, definition, trigger, when })
}

fn expression(fields: Result<[&str; 5], &str>, reading: Reading, entry: &mut Entry) -> Result<String, String> {
    match fields {
        Ok(fields) => {
            let Expression { text, changes, notes } = Expression::of(&fields, reading)?;
            entry.changes.extend(changes);
            entry.notes.extend(notes);
            Ok(text)
        }
        Err(short) => {
            let text = cron::expand(short);
            if text == short {
                let short = short.escape_debug();
                return Err(format!(
                    "{short} is not known; there are @reboot, @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually"
                ));
            }
            entry.changes.push(format!("{short} is written {text}"));
            Ok(text.to_owned())
        }
    }
}

/// The text for the shell.
fn command(rest: &str, reading: Reading, entry: &mut Entry) -> String {
    if reading == Reading::Busybox || !percent::is_there(rest) {
        return rest.to_owned();
    }
    entry.notes.push("busybox crond leaves % to the shell; with --busybox so does this".into());
    let (command, input) = percent::split(rest);
    if let Some(input) = input {
        entry.changes.push("what follows the first bare % is its standard input".into());
        percent::with_input(&command, &input)
    } else {
        entry.changes.push("% is taken as crontab(5) says: \\% is written %".into());
        command
    }
}

fn definition(
    command: &str,
    rules: &Rules<'_>,
    settings: &Settings,
    trigger: &Value,
    entry: &Entry,
) -> Result<Definition, String> {
    let shell = settings.environment.get("SHELL").map_or("/bin/sh", String::as_str);
    if !matches!(shell, "/bin/sh" | "/bin/bash") {
        return Err(format!("it is for the shell {}; there are /bin/sh and /bin/bash", shell.escape_debug()));
    }
    let home = settings.environment.get("HOME").unwrap_or(&rules.account.home);
    if !home.starts_with('/') {
        return Err("HOME must be an absolute path".into());
    }
    let variables = settings.environment.iter();
    let variables: Value =
        variables.map(|(name, value)| json!({"name": name, "kind": "public", "value": value})).collect();
    let config = json!({
        "command": {"kind": "shell", "command": command, "shell": shell},
        "environment": variables,
        "workingDirectory": home,
        "leftovers": Leftovers::Keep.word(),
    });
    let spec = json!({"schema": command::SCHEMA, "config": config});
    let title: String = entry.text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TITLE_CHARS).collect();
    let description = format!("From {}:\n{}", rules.source, entry.text);
    let fits = description.len() <= DESCRIPTION_BYTES_MAX && !entry.text.chars().any(|c| c.is_control() && c != '\t');
    let labels = BTreeMap::from([(SOURCE.to_owned(), rules.source.to_owned())]);
    let mut definition = Definition::check(title, fits.then_some(description), command::KIND, &spec, labels, true)
        .map_err(|e| e.to_string())?;
    let imported = imported(&definition.command.to_spec(), trigger);
    definition.labels.insert(IMPORTED.to_owned(), imported);
    Ok(definition)
}

/// A title is for one line of a list.
const TITLE_CHARS: usize = 60;

/// What a task and its trigger were when they were imported.
pub fn imported(task: &Value, trigger: &Value) -> String {
    let text = canonical(&json!({"task": task, "trigger": trigger}));
    Digest::of(DOMAIN, text.as_bytes()).to_string()[..16].to_owned()
}
