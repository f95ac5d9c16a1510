//! What speaks for and against a Run that nobody can decide, and settling it by hand.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::runs::{not_found, run_id};
use super::service::Api;
use super::wire::{Fields, unavailable};
use crate::execution::board::Undecided;
use crate::execution::evidence::{Evidence, Objection, Seen};
use crate::model::life::{CancelReason, RunState};
use crate::model::word;
use crate::store::evidence::{ActiveAttempt, ReadEvidence};
use crate::store::resolve::{ResolveRun, Resolved, Resolver};
use serde_json::{Value, json};

/// The schema of a resolution.
pub const SCHEMA: &str = "qinglong/run-resolution@v1";

/// `GET /api/v3/projects/{project}/runs/{run}/evidence`, `run.read`: `200 {evidence: {runId, taskId, status,
/// version, cancelReason?, errorCode?, undecided: null | {reason, sinceMs}, attempts: [{id, number, status,
/// startedAtMs, receipt, quarantined, process}], next, resolution}}`. `attempts` are the active ones.
/// `receipt`: `found`, `absent`, `invalid`, `unavailable`; `process`: `running`, `gone`, `invalid` (the
/// handle), `unavailable`, `none` (no handle). `next`: `watched`, `look_again`, `kill_again`,
/// `next_start`, `starts`, `nothing`. `resolution`: `allowed`, or what speaks against it. Never a
/// handle, a pid or a token. 404 `run_not_found`; 503 `run_evidence_unavailable`.
pub(super) fn get(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let evidence = gather(api, request, who)?;
    Ok(Answer::json(200, &json!({"evidence": shape(&evidence)})))
}

fn gather(api: &Api, request: &Request, who: &Admitted) -> Result<Evidence, Answer> {
    let run = run_id(request)?;
    let stored = api
        .store
        .call(ReadEvidence { project: who.authority.project.clone(), run })
        .map_err(|e| unavailable(word::RUN_EVIDENCE_UNAVAILABLE, e, "the evidence was not read"))?;
    let stored = stored.ok_or_else(not_found)?;
    Ok(Evidence::gather(stored, &*api.look, api.board.undecided_run(run), true))
}

/// The evidence as it is shown.
pub fn shape(evidence: &Evidence) -> Value {
    let run = &evidence.stored.run;
    let attempts = evidence.stored.active.iter().zip(&evidence.seen);
    let mut shown = json!({
        "runId": run.id.to_string(),
        "taskId": run.task.as_str(),
        "status": run.state.word(),
        "version": run.version,
        "undecided": evidence.undecided.as_ref().map(doubt),
        "attempts": attempts.map(|(stored, seen)| attempt(stored, *seen)).collect::<Vec<_>>(),
        "next": evidence.next().word(),
        "resolution": evidence.objection().map_or("allowed", Objection::word),
    });
    if let Some(code) = &run.error_code {
        shown["errorCode"] = code.as_str().into();
    }
    if run.cancel_requested_at_ms.is_some() {
        shown["cancelReason"] = run.cancel_reason.map(CancelReason::word).into();
    }
    shown
}

fn doubt(undecided: &Undecided) -> Value {
    json!({"reason": undecided.doubt.word(), "sinceMs": undecided.since_ms})
}

/// A Run that nobody can decide, in a list.
pub(super) fn undecided(undecided: &Undecided) -> Value {
    json!({
        "runId": undecided.run.to_string(),
        "attemptId": undecided.attempt.to_string(),
        "reason": undecided.doubt.word(),
        "sinceMs": undecided.since_ms,
    })
}

fn attempt(stored: &ActiveAttempt, seen: Seen) -> Value {
    json!({
        "id": stored.id.to_string(),
        "number": stored.number,
        "status": stored.state.word(),
        "startedAtMs": stored.started_at_ms,
        "receipt": seen.receipt.word(),
        "quarantined": stored.quarantined,
        "process": seen.process_word(),
    })
}

/// `POST /api/v3/projects/{project}/runs/{run}/resolution`, `policy.manage`: it overrides what could not be
/// proven, so it takes more than stopping does.
///
/// Body, exactly: `{schema: "qinglong/run-resolution@v1", mutationId, resolution: "lost"}`, at most 512
/// bytes. `202 {status: "resolved", runId}`; `200` with status `already_resolved` for a Run that is lost
/// or was settled by this mutation. 400 `invalid_run_resolution_request`; 404 `run_not_found`; 409
/// `run_not_resolvable` with what speaks against it, `run_resolution_fence_rejected`; 503
/// `run_resolution_unavailable`.
pub(super) fn resolve(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_RUN_RESOLUTION)?;
    fields.schema(SCHEMA)?;
    let mutation = fields.mutation()?;
    if fields.text("resolution")? != RunState::Lost.word() {
        return Err(fields.wrong("resolution", "must be \"lost\""));
    }
    fields.end()?;
    let evidence = gather(api, request, who)?;
    let run = evidence.stored.run.id;
    match evidence.objection() {
        // The store knows whether this very request was done before.
        None | Some(Objection::Lost | Objection::Ended | Objection::Waiting) => {}
        Some(objection) => return Err(refuse(objection)),
    }
    let by = Resolver::Subject(who.authority.clone());
    let done = api
        .store
        .call(ResolveRun { by, run, mutation, version: evidence.stored.run.version })
        .map_err(|e| unavailable(word::RUN_RESOLUTION_UNAVAILABLE, e, "the run was not settled"))?;
    let (status, word) = match done {
        Resolved::Lost(_) => {
            evidence.undecided.iter().for_each(|undecided| (api.settled)(undecided.attempt));
            (202, "resolved")
        }
        Resolved::Already => (200, "already_resolved"),
        Resolved::NotFound => return Err(not_found()),
        Resolved::NotUnderWay(state) if state.is_terminal() => return Err(refuse(Objection::Ended)),
        Resolved::NotUnderWay(_) => return Err(refuse(Objection::Waiting)),
        Resolved::Changed => {
            let message = "something has happened to the run just now; look at its evidence again";
            return Err(Answer::refusal(word::RUN_NOT_RESOLVABLE.because("changed"), message));
        }
        Resolved::Refused(reason) => {
            let message = "your role or credential changed meanwhile; try again";
            return Err(Answer::refusal(word::run_resolution_fence(reason), message));
        }
    };
    Ok(Answer::json(status, &json!({"status": word, "runId": run.to_string()})))
}

fn refuse(objection: Objection) -> Answer {
    Answer::refusal(word::RUN_NOT_RESOLVABLE.because(objection.word()), objection.sentence())
}
