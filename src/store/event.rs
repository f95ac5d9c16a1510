//! Writing a Run's events: what may stand in a payload, and nothing else.

use super::fail::Fail;
use super::tx::Tx;
use crate::model::digest::Digest;
use crate::model::event::{Actor, EventType};
use crate::model::id::{EventId, MutationId, RunId};
use crate::model::limits;
use crate::model::policy::Fence;
use rusqlite::params;
use serde_json::{Map, Value};

/// What a payload may say. Never a log text, command, environment, handle, pid or path
/// (spec/execution section 0).
pub enum Fact<'a> {
    /// The admitted definition.
    Definition(Digest),
    /// Its execution revision.
    Execution(Digest),
    /// The mutation that admitted it.
    Mutation(MutationId),
    /// What the decision to admit it was based on.
    Fence(Fence),
    /// How it ended.
    ExitCode(i32),
    /// The signal that ended it.
    Signal(i32),
    /// What went wrong.
    ErrorCode(&'a str),
    /// How many descendants had to be ended.
    Leftovers(i64),
    /// Why it was asked to end.
    CancelReason(&'static str),
    /// How long it waits for another Attempt.
    DelayMs(i64),
    /// The trigger revision that made it, and its digest.
    Trigger(i64, Digest),
    /// The Run whose end started it.
    Cause(RunId),
    /// The Run that was tried again with this one.
    RetryOf(RunId),
}

impl Fact<'_> {
    fn put(&self, payload: &mut Map<String, Value>) {
        let (name, value) = match *self {
            Self::Definition(digest) => ("definitionDigest", digest.to_string().into()),
            Self::Execution(digest) => ("executionDigest", digest.to_string().into()),
            Self::Mutation(mutation) => ("mutationId", mutation.to_string().into()),
            Self::Fence(fence) => {
                payload.insert("projectVersion".into(), fence.project_version.into());
                ("bindingVersion", fence.binding_version.into())
            }
            Self::ExitCode(code) => ("exitCode", code.into()),
            Self::Signal(signal) => ("signal", signal.into()),
            Self::ErrorCode(code) => ("errorCode", code.into()),
            Self::Leftovers(count) => ("leftovers", count.into()),
            Self::CancelReason(reason) => ("reason", reason.into()),
            Self::DelayMs(delay_ms) => ("delayMs", delay_ms.into()),
            Self::Trigger(revision, digest) => {
                payload.insert("triggerRevision".into(), revision.into());
                ("triggerDigest", digest.to_string().into())
            }
            Self::Cause(run) => ("causeRunId", run.to_string().into()),
            Self::RetryOf(run) => ("retryOfRunId", run.to_string().into()),
        };
        payload.insert(name.into(), value);
    }
}

/// Where an event goes and who made it.
pub struct Place<'a> {
    /// The Run.
    pub run: RunId,
    /// Its next sequence.
    pub sequence: i64,
    /// The Attempt it is about, when it is about one.
    pub attempt_number: Option<i64>,
    /// Who or what made it happen.
    pub actor: &'a Actor,
    /// When.
    pub at_ms: i64,
}

/// Appends one event. The pair (run, sequence) is the key, so the same step can never be there
/// twice; a dedupe key beside it (`run-transition:<version>:<to>`) would say the same thing again,
/// because version and sequence move together, for one more page of flash an event.
pub fn append(tx: &mut Tx<'_>, place: &Place<'_>, kind: EventType, facts: &[Fact<'_>]) -> Result<EventId, Fail> {
    let mut payload = Map::new();
    for fact in facts {
        fact.put(&mut payload);
    }
    let payload = (!payload.is_empty()).then(|| Value::Object(payload).to_string());
    if payload.as_ref().is_some_and(|text| text.len() > limits::EVENT_PAYLOAD_BYTES_MAX) {
        return Err(Fail::Word("event_payload_too_large"));
    }
    let id = EventId(tx.id(place.at_ms)?);
    let sql = "INSERT INTO run_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    tx.conn.prepare_cached(sql)?.execute(params![
        place.run,
        place.sequence,
        id,
        kind.to_string(),
        place.actor.type_word(),
        place.actor.id(),
        place.attempt_number,
        payload,
        place.at_ms,
    ])?;
    Ok(id)
}
