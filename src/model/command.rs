//! `qinglong/command@v1`: what a task runs, checked and in its one canonical form
//! (spec/control section 3, design D14).
//!
//! A field that is not known is refused by name, never ignored: a timeout that is accepted and not
//! kept would be a lie.

use super::confinement::Confinement;
use super::limits;
use super::name::is_variable_name;
use super::retry::Retry;
use super::secret::SecretRef;
use serde_json::{Map, Value, json};
use std::fmt;

/// The schema name of a command spec.
pub const SCHEMA: &str = "qinglong/command@v1";
/// The kind a task with that schema has.
pub const KIND: &str = "command";

/// What to execute.
#[derive(Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments, passed byte for byte.
    Argv {
        /// An absolute path.
        file: String,
        /// The arguments after the program's own name.
        args: Vec<String>,
    },
    /// A text for a shell.
    Shell {
        /// The text, given to the shell as `-c`.
        command: String,
        /// `/bin/sh` or `/bin/bash`.
        shell: &'static str,
    },
}

/// What becomes of the processes that the main process leaves behind when it ends by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Leftovers {
    /// They are ended too.
    #[default]
    Kill,
    /// They live on, and are nobody's run any more.
    Keep,
}

impl Leftovers {
    /// Reads the word of a spec or of the command line.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "kill" => Some(Self::Kill),
            "keep" => Some(Self::Keep),
            _ => None,
        }
    }

    /// The word in a spec.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Keep => "keep",
        }
    }
}

/// The value of one of a task's own variables.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnvValue {
    /// It stands in the task.
    Public(String),
    /// It is a secret's, put in when the task starts.
    Secret(SecretRef),
}

/// A checked command spec. It has no `Debug`, because environment values must not reach a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// What to execute.
    pub program: Program,
    /// The task's own environment, sorted by name.
    pub environment: Vec<(String, EnvValue)>,
    /// Where to start, an absolute path; `/` when absent.
    pub working_directory: Option<String>,
    /// Between TERM and KILL.
    pub grace_ms: i64,
    /// The task's own log cap, below the device's.
    pub log_bytes: Option<i64>,
    /// After so long it is stopped; never when absent.
    pub timeout_ms: Option<i64>,
    /// What becomes of what its main process leaves behind.
    pub leftovers: Leftovers,
    /// When it is tried again by itself; never when absent.
    pub retry: Option<Retry>,
    /// Whether a secret's value is replaced where the task prints it.
    pub redact: bool,
    /// Whether it gets the daemon's own environment too (`environmentPolicy: "inherit"`).
    pub inherit: bool,
    /// How it is held apart from the rest of the machine.
    pub confinement: Confinement,
}

/// Why a spec was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecError {
    /// The field is known but this version does not have what it asks for.
    Unsupported {
        /// The field's path.
        field: &'static str,
    },
    /// The field breaks a rule.
    Invalid {
        /// The field's path.
        field: String,
        /// The rule it breaks.
        why: String,
    },
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { field } => write!(f, "{field} is not supported by this version; leave it out"),
            Self::Invalid { field, why } => write!(f, "{field}: {why}"),
        }
    }
}

/// Every field of `config` there is. A test walks this list: each accepted field has a behaviour.
const FIELDS: &[&str] = &[
    "command",
    "environment",
    "environmentPolicy",
    "workingDirectory",
    "terminationGraceMs",
    "logBytes",
    "timeoutMs",
    "leftovers",
    "retry",
    "requires",
    "runAs",
    "nice",
    "oomScoreAdj",
    "redact",
];

fn invalid<T>(field: impl Into<String>, why: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError::Invalid { field: field.into(), why: why.into() })
}

