//! What starts tasks by itself: a trigger's definition, checked and in its one canonical form
//! (spec/control section 4, design D10). Whether an expression and a zone mean something is for
//! `schedule` to say.

use super::command::SpecError;
use super::digest::Digest;
use super::json::canonical;
use super::life::RunState;
use super::limits;
use super::name::Name;
use super::task::TaskRef;
use serde_json::{Map, Value, json};

/// The domain of a trigger revision's content digest (spec/control section 4).
pub const TRIGGER_DOMAIN: &str = "qinglong.trigger-definition.v1";
/// Starts at the instants of an expression.
pub const CRON_SCHEMA: &str = "qinglong/cron@v1";
/// Starts once each boot.
pub const BOOT_SCHEMA: &str = "qinglong/boot@v1";
/// Starts when a run of a task has ended.
pub const RUN_FINISHED_SCHEMA: &str = "qinglong/run-finished@v1";

/// When it starts its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// At the instants of an expression in a zone.
    Cron {
        /// 5 fields, or 6 with leading seconds, one space between them.
        expression: String,
        /// An IANA name or a POSIX string.
        zone: String,
        /// What becomes of an instant that was missed.
        misfire: Misfire,
    },
    /// Once each boot, when the daemon has started.
    Boot,
    /// When a run of this task has ended so.
    RunFinished {
        /// Whose runs.
        task: Name,
        /// Which ends, in the order of [`OUTCOMES`].
        outcomes: Vec<RunState>,
    },
}

/// The ends that a trigger can wait for. Lost is one: somebody may want to be told.
pub const OUTCOMES: [RunState; 5] =
    [RunState::Succeeded, RunState::Failed, RunState::Cancelled, RunState::TimedOut, RunState::Lost];

/// What becomes of an instant that was missed by more than the profile's grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfire {
    /// Nothing.
    Skip,
    /// One run for all that were missed.
    FireOnce,
}

/// What becomes of an occurrence while a run of this trigger is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It is skipped.
    Skip,
    /// It starts beside the other.
    Allow,
    /// It waits for the other; one waits at most.
    Queue,
}

impl Misfire {
    const ALL: [Self; 2] = [Self::Skip, Self::FireOnce];

    /// The word of a definition.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::FireOnce => "fire_once",
        }
    }
}

impl Overlap {
    const ALL: [Self; 3] = [Self::Skip, Self::Allow, Self::Queue];

    /// The word of a definition.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Allow => "allow",
            Self::Queue => "queue",
        }
    }
}

/// A trigger as somebody wants it to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What it starts. A trigger never moves to another task.
    pub task: Name,
    /// The revision of the task that was seen; another one is not started.
    pub pin: TaskRef,
    /// When.
    pub when: When,
    /// What becomes of occurrences while the last run is not over.
    pub overlap: Overlap,
    /// Whether it starts anything.
    pub enabled: bool,
}

fn invalid<T>(field: impl Into<String>, why: impl Into<String>) -> Result<T, SpecError> {
    Err(SpecError::Invalid { field: field.into(), why: why.into() })
}

impl Trigger {
    /// Checks what a client sent but for the meaning of expression and zone. The error names the field.
    pub fn check(task: Name, pin: TaskRef, spec: &Value, enabled: bool) -> Result<Self, SpecError> {
        let Some(envelope) = spec.as_object() else { return invalid("spec", "must be an object") };
        if let Some(key) = envelope.keys().find(|key| !matches!(key.as_str(), "schema" | "config")) {
            return invalid(format!("spec.{key}"), "unknown field; there are `schema` and `config`");
        }
        let Some(config) = envelope.get("config").and_then(Value::as_object) else {
            return invalid("spec.config", "must be an object");
        };
        let when = match envelope.get("schema").and_then(Value::as_str) {
            Some(CRON_SCHEMA) => {
                known(config, &["expression", "timezone", "misfirePolicy", "overlap"])?;
                let expression = text(config, "expression", limits::CRON_BYTES_MAX)?;
                let words: Vec<&str> = expression.split_ascii_whitespace().collect();
                if words.is_empty() {
                    return invalid("expression", "must not be blank");
                }
                let misfire = chosen(config, "misfirePolicy", &Misfire::ALL, Misfire::word)?.unwrap_or(Misfire::Skip);
                let zone = text(config, "timezone", limits::ZONE_BYTES_MAX)?.to_owned();
                When::Cron { expression: words.join(" "), zone, misfire }
            }
            Some(BOOT_SCHEMA) => {
                known(config, &["overlap"])?;
                When::Boot
            }
            Some(RUN_FINISHED_SCHEMA) => {
                known(config, &["taskId", "outcomes", "overlap"])?;
                let task = config.get("taskId").and_then(Value::as_str).and_then(Name::parse);
                let Some(task) = task else { return invalid("taskId", "must be a task's id") };
                When::RunFinished { task, outcomes: outcomes(config)? }
            }
            Some(_) => {
                return Err(SpecError::Unsupported { field: "spec.schema (other than cron, boot, run-finished)" });
            }
            None => {
                let all = [CRON_SCHEMA, BOOT_SCHEMA, RUN_FINISHED_SCHEMA].join(", ");
                return invalid("spec.schema", format!("must be one of {all}"));
            }
        };
        let overlap = chosen(config, "overlap", &Overlap::ALL, Overlap::word)?.unwrap_or(Overlap::Skip);
        Ok(Self { task, pin, when, overlap, enabled })
    }

