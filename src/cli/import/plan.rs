//! From the text of a crontab to what is to be stored: pure, so that `--dry-run` shows what would be
//! done, and every rule is a test.

use super::account::Account;
use super::expression::Reading;
use super::job::{self, Job};
use super::line::{self, Line};
use crate::model::name::is_variable_name;
use crate::schedule::zone::Zone;
use std::collections::BTreeMap;

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

/// What the lines so far mean for those that follow.
pub struct Settings {
    /// Variables.
    pub environment: BTreeMap<String, String>,
    /// The zone of the triggers that follow, or why there is none.
    pub zone: Result<String, String>,
    /// How often each schedule with its command has been there.
    pub seen: BTreeMap<String, u32>,
    /// Lines that are jobs.
    pub jobs: usize,
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
        Line::Unquoted(name) => {
            let why = "its value has a quote at one end only, or in its middle";
            return Some(refused(number, &shown(name), why));
        }
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
    entry.becomes = match job::of(fields, rest, rules, settings, &mut entry) {
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

/// A setting as it is shown: its value may be a secret.
fn shown(name: &str) -> String {
    format!("{name}=…")
}

fn set(number: usize, name: &str, value: &str, settings: &mut Settings) -> Entry {
    let mut entry = refused(number, &shown(name), "");
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