impl Command {
    /// Reads `{schema, config}`. The error names the first field that is wrong.
    pub fn from_spec(spec: &Value) -> Result<Self, SpecError> {
        let Some(envelope) = spec.as_object() else { return invalid("spec", "must be an object") };
        if let Some(key) = envelope.keys().find(|k| !matches!(k.as_str(), "schema" | "config")) {
            return invalid(format!("spec.{key}"), "unknown field; there are `schema` and `config`");
        }
        match envelope.get("schema").and_then(Value::as_str) {
            Some(SCHEMA) => {}
            Some(_) => return Err(SpecError::Unsupported { field: "spec.schema (other than qinglong/command@v1)" }),
            None => return invalid("spec.schema", format!("must be \"{SCHEMA}\"")),
        }
        let Some(config) = envelope.get("config").and_then(Value::as_object) else {
            return invalid("spec.config", "must be an object");
        };
        for key in config.keys() {
            if !FIELDS.contains(&key.as_str()) {
                return invalid(key, format!("unknown field; the nearest known one is `{}`", nearest(key)));
            }
        }
        let inherit = match config.get("environmentPolicy").map(Value::as_str) {
            None | Some(Some("isolated")) => false,
            Some(Some("inherit")) => true,
            Some(_) => return invalid("environmentPolicy", "must be \"isolated\" or \"inherit\""),
        };
        let command = Self {
            program: program(config.get("command"))?,
            environment: environment(config.get("environment"))?,
            working_directory: config.get("workingDirectory").map(|v| path("workingDirectory", Some(v))).transpose()?,
            grace_ms: integer(config, "terminationGraceMs", 0, limits::GRACE_MS_MAX)?
                .unwrap_or(limits::GRACE_MS_DEFAULT),
            log_bytes: integer(config, "logBytes", limits::LOG_BYTES_MIN, limits::LOG_BYTES_MAX)?,
            timeout_ms: integer(config, "timeoutMs", 1, limits::TIMEOUT_MS_MAX)?,
            leftovers: leftovers(config.get("leftovers"))?,
            retry: config.get("retry").map(retry).transpose()?,
            redact: flag(config, "redact")?.unwrap_or(true),
            inherit,
            confinement: Confinement::read(config).map_err(|(field, why)| SpecError::Invalid { field, why })?,
        };
        if command.to_spec().to_string().len() > limits::SPEC_BYTES_MAX {
            return invalid("spec", format!("longer than {} bytes in all", limits::SPEC_BYTES_MAX));
        }
        Ok(command)
    }

    /// The canonical `{schema, config}`: defaults filled in, environment sorted. Its
    /// [`canonical`](super::json::canonical) text is what is stored and digested.
    pub fn to_spec(&self) -> Value {
        let mut config = Map::new();
        config.insert(
            "command".into(),
            match &self.program {
                Program::Argv { file, args } => json!({"kind": "argv", "file": file, "args": args}),
                Program::Shell { command, shell } => json!({"kind": "shell", "command": command, "shell": shell}),
            },
        );
        let entries = self.environment.iter();
        let entries = entries.map(|(name, value)| match value {
            EnvValue::Public(value) => json!({"name": name, "kind": "public", "value": value}),
            EnvValue::Secret(secret) => json!({"name": name, "kind": "secret", "secretRef": secret.to_string()}),
        });
        config.insert("environment".into(), entries.collect());
        config.insert("environmentPolicy".into(), if self.inherit { "inherit" } else { "isolated" }.into());
        config.insert("leftovers".into(), self.leftovers.word().into());
        config.insert("terminationGraceMs".into(), self.grace_ms.into());
        if let Some(path) = &self.working_directory {
            config.insert("workingDirectory".into(), path.as_str().into());
        }
        if let Some(bytes) = self.log_bytes {
            config.insert("logBytes".into(), bytes.into());
        }
        if let Some(timeout_ms) = self.timeout_ms {
            config.insert("timeoutMs".into(), timeout_ms.into());
        }
        if let Some(retry) = &self.retry {
            config.insert("retry".into(), retry.to_value());
        }
        // What was stored before there were secrets must stay the same text.
        if !self.redact {
            config.insert("redact".into(), false.into());
        }
        self.confinement.write(&mut config);
        json!({"schema": SCHEMA, "config": config})
    }

