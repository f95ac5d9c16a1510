//! Task definitions: what a client may say about a task, and how one revision is digested.

use super::command::{self, Command, SpecError};
use super::digest::Digest;
use super::id::MutationId;
use super::json::canonical;
use super::limits;
use super::name::Name;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// The domain of a task revision's content digest (design D14).
pub const TASK_DOMAIN: &str = "qinglong.task-definition.v1";
/// The domain of an execution revision's content digest (spec/control section 3).
pub const EXECUTION_DOMAIN: &str = "qinglong.local-task-execution-revision.v1";
/// The domain of a context recipe's digest (spec/execution section 10).
pub const CONTEXT_DOMAIN: &str = "qinglong.local-context.v1";

/// One task as somebody wants it to be. Checked; no `Debug`, because it holds an environment.
#[derive(Clone, PartialEq, Eq)]
pub struct Definition {
    /// What people call it.
    pub title: String,
    /// What it is for.
    pub description: Option<String>,
    /// What it runs.
    pub command: Command,
    /// Marks of the owner's own.
    pub labels: BTreeMap<String, String>,
    /// Whether it may be started.
    pub enabled: bool,
}

/// A definition and the conditions under which it is to be stored.
#[derive(Clone, PartialEq, Eq)]
pub struct TaskPut {
    /// Which task.
    pub task: Name,
    /// The mutation's own name.
    pub mutation: MutationId,
    /// The revision it replaces; `None` creates.
    pub expected_revision: Option<i64>,
    /// What it becomes.
    pub definition: Definition,
    /// Its triggers shall start this revision from now on; otherwise they start nothing until they
    /// are set anew.
    pub repin: bool,
}

/// A task revision's public reference: `qltd:v1:<revision>:<contentDigest>`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskRef {
    /// 1..=2147483647.
    pub revision: i64,
    /// The revision's content digest.
    pub digest: Digest,
}

impl TaskRef {
    /// Reads the one canonical form: no leading zeros, lower case, in range.
    pub fn parse(text: &str) -> Option<Self> {
        let (revision, digest) = text.strip_prefix("qltd:v1:")?.split_once(':')?;
        let task_ref = Self { revision: revision.parse().ok()?, digest: Digest::parse(digest)? };
        (is_revision(task_ref.revision) && task_ref.to_string() == text).then_some(task_ref)
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "qltd:v1:{}:{}", self.revision, self.digest)
    }
}

/// Whether a number is a revision.
pub fn is_revision(revision: i64) -> bool {
    (1..=limits::REVISION_MAX).contains(&revision)
}

impl Definition {
    /// Checks what a client sent. The error names the field.
    pub fn check(
        title: String,
        description: Option<String>,
        kind: &str,
        spec: &Value,
        labels: BTreeMap<String, String>,
        enabled: bool,
    ) -> Result<Self, SpecError> {
        let invalid = |field: &str, why: String| SpecError::Invalid { field: field.into(), why };
        let plain = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
        if title.is_empty() || title.len() > limits::TITLE_BYTES_MAX || title.chars().any(char::is_control) {
            let why = format!("must be 1 to {} bytes without control characters", limits::TITLE_BYTES_MAX);
            return Err(invalid("name", why));
        }
        if let Some(text) = &description
            && (text.len() > limits::DESCRIPTION_BYTES_MAX || !plain(text))
        {
            let why = format!("must be at most {} bytes of plain text", limits::DESCRIPTION_BYTES_MAX);
            return Err(invalid("description", why));
        }
        if kind != command::KIND {
            return Err(SpecError::Unsupported { field: "kind (other than command)" });
        }
        if labels.len() > limits::LABELS_MAX {
            return Err(invalid("labels", format!("there are {}; {} is the most", labels.len(), limits::LABELS_MAX)));
        }
        for (name, value) in &labels {
            if Name::parse(name).is_none() || name.len() > limits::LABEL_NAME_BYTES_MAX {
                let why = format!(
                    "a label's name must be {} bytes at most of letters, digits, '.', '_', '-'",
                    limits::LABEL_NAME_BYTES_MAX
                );
                return Err(invalid("labels", why));
            }
            if value.len() > limits::LABEL_VALUE_BYTES_MAX || value.chars().any(char::is_control) {
                let why = format!("must be at most {} bytes without control characters", limits::LABEL_VALUE_BYTES_MAX);
                return Err(invalid(&format!("labels.{name}"), why));
            }
        }
        Ok(Self { title, description, command: Command::from_spec(spec)?, labels, enabled })
    }