    /// The schema's name.
    pub const fn schema(&self) -> &'static str {
        match self.when {
            When::Cron { .. } => CRON_SCHEMA,
            When::Boot => BOOT_SCHEMA,
            When::RunFinished { .. } => RUN_FINISHED_SCHEMA,
        }
    }

    /// The canonical `{schema, config}`, defaults filled in.
    pub fn to_spec(&self) -> Value {
        let config = match &self.when {
            When::Cron { expression, zone, misfire } => json!({
                "expression": expression, "timezone": zone, "misfirePolicy": misfire.word(),
                "overlap": self.overlap.word(),
            }),
            When::Boot => json!({"overlap": self.overlap.word()}),
            When::RunFinished { task, outcomes } => {
                let words: Vec<&str> = outcomes.iter().map(|state| state.word()).collect();
                json!({"taskId": task.as_str(), "outcomes": words, "overlap": self.overlap.word()})
            }
        };
        json!({"schema": self.schema(), "config": config})
    }

    /// The canonical text that is stored and digested for one revision, without mutation id and times.
    pub fn canonical(&self, project: &Name, trigger: &Name, revision: i64) -> String {
        canonical(&json!({
            "projectId": project.as_str(),
            "triggerId": trigger.as_str(),
            "revision": revision,
            "taskId": self.task.as_str(),
            "taskRevision": self.pin.revision,
            "taskContentDigest": self.pin.digest.to_string(),
            "spec": self.to_spec(),
            "enabled": self.enabled,
        }))
    }

    /// Reads a revision's canonical text back; `None` when it is not exactly what
    /// [`canonical`](Self::canonical) writes.
    pub fn from_canonical(text: &str, project: &Name, trigger: &Name, revision: i64) -> Option<Self> {
        let value = super::json::parse(text.as_bytes()).ok()?;
        let task = Name::parse(value.get("taskId")?.as_str()?)?;
        let pin = TaskRef {
            revision: value.get("taskRevision")?.as_i64()?,
            digest: Digest::parse(value.get("taskContentDigest")?.as_str()?)?,
        };
        let read = Self::check(task, pin, value.get("spec")?, value.get("enabled")?.as_bool()?).ok()?;
        (read.canonical(project, trigger, revision) == text).then_some(read)
    }

    /// The content digest of a revision's canonical text.
    pub fn digest(canonical: &str) -> Digest {
        Digest::of(TRIGGER_DOMAIN, canonical.as_bytes())
    }
}

fn known(config: &Map<String, Value>, fields: &[&str]) -> Result<(), SpecError> {
    match config.keys().find(|key| !fields.contains(&key.as_str())) {
        Some(key) => invalid(key, format!("unknown field; there are {}", fields.join(", "))),
        None => Ok(()),
    }
}

fn text<'a>(config: &'a Map<String, Value>, field: &str, bytes_max: usize) -> Result<&'a str, SpecError> {
    match config.get(field).and_then(Value::as_str) {
        Some(text) if text.is_empty() || text.len() > bytes_max => {
            invalid(field, format!("must be 1 to {bytes_max} bytes"))
        }
        Some(text) => Ok(text),
        None => invalid(field, "must be a string"),
    }
}