    /// The secrets it uses, each once, in order.
    pub fn secrets(&self) -> Vec<&SecretRef> {
        let mut secrets: Vec<&SecretRef> = self.environment.iter().filter_map(|(_, value)| value.secret()).collect();
        secrets.sort();
        secrets.dedup();
        secrets
    }

    /// The argument vector that is executed; its first entry is the program's path.
    pub fn argv(&self) -> Vec<&str> {
        match &self.program {
            Program::Argv { file, args } => std::iter::once(file).chain(args).map(String::as_str).collect(),
            Program::Shell { command, shell } => vec![shell, "-c", command],
        }
    }
}

impl EnvValue {
    /// The secret it is taken from, if so.
    pub const fn secret(&self) -> Option<&SecretRef> {
        match self {
            Self::Public(_) => None,
            Self::Secret(secret) => Some(secret),
        }
    }

    /// What it takes of the task's own bounds.
    fn len(&self) -> usize {
        match self {
            Self::Public(value) => value.len(),
            Self::Secret(_) => 0,
        }
    }
}

fn retry(value: &Value) -> Result<Retry, SpecError> {
    Retry::read(value).map_err(|(field, why)| SpecError::Invalid { field, why })
}

fn text<'a>(field: &str, value: Option<&'a Value>) -> Result<&'a str, SpecError> {
    match value.and_then(Value::as_str) {
        Some(text) if text.contains('\0') => invalid(field, "must not contain a NUL character"),
        Some(text) => Ok(text),
        None => invalid(field, "must be a string"),
    }
}

/// One argument, or a shell's text.
fn word<'a>(field: &str, value: Option<&'a Value>) -> Result<&'a str, SpecError> {
    let word = text(field, value)?;
    if word.len() > limits::ARG_BYTES_MAX {
        return invalid(field, format!("has {} bytes; {} is the most", word.len(), limits::ARG_BYTES_MAX));
    }
    Ok(word)
}

fn path(field: &str, value: Option<&Value>) -> Result<String, SpecError> {
    let path = text(field, value)?;
    if !path.starts_with('/') || path.len() >= limits::PATH_BYTES_MAX {
        return invalid(field, format!("must be an absolute path shorter than {} bytes", limits::PATH_BYTES_MAX));
    }
    Ok(path.into())
}

fn integer(config: &Map<String, Value>, field: &str, min: i64, max: i64) -> Result<Option<i64>, SpecError> {
    match config.get(field).map(Value::as_i64) {
        None => Ok(None),
        Some(Some(value)) if (min..=max).contains(&value) => Ok(Some(value)),
        Some(_) => invalid(field, format!("must be a whole number from {min} to {max}")),
    }
}

fn flag(config: &Map<String, Value>, field: &str) -> Result<Option<bool>, SpecError> {
    match config.get(field).map(Value::as_bool) {
        None => Ok(None),
        Some(Some(value)) => Ok(Some(value)),
        Some(None) => invalid(field, "must be true or false"),
    }
}

fn leftovers(value: Option<&Value>) -> Result<Leftovers, SpecError> {
    let Some(value) = value else { return Ok(Leftovers::default()) };
    match value.as_str().and_then(Leftovers::parse) {
        Some(leftovers) => Ok(leftovers),
        None => invalid("leftovers", "must be \"kill\" or \"keep\""),
    }
}

fn only(field: &str, object: &Map<String, Value>, known: &[&str]) -> Result<(), SpecError> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => invalid(format!("{field}.{key}"), format!("unknown field; there are {}", known.join(", "))),
        None => Ok(()),
    }
}

