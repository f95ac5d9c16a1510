//! The isolated environment of a launch (design D14): a few fixed variables, what identifies the
//! run, then the task's own. Nothing of the daemon's own environment gets in.

use super::host::EnvironmentOf;
use crate::model::command::EnvValue;
use crate::model::passwd;

/// What the machine contributes, read once at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The daemon's user's name.
    pub user: String,
    /// That user's home.
    pub home: String,
    /// The host's zone, as `TZ` takes it.
    pub zone: String,
}

impl Surroundings {
    /// Finds the user with this id in the text of /etc/passwd (passwd(5)). A user that is not there
    /// is named by its number and lives in `/`.
    pub fn find(passwd: &str, uid: u32, zone: String) -> Self {
        let entry = passwd::find(passwd, uid).map(|(user, home)| (user.to_owned(), home.to_owned()));
        let (user, home) = entry.unwrap_or_else(|| (uid.to_string(), String::new()));
        Self { user, home: if home.is_empty() { "/".into() } else { home }, zone }
    }
}

/// The whole environment of one launch. A task's entry replaces one of ours of the same name;
/// `QINGLET_` names cannot be the task's (the command's own check).
pub fn isolated(around: &Surroundings, of: &EnvironmentOf<'_>) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::with_capacity(12 + of.command.environment.len());
    let mut set = |name: &str, value: String| match entries.iter_mut().find(|(known, _)| known == name) {
        Some(entry) => entry.1 = value,
        None => entries.push((name.to_owned(), value)),
    };
    set("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".into());
    set("HOME", around.home.clone());
    set("USER", around.user.clone());
    set("LOGNAME", around.user.clone());
    set("SHELL", "/bin/sh".into());
    set("LANG", "C.UTF-8".into());
    set("TZ", around.zone.clone());
    set("QINGLET_RUN_ID", of.run.to_string());
    set("QINGLET_ATTEMPT", of.attempt_number.to_string());
    set("QINGLET_TASK_ID", of.task.to_string());
    if let Some(trigger) = of.trigger {
        set("QINGLET_TRIGGER_ID", trigger.to_owned());
    }
    if let Some(at_ms) = of.scheduled_for_ms {
        set("QINGLET_SCHEDULED_FOR_MS", at_ms.to_string());
    }
    if let Some(cause) = of.cause {
        set("QINGLET_CAUSE_RUN_ID", cause.run.to_string());
        set("QINGLET_CAUSE_TASK_ID", cause.task.to_string());
        set("QINGLET_CAUSE_OUTCOME", cause.outcome.word().to_owned());
        if let Some(code) = cause.exit_code {
            set("QINGLET_CAUSE_EXIT_CODE", code.to_string());
        }
    }
    for (name, value) in &of.command.environment {
        match value {
            EnvValue::Public(value) => set(name, value.clone()),
            // One that was not opened is not there at all: an empty one would be taken for a value.
            EnvValue::Secret(secret) => {
                if let Some((_, value)) = of.secrets.iter().find(|(known, _)| known == secret) {
                    set(name, String::from_utf8_lossy(value.expose()).into_owned());
                }
            }
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::command::{Command, Program};
    use crate::model::id::{IdSource, RunId};
    use crate::model::name::Name;

    #[test]
    fn the_user_is_found_by_number_or_named_by_it() {
        let passwd = "root:x:0:0:root:/root:/bin/ash\nbroken\nhttp:x:33:33::/var/www:\nnohome:x:7:7:::\n";
        let find = |uid| Surroundings::find(passwd, uid, "UTC".into());
        assert_eq!((find(33).user.as_str(), find(33).home.as_str()), ("http", "/var/www"));
        assert_eq!((find(7).user.as_str(), find(7).home.as_str()), ("nohome", "/"));
        assert_eq!((find(9).user.as_str(), find(9).home.as_str()), ("9", "/"));
    }

    #[test]
    fn a_tasks_own_entry_wins_and_nothing_is_there_twice() {
        let around = Surroundings { user: "u".into(), home: "/h".into(), zone: "CST-8".into() };
        let command = Command {
            program: Program::Shell { command: "env".into(), shell: "/bin/sh" },
            environment: vec![
                ("PATH".into(), EnvValue::Public("/opt/bin".into())),
                ("X".into(), EnvValue::Public("a\nb".into())),
            ],
            working_directory: None,
            grace_ms: 1,
            log_bytes: None,
            timeout_ms: None,
            leftovers: crate::model::command::Leftovers::Kill,
            retry: None,
            redact: true,
        };
        let (run, task) = (RunId(IdSource::default().next(1, [0; 10])), Name::parse("t").unwrap());
        let of = EnvironmentOf {
            run,
            attempt_number: 1,
            task: &task,
            trigger: None,
            scheduled_for_ms: None,
            cause: None,
            command: &command,
            secrets: &[],
        };
        let got = isolated(&around, &of);
        let value = |name: &str| {
            let found: Vec<_> = got.iter().filter(|(n, _)| n == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found[0].1.clone()
        };
        assert_eq!(value("PATH"), "/opt/bin");
        assert_eq!(value("X"), "a\nb");
        assert_eq!(value("TZ"), "CST-8");
        assert_eq!(value("QINGLET_RUN_ID"), run.to_string());
        assert!(!got.iter().any(|(n, _)| n == "QINGLET_TRIGGER_ID"));
    }
}
