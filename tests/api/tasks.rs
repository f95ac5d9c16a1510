//! Task definitions over the API.

use super::world::{World, code, task, uuid};
use qinglet::model::policy::Role;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

#[test]
fn create_update_replay_and_stale() {
    let world = World::new();
    let (first, second) = (task(None, true), {
        let mut body = task(Some(1), true);
        body["name"] = "Another name".into();
        body
    });
    let put = |body: &Value| world.ask(&world.owner, "PUT", "tasks/t", &body.to_string());
    let (status, created) = put(&first);
    assert_eq!((status, &created["status"]), (201, &json!("created")));
    let keys: Vec<&String> = created["task"].as_object().unwrap().keys().collect();
    let head =
        ["contentDigest", "createdAtMs", "enabled", "kind", "name", "revision", "specSchema", "taskId", "updatedAtMs"];
    assert_eq!(keys, head);
    let (status, updated) = put(&second);
    assert_eq!((status, &updated["status"], &updated["task"]["revision"]), (200, &json!("updated"), &json!(2)));
    assert_ne!(updated["task"]["contentDigest"], created["task"]["contentDigest"]);
    let (status, again) = put(&second);
    assert_eq!((status, &again["status"], &again["task"]), (200, &json!("existing"), &updated["task"]));
    assert_eq!(refusal(put(&task(Some(1), true))), (409, "task_definition_fence_rejected/definition_changed".into()));
    assert_eq!(refusal(put(&task(None, true))).0, 409, "it is there already");
    let mut drifted = second.clone();
    drifted["name"] = "A third name".into();
    assert_eq!(refusal(put(&drifted)), (409, "task_definition_fence_rejected/mutation_conflict".into()));
}

#[test]
fn only_who_may_change_a_task_sees_what_it_runs() {
    let world = World::new();
    let mut body = task(None, true);
    body["description"] = "What it is for".into();
    assert_eq!(world.ask(&world.owner, "PUT", "tasks/t", &body.to_string()).0, 201);
    let (operator, viewer) = (world.member("op", Role::Operator), world.member("viewer", Role::Viewer));
    let (_, full) = world.get(&operator, "tasks/t");
    assert_eq!(full["task"]["spec"]["config"]["environment"][0]["value"], "hunter2");
    assert_eq!((&full["task"]["labels"], &full["task"]["description"]), (&json!({"a": "b"}), &json!("What it is for")));
    let (status, plain) = world.get(&viewer, "tasks/t");
    assert_eq!(status, 200);
    assert_eq!(plain["task"]["contentDigest"], full["task"]["contentDigest"]);
    for field in ["spec", "labels", "description"] {
        assert_eq!(plain["task"].get(field), None, "{field}");
    }
    for target in ["tasks", "runs", "audit"] {
        assert!(!world.get(&world.owner, target).1.to_string().contains("hunter2"), "{target}");
    }
    assert_eq!(refusal(world.get(&viewer, "tasks/missing")), (404, "task_not_found".into()));
}

#[test]
fn a_wrong_definition_is_refused_by_its_field() {
    let world = World::new();
    let with = |pointer: &str, value: Value| {
        let mut body = task(None, true);
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap()[field] = value;
        body
    };
    let unsupported = "TASK_SPEC_UNSUPPORTED";
    let invalid = "invalid_task_definition";
    for (body, want, field) in [
        (with("/spec/config/timeoutMs", json!(0)), invalid, "timeoutMs"),
        (with("/spec/config/nice", json!(20)), invalid, "nice"),
        (with("/spec/config/requires", json!({"pids": 0})), invalid, "requires.pids"),
        (with("/spec/config/runAs", json!("a b")), invalid, "runAs"),
        (with("/spec/config/oomScoreAdj", json!(1001)), invalid, "oomScoreAdj"),
        (with("/spec/config/environmentPolicy", json!("all")), invalid, "environmentPolicy"),
        (with("/spec/config/leftovers", json!("some")), invalid, "leftovers"),
        (with("/spec/schema", json!("acme/thing@v1")), unsupported, "spec.schema"),
        (with("/kind", json!("workflow")), unsupported, "kind"),
        (with("/spec/config/nonsense", json!(1)), invalid, "nonsense"),
        (with("/spec/extra", json!(1)), invalid, "spec.extra"),
        (with("/spec", json!("x")), invalid, "spec"),
        (with("/name", json!("")), invalid, "name"),
        (with("/name", json!(3)), invalid, "name"),
        (with("/labels", json!({"a": 1})), invalid, "labels"),
        (with("/labels", json!([])), invalid, "labels"),
        (with("/enabled", json!("true")), invalid, "enabled"),
        (with("/expectedRevision", json!(0)), invalid, "expectedRevision"),
        (with("/repinTriggers", json!(1)), invalid, "repinTriggers"),
        (with("/occurredAtMs", json!(1)), invalid, "occurredAtMs"),
        (with("/schema", json!("x")), invalid, "schema"),
    ] {
        let (status, answer) = world.ask(&world.owner, "PUT", "tasks/t", &body.to_string());
        assert_eq!((status, code(&answer).as_str()), (400, want), "{body}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with(field), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    for field in ["schema", "mutationId", "expectedRevision", "name", "kind", "spec", "labels", "enabled"] {
        let mut body = task(None, true);
        body.as_object_mut().unwrap().remove(field);
        let (status, answer) = world.ask(&world.owner, "PUT", "tasks/t", &body.to_string());
        assert_eq!((status, &answer["message"]), (400, &json!(format!("{field} is missing"))));
    }
    assert_eq!(world.get(&world.owner, "tasks").1["tasks"], json!([]));
    let mut relaxed = task(None, true);
    relaxed["repinTriggers"] = true.into();
    relaxed["description"] = Value::Null;
    assert_eq!(world.ask(&world.owner, "PUT", "tasks/t", &relaxed.to_string()).0, 201);
}

#[test]
fn what_was_stored_can_be_shown() {
    let world = World::new();
    let with = |bytes: usize| {
        let mut body = task(None, true);
        let chunk = "x".repeat(15_000);
        let mut args: Vec<Value> = std::iter::repeat_n(json!(chunk), bytes / 15_000).collect();
        args.push("x".repeat(bytes % 15_000).into());
        body["spec"]["config"] = json!({"command": {"kind": "argv", "file": "/bin/echo", "args": args}});
        body["name"] = "\"".repeat(256).into();
        body
    };
    let id = "t".repeat(128);
    let put = |bytes: usize| world.ask(&world.owner, "PUT", &format!("tasks/{id}"), &with(bytes).to_string());
    // The largest that is taken, found by asking.
    let (mut fits, mut beyond) = (60_000, 66_000);
    while beyond - fits > 1 {
        let middle = usize::midpoint(fits, beyond);
        let mut body = with(middle);
        body["expectedRevision"] = 99.into();
        let (status, _) = world.ask(&world.owner, "PUT", &format!("tasks/{id}"), &body.to_string());
        match status {
            400 => beyond = middle,
            _ => fits = middle,
        }
    }
    assert_eq!(refusal(put(beyond)).0, 400);
    assert_eq!(put(fits).0, 201);
    let answer = world.answer(&world.owner, "GET", &format!("tasks/{id}"), "");
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() <= 64 * 1024 && answer.body.len() > 63 * 1024, "{}", answer.body.len());
}