fn program(value: Option<&Value>) -> Result<Program, SpecError> {
    let Some(object) = value.and_then(Value::as_object) else {
        return invalid("command", "must be an object with kind \"argv\" or \"shell\"");
    };
    let program = match object.get("kind").and_then(Value::as_str) {
        Some("argv") => {
            only("command", object, &["kind", "file", "args"])?;
            let file = path("command.file", object.get("file"))?;
            let Some(list) = object.get("args").and_then(Value::as_array) else {
                return invalid("command.args", "must be a list of strings (an empty list is fine)");
            };
            if list.len() > limits::ARGS_MAX {
                return invalid(
                    "command.args",
                    format!("has {} entries; {} is the most", list.len(), limits::ARGS_MAX),
                );
            }
            let args = list.iter().enumerate();
            let args = args.map(|(i, arg)| word(&format!("command.args[{i}]"), Some(arg)).map(str::to_owned));
            Program::Argv { file, args: args.collect::<Result<_, _>>()? }
        }
        Some("shell") => {
            only("command", object, &["kind", "command", "shell"])?;
            let shell = match object.get("shell").map(Value::as_str) {
                None | Some(Some("/bin/sh")) => "/bin/sh",
                Some(Some("/bin/bash")) => "/bin/bash",
                Some(_) => return invalid("command.shell", "must be /bin/sh or /bin/bash"),
            };
            let command = word("command.command", object.get("command"))?;
            if command.is_empty() {
                return invalid("command.command", "must not be empty");
            }
            Program::Shell { command: command.into(), shell }
        }
        _ => return invalid("command.kind", "must be \"argv\" or \"shell\""),
    };
    let bytes: usize = match &program {
        Program::Argv { file, args } => file.len() + 1 + args.iter().map(|arg| arg.len() + 1).sum::<usize>(),
        Program::Shell { command, .. } => command.len() + 1,
    };
    if bytes > limits::COMMAND_BYTES_MAX {
        return invalid("command", format!("takes {bytes} bytes; {} is the most", limits::COMMAND_BYTES_MAX));
    }
    Ok(program)
}

fn environment(value: Option<&Value>) -> Result<Vec<(String, EnvValue)>, SpecError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let Some(list) = value.as_array() else { return invalid("environment", "must be a list") };
    if list.len() > limits::ENV_ENTRIES_MAX {
        return invalid("environment", format!("has {} entries; {} is the most", list.len(), limits::ENV_ENTRIES_MAX));
    }
    let mut entries = Vec::with_capacity(list.len());
    for (i, entry) in list.iter().enumerate() {
        let field = format!("environment[{i}]");
        let Some(entry) = entry.as_object() else { return invalid(field, "must be an object") };
        let is_secret = match entry.get("kind").and_then(Value::as_str) {
            Some("public") => false,
            Some("secret") => true,
            _ => return invalid(format!("{field}.kind"), "must be \"public\" or \"secret\""),
        };
        only(&field, entry, if is_secret { &["name", "kind", "secretRef"] } else { &["name", "kind", "value"] })?;
        let name = text(&format!("{field}.name"), entry.get("name"))?;
        if !is_variable_name(name) {
            return invalid(format!("{field}.name"), "must be letters, digits and '_', not starting with a digit");
        }
        if name.starts_with("QL3_") || name.starts_with("QINGLET_") {
            return invalid(
                format!("{field}.name"),
                format!("{name}: names starting with QL3_ and QINGLET_ are reserved"),
            );
        }
        if is_secret {
            let text = text(&format!("{field}.secretRef"), entry.get("secretRef"))?;
            let Some(secret) = SecretRef::parse(text) else {
                return invalid(
                    format!("{field}.secretRef"),
                    format!("{name}: must be a canonical qlsecret:v1 reference"),
                );
            };
            entries.push((name.to_owned(), EnvValue::Secret(secret)));
            continue;
        }
        let value = text(&format!("{field}.value"), entry.get("value"))?;
        if value.len() > limits::ENV_VALUE_BYTES_MAX {
            return invalid(
                format!("{field}.value"),
                format!("{name}: {} bytes; {} is the most", value.len(), limits::ENV_VALUE_BYTES_MAX),
            );
        }
        entries.push((name.to_owned(), EnvValue::Public(value.to_owned())));
    }
    entries.sort();
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return invalid("environment", format!("{} is set twice", pair[0].0));
    }
    let bytes: usize = entries.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if bytes > limits::ENV_BYTES_MAX {
        return invalid("environment", format!("takes {bytes} bytes; {} is the most", limits::ENV_BYTES_MAX));
    }
    let secrets = entries.iter().filter(|(_, value)| value.secret().is_some()).count();
    if secrets > limits::SECRET_REFS_MAX {
        return invalid("environment", format!("uses {secrets} secrets; {} is the most", limits::SECRET_REFS_MAX));
    }
    Ok(entries)
}

