//! Runs, their latest Attempts and their events.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{page, unavailable};
use crate::execution::board::WaitReason;
use crate::model::id::RunId;
use crate::model::life::{CancelReason, RunState};
use crate::model::record::{Attempt, Event, Run};
use crate::model::word;
use crate::store::runs::{GetRun, ListEvents, ListRuns};
use serde_json::{Value, json};

/// `GET /api/v3/projects/{project}/runs?limit&after_created_at_ms&after_run_id&task&status`,
/// `run.read`: `200 {runs: [run], hasMore, next?: {createdAtMs, runId}}`, newest first. A `run` has
/// the fields of [`get`]'s without `projectId` and `latestAttempt`. 503 `run_list_unavailable`.
pub(super) fn list(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let (runs, more) = api
        .store
        .call(ListRuns {
            project: who.authority.project.clone(),
            task: query::task(request, "task"),
            state: request.query("status").and_then(RunState::parse),
            after: query::run_cursor(request),
            limit: query::limit(request),
        })
        .map_err(|e| unavailable(word::RUN_LIST_UNAVAILABLE, e, "the runs were not read"))?;
    let page = page(runs, more, |run| shape(run, wait_reason(api, run), undecided(api, run)));
    let mut body = json!({"runs": page.items, "hasMore": page.has_more});
    if let Some(last) = page.last {
        body["next"] = json!({"createdAtMs": last.created_at_ms, "runId": last.id.to_string()});
    }
    Ok(Answer::json(200, &body))
}

/// `GET /api/v3/projects/{project}/runs/{run}?attempt`, `run.read`: `200 {run: {id, projectId,
/// taskId, taskRevision, status, version, eventSequence, priority, executionOrigin,
/// executionOwner, triggerId?, retryOfRunId?, createdAtMs, queuedAtMs, startedAtMs, finishedAtMs,
/// cancelRequestedAtMs?, cancelReason?, waitReason (queued only),
/// nextAttemptAtMs (retry_wait only), errorCode?, latestAttempt}}`.
/// Times that are not yet are null. `undecided` is there for a Run that nobody can decide, and says why.
///
/// `latestAttempt` is null or `{id, number, status, createdAtMs, startedAtMs, finishedAtMs,
/// exitCode, signal, errorCode, errorSummary, logAvailable, logComplete, leftovers, descendants}`; with
/// `?attempt=N` it is that one. Never a handle, a pid, a command or an environment. 404
/// `run_not_found`, `attempt_not_found`; 503 `run_query_unavailable`.
pub(super) fn get(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let attempt_number = query::number(request, "attempt");
    let found = api
        .store
        .call(GetRun { project: who.authority.project.clone(), run: run_id(request)?, attempt_number })
        .map_err(|e| unavailable(word::RUN_QUERY_UNAVAILABLE, e, "the run was not read"))?;
    let run = found.ok_or_else(not_found)?;
    if attempt_number.is_some() && run.attempt.is_none() {
        return Err(Answer::refusal(word::ATTEMPT_NOT_FOUND, "the run has no attempt of this number"));
    }
    let mut shown = shape(&run, wait_reason(api, &run), undecided(api, &run));
    shown["projectId"] = who.authority.project.as_str().into();
    shown["latestAttempt"] = run.attempt.as_ref().map_or(Value::Null, attempt);
    Ok(Answer::json(200, &json!({"run": shown})))
}

/// `GET /api/v3/projects/{project}/runs/{run}/events?after_sequence&limit`, `run.read`: `200 {events:
/// [{sequence, type, actorType, createdAtMs}], hasMore, nextAfterSequence}` in order.
/// `nextAfterSequence` is the last sequence shown, or the asked one when there is none. 404
/// `run_not_found`; 503 `run_event_list_unavailable`.
pub(super) fn events(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let after_sequence = query::number(request, "after_sequence").unwrap_or(0);
    let found = api
        .store
        .call(ListEvents {
            project: who.authority.project.clone(),
            run: run_id(request)?,
            after_sequence,
            limit: query::limit(request),
        })
        .map_err(|e| unavailable(word::RUN_EVENT_LIST_UNAVAILABLE, e, "the events were not read"))?;
    let (events, has_more) = found.ok_or_else(not_found)?;
    let next = events.last().map_or(after_sequence, |event| event.sequence);
    let events: Vec<Value> = events.iter().map(event).collect();
    Ok(Answer::json(200, &json!({"events": events, "hasMore": has_more, "nextAfterSequence": next})))
}