fn chosen<T: Copy>(
    config: &Map<String, Value>,
    field: &str,
    all: &[T],
    word: fn(T) -> &'static str,
) -> Result<Option<T>, SpecError> {
    let Some(value) = config.get(field) else { return Ok(None) };
    match all.iter().find(|one| value == word(**one)) {
        Some(one) => Ok(Some(*one)),
        None => invalid(
            field,
            format!("must be one of {}", all.iter().map(|one| word(*one)).collect::<Vec<_>>().join(", ")),
        ),
    }
}

fn outcomes(config: &Map<String, Value>) -> Result<Vec<RunState>, SpecError> {
    let refused = || {
        let words = OUTCOMES.map(RunState::word).join(", ");
        invalid("outcomes", format!("must be a list of at least one of {words}, none twice"))
    };
    let Some(words) = config.get("outcomes").and_then(Value::as_array) else { return refused() };
    let chosen: Vec<_> = OUTCOMES.into_iter().filter(|state| words.iter().any(|word| word == state.word())).collect();
    if chosen.is_empty() || chosen.len() != words.len() {
        return refused();
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(spec: &Value) -> Result<Trigger, String> {
        let pin = TaskRef { revision: 3, digest: Digest::of("d", b"") };
        Trigger::check(Name::parse("t").unwrap(), pin, spec, true).map_err(|e| e.to_string())
    }

    fn cron(config: &Value) -> Value {
        json!({"schema": CRON_SCHEMA, "config": config})
    }

    #[test]
    fn every_form_reads_back_from_its_canonical_text_or_not_at_all() {
        let (project, id) = (Name::default_project(), Name::parse("nightly").unwrap());
        for spec in [
            cron(&json!({"expression": " 0  3 * *\t* ", "timezone": "Europe/Prague"})),
            json!({"schema": BOOT_SCHEMA, "config": {"overlap": "queue"}}),
            json!({"schema": RUN_FINISHED_SCHEMA, "config": {"taskId": "x", "outcomes": ["lost", "failed"]}}),
        ] {
            let trigger = trigger(&spec).unwrap();
            let text = trigger.canonical(&project, &id, 2);
            assert_eq!(Trigger::from_canonical(&text, &project, &id, 2), Some(trigger), "{text}");
            assert_eq!(Trigger::from_canonical(&text, &project, &id, 3), None, "another revision's text");
        }
        let normal = trigger(&cron(&json!({"expression": " 0  3 * *\t* ", "timezone": "UTC"}))).unwrap();
        assert_eq!(normal.to_spec()["config"]["expression"], "0 3 * * *");
        assert_eq!(normal.to_spec()["config"]["misfirePolicy"], "skip");
    }

    #[test]
    fn what_breaks_a_rule_is_named() {
        let after = |config: Value| json!({"schema": RUN_FINISHED_SCHEMA, "config": config});
        for (spec, want) in [
            (json!(1), "spec: must be an object"),
            (json!({"schema": "qinglong/interval@v1", "config": {}}), "not supported"),
            (cron(&json!({"timezone": "UTC"})), "expression: must be a string"),
            (cron(&json!({"expression": "* * * * *"})), "timezone: must be a string"),
            (cron(&json!({"expression": "* * * * *", "timezone": "UTC", "jitter": 1})), "jitter: unknown field"),
            (
                cron(&json!({"expression": "* * * * *", "timezone": "UTC", "overlap": "maybe"})),
                "overlap: must be one of",
            ),
            (
                cron(&json!({"expression": "* * * * *", "timezone": "UTC", "misfirePolicy": 1})),
                "misfirePolicy: must be",
            ),
            (cron(&json!({"expression": "*".repeat(300), "timezone": "UTC"})), "expression: must be 1 to"),
            (after(json!({"taskId": "x", "outcomes": []})), "outcomes: must be a list"),
            (after(json!({"taskId": "x", "outcomes": ["failed", "failed"]})), "outcomes: must be a list"),
            (after(json!({"taskId": "x", "outcomes": ["running"]})), "outcomes: must be a list"),
            (after(json!({"taskId": "../x", "outcomes": ["failed"]})), "taskId: must be a task's id"),
        ] {
            let words = trigger(&spec).unwrap_err();
            assert!(words.contains(want), "{spec}: {words}");
        }
    }
}