    /// The canonical text that is stored and digested for one revision: everything the revision
    /// means, without mutation id and times.
    pub fn canonical(&self, project: &Name, task: &Name, revision: i64) -> String {
        canonical(&json!({
            "projectId": project.as_str(),
            "taskId": task.as_str(),
            "revision": revision,
            "name": self.title,
            "description": self.description,
            "kind": command::KIND,
            "spec": self.command.to_spec(),
            "labels": self.labels,
            "enabled": self.enabled,
        }))
    }

    /// Reads a revision's canonical text back. `None` when it is not exactly what
    /// [`canonical`](Self::canonical) would write, so that a damaged record is seen as damaged.
    pub fn from_canonical(text: &str, project: &Name, task: &Name, revision: i64) -> Option<Self> {
        let value = super::json::parse(text.as_bytes()).ok()?;
        let description = match value.get("description")? {
            Value::Null => None,
            other => Some(other.as_str()?.to_owned()),
        };
        let labels = value.get("labels")?.as_object()?.iter();
        let labels = labels.map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect::<Option<_>>()?;
        let title = value.get("name")?.as_str()?.to_owned();
        let enabled = value.get("enabled")?.as_bool()?;
        let kind = value.get("kind")?.as_str()?;
        let definition = Self::check(title, description, kind, value.get("spec")?, labels, enabled).ok()?;
        (definition.canonical(project, task, revision) == text).then_some(definition)
    }

    /// The content digest of a revision's canonical text.
    pub fn digest(canonical: &str) -> Digest {
        Digest::of(TASK_DOMAIN, canonical.as_bytes())
    }
}

/// The immutable inputs of a launch, compiled from one enabled revision: pure, so that the same
/// revision always compiles to the same bytes (spec/control section 3).
#[derive(Clone, PartialEq, Eq)]
pub struct Compiled {
    /// `localctx:sha256:<digest>` over the sorted bindings.
    pub context_ref: String,
    /// The bindings' canonical JSON.
    pub context: String,
    /// The execution revision's canonical JSON.
    pub execution: String,
    /// The execution revision's content digest.
    pub execution_digest: Digest,
}

impl Compiled {
    /// Compiles a command for one task revision.
    pub fn new(command: &Command, project: &Name, task: &Name, task_ref: TaskRef) -> Self {
        let mut spec = command.to_spec();
        let context = canonical(&spec["config"]["environment"]);
        let context_ref = format!("localctx:sha256:{}", Digest::of(CONTEXT_DOMAIN, context.as_bytes()));
        let mut config = spec["config"].take();
        if let Some(config) = config.as_object_mut() {
            config.remove("environment");
        }
        let execution = canonical(&json!({
            "projectId": project.as_str(),
            "taskId": task.as_str(),
            "taskRevision": task_ref.to_string(),
            "executorType": "local_process",
            "config": config,
            "contextRef": context_ref,
        }));
        let execution_digest = Digest::of(EXECUTION_DOMAIN, execution.as_bytes());
        Self { context_ref, context, execution, execution_digest }
    }

