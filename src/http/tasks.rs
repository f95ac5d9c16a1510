//! Task definitions: store, read, list, delete.

use super::admit::{Admitted, demand};
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{Fields, page, refuse, unavailable};
use crate::model::command::{self, SpecError};
use crate::model::limits::RESPONSE_ITEMS_BYTES_MAX;
use crate::model::name::Name;
use crate::model::policy::Permission;
use crate::model::record::TaskHead;
use crate::model::task::{Definition, TaskPut};
use crate::model::word::{self, FenceReason};
use crate::store::tasks::{DeleteTask, Deleted, GetTask, ListTasks, PublishTask, Published};
use serde_json::{Map, Value, json};

/// The schema of a task PUT.
pub const PUT_SCHEMA: &str = "qinglong/task-definition@v1";
/// The schema of a task DELETE.
pub const DELETE_SCHEMA: &str = "qinglong/task-deletion@v1";

/// `PUT /api/v3/projects/{project}/tasks/{task}`, `task.update` (and `task.create` to create).
///
/// Body, exactly: `{schema: "qinglong/task-definition@v1", mutationId, expectedRevision: 1.. | null
/// (null = create), name, description?, kind: "command", spec: {schema: "qinglong/command@v1",
/// config}, labels: {name: value}, enabled, repinTriggers?}`. `description` may be null.
///
/// `201 {status: "created", task}`, `200 {status: "updated", task, cancelledRuns}` (how many queued
/// Runs disabling cancelled), `200 {status: "existing", task}` for the same mutation again. `task`
/// is [`head`]. 400 `invalid_request_body`, `invalid_task_definition`, `TASK_SPEC_UNSUPPORTED`; 409
/// `task_definition_fence_rejected`; 503 `task_definition_unavailable`.
pub(super) fn put(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let put = parse_put(request)?;
    if put.expected_revision.is_none() {
        demand(api, request, who, Permission::TaskCreate)?;
    }
    fits_an_answer(&put)?;
    let secrets = put.definition.command.secrets();
    if !secrets.is_empty() {
        demand(api, request, who, Permission::SecretUse)?;
    }
    if let Some(other) = secrets.iter().find(|secret| secret.project != who.authority.project) {
        let words = format!("environment: the secret {} is of another project; only its own can be used", other.name);
        return Err(refuse(word::INVALID_TASK_DEFINITION, &words));
    }
    let published = api
        .store
        .call(PublishTask { authority: who.authority.clone(), put })
        .map_err(|e| unavailable(word::TASK_DEFINITION_UNAVAILABLE, e, "the task was not stored"))?;
    match published {
        Published::Created(task) => Ok(Answer::json(201, &json!({"status": "created", "task": head(&task)}))),
        Published::Updated(task, cancelled) => {
            (api.poke)();
            let body = json!({"status": "updated", "task": head(&task), "cancelledRuns": cancelled.len()});
            Ok(Answer::json(200, &body))
        }
        Published::Existing(task) => Ok(Answer::json(200, &json!({"status": "existing", "task": head(&task)}))),
        Published::Refused(reason) => Err(refused(reason)),
        Published::Unavailable(reason) => {
            let word = word::TASK_DEFINITION_UNAVAILABLE.because(reason);
            Err(Answer::refusal(word, "the task was not stored, because a record it depends on is missing or damaged"))
        }
    }
}

fn parse_put(request: &Request) -> Result<TaskPut, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_TASK_DEFINITION)?;
    fields.schema(PUT_SCHEMA)?;
    let mutation = fields.mutation()?;
    let expected_revision = fields.nullable_revision("expectedRevision")?;
    let title = fields.text("name")?;
    let description = fields.optional_text("description")?;
    let kind = fields.text("kind")?;
    let spec = fields.value("spec")?;
    let labels = fields.texts("labels")?;
    let enabled = fields.flag("enabled")?;
    let repin = fields.optional_flag("repinTriggers")?.unwrap_or(false);
    fields.end()?;
    let definition = Definition::check(title, description, &kind, &spec, labels, enabled).map_err(|e| {
        let word = match e {
            SpecError::Unsupported { .. } => word::TASK_SPEC_UNSUPPORTED,
            SpecError::Invalid { .. } => word::INVALID_TASK_DEFINITION,
        };
        refuse(word, &e.to_string())
    })?;
    Ok(TaskPut { task: task_name(request)?, mutation, expected_revision, definition, repin })
}

