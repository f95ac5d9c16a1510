//! Trying an ended Run again: always a new Run.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::runs::run_id;
use super::service::Api;
use super::wire::{Fields, unavailable};
use crate::model::word::{self, FenceReason};
use crate::store::StoreError;
use crate::store::start::{AdmitRetry, Admitted as AdmittedRun, Retried};
use serde_json::json;

/// The schema of trying a Run again.
pub const SCHEMA: &str = "qinglong/run-retry@v1";

/// `POST /api/v3/projects/{project}/runs/{run}/retry`, `run.retry`.
///
/// Body, exactly: `{schema: "qinglong/run-retry@v1", mutationId}`, at most 512 bytes. `202 {status:
/// "accepted", runId, attemptId, taskId, taskRevision, queuedAtMs, retryOfRunId}`, or `200` with status
/// `existing` and what the same mutation made before. The new Run is pinned to the old one's revision.
/// 400 `invalid_run_retry_request`; 404 `run_not_found`, `task_not_found`; 409
/// `run_retry_fence_rejected` and `run_not_retryable`; 429 `run_retry_limited`; 503
/// `run_retry_unavailable`.
pub(super) fn retry(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_RUN_RETRY)?;
    fields.schema(SCHEMA)?;
    let mutation = fields.mutation()?;
    fields.end()?;
    let run = run_id(request)?;
    let retried = api.store.call(AdmitRetry { authority: who.authority.clone(), run, mutation });
    // Also when it is not known whether it was stored: it may have been, and nobody else would tell.
    if matches!(&retried, Ok(Retried::Accepted(_)) | Err(StoreError::Unavailable(_))) {
        (api.poke)();
    }
    let retried = retried.map_err(|e| unavailable(word::RUN_RETRY_UNAVAILABLE, e, "the run was not tried again"))?;
    let refuse = |word, message: &str| Err(Answer::refusal(word, message));
    match retried {
        Retried::Accepted(made) => Ok(answer(202, "accepted", &made, &run.to_string())),
        Retried::Existing(made) => Ok(answer(200, "existing", &made, &run.to_string())),
        Retried::NotFound => refuse(word::RUN_NOT_FOUND, "there is no such run in this project"),
        Retried::TaskNotFound => refuse(word::TASK_NOT_FOUND, "the run's task was deleted"),
        Retried::NotEnded(state) => {
            let message = format!(
                "the run is {}; only one that failed, was cancelled or timed out is tried again; start its task instead",
                state.word()
            );
            refuse(word::RUN_NOT_RETRYABLE.because(state.word()), &message)
        }
        Retried::TooMany => {
            let message = format!(
                "{} runs were tried again within a minute, which is the most; wait a little",
                api.limits.manual_retries_per_minute
            );
            Err(Answer { retry_after: Some(15), ..Answer::refusal(word::RUN_RETRY_LIMITED, &message) })
        }
        Retried::Refused(reason) => {
            let message = match reason {
                FenceReason::TaskDisabled => "the run's task is disabled; enable it to try the run again",
                FenceReason::MutationConflict => "this mutationId was used for something else; use a fresh one",
                _ => "your role or credential changed meanwhile; try again",
            };
            refuse(word::run_retry_fence(reason), message)
        }
        Retried::Unavailable(reason) => {
            let message = match reason {
                "queue_full" => {
                    "the run was not tried again: too many runs wait already; try again when some have ended"
                }
                _ => {
                    "the run was not tried again: a record it depends on is missing or damaged; start its task instead"
                }
            };
            let word = word::RUN_RETRY_UNAVAILABLE.because(reason);
            Err(Answer { retry_after: (reason == "queue_full").then_some(1), ..Answer::refusal(word, message) })
        }
    }
}

fn answer(code: u16, status: &str, made: &AdmittedRun, of: &str) -> Answer {
    Answer::json(
        code,
        &json!({
            "status": status,
            "runId": made.run.to_string(),
            "attemptId": made.attempt.to_string(),
            "taskId": made.task.as_str(),
            "taskRevision": made.task_ref.to_string(),
            "queuedAtMs": made.queued_at_ms,
            "retryOfRunId": of,
        }),
    )
}