/// The known field that shares the most leading and trailing letters with `key`.
fn nearest(key: &str) -> &'static str {
    let alike = |name: &str| {
        let front = name.bytes().zip(key.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        let back = name.bytes().rev().zip(key.bytes().rev()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        front + back
    };
    FIELDS.iter().copied().max_by_key(|name| alike(name)).unwrap_or("command")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(config: &Value) -> Value {
        json!({"schema": SCHEMA, "config": config})
    }

    fn refusal(config: &Value) -> String {
        match Command::from_spec(&spec(config)) {
            Ok(_) => panic!("accepted: {config}"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn command_v1_vectors() {
        let full = spec(&json!({
            "workingDirectory": "/tmp",
            "environment": [
                {"name": "Z", "kind": "public", "value": ""},
                {"name": "A", "kind": "public", "value": "x\ny\"\\"},
            ],
            "command": {"kind": "argv", "file": "/bin/echo", "args": ["", "a b", "'\"\n"]},
        }));
        let Ok(command) = Command::from_spec(&full) else { panic!("refused") };
        assert_eq!(command.argv(), ["/bin/echo", "", "a b", "'\"\n"]);
        assert_eq!(command.environment[0].0, "A");
        let canonical = command.to_spec();
        assert!(Command::from_spec(&canonical).is_ok_and(|again| again == command), "canonical form reads back");
        let Ok(shell) = Command::from_spec(&spec(&json!({"command": {"kind": "shell", "command": "date"}}))) else {
            panic!("refused")
        };
        assert_eq!(shell.argv(), ["/bin/sh", "-c", "date"]);
        assert_eq!(shell.to_spec()["config"]["command"]["shell"], "/bin/sh", "the default is filled in");
        assert_eq!(shell.to_spec()["config"]["leftovers"], "kill", "and what has always been so is said");
        let mut keep = canonical;
        keep["config"]["leftovers"] = "keep".into();
        let Ok(kept) = Command::from_spec(&keep) else { panic!("refused") };
        assert_eq!((kept.leftovers, kept.to_spec()), (Leftovers::Keep, keep));
    }

    #[test]
    fn every_known_field_names_itself_when_it_is_wrong() {
        let with = |field: &str, value: Value| {
            let mut config = json!({"command": {"kind": "shell", "command": "true"}});
            config[field] = value;
            config
        };
        for field in FIELDS {
            let words = refusal(&with(field, json!({"nonsense": 1})));
            assert!(words.contains(field), "{field}: {words}");
        }
        let secret = with("environment", json!([{"name": "A", "kind": "secret", "secretRef": "x"}]));
        assert!(refusal(&secret).contains("environment[0].secretRef: A: must be a canonical"));
        assert!(refusal(&with("timeOutMs", json!(1))).contains("`timeoutMs`"));
    }

    #[test]
    fn what_confines_is_said_only_when_given_so_that_old_digests_stay() {
        let Ok(plain) = Command::from_spec(&spec(&json!({"command": {"kind": "shell", "command": "true"}}))) else {
            panic!("refused")
        };
        let known: Vec<_> = plain.to_spec()["config"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(known, ["command", "environment", "environmentPolicy", "leftovers", "terminationGraceMs"]);
        let full = spec(&json!({
            "command": {"kind": "shell", "command": "true"}, "environmentPolicy": "inherit", "nice": 5,
            "oomScoreAdj": -5, "runAs": "u:g", "requires": {"memoryBytes": 8_388_608, "pids": 5, "cpuPercent": 50},
        }));
        let Ok(command) = Command::from_spec(&full) else { panic!("refused") };
        assert!(command.inherit && command.confinement.nice == Some(5));
        for (field, value) in full["config"].as_object().unwrap() {
            if field != "command" {
                assert_eq!(command.to_spec()["config"][field], *value, "{field}");
            }
        }
        assert!(Command::from_spec(&command.to_spec()).is_ok_and(|again| again == command));
    }

    #[test]
    fn secrets_are_named_and_redaction_is_said_only_when_off() {
        let name = |text: &str| super::super::name::Name::parse(text).unwrap();
        let of = |text: &str, version| SecretRef { project: name("default"), name: name(text), version };
        let entry = |variable: String, secret: &SecretRef| json!({"name": variable, "kind": "secret", "secretRef": secret.to_string()});
        let base = json!({"kind": "shell", "command": "true"});
        let spec_of = |entries: Vec<Value>| spec(&json!({"command": base, "environment": entries, "redact": false}));
        let entries = [("A", of("s", None)), ("B", of("s", None)), ("C", of("s", Some(2)))];
        let entries = entries.map(|(variable, secret)| entry(variable.into(), &secret));
        let Ok(command) = Command::from_spec(&spec_of(entries.into())) else { panic!("refused") };
        assert_eq!(command.secrets(), [&of("s", None), &of("s", Some(2))], "each once");
        assert_eq!(command.to_spec()["config"]["redact"], false);
        assert!(Command::from_spec(&command.to_spec()).is_ok_and(|again| again == command));
        let many = |count: usize| (0..count).map(|n| entry(format!("V{n}"), &of("s", None))).collect();
        assert!(Command::from_spec(&spec_of(many(64))).is_ok());
        assert!(refusal(&spec_of(many(65))["config"]).contains("uses 65 secrets"));
        assert!(refusal(&json!({"command": base, "redact": 1})).contains("true or false"));
    }

    #[test]
    fn one_byte_or_one_argument_more_is_refused_by_name() {
        let argv = |args: Vec<String>| json!({"command": {"kind": "argv", "file": "/a", "args": args}});
        assert!(Command::from_spec(&spec(&argv(vec![String::new(); 256]))).is_ok());
        assert!(refusal(&argv(vec![String::new(); 257])).starts_with("command.args: has 257"));
        let fits = limits::COMMAND_BYTES_MAX - 3 - 1 - 3 * 16_384;
        let long = |last: usize| {
            let mut list = vec!["x".repeat(16_383); 3];
            list.push("x".repeat(last));
            argv(list)
        };
        assert!(program(Some(&long(fits)["command"])).is_ok());
        assert!(refusal(&long(fits + 1)).starts_with("command: takes 65537"));
        let env = |value: usize| {
            json!({"command": {"kind": "shell", "command": "true"},
                "environment": [{"name": "BIG", "kind": "public", "value": "x".repeat(value)}]})
        };
        assert!(Command::from_spec(&spec(&env(16 * 1024))).is_ok());
        assert!(refusal(&env(16 * 1024 + 1)).contains("BIG: 16385 bytes"));
    }

    #[test]
    fn names_paths_and_texts_follow_their_rules() {
        let base = json!({"kind": "shell", "command": "true"});
        let env = |name: &str| json!({"command": base, "environment": [{"name": name, "kind": "public", "value": ""}]});
        for name in ["QL3_X", "QINGLET_RUN_ID", "1A", "A=B", ""] {
            assert!(refusal(&env(name)).contains("environment[0].name"), "{name}");
        }
        let twice = json!({"command": base, "environment": [
            {"name": "A", "kind": "public", "value": "1"}, {"name": "A", "kind": "public", "value": "2"}]});
        assert!(refusal(&twice).contains("A is set twice"));
        assert!(refusal(&json!({"command": base, "workingDirectory": "tmp"})).contains("absolute"));
        assert!(refusal(&json!({"command": {"kind": "argv", "file": "ls", "args": []}})).contains("command.file"));
        assert!(refusal(&json!({"command": {"kind": "shell", "command": "a\0b"}})).contains("NUL"));
        assert!(
            refusal(&json!({"command": {"kind": "shell", "command": "x", "shell": "/bin/zsh"}})).contains("/bin/bash")
        );
        assert!(refusal(&json!({"command": base, "terminationGraceMs": 300_001})).contains("300000"));
    }
}
