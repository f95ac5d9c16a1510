//! Triggers: what starts tasks by itself.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{Fields, page, refuse, unavailable};
use crate::model::command::SpecError;
use crate::model::name::Name;
use crate::model::record::TriggerHead;
use crate::model::task::TaskRef;
use crate::model::trigger::{Trigger, When};
use crate::model::word::{self, FenceReason};
use crate::schedule::cron::Cron;
use crate::schedule::zone::Zone;
use crate::store::triggers::{DeleteTrigger, GetTrigger, ListTriggers, PutTrigger, TriggerDeleted, TriggerPut};
use serde_json::{Value, json};

/// The schema of a trigger PUT.
pub const PUT_SCHEMA: &str = "qinglong/trigger-definition@v1";
/// The schema of a trigger DELETE.
pub const DELETE_SCHEMA: &str = "qinglong/trigger-deletion@v1";

/// `PUT /api/v3/projects/{project}/triggers/{trigger}`, `task.update`.
///
/// Body, exactly: `{schema: "qinglong/trigger-definition@v1", mutationId, expectedRevision: 1.. | null
/// (null = create), taskId, taskRevision, taskContentDigest, spec: {schema, config}, enabled}`. `spec`
/// is `qinglong/cron@v1` `{expression, timezone, misfirePolicy?: "skip" | "fire_once", overlap?}`,
/// `qinglong/boot@v1` `{overlap?}` or `qinglong/run-finished@v1` `{taskId, outcomes, overlap?}`, with
/// `overlap` one of `skip`, `allow`, `queue`.
///
/// `201 {status: "created", trigger}`, `200 {status: "updated", trigger, cancelledRuns}`, `200 {status:
/// "existing", trigger}`. 400 `invalid_trigger`, with the place in an expression; 404 `task_not_found`;
/// 409 `trigger_fence_rejected`; 503 `trigger_unavailable`.
pub(super) fn put(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_TRIGGER)?;
    fields.schema(PUT_SCHEMA)?;
    let mutation = fields.mutation()?;
    let expected_revision = fields.nullable_revision("expectedRevision")?;
    let task = fields.text("taskId")?;
    let Some(task) = Name::parse(&task) else { return Err(fields.wrong("taskId", "must be a task's id")) };
    let pin = TaskRef { revision: fields.revision("taskRevision")?, digest: fields.digest("taskContentDigest")? };
    let spec = fields.value("spec")?;
    let enabled = fields.flag("enabled")?;
    fields.end()?;
    let trigger = Trigger::check(task, pin, &spec, enabled).map_err(|e| {
        let word = match e {
            SpecError::Unsupported { .. } => word::INVALID_TRIGGER.because("unsupported"),
            SpecError::Invalid { .. } => word::INVALID_TRIGGER,
        };
        refuse(word, &e.to_string())
    })?;
    means_something(&trigger)?;
    let id = trigger_name(request)?;
    let done = api
        .store
        .call(PutTrigger {
            authority: who.authority.clone(),
            id,
            mutation,
            expected_revision,
            trigger,
            boot: (api.boot)(),
        })
        .map_err(|e| unavailable(word::TRIGGER_UNAVAILABLE, e, "the trigger was not stored"))?;
    let (status, body) = match done {
        TriggerPut::Created(head) => (201, json!({"status": "created", "trigger": detail(api, who, &head)})),
        TriggerPut::Updated(head, cancelled) => {
            let body =
                json!({"status": "updated", "trigger": detail(api, who, &head), "cancelledRuns": cancelled.len()});
            (200, body)
        }
        TriggerPut::Existing(head) => {
            return Ok(Answer::json(200, &json!({"status": "existing", "trigger": detail(api, who, &head)})));
        }
        TriggerPut::Refused(reason) => return Err(refused(reason)),
        TriggerPut::TaskNotFound => {
            return Err(Answer::refusal(word::TASK_NOT_FOUND, "there is no such task in this project"));
        }
        TriggerPut::Unavailable(reason) => {
            let word = word::TRIGGER_UNAVAILABLE.because(reason);
            return Err(Answer::refusal(
                word,
                "the trigger was not stored: a record it depends on is missing or damaged",
            ));
        }
    };
    (api.poke_triggers)();
    Ok(Answer::json(status, &body))
}

/// Refuses an expression that never fires and a zone that nobody knows, with the place and the reason.
fn means_something(trigger: &Trigger) -> Result<(), Answer> {
    let When::Cron { expression, zone, .. } = &trigger.when else { return Ok(()) };
    Cron::parse(expression).map_err(|e| refuse(word::INVALID_TRIGGER, &format!("expression: {e}")))?;
    Zone::parse(zone).map_err(|e| refuse(word::INVALID_TRIGGER, &format!("timezone: {e}")))?;
    Ok(())
}

