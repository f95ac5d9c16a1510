//! Writing a Run's events: what may stand in one, and nothing else.

use super::fail::Fail;
use super::tx::Tx;
use crate::model::digest::Digest;
use crate::model::event::{Actor, EventType};
use crate::model::id::{EventId, MutationId, RunId};
use crate::model::limits;
use crate::model::policy::Fence;
use rusqlite::params;
use serde_json::{Map, Value};
use std::fmt::Display;

/// What an event may say. Never a log text, command, environment, handle, pid or path
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

/// The columns that a list of facts fills.
#[derive(Default)]
struct Row {
    definition: Option<Digest>,
    execution: Option<Digest>,
    trigger: Option<Digest>,
    mutation: Option<MutationId>,
    payload: Map<String, Value>,
}

impl Row {
    fn put(&mut self, fact: &Fact<'_>) {
        let (name, value) = match *fact {
            Fact::Definition(digest) => return self.definition = Some(digest),
            Fact::Execution(digest) => return self.execution = Some(digest),
            Fact::Mutation(mutation) => return self.mutation = Some(mutation),
            Fact::Fence(fence) => {
                self.payload.insert("projectVersion".into(), fence.project_version.into());
                ("bindingVersion", fence.binding_version.into())
            }
            Fact::ExitCode(code) => ("exitCode", code.into()),
            Fact::Signal(signal) => ("signal", signal.into()),
            Fact::ErrorCode(code) => ("errorCode", code.into()),
            Fact::Leftovers(count) => ("leftovers", count.into()),
            Fact::CancelReason(reason) => ("reason", reason.into()),
            Fact::DelayMs(delay_ms) => ("delayMs", delay_ms.into()),
            Fact::Trigger(revision, digest) => {
                self.trigger = Some(digest);
                ("triggerRevision", revision.into())
            }
            Fact::Cause(run) => ("causeRunId", run.to_string().into()),
            Fact::RetryOf(run) => ("retryOfRunId", run.to_string().into()),
        };
        self.payload.insert(name.into(), value);
    }
}

/// How rows of before schema 7 say in their payload, which is canonical JSON, what has a column now.
pub fn in_payload(name: &str, value: &impl Display) -> String {
    format!("\"{name}\":\"{value}\"")
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
    let mut row = Row::default();
    for fact in facts {
        row.put(fact);
    }
    let payload = (!row.payload.is_empty()).then(|| Value::Object(row.payload).to_string());
    if payload.as_ref().is_some_and(|text| text.len() > limits::EVENT_PAYLOAD_BYTES_MAX) {
        return Err(Fail::Word("event_payload_too_large"));
    }
    let id = EventId(tx.id(place.at_ms)?);
    let sql = "INSERT INTO run_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
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
        row.definition,
        row.execution,
        row.trigger,
        row.mutation,
    ])?;
    Ok(id)
}
