//! Looking the state through, a step a request, for whoever may manage it.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::service::Api;
use crate::execution::inspect::{FIRST, Inspector, Step};
use crate::model::limits::MESSAGE_BYTES_MAX;
use crate::model::word;
use serde_json::{Value, json};
use std::sync::PoisonError;

/// `GET /api/v3/projects/{project}/check?step`, `policy.manage`: `200 {check, seen, findings: [{level: "warn" |
/// "fail", message, todo}], next?}`: what one step has found; without `step` the first one. `seen` counts
/// what was looked at; `next` is the step to ask for next, until there is none. 400 `invalid_query`.
pub(super) fn step(api: &Api, request: &Request, _who: &Admitted) -> Result<Answer, Answer> {
    let keyring = api.keyring.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let inspector =
        Inspector { store: &api.store, logs: &*api.logs, files: &*api.files, keyring: &keyring, is_served: true };
    let step = inspector.step(request.query("step").unwrap_or(FIRST));
    let step = step.ok_or_else(|| Answer::refusal(word::INVALID_QUERY, "step must be an answer's `next`"))?;
    Ok(Answer::json(200, &shape(&step)))
}

/// A step as it is shown.
pub fn shape(step: &Step) -> Value {
    let findings = step.findings.iter().map(|finding| {
        let message: String = finding.message.chars().take(MESSAGE_BYTES_MAX).collect();
        json!({"level": finding.level.word(), "message": message, "todo": finding.todo})
    });
    let mut shown = json!({"check": step.check, "seen": step.seen, "findings": findings.collect::<Vec<_>>()});
    if let Some(next) = &step.next {
        shown["next"] = next.as_str().into();
    }
    shown
}