fn shape(run: &Run, wait_reason: Option<&'static str>, undecided: Option<&'static str>) -> Value {
    let mut shown = json!({
        "id": run.id.to_string(),
        "taskId": run.task.as_str(),
        "taskRevision": run.task_ref.to_string(),
        "status": run.state.word(),
        "version": run.version,
        "eventSequence": run.event_sequence,
        "priority": run.priority,
        "executionOrigin": run.origin,
        "executionOwner": "runtime",
        "createdAtMs": run.created_at_ms,
        "queuedAtMs": run.queued_at_ms,
        "startedAtMs": run.started_at_ms,
        "finishedAtMs": run.finished_at_ms,
    });
    if let Some(trigger) = &run.trigger {
        shown["triggerId"] = trigger.as_str().into();
    }
    if let Some(run) = run.retry_of {
        shown["retryOfRunId"] = run.to_string().into();
    }
    if run.state == RunState::RetryWait {
        shown["nextAttemptAtMs"] = run.next_attempt_at_ms.into();
    }
    if let Some(at_ms) = run.cancel_requested_at_ms {
        shown["cancelRequestedAtMs"] = at_ms.into();
        shown["cancelReason"] = run.cancel_reason.map(CancelReason::word).into();
    }
    if run.state == RunState::Queued {
        shown["waitReason"] = wait_reason.into();
    }
    if let Some(word) = undecided {
        shown["undecided"] = word.into();
    }
    if let Some(code) = &run.error_code {
        shown["errorCode"] = code.as_str().into();
    }
    shown
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "id": attempt.id.to_string(),
        "number": attempt.number,
        "status": attempt.state.word(),
        "createdAtMs": attempt.created_at_ms,
        "startedAtMs": attempt.started_at_ms,
        "finishedAtMs": attempt.finished_at_ms,
        "exitCode": attempt.end.exit_code,
        "signal": attempt.end.signal,
        "errorCode": attempt.end.error_code,
        "errorSummary": attempt.end.error_summary,
        "logAvailable": attempt.log_artifact.is_some(),
        "logComplete": attempt.end.log_complete,
        "leftovers": attempt.end.leftovers,
        "descendants": attempt.end.unproven.then_some("unproven"),
    })
}

fn event(event: &Event) -> Value {
    json!({
        "sequence": event.sequence,
        "type": event.kind.to_string(),
        "actorType": event.actor_type,
        "createdAtMs": event.created_at_ms,
    })
}

fn wait_reason(api: &Api, run: &Run) -> Option<&'static str> {
    (run.state == RunState::Queued).then(|| api.board.wait_reason()).flatten().map(WaitReason::word)
}

/// Why nobody can say how it stands, while it is under way and so.
fn undecided(api: &Api, run: &Run) -> Option<&'static str> {
    let under_way = matches!(run.state, RunState::Dispatching | RunState::Running);
    under_way.then(|| api.board.undecided_run(run.id)).flatten().map(|undecided| undecided.doubt.word())
}

pub(super) fn run_id(request: &Request) -> Result<RunId, Answer> {
    request.params.get(1).and_then(|text| RunId::parse(text)).ok_or_else(not_found)
}

/// The one answer for a Run that is not there, here or at all.
pub(super) fn not_found() -> Answer {
    Answer::refusal(word::RUN_NOT_FOUND, "there is no such run in this project")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest::Digest;
    use crate::model::event::EventType;
    use crate::model::id::Uuid;
    use crate::model::life::AttemptState;
    use crate::model::limits::{PAGE_MAX, RESPONSE_BYTES_MAX, REVISION_MAX, TIME_MS_MAX};
    use crate::model::name::Name;
    use crate::model::task::TaskRef;

    /// The longest Run there can be.
    fn longest(state: RunState) -> Run {
        Run {
            id: RunId(Uuid::from_bytes([0xff; 16])),
            task: Name::parse(&"t".repeat(128)).unwrap(),
            task_ref: TaskRef { revision: REVISION_MAX, digest: Digest::of("d", b"") },
            state,
            version: TIME_MS_MAX,
            event_sequence: TIME_MS_MAX,
            priority: -TIME_MS_MAX,
            origin: "run-finished".into(),
            trigger: Some("t".repeat(128)),
            created_at_ms: TIME_MS_MAX,
            queued_at_ms: Some(TIME_MS_MAX),
            started_at_ms: Some(TIME_MS_MAX),
            finished_at_ms: Some(TIME_MS_MAX),
            cancel_requested_at_ms: Some(TIME_MS_MAX),
            cancel_reason: Some(CancelReason::Reconcile),
            error_code: Some(word::EXITED_WITHOUT_RECEIPT.into()),
            next_attempt_at_ms: Some(TIME_MS_MAX),
            retry_of: Some(RunId(Uuid::from_bytes([0xff; 16]))),
            attempt: None,
        }
    }

    #[test]
    #[allow(non_snake_case)] // the acceptance point's own name
    fn max_page_response_under_64KiB() {
        for &state in RunState::ALL {
            let page = page(vec![longest(state); PAGE_MAX], true, |run| {
                shape(run, Some("capacity"), Some("attempts_ambiguous"))
            });
            let next = json!({"createdAtMs": TIME_MS_MAX, "runId": RunId(Uuid::from_bytes([0xff; 16])).to_string()});
            let body = json!({"runs": page.items, "hasMore": true, "next": next}).to_string();
            assert_eq!(page.items.len(), PAGE_MAX, "{state:?}: the whole page fits");
            assert!(body.len() <= RESPONSE_BYTES_MAX, "{state:?}: {} bytes", body.len());
        }
        let event = Event {
            sequence: TIME_MS_MAX,
            kind: EventType::Attempt(AttemptState::Cancelled),
            actor_type: "legacy_shell".into(),
            created_at_ms: TIME_MS_MAX,
        };
        let events: Vec<Value> = vec![event; PAGE_MAX].iter().map(super::event).collect();
        assert!(
            json!({"events": events, "hasMore": true, "nextAfterSequence": TIME_MS_MAX}).to_string().len() < 16_384
        );
    }
}
