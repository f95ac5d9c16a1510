//! Triggers over the API: their contract, who may, and what is written down.

use super::world::{World, code, uuid};
use qinglet::model::policy::Role;
use serde_json::{Value, json};

fn nightly() -> Value {
    json!({"schema": "qinglong/cron@v1", "config": {"expression": "30 3 * * *", "timezone": "Europe/Prague"}})
}

/// A body for a trigger of task `t` as it was seen.
fn body(seen: &Value, expected: Option<i64>, spec: &Value) -> Value {
    json!({
        "schema": "qinglong/trigger-definition@v1",
        "mutationId": uuid(),
        "expectedRevision": expected,
        "taskId": "t",
        "taskRevision": seen["revision"],
        "taskContentDigest": seen["contentDigest"],
        "spec": spec,
        "enabled": true,
    })
}

fn put(world: &World, token: &str, id: &str, body: &Value) -> (u16, Value) {
    world.ask(token, "PUT", &format!("triggers/{id}"), &body.to_string())
}

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

/// A world with task `t` and how it was seen.
fn world() -> (World, Value) {
    let world = World::new();
    world.put_task("t", None, true);
    let (_, seen) = world.get(&world.owner, "tasks/t");
    let task = seen["task"].clone();
    (world, task)
}

#[test]
fn it_is_made_shown_listed_changed_and_deleted() {
    let (world, seen) = world();
    let first = body(&seen, None, &nightly());
    let (status, made) = put(&world, &world.owner, "nightly", &first);
    assert_eq!((status, &made["status"]), (201, &json!("created")), "{made}");
    let trigger = &made["trigger"];
    assert_eq!(trigger["spec"]["config"]["misfirePolicy"], "skip", "defaults are filled in");
    assert_eq!(
        (&trigger["revision"], &trigger["taskRevision"], &trigger["enabled"]),
        (&json!(1), &json!(1), &json!(true))
    );
    assert_eq!((&trigger["state"], &trigger["schedule"]), (&json!("active"), &json!("30 3 * * * Europe/Prague")));
    assert_eq!(put(&world, &world.owner, "nightly", &first).1["status"], "existing");
    let (status, shown) = world.get(&world.owner, "triggers/nightly");
    assert_eq!((status, &shown["trigger"]), (200, trigger));
    let (_, list) = world.get(&world.owner, "triggers?limit=1");
    assert_eq!((&list["triggers"][0]["triggerId"], &list["hasMore"]), (&json!("nightly"), &json!(false)));
    assert_eq!(list["triggers"][0].get("spec"), None);
    let mut off = body(&seen, Some(1), &nightly());
    off["enabled"] = false.into();
    let (status, changed) = put(&world, &world.owner, "nightly", &off);
    assert_eq!(
        (status, &changed["status"], &changed["trigger"]["state"]),
        (200, &json!("updated"), &json!("disabled"))
    );
    let gone =
        json!({"schema": "qinglong/trigger-deletion@v1", "mutationId": uuid(), "expectedRevision": 2}).to_string();
    assert_eq!(world.ask(&world.owner, "DELETE", "triggers/nightly", &gone).1["status"], "deleted");
    assert_eq!(world.ask(&world.owner, "DELETE", "triggers/nightly", &gone).1["status"], "existing");
    assert_eq!(refusal(world.get(&world.owner, "triggers/nightly")), (404, "trigger_not_found".into()));
    let audited: Vec<_> = world.audit().into_iter().filter(|row| row.1 == "allowed").map(|row| row.0).collect();
    assert_eq!(audited[..3], ["trigger.delete", "trigger.update", "trigger.create"]);
}

#[test]
fn cron_canonical_macro_rejected_timezone_required() {
    let (world, seen) = world();
    let cron = |expression: &str, zone: &str| json!({"schema": "qinglong/cron@v1", "config": {"expression": expression, "timezone": zone}});
    for (spec, words) in [
        (cron("@daily", "UTC"), "expression: at character 1: short forms are not stored; write `0 0 * * *`"),
        (cron("0 0 31 2 *", "UTC"), "expression: at character 5: "),
        (cron("* * * *", "UTC"), "expression: at character "),
        (cron("0 3 * * *", "Nowhere/City"), "timezone: at character 1: there is no zone Nowhere/City"),
        (cron("0 3 * * *", ""), "timezone: must be 1 to"),
        (json!({"schema": "qinglong/cron@v1", "config": {"expression": "0 3 * * *"}}), "timezone: must be a string"),
        (json!({"schema": "qinglong/interval@v1", "config": {}}), "not supported"),
    ] {
        let (status, said) = put(&world, &world.owner, "x", &body(&seen, None, &spec));
        assert_eq!((status, said["code"].as_str()), (400, Some("invalid_trigger")), "{spec}: {said}");
        assert!(said["message"].as_str().unwrap().contains(words), "{said}");
    }
    let (_, made) = put(&world, &world.owner, "x", &body(&seen, None, &cron("0\t3  * * *", "CST-8")));
    assert_eq!(made["trigger"]["spec"]["config"]["expression"], "0 3 * * *");
}

#[test]
fn what_it_pins_must_be_there_as_it_was_seen() {
    let (world, seen) = world();
    let mut other = body(&seen, None, &nightly());
    other["taskContentDigest"] = "0".repeat(64).into();
    assert_eq!(
        refusal(put(&world, &world.owner, "x", &other)),
        (409, "trigger_fence_rejected/definition_changed".into())
    );
    let mut nobody = body(&seen, None, &nightly());
    nobody["taskId"] = "nobody".into();
    assert_eq!(refusal(put(&world, &world.owner, "x", &nobody)), (404, "task_not_found".into()));
    world.put_task("t", Some(1), false);
    let (_, now) = world.get(&world.owner, "tasks/t");
    let late = body(&now["task"], None, &nightly());
    assert_eq!(refusal(put(&world, &world.owner, "x", &late)), (409, "trigger_fence_rejected/task_disabled".into()));
}

#[test]
fn a_viewer_looks_and_an_operator_does_not_delete() {
    let (world, seen) = world();
    put(&world, &world.owner, "x", &body(&seen, None, &nightly()));
    let viewer = world.member("v", Role::Viewer);
    assert_eq!(world.get(&viewer, "triggers/x").0, 200);
    assert_eq!(refusal(put(&world, &viewer, "y", &body(&seen, None, &nightly()))), (403, "forbidden".into()));
    let operator = world.member("op", Role::Operator);
    assert_eq!(put(&world, &operator, "y", &body(&seen, None, &nightly())).0, 201);
    let gone =
        json!({"schema": "qinglong/trigger-deletion@v1", "mutationId": uuid(), "expectedRevision": 1}).to_string();
    assert_eq!(refusal(world.ask(&operator, "DELETE", "triggers/y", &gone)), (403, "forbidden".into()));
}

#[test]
fn a_role_that_is_taken_away_between_admission_and_transaction_is_409() {
    let (world, seen) = world();
    let operator = world.member("op", Role::Operator);
    let request = World::request(&operator, "PUT", "triggers/x", &body(&seen, None, &nightly()).to_string());
    let admitted = world.api.admit(&request).unwrap();
    assert_eq!(world.bind(&world.owner, &json!({"type": "user", "id": "op"}), Some("viewer")).0, 200);
    let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    let said: Value = serde_json::from_slice(&no.body).unwrap();
    assert_eq!((no.status, code(&said).as_str()), (409, "trigger_fence_rejected/authorization_changed"));
    assert_eq!(world.get(&world.owner, "triggers/x").0, 404);
}