/// What was stored must be possible to show: a definition whose answer would be too long is refused
/// here, because nobody could read or change it later.
fn fits_an_answer(put: &TaskPut) -> Result<(), Answer> {
    let mut shown = Map::new();
    show_definition(&mut shown, &put.definition);
    let bytes = Value::Object(shown).to_string().len();
    if bytes > RESPONSE_ITEMS_BYTES_MAX {
        let message = format!(
            "spec, labels and description take {bytes} bytes together; {RESPONSE_ITEMS_BYTES_MAX} is the most \
             (put a long script into a file and name the file)"
        );
        return Err(refuse(word::INVALID_TASK_DEFINITION, &message));
    }
    Ok(())
}

/// `GET /api/v3/projects/{project}/tasks/{task}`, `task.read`: `200 {task}` with [`head`]'s fields,
/// and for holders of `task.update` also `spec`, `labels` and `description` (null = none). 404
/// `task_not_found`; 503 `task_query_unavailable`.
pub(super) fn get(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let task = task_name(request)?;
    let found = api
        .store
        .call(GetTask { project: who.authority.project.clone(), task })
        .map_err(|e| unavailable(word::TASK_QUERY_UNAVAILABLE, e, "the task was not read"))?;
    let found = found.ok_or_else(not_found)?;
    let mut shown = head(&found.head);
    if who.may(Permission::TaskUpdate)
        && let Some(shown) = shown.as_object_mut()
    {
        show_definition(shown, &found.definition);
    }
    Ok(Answer::json(200, &json!({"task": shown})))
}

/// `GET /api/v3/projects/{project}/tasks?limit&after_task_id`, `task.read`: `200 {tasks: [{taskId,
/// revision, name, kind, specSchema, enabled, updatedAtMs}], hasMore, next?: {taskId}}` by id,
/// disabled ones included. 503 `task_list_unavailable`.
pub(super) fn list(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let project = who.authority.project.clone();
    let after = query::task(request, "after_task_id");
    let (tasks, more) = api
        .store
        .call(ListTasks { project, after, limit: query::limit(request) })
        .map_err(|e| unavailable(word::TASK_LIST_UNAVAILABLE, e, "the tasks were not read"))?;
    let page = page(tasks, more, list_item);
    let mut body = json!({"tasks": page.items, "hasMore": page.has_more});
    if let Some(last) = page.last {
        body["next"] = json!({"taskId": last.task.as_str()});
    }
    Ok(Answer::json(200, &body))
}

/// `DELETE /api/v3/projects/{project}/tasks/{task}`, `task.delete`. Body, exactly: `{schema:
/// "qinglong/task-deletion@v1", mutationId, expectedRevision}`. `200 {status: "deleted", taskId,
/// cancelledRuns}` or `200 {status: "existing", taskId}` for the same mutation again. 400
/// `invalid_request_body`, `invalid_task_deletion_request`; 404 `task_not_found`; 409
/// `task_definition_fence_rejected`; 503 `task_definition_unavailable`.
pub(super) fn delete(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_TASK_DELETION)?;
    fields.schema(DELETE_SCHEMA)?;
    let mutation = fields.mutation()?;
    let expected_revision = fields.revision("expectedRevision")?;
    fields.end()?;
    let task = task_name(request)?;
    let deleted = api
        .store
        .call(DeleteTask { authority: who.authority.clone(), task: task.clone(), mutation, expected_revision })
        .map_err(|e| unavailable(word::TASK_DEFINITION_UNAVAILABLE, e, "the task was not deleted"))?;
    match deleted {
        Deleted::Done(cancelled) => {
            (api.poke)();
            let body = json!({"status": "deleted", "taskId": task.as_str(), "cancelledRuns": cancelled.len()});
            Ok(Answer::json(200, &body))
        }
        Deleted::Existing => Ok(Answer::json(200, &json!({"status": "existing", "taskId": task.as_str()}))),
        Deleted::NotFound => Err(not_found()),
        Deleted::Refused(reason) => Err(refused(reason)),
    }
}