    /// Reads the stored inputs back into a command. `None` when they are not exactly what
    /// [`new`](Self::new) writes.
    pub fn to_command(&self, project: &Name, task: &Name, task_ref: TaskRef) -> Option<Command> {
        let mut execution = super::json::parse(self.execution.as_bytes()).ok()?;
        let mut config = execution.get_mut("config")?.take();
        let context = super::json::parse(self.context.as_bytes()).ok()?;
        config.as_object_mut()?.insert("environment".into(), context);
        let command = Command::from_spec(&json!({"schema": command::SCHEMA, "config": config})).ok()?;
        (Self::new(&command, project, task, task_ref) == *self).then_some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> Definition {
        let spec = json!({"schema": command::SCHEMA, "config": {
            "command": {"kind": "argv", "file": "/bin/echo", "args": ["hi", ""]},
            "environment": [{"name": "B", "kind": "public", "value": "2"}, {"name": "A", "kind": "public", "value": "1"}],
        }});
        Definition::check("Say hi".into(), None, "command", &spec, BTreeMap::new(), true)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// Frozen: a digest that changes orphans every stored task. tests/data/digests.txt holds the
    /// same vectors with their canonical texts.
    #[test]
    fn task_digest_vectors() {
        let (project, task) = (Name::default_project(), Name::parse("hello").unwrap());
        let text = definition().canonical(&project, &task, 1);
        let digest = Definition::digest(&text);
        let compiled = Compiled::new(&definition().command, &project, &task, TaskRef { revision: 1, digest });
        let got = format!(
            "task {digest}\n{text}\ncontext {}\n{}\nexecution {}\n{}\n",
            compiled.context_ref, compiled.context, compiled.execution_digest, compiled.execution,
        );
        assert_eq!(got, include_str!("../../tests/data/digests.txt"));
    }

    /// What does not run has no part in what is run: another title is the same execution, another
    /// argument is another.
    #[test]
    fn execution_digest_vectors() {
        let (project, task) = (Name::default_project(), Name::parse("hello").unwrap());
        let digest = Definition::digest(&definition().canonical(&project, &task, 1));
        let compiled = |definition: &Definition| {
            Compiled::new(&definition.command, &project, &task, TaskRef { revision: 1, digest })
        };
        let vector = include_str!("../../tests/data/digests.txt").lines().skip(4).collect::<Vec<_>>();
        let said =
            |compiled: &Compiled| [format!("execution {}", compiled.execution_digest), compiled.execution.clone()];
        assert_eq!(vector, said(&compiled(&definition())));
        let other = Definition { title: "Other".into(), ..definition() };
        assert_eq!(vector, said(&compiled(&other)));
        let bent = compiled(&definition()).execution.replace("\"hi\"", "\"ho\"");
        assert_ne!(Digest::of(EXECUTION_DOMAIN, bent.as_bytes()), compiled(&definition()).execution_digest);
    }

    #[test]
    fn what_is_stored_reads_back_exactly_or_not_at_all() {
        let (project, task) = (Name::default_project(), Name::parse("hello").unwrap());
        let text = definition().canonical(&project, &task, 7);
        assert!(Definition::from_canonical(&text, &project, &task, 7).is_some_and(|d| d == definition()));
        assert!(Definition::from_canonical(&text, &project, &task, 8).is_none(), "another revision's text");
        let spaced = text.replace(",\"kind\"", ", \"kind\"");
        assert!(Definition::from_canonical(&spaced, &project, &task, 7).is_none(), "not canonical");
        let task_ref = TaskRef { revision: 7, digest: Definition::digest(&text) };
        let compiled = Compiled::new(&definition().command, &project, &task, task_ref);
        assert!(compiled.to_command(&project, &task, task_ref).is_some_and(|c| c == definition().command));
        let mut bent = compiled.clone();
        bent.context = bent.context.replace("\"2\"", "\"3\"");
        assert!(bent.to_command(&project, &task, task_ref).is_none());
    }

    #[test]
    fn a_task_reference_has_one_form() {
        let text = format!("qltd:v1:12:{}", Digest::of("d", b""));
        assert_eq!(TaskRef::parse(&text).unwrap().to_string(), text);
        for bad in [
            text.replace(":12:", ":012:"),
            text.replace(":12:", ":0:"),
            text.replace(":12:", ":2147483648:"),
            text.to_uppercase(),
        ] {
            assert_eq!(TaskRef::parse(&bad), None, "{bad}");
        }
    }
}