/// `GET /api/v3/projects/{project}/triggers/{trigger}`, `task.read`: `200 {trigger: {..list's fields,
/// projectId, contentDigest, taskContentDigest, spec, createdAtMs}}`. 404 `trigger_not_found`; 503
/// `trigger_query_unavailable`.
pub(super) fn get(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let id = trigger_name(request)?;
    let found = api
        .store
        .call(GetTrigger { project: who.authority.project.clone(), id })
        .map_err(|e| unavailable(word::TRIGGER_QUERY_UNAVAILABLE, e, "the trigger was not read"))?;
    let head = found.ok_or_else(not_found)?;
    Ok(Answer::json(200, &json!({"trigger": detail(api, who, &head)})))
}

/// `GET /api/v3/projects/{project}/triggers?limit&after_trigger_id`, `task.read`: `200 {triggers:
/// [{triggerId, revision, taskId, taskRevision, specSchema, schedule, enabled, state, nextFireAtMs,
/// lastScheduledAtMs, lastRunId, skipped, lastSkippedAtMs, lastSkipReason, updatedAtMs}], hasMore, next?:
/// {triggerId}}` by id. `state` is `active`, `disabled`, `pin_stale`, `task_disabled`, `task_deleted` or
/// `clock_untrusted`; `schedule` is a short text for people. 503 `trigger_query_unavailable`.
pub(super) fn list(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let (heads, more) = api
        .store
        .call(ListTriggers {
            project: who.authority.project.clone(),
            after: query::task(request, "after_trigger_id"),
            limit: query::limit(request),
        })
        .map_err(|e| unavailable(word::TRIGGER_QUERY_UNAVAILABLE, e, "the triggers were not read"))?;
    let page = page(heads, more, |head| item(head, api.board.clock_is_untrusted()));
    let mut body = json!({"triggers": page.items, "hasMore": page.has_more});
    if let Some(last) = page.last {
        body["next"] = json!({"triggerId": last.id.as_str()});
    }
    Ok(Answer::json(200, &body))
}

/// `DELETE /api/v3/projects/{project}/triggers/{trigger}`, `task.delete`. Body, exactly: `{schema:
/// "qinglong/trigger-deletion@v1", mutationId, expectedRevision}`. `200 {status: "deleted" | "existing",
/// triggerId, cancelledRuns?}`. 400 `invalid_trigger`; 404 `trigger_not_found`; 409
/// `trigger_fence_rejected`; 503 `trigger_unavailable`.
pub(super) fn delete(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_TRIGGER)?;
    fields.schema(DELETE_SCHEMA)?;
    let mutation = fields.mutation()?;
    let expected_revision = fields.revision("expectedRevision")?;
    fields.end()?;
    let id = trigger_name(request)?;
    let done = api
        .store
        .call(DeleteTrigger { authority: who.authority.clone(), id: id.clone(), mutation, expected_revision })
        .map_err(|e| unavailable(word::TRIGGER_UNAVAILABLE, e, "the trigger was not deleted"))?;
    match done {
        TriggerDeleted::Done(cancelled) => {
            (api.poke_triggers)();
            let body = json!({"status": "deleted", "triggerId": id.as_str(), "cancelledRuns": cancelled.len()});
            Ok(Answer::json(200, &body))
        }
        TriggerDeleted::Existing => Ok(Answer::json(200, &json!({"status": "existing", "triggerId": id.as_str()}))),
        TriggerDeleted::NotFound => Err(not_found()),
        TriggerDeleted::Refused(reason) => Err(refused(reason)),
    }
}

fn item(head: &TriggerHead, clock_untrusted: bool) -> Value {
    let by_clock = matches!(head.trigger.when, When::Cron { .. });
    let state = match head.pin.word() {
        _ if !head.trigger.enabled => "disabled",
        Some(word) => word,
        None if by_clock && clock_untrusted => "clock_untrusted",
        None => "active",
    };
    let schedule = &head.schedule;
    json!({
        "triggerId": head.id.as_str(),
        "revision": head.revision,
        "taskId": head.trigger.task.as_str(),
        "taskRevision": head.trigger.pin.revision,
        "specSchema": head.trigger.schema(),
        "schedule": words(&head.trigger),
        "enabled": head.trigger.enabled,
        "state": state,
        // Still to be computed is not yet known.
        "nextFireAtMs": schedule.next_fire_at_ms.filter(|at_ms| *at_ms > 0),
        "lastScheduledAtMs": schedule.last_scheduled_at_ms,
        "lastRunId": schedule.last_run.map(|run| run.to_string()),
        "skipped": schedule.skipped,
        "lastSkippedAtMs": schedule.last_skipped_at_ms,
        "lastSkipReason": schedule.last_skip_reason,
        "updatedAtMs": head.updated_at_ms,
    })
}

