//! The truncation fact: what became of a log's output, published beside it when the stream has closed
//! (spec/execution section 9). Missing means unknown; it is no proof of an exit.

use super::private;
use crate::model::id::{AttemptId, RunId};
use crate::model::json;
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _};
use std::path::Path;

/// More than the longest fact: what is reserved before the start.
pub(super) const ROOM_BYTES: usize = 512;

/// What is said about one log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fact {
    /// Always 1.
    pub schema_version: i64,
    /// The Run.
    pub run_id: String,
    /// The Attempt.
    pub attempt_id: String,
    /// The log's name.
    pub artifact_id: String,
    /// The cap that was applied.
    pub maximum_bytes: u64,
    /// Whether output was cut at the cap.
    pub quota_reached: bool,
    /// How many bytes were dropped, for whatever reason.
    pub dropped_bytes: u64,
    /// False when writing the log failed: it then ends early, whatever the cap.
    pub complete: bool,
    /// When the stream had closed, epoch milliseconds.
    pub observed_at_ms: i64,
}

impl Fact {
    /// The fact about a log, before anything is known.
    pub(super) fn new(run: RunId, attempt: AttemptId, artifact: &str) -> Self {
        Self {
            schema_version: 1,
            run_id: run.to_string(),
            attempt_id: attempt.to_string(),
            artifact_id: artifact.to_owned(),
            maximum_bytes: 0,
            quota_reached: false,
            dropped_bytes: 0,
            complete: true,
            observed_at_ms: 0,
        }
    }

    pub(super) fn pack(&self) -> Vec<u8> {
        serde_json::to_value(self).map_or_else(|_| Vec::new(), |value| json::canonical(&value).into_bytes())
    }

    /// Reads the fact about `artifact`; `None` when there is none or it is not sound: unknown.
    pub(super) fn read(path: &Path, artifact: &str) -> Option<Self> {
        let text = load(path).ok()?;
        let fact: Self = json::parse_as(&text).ok()?;
        let sound = fact.schema_version == 1
            && fact.artifact_id == artifact
            && RunId::parse(&fact.run_id).is_some()
            && AttemptId::parse(&fact.attempt_id).is_some();
        sound.then_some(fact)
    }
}

/// A fact's name beside its log.
pub(super) fn file_name(artifact: &str) -> String {
    format!(".{artifact}.log.truncated.json")
}

/// An unpublished fact's name.
pub(super) fn temp_name(artifact: &str) -> String {
    format!(".{artifact}.log.truncated.tmp")
}

/// Whether a file beside logs is a fact, published or not.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with('.') && (name.ends_with(".log.truncated.json") || name.ends_with(".log.truncated.tmp"))
}

fn load(path: &Path) -> io::Result<Vec<u8>> {
    let file = private::options().read(true).open(path)?;
    private::check(&file)?;
    let mut text = Vec::new();
    file.take(ROOM_BYTES as u64 + 1).read_to_end(&mut text)?;
    if text.len() > ROOM_BYTES { Err(io::ErrorKind::InvalidData.into()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_comes_back_fits_its_room_and_must_name_its_log() {
        let root = crate::process::scratch::folder("fact");
        let id = "0197d2a4-1b2c-7def-8123-456789abcdef";
        let artifact = format!("local-{}", "a".repeat(30));
        let mut fact = Fact::new(RunId::parse(id).unwrap(), AttemptId::parse(id).unwrap(), &artifact);
        (fact.maximum_bytes, fact.dropped_bytes, fact.observed_at_ms) = (u64::MAX, u64::MAX, i64::MAX);
        assert!(fact.pack().len() <= ROOM_BYTES);
        let path = root.join(file_name(&artifact));
        assert_eq!(Fact::read(&path, &artifact), None);
        std::fs::write(&path, fact.pack()).unwrap();
        assert_eq!(Fact::read(&path, &artifact), Some(fact));
        assert_eq!(Fact::read(&path, "local-other"), None);
        std::fs::write(&path, "").unwrap();
        assert_eq!(Fact::read(&path, &artifact), None, "cut by a power loss");
    }
}