#[test]
fn deleting_is_for_good_and_once() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    assert_eq!(world.start(&world.owner, "t", &uuid(), &seen).0, 202);
    let pokes = world.pokes.load(Ordering::Relaxed);
    let delete = |revision: i64, mutation: &str| {
        let body = json!({"schema": "qinglong/task-deletion@v1", "mutationId": mutation, "expectedRevision": revision});
        world.ask(&world.owner, "DELETE", "tasks/t", &body.to_string())
    };
    assert_eq!(refusal(delete(9, &uuid())), (409, "task_definition_fence_rejected/definition_changed".into()));
    let mutation = uuid();
    let (status, gone) = delete(seen.0, &mutation);
    assert_eq!((status, gone), (200, json!({"status": "deleted", "taskId": "t", "cancelledRuns": 1})));
    assert!(world.pokes.load(Ordering::Relaxed) > pokes);
    assert_eq!(delete(seen.0, &mutation).1["status"], "existing");
    assert_eq!(refusal(delete(seen.0, &uuid())), (404, "task_not_found".into()));
    assert_eq!(world.get(&world.owner, "tasks/t").0, 404);
    let (_, runs) = world.get(&world.owner, "runs?task=t&status=cancelled");
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "history stays");
    let again = world.put_task("t", None, true);
    assert!(again.0 > seen.0, "an id is never used for something else unseen");
    for body in ["{}", "[]", r#"{"schema":"qinglong/task-deletion@v1"}"#] {
        let answer = world.ask(&world.owner, "DELETE", "tasks/t", body);
        assert_eq!(refusal(answer), (400, "invalid_task_deletion_request".into()));
    }
}

#[test]
fn disabling_cancels_what_waits_and_wakes_the_dispatcher() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    for _ in 0..3 {
        assert_eq!(world.start(&world.owner, "t", &uuid(), &seen).0, 202);
    }
    let pokes = world.pokes.load(Ordering::Relaxed);
    let (status, answer) = world.ask(&world.owner, "PUT", "tasks/t", &task(Some(seen.0), false).to_string());
    assert_eq!((status, &answer["cancelledRuns"]), (200, &json!(3)));
    assert!(world.pokes.load(Ordering::Relaxed) > pokes);
    assert_eq!(world.get(&world.owner, "runs?status=queued").1["runs"], json!([]));
}

#[test]
fn the_list_pages_by_id() {
    let world = World::new();
    for i in 0..5 {
        world.put_task(&format!("t{i}"), None, i != 3);
    }
    let (_, first) = world.get(&world.owner, "tasks?limit=3");
    assert_eq!((&first["hasMore"], &first["next"]), (&json!(true), &json!({"taskId": "t2"})));
    let keys: Vec<&String> = first["tasks"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["enabled", "kind", "name", "revision", "specSchema", "taskId", "updatedAtMs"]);
    let (_, rest) = world.get(&world.owner, "tasks?limit=3&after_task_id=t2");
    let rest_ids: Vec<_> =
        rest["tasks"].as_array().unwrap().iter().map(|t| (t["taskId"].clone(), t["enabled"].clone())).collect();
    assert_eq!(rest_ids, [(json!("t3"), json!(false)), (json!("t4"), json!(true))], "disabled ones included");
    assert_eq!((&rest["hasMore"], rest.get("next")), (&json!(false), None));
}