/// When it starts its task, in short.
fn words(trigger: &Trigger) -> String {
    match &trigger.when {
        When::Cron { expression, zone, .. } => format!("{expression} {zone}"),
        When::Boot => "at boot".into(),
        When::RunFinished { task, outcomes } => {
            let words: Vec<&str> = outcomes.iter().map(|state| state.word()).collect();
            format!("after {task}: {}", words.join(", "))
        }
    }
}

fn detail(api: &Api, who: &Admitted, head: &TriggerHead) -> Value {
    let mut shown = item(head, api.board.clock_is_untrusted());
    shown["projectId"] = who.authority.project.as_str().into();
    shown["contentDigest"] = head.digest.to_string().into();
    shown["taskContentDigest"] = head.trigger.pin.digest.to_string().into();
    shown["spec"] = head.trigger.to_spec();
    shown["createdAtMs"] = head.created_at_ms.into();
    shown
}

/// The path's trigger. The route let only names pass.
fn trigger_name(request: &Request) -> Result<Name, Answer> {
    request.params.get(1).and_then(|text| Name::parse(text)).ok_or_else(not_found)
}

fn not_found() -> Answer {
    Answer::refusal(word::TRIGGER_NOT_FOUND, "there is no such trigger in this project")
}

fn refused(reason: FenceReason) -> Answer {
    let message = match reason {
        FenceReason::DefinitionChanged | FenceReason::VersionChanged => {
            "the trigger or its task is not at the revision you have seen; read both again and decide anew"
        }
        FenceReason::TaskDisabled => "the task is disabled; enable it, or store the trigger disabled",
        FenceReason::TaskFixed => "a trigger never moves to another task; make a new one",
        FenceReason::MutationConflict => "this mutationId was used for something else; use a fresh one",
        FenceReason::AuthorizationChanged => "your role or credential changed meanwhile; try again",
        _ => "",
    };
    Answer::refusal(word::trigger_fence(reason), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest::Digest;
    use crate::model::id::{RunId, Uuid};
    use crate::model::limits::{
        CRON_BYTES_MAX, PAGE_MAX, RESPONSE_BYTES_MAX, REVISION_MAX, TIME_MS_MAX, ZONE_BYTES_MAX,
    };
    use crate::model::record::{PinState, Schedule};
    use crate::model::trigger::{Misfire, Overlap};

    #[test]
    #[allow(non_snake_case)] // the acceptance point's own name
    fn max_page_response_under_64KiB() {
        let task = Name::parse(&"t".repeat(128)).unwrap();
        let (expression, zone) = ("*".repeat(CRON_BYTES_MAX), "z".repeat(ZONE_BYTES_MAX));
        let longest = TriggerHead {
            id: task.clone(),
            revision: REVISION_MAX,
            digest: Digest::of("d", b""),
            trigger: Trigger {
                task,
                pin: TaskRef { revision: REVISION_MAX, digest: Digest::of("d", b"") },
                when: When::Cron { expression, zone, misfire: Misfire::FireOnce },
                overlap: Overlap::Queue,
                enabled: true,
            },
            pin: PinState::TaskDisabled,
            created_at_ms: TIME_MS_MAX,
            updated_at_ms: TIME_MS_MAX,
            schedule: Schedule {
                version: TIME_MS_MAX,
                next_fire_at_ms: Some(TIME_MS_MAX),
                last_scheduled_at_ms: Some(TIME_MS_MAX),
                last_run: Some(RunId(Uuid::from_bytes([0xff; 16]))),
                skipped: TIME_MS_MAX,
                last_skipped_at_ms: Some(TIME_MS_MAX),
                last_skip_reason: Some("execution_revision_damaged".into()),
            },
        };
        let page = page(vec![longest; PAGE_MAX], true, |head| item(head, true));
        let body = json!({"triggers": page.items, "hasMore": true, "next": {"triggerId": "t".repeat(128)}}).to_string();
        assert_eq!(page.items.len(), PAGE_MAX, "the whole page fits");
        assert!(body.len() <= RESPONSE_BYTES_MAX, "{} bytes", body.len());
    }
}
