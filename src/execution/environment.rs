//! The environment of a launch (design D14): a few fixed variables, what identifies the run, then the
//! task's own. Nothing of the daemon's own environment gets in, unless the task asks to inherit it.

use super::host::EnvironmentOf;
use crate::model::command::EnvValue;
use crate::model::limits::INHERITED_ENV_BYTES_MAX;
use crate::model::name::is_variable_name;
use crate::model::passwd;
use std::ffi::OsString;

/// What the machine contributes, read once at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The daemon's user's name.
    pub user: String,
    /// That user's home.
    pub home: String,
    /// The host's zone, as `TZ` takes it.
    pub zone: String,
    /// What a task that inherits gets of the daemon's own environment.
    pub inherited: Vec<(String, String)>,
}

/// What may be inherited of an environment: what is text, is not ours, and loads no code into the task
/// that was meant for the daemon. In the order given, as much as the bound allows.
pub fn inheritable(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let texts = environment.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let meant = texts.filter(|(name, _)| {
        is_variable_name(name)
            && name != "LD_PRELOAD"
            && !["QINGLET_", "QL3_"].iter().any(|ours| name.starts_with(ours))
    });
    let mut left = INHERITED_ENV_BYTES_MAX;
    let fits = |(name, value): &(String, String)| match left.checked_sub(name.len() + value.len() + 2) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    meant.filter(fits).collect()
}

impl Surroundings {
    /// Finds the user with this id in the text of /etc/passwd (passwd(5)). A user that is not there
    /// is named by its number and lives in `/`.
    pub fn find(passwd: &str, uid: u32, zone: String) -> Self {
        let entry = passwd::find(passwd, uid).map(|(user, home)| (user.to_owned(), home.to_owned()));
        let (user, home) = entry.unwrap_or_else(|| (uid.to_string(), String::new()));
        Self { user, home: if home.is_empty() { "/".into() } else { home }, zone, inherited: Vec::new() }
    }
}

/// The user that a task runs as, when it is another than the daemon's.
#[derive(Clone, Copy, Debug)]
pub struct Person<'a> {
    /// The name.
    pub name: &'a str,
    /// The home.
    pub home: &'a str,
    /// The shell.
    pub shell: &'a str,
}

/// The whole environment of one launch. A task's entry replaces one of ours of the same name;
/// `QINGLET_` names cannot be the task's (the command's own check).
pub fn environment(around: &Surroundings, person: Option<Person<'_>>, of: &EnvironmentOf<'_>) -> Vec<(String, String)> {
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
    if of.command.inherit {
        around.inherited.iter().for_each(|(name, value)| set(name, value.clone()));
    }
    if let Some(person) = person {
        set("HOME", person.home.to_owned());
        set("USER", person.name.to_owned());
        set("LOGNAME", person.name.to_owned());
        set("SHELL", person.shell.to_owned());
    }
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
    use crate::model::confinement::Confinement;
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
        let around = Surroundings { user: "u".into(), home: "/h".into(), zone: "CST-8".into(), inherited: Vec::new() };
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
            inherit: false,
            confinement: Confinement::default(),
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
        let got = environment(&around, None, &of);
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
    #[test]
    fn what_is_inherited_comes_between_the_fixed_and_the_tasks_own() {
        let own = [
            ("PATH", "/opt/bin"),
            ("LD_PRELOAD", "/x.so"),
            ("QINGLET_TOKEN_FILE", "/t"),
            ("QL3_X", "1"),
            ("odd-name", "1"),
            ("HOME", "/daemon"),
            ("KEPT", "1"),
        ];
        let inherited = inheritable(own.into_iter().map(|(name, value)| (name.into(), value.into())));
        let names: Vec<_> = inherited.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["PATH", "HOME", "KEPT"]);
        let long = [("A", "x".repeat(INHERITED_ENV_BYTES_MAX)), ("B", String::new())];
        assert_eq!(inheritable(long.into_iter().map(|(name, value)| (name.into(), value.into()))).len(), 1);
        let around = Surroundings { user: "u".into(), home: "/h".into(), zone: "UTC".into(), inherited };
        let spec = serde_json::json!({"schema": "qinglong/command@v1", "config": {
            "command": {"kind": "shell", "command": "env"}, "environmentPolicy": "inherit",
            "environment": [{"name": "KEPT", "kind": "public", "value": "mine"}]}});
        let Ok(command) = Command::from_spec(&spec) else { panic!("refused") };
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
        let value = |got: &[(String, String)], name: &str| got.iter().find(|(n, _)| n == name).unwrap().1.clone();
        let got = environment(&around, None, &of);
        assert_eq!(
            ["PATH", "HOME", "KEPT", "LANG"].map(|n| value(&got, n)),
            ["/opt/bin", "/daemon", "mine", "C.UTF-8"]
        );
        let person = Person { name: "http", home: "/www", shell: "/bin/false" };
        let got = environment(&around, Some(person), &of);
        let said = ["HOME", "USER", "LOGNAME", "SHELL"].map(|n| value(&got, n));
        assert_eq!(said, ["/www", "http", "http", "/bin/false"]);
    }
}
