//! From the text of a crontab to what is to be stored: pure, so that `--dry-run` shows what would be
//! done, and every rule is a test.

use super::account::Account;
use super::changes;
use super::expression::{Expression, Reading};
use super::line::{self, Line};
use super::percent;
use crate::model::command::{self, Leftovers};
use crate::model::digest::Digest;
use crate::model::json::canonical;
use crate::model::limits::{CRONTAB_JOBS_MAX, DESCRIPTION_BYTES_MAX};
use crate::model::name::{Name, is_variable_name};
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

/// How a file is to be read.
pub struct Rules<'a> {
    /// Whose reading of fields and percent signs counts.
    pub reading: Reading,
    /// Whether a user stands before each command.
    pub system: bool,
    /// Whose lines are wanted, or whose the file is.
    pub user: Option<&'a str>,
    /// Whose account tasks run with.
    pub account: &'a Account,
    /// The host's zone.
    pub zone: &'a str,
    /// The label for the file.
    pub source: &'a str,
    /// From here on changes of the clocks are looked for.
    pub now_ms: i64,
}

/// One line and what it becomes.
pub struct Entry {
    /// From 1.
    pub line: usize,
    /// Its text, but for a setting only its name: values may be secrets.
    pub text: String,
    /// What was taken differently than it is written.
    pub changes: Vec<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// What it becomes.
    pub becomes: Becomes,
}

/// What a line becomes.
pub enum Becomes {
    /// A task and its trigger.
    Job(Box<Job>),
    /// Part of what the lines after it become.
    Setting,
    /// Nothing, because another user's lines are not wanted.
    Skipped,
    /// Nothing, and why.
    Refused(String),
}

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

/// What the lines so far mean for those that follow.
struct Settings {
    environment: BTreeMap<String, String>,
    /// The zone of the triggers that follow, or why there is none.
    zone: Result<String, String>,
    /// How often each schedule with its command has been there.
    seen: BTreeMap<String, u32>,
    /// Lines that are jobs.
    jobs: usize,
}

/// Reads a whole crontab.
pub fn of(bytes: &[u8], rules: &Rules<'_>) -> Vec<Entry> {
    let mut settings = Settings {
        environment: BTreeMap::new(),
        zone: known(rules.zone, "the host's zone"),
        seen: BTreeMap::new(),
        jobs: 0,
    };
    let mut entries = Vec::new();
    for (at, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let (bytes, carriage) = bytes.strip_suffix(b"\r").map_or((bytes, false), |bytes| (bytes, true));
        let Ok(text) = std::str::from_utf8(bytes) else {
            entries.push(refused(at + 1, &String::from_utf8_lossy(bytes), "it is not UTF-8 text"));
            continue;
        };
        if let Some(mut entry) = one(at + 1, text, rules, &mut settings) {
            if carriage {
                entry.changes.push("the carriage return at its end is left out".into());
            }
            entries.push(entry);
        }
    }
    entries
}

fn refused(line: usize, text: &str, why: impl Into<String>) -> Entry {
    let becomes = Becomes::Refused(why.into());
    Entry { line, text: text.trim().to_owned(), changes: Vec::new(), notes: Vec::new(), becomes }
}

fn known(zone: &str, whose: &str) -> Result<String, String> {
    Zone::parse(zone).map(|_| zone.to_owned()).map_err(|e| format!("{whose} cannot be used: {e}"))
}

fn one(number: usize, text: &str, rules: &Rules<'_>, settings: &mut Settings) -> Option<Entry> {
    if text.contains('\0') {
        return Some(refused(number, text, "it has a NUL character"));
    }
    let (fields, rest) = match line::read(text) {
        Line::Nothing => return None,
        Line::Wrong(why) => return Some(refused(number, text, why)),
        Line::Setting(name, value) => return Some(set(number, name, value, settings)),
        Line::Short(short, rest) => (Err(short), rest),
        Line::Fields(fields, rest) => (Ok(fields), rest),
    };
    let (user, rest) = if rules.system {
        let (user, rest) = line::word(rest);
        (Some(user), rest)
    } else {
        (rules.user, rest)
    };
    let mut entry = refused(number, text, "");
    if let Some(user) = user {
        if rules.system && rules.user.is_some_and(|wanted| wanted != user) {
            entry.becomes = Becomes::Skipped;
            return Some(entry);
        }
        if user != rules.account.name {
            let name = &rules.account.name;
            entry.becomes = Becomes::Refused(format!(
                "it is for the user {}, and tasks of this version run as {name}, like the daemon",
                user.escape_debug()
            ));
            return Some(entry);
        }
    }
    entry.becomes = match job(fields, rest, rules, settings, &mut entry) {
        Ok(job) => Becomes::Job(Box::new(job)),
        Err(why) => {
            // What was written differently is no matter of a line that is not taken.
            entry.changes.clear();
            entry.notes.clear();
            Becomes::Refused(why)
        }
    };
    Some(entry)
}

fn set(number: usize, name: &str, value: &str, settings: &mut Settings) -> Entry {
    let mut entry = refused(number, &format!("{name}=…"), "");
    entry.becomes = Becomes::Setting;
    match name {
        "CRON_TZ" => {
            settings.zone = known(value, &format!("CRON_TZ of line {number}"));
            if let Err(why) = &settings.zone {
                entry.becomes = Becomes::Refused(why.clone());
            }
            return entry;
        }
        "LOGNAME" => {
            entry.notes.push("LOGNAME stays the user's own, as cron has it".into());
            return entry;
        }
        "MAILTO" if !value.is_empty() => {
            entry
                .notes
                .push("no mail is sent; `qinglet logs` has the output, and a trigger with --after can send one".into());
        }
        "RANDOM_DELAY" | "START_HOURS_RANGE" => entry.notes.push("tasks start without a delay of this kind".into()),
        _ if value.contains('$') => entry.notes.push("$ is taken as it stands, as cron has it".into()),
        _ => {}
    }
    if !is_variable_name(name) || name.starts_with("QL3_") || name.starts_with("QINGLET_") {
        let why = "no variable of a task can have this name: letters, digits and '_', not a digit first, not QINGLET_ or QL3_";
        entry.becomes = Becomes::Refused(why.into());
        return entry;
    }
    settings.environment.insert(name.to_owned(), value.to_owned());
    entry
}

fn job(
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
