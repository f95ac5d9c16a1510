//! Starting a task: seed 376, to the letter.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::service::Api;
use super::tasks::{not_found, task_name};
use super::wire::{Fields, unavailable};
use crate::model::task::TaskRef;
use crate::model::word::{self, FenceReason};
use crate::store::StoreError;
use crate::store::start::{AdmitStart, Admitted as AdmittedRun, Started};
use serde_json::json;

/// The schema of a task start.
pub const SCHEMA: &str = "qinglong/task-start@v1";

/// `POST /api/v3/projects/{project}/tasks/{task}/runs`, `run.start`.
///
/// Body, exactly: `{schema: "qinglong/task-start@v1", mutationId, expectedRevision,
/// expectedContentDigest}`, at most 512 bytes. `202 {status: "accepted", runId, attemptId, taskId,
/// taskRevision: "qltd:v1:..", queuedAtMs}`, or `200` with status `existing` and what the same
/// mutation made before. 400 `invalid_request_body`, `invalid_task_start_request`; 404
/// `task_not_found`; 409 `task_start_fence_rejected` with its reason; 503 `task_start_unavailable`.
pub(super) fn start(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_TASK_START)?;
    fields.schema(SCHEMA)?;
    let mutation = fields.mutation()?;
    let expected =
        TaskRef { revision: fields.revision("expectedRevision")?, digest: fields.digest("expectedContentDigest")? };
    fields.end()?;
    let task = task_name(request)?;
    let started = api.store.call(AdmitStart { authority: who.authority.clone(), task, mutation, expected });
    // Also when it is not known whether it was stored: it may have been, and nobody else would tell.
    if matches!(&started, Ok(Started::Accepted(_)) | Err(StoreError::Unavailable(_))) {
        (api.poke)();
    }
    match started.map_err(|e| unavailable(word::TASK_START_UNAVAILABLE, e, "the task was not started"))? {
        Started::Accepted(run) => Ok(answer(202, "accepted", &run)),
        Started::Existing(run) => Ok(answer(200, "existing", &run)),
        Started::TaskNotFound => Err(not_found()),
        Started::Refused(reason) => Err(refused(reason)),
        Started::Unavailable(reason) => {
            let message = match reason {
                "queue_full" => "the task was not started: too many runs wait already; try again when some have ended",
                _ => "the task was not started: a record it depends on is missing or damaged; store the task again",
            };
            let word = word::TASK_START_UNAVAILABLE.because(reason);
            Err(Answer { retry_after: (reason == "queue_full").then_some(1), ..Answer::refusal(word, message) })
        }
    }
}

fn answer(code: u16, status: &str, run: &AdmittedRun) -> Answer {
    Answer::json(
        code,
        &json!({
            "status": status,
            "runId": run.run.to_string(),
            "attemptId": run.attempt.to_string(),
            "taskId": run.task.as_str(),
            "taskRevision": run.task_ref.to_string(),
            "queuedAtMs": run.queued_at_ms,
        }),
    )
}

fn refused(reason: FenceReason) -> Answer {
    let message = match reason {
        FenceReason::AuthorizationChanged => "your role or credential changed meanwhile; try again",
        FenceReason::DefinitionChanged => "the task is not at the expected revision and digest; read it again",
        FenceReason::TaskDisabled => "the task is disabled; enable it to start it",
        FenceReason::TaskNotExecutable => "the task can not be executed here",
        FenceReason::MutationConflict => "this mutationId was used for something else; use a fresh one",
        FenceReason::VersionChanged | FenceReason::LastOwner | FenceReason::TaskFixed => "",
    };
    Answer::refusal(word::task_start_fence(reason), message)
}
