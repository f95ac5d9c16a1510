//! Asking a Run to end. Only the intent is stored here; the engine acts on it after the commit.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::runs::run_id;
use super::service::Api;
use super::wire::{Fields, unavailable};
use crate::model::word;
use crate::store::StoreError;
use crate::store::cancel::{CancelRequested, RequestCancel};
use serde_json::json;

/// The schema of a cancellation.
pub const SCHEMA: &str = "qinglong/run-cancellation@v1";

/// `POST /api/v3/projects/{project}/runs/{run}/cancellation`, `run.stop`.
///
/// Body, exactly: `{schema: "qinglong/run-cancellation@v1", mutationId}`, at most 512 bytes. `202
/// {status: "accepted", runId}` for a new intent; `200` with status `already_requested` (the first
/// intent stays, whoever asks again) or `already_terminal`. 400 `invalid_run_cancellation_request`;
/// 404 `run_not_found`; 409 `run_cancellation_fence_rejected`; 503 `run_cancellation_unavailable`.
pub(super) fn cancel(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_RUN_CANCELLATION)?;
    fields.schema(SCHEMA)?;
    let mutation = fields.mutation()?;
    fields.end()?;
    let run = run_id(request)?;
    let done = api.store.call(RequestCancel { authority: who.authority.clone(), run, mutation });
    // Also when it is not known whether it was stored: it may have been, and nobody else would tell.
    if matches!(&done, Ok(CancelRequested::Accepted) | Err(StoreError::Unavailable(_))) {
        (api.poke)();
    }
    let (status, word) =
        match done.map_err(|e| unavailable(word::RUN_CANCELLATION_UNAVAILABLE, e, "the run was not asked to end"))? {
            CancelRequested::Accepted => (202, "accepted"),
            CancelRequested::AlreadyRequested => (200, "already_requested"),
            CancelRequested::AlreadyTerminal => (200, "already_terminal"),
            CancelRequested::NotFound => return Err(Answer::refusal(word::RUN_NOT_FOUND, "there is no such run")),
            CancelRequested::Refused(reason) => {
                let message = "your role or credential changed meanwhile; try again";
                return Err(Answer::refusal(word::run_cancellation_fence(reason), message));
            }
        };
    Ok(Answer::json(status, &json!({"status": word, "runId": run.to_string()})))
}