/// A task without what it runs: `{taskId, revision, contentDigest, name, kind, specSchema, enabled,
/// createdAtMs, updatedAtMs}`.
fn head(task: &TaskHead) -> Value {
    let mut shown = list_item(task);
    shown["contentDigest"] = task.task_ref.digest.to_string().into();
    shown["createdAtMs"] = task.created_at_ms.into();
    shown
}

fn list_item(task: &TaskHead) -> Value {
    json!({
        "taskId": task.task.as_str(),
        "revision": task.task_ref.revision,
        "name": task.title,
        "kind": command::KIND,
        "specSchema": command::SCHEMA,
        "enabled": task.enabled,
        "updatedAtMs": task.updated_at_ms,
    })
}

fn show_definition(shown: &mut Map<String, Value>, definition: &Definition) {
    shown.insert("spec".into(), definition.command.to_spec());
    shown.insert("labels".into(), json!(definition.labels));
    shown.insert("description".into(), json!(definition.description));
}

/// The path's task. The route let only names pass.
pub(super) fn task_name(request: &Request) -> Result<Name, Answer> {
    request.params.get(1).and_then(|text| Name::parse(text)).ok_or_else(not_found)
}

/// The one answer for a task that is not there, here or at all.
pub(super) fn not_found() -> Answer {
    Answer::refusal(word::TASK_NOT_FOUND, "there is no such task in this project")
}

fn refused(reason: FenceReason) -> Answer {
    let message = match reason {
        FenceReason::DefinitionChanged | FenceReason::VersionChanged => {
            "the task is not at the expected revision; read it again and decide anew"
        }
        FenceReason::MutationConflict => "this mutationId was used for something else; use a fresh one",
        FenceReason::AuthorizationChanged => "your role or credential changed meanwhile; try again",
        _ => "",
    };
    Answer::refusal(word::task_definition_fence(reason), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest::Digest;
    use crate::model::limits::{PAGE_MAX, RESPONSE_BYTES_MAX, REVISION_MAX, TIME_MS_MAX, TITLE_BYTES_MAX};
    use crate::model::task::TaskRef;

    #[test]
    #[allow(non_snake_case)] // the acceptance point's own name
    fn max_page_response_under_64KiB() {
        let longest = TaskHead {
            task: Name::parse(&"t".repeat(128)).unwrap(),
            task_ref: TaskRef { revision: REVISION_MAX, digest: Digest::of("d", b"") },
            title: "\"".repeat(TITLE_BYTES_MAX),
            enabled: false,
            created_at_ms: TIME_MS_MAX,
            updated_at_ms: TIME_MS_MAX,
        };
        let around = json!({"task": head(&longest)}).to_string().len();
        assert!(around + RESPONSE_ITEMS_BYTES_MAX <= RESPONSE_BYTES_MAX, "{around} bytes around a definition");
        let page = page(vec![longest; PAGE_MAX], true, list_item);
        let body = json!({"tasks": page.items, "hasMore": true, "next": {"taskId": "t".repeat(128)}}).to_string();
        assert_eq!(page.items.len(), PAGE_MAX, "the whole page fits");
        assert!(body.len() <= RESPONSE_BYTES_MAX, "{} bytes", body.len());
    }
}
