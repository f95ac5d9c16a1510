//! task.start: seed 376 point by point.

use super::world::{World, code, start, uuid};
use qinglet::model::limits::{EDGE, Limits};
use qinglet::model::policy::Role;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

fn fence(reason: &str) -> (u16, String) {
    (409, format!("task_start_fence_rejected/{reason}"))
}

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

#[test]
fn accepted_then_exact_replay_same_run() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let pokes = world.pokes.load(Ordering::Relaxed);
    let mutation = uuid();
    let (status, first) = world.start(&world.owner, "t", &mutation, &seen);
    assert_eq!(status, 202, "{first}");
    assert_eq!(world.pokes.load(Ordering::Relaxed), pokes + 1, "the dispatcher is woken");
    let keys: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["attemptId", "queuedAtMs", "runId", "status", "taskId", "taskRevision"]);
    assert_eq!(first["status"], "accepted");
    assert_eq!(first["taskRevision"], format!("qltd:v1:{}:{}", seen.0, seen.1));
    let replay = |after: &str| {
        let (status, mut again) = world.start(&world.owner, "t", &mutation, &seen);
        assert_eq!((status, again["status"].take()), (200, json!("existing")), "after {after}");
        again["status"] = "accepted".into();
        assert_eq!(again, first, "after {after}");
    };
    replay("nothing");
    let updated = world.put_task("t", Some(seen.0), true);
    replay("an update");
    world.put_task("t", Some(updated.0), false);
    replay("disabling, which cancelled the run");
    let (_, runs) = world.get(&world.owner, "runs");
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    let allowed = world.audit().into_iter().filter(|(op, outcome, _)| op == "task.start" && outcome == "allowed");
    assert_eq!(allowed.count(), 1, "one mutation, one audit row");
}

#[test]
fn the_admitted_run_is_as_the_seed_fixes_it() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (_, started) = world.start(&world.owner, "t", &uuid(), &seen);
    let run = started["runId"].as_str().unwrap();
    let (status, body) = world.get(&world.owner, &format!("runs/{run}"));
    let run_shown = &body["run"];
    assert_eq!(status, 200);
    for (field, want) in [
        ("id", started["runId"].clone()),
        ("projectId", json!("default")),
        ("taskId", json!("t")),
        ("taskRevision", started["taskRevision"].clone()),
        ("status", json!("queued")),
        ("version", json!(2)),
        ("eventSequence", json!(2)),
        ("priority", json!(0)),
        ("executionOrigin", json!("manual")),
        ("executionOwner", json!("runtime")),
        ("createdAtMs", started["queuedAtMs"].clone()),
        ("queuedAtMs", started["queuedAtMs"].clone()),
        ("startedAtMs", Value::Null),
        ("finishedAtMs", Value::Null),
    ] {
        assert_eq!(run_shown[field], want, "{field}");
    }
    assert_eq!(run_shown["latestAttempt"]["id"], started["attemptId"]);
    assert_eq!(run_shown["latestAttempt"]["status"], "claimed");
    let (_, events) = world.get(&world.owner, &format!("runs/{run}/events"));
    let events: Vec<_> =
        events["events"].as_array().unwrap().iter().map(|e| (e["type"].clone(), e["actorType"].clone())).collect();
    assert_eq!(events, [(json!("run.created"), json!("user")), (json!("run.queued"), json!("user"))]);
}

#[test]
fn shape_and_canonical_values() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let good = start(&uuid(), &seen);
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let without = |field: &str| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        body.to_string()
    };
    let before = world.audit().len();
    let shape = "invalid_task_start_request";
    let text = "invalid_request_body";
    let upper = seen.1.to_uppercase();
    for (body, want) in [
        (String::new(), text),
        ("{".into(), text),
        (format!("{good} x"), text),
        (format!("{good}{good}"), text),
        (good.to_string().replacen('{', "{\"schema\":\"qinglong/task-start@v1\",", 1), text),
        ("[]".into(), shape),
        ("null".into(), shape),
        (json!(["qinglong/task-start@v1", uuid(), seen.0, seen.1]).to_string(), shape),
        (with("input", json!({})), shape),
        (with("priority", json!(0)), shape),
        (without("schema"), shape),
        (without("mutationId"), shape),
        (without("expectedRevision"), shape),
        (without("expectedContentDigest"), shape),
        (with("schema", json!("qinglong/task-start@v2")), shape),
        (with("schema", Value::Null), shape),
        (with("mutationId", json!("00000000-0000-4000-8000-00000000000A")), shape),
        (with("mutationId", json!("{00000000-0000-4000-8000-000000000001}")), shape),
        (with("mutationId", json!(1)), shape),
        (with("expectedRevision", json!(0)), shape),
        (with("expectedRevision", json!(-1)), shape),
        (with("expectedRevision", json!(2_147_483_648_i64)), shape),
        (with("expectedRevision", json!(u64::MAX)), shape),
        (with("expectedRevision", json!("1")), shape),
        (with("expectedRevision", Value::Null), shape),
        (with("expectedContentDigest", json!(upper)), shape),
        (with("expectedContentDigest", json!(&seen.1[1..])), shape),
    ] {
        let (status, answer) = world.ask(&world.owner, "POST", "tasks/t/runs", &body);
        assert_eq!((status, code(&answer).as_str()), (400, want), "{body}");
        if want == shape && body.starts_with('{') {
            let message = answer["message"].as_str().unwrap();
            let fields = ["schema", "mutationId", "expectedRevision", "expectedContentDigest", "input", "priority"];
            assert!(fields.iter().any(|field| message.starts_with(field)), "{message}");
        }
    }
    let mut padded = good.to_string();
    padded.push_str(&" ".repeat(513 - padded.len()));
    assert_eq!(refusal(world.ask(&world.owner, "POST", "tasks/t/runs", &padded)).0, 413);
    padded.pop();
    assert_eq!(world.audit().len(), before, "nothing was written");
    assert_eq!(world.ask(&world.owner, "POST", "tasks/t/runs", &padded).0, 202, "512 bytes are taken");
}

#[test]
fn http_202_200_400_404_409_503() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let mutation = uuid();
    assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 202);
    assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 200);
    assert_eq!(world.ask(&world.owner, "POST", "tasks/t/runs", "{}").0, 400);
    assert_eq!(refusal(world.start(&world.owner, "missing", &uuid(), &seen)), (404, "task_not_found".into()));
    assert_eq!(
        refusal(world.start(&world.owner, "t", &mutation, &(seen.0 + 1, seen.1.clone()))),
        fence("mutation_conflict")
    );
    world.store.close();
    let (status, body) = world.start(&world.owner, "t", &uuid(), &seen);
    assert_eq!((status, code(&body).as_str()), (503, "server_draining"));
}

#[test]
fn definition_updated_or_disabled() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let newer = world.put_task("t", Some(seen.0), true);
    assert_eq!(refusal(world.start(&world.owner, "t", &uuid(), &seen)), fence("definition_changed"));
    assert_eq!(
        refusal(world.start(&world.owner, "t", &uuid(), &(newer.0, "0".repeat(64)))),
        fence("definition_changed")
    );
    assert_eq!(
        refusal(world.start(&world.owner, "t", &uuid(), &(newer.0 + 1, newer.1.clone()))),
        fence("definition_changed")
    );
    let disabled = world.put_task("t", Some(newer.0), false);
    assert_eq!(refusal(world.start(&world.owner, "t", &uuid(), &disabled)), fence("task_disabled"));
    let body = json!({"schema": "qinglong/task-deletion@v1", "mutationId": uuid(), "expectedRevision": disabled.0});
    assert_eq!(world.ask(&world.owner, "DELETE", "tasks/t", &body.to_string()).0, 200);
    assert_eq!(refusal(world.start(&world.owner, "t", &uuid(), &disabled)), (404, "task_not_found".into()));
    let (_, runs) = world.get(&world.owner, "runs");
    assert_eq!(runs["runs"], json!([]), "nothing was admitted");
}

#[test]
fn mutation_conflict_on_task_digest_subject() {
    let world = World::new();
    let (seen, other) = (world.put_task("t", None, true), world.put_task("u", None, true));
    let mutation = uuid();
    assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 202);
    let conflict = fence("mutation_conflict");
    assert_eq!(refusal(world.start(&world.owner, "u", &mutation, &other)), conflict, "another task");
    assert_eq!(refusal(world.start(&world.owner, "t", &mutation, &(seen.0, other.1))), conflict, "another digest");
    assert_eq!(
        refusal(world.start(&world.owner, "t", &mutation, &(seen.0 + 1, seen.1.clone()))),
        conflict,
        "another revision"
    );
    let operator = world.member("op", Role::Operator);
    assert_eq!(refusal(world.start(&operator, "t", &mutation, &seen)), conflict, "another subject");
    assert_eq!(refusal(world.start(&world.owner, "missing", &mutation, &seen)), conflict, "a task that is not there");
    let newer = world.put_task("t", Some(seen.0), true);
    assert_eq!(refusal(world.start(&world.owner, "t", &mutation, &newer)), conflict, "the task's next revision");
}

#[test]
fn role_revoked_between_admission_and_tx() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let operator = world.member("op", Role::Operator);
    let subject = json!({"type": "user", "id": "op"});
    for role in [Some("viewer"), None] {
        let request = World::request(&operator, "POST", "tasks/t/runs", &start(&uuid(), &seen).to_string());
        let admitted = world.api.admit(&request).unwrap();
        assert_eq!(world.bind(&world.owner, &subject, role).0, 200);
        let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
        let body = serde_json::from_slice(&no.body).unwrap();
        assert_eq!((no.status, code(&body)), fence("authorization_changed"), "{role:?}");
        world.bind(&world.owner, &subject, Some("operator"));
    }
    let (_, runs) = world.get(&world.owner, "runs");
    assert_eq!(runs["runs"], json!([]));
}

#[test]
fn confirm_after_revoke_fails_closed() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let operator = world.member("op", Role::Operator);
    let request = World::request(&operator, "POST", "tasks/t/runs", &start(&uuid(), &seen).to_string());
    let admitted = world.api.admit(&request).unwrap();
    let credential = operator.split('_').nth(1).unwrap();
    let body = json!({"schema": "qinglong/credential-revocation@v1", "mutationId": uuid()});
    let revocation = format!("access/tokens/{credential}/revocation");
    assert_eq!(world.ask(&world.owner, "POST", &revocation, &body.to_string()).0, 200);
    let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    assert_eq!(no.status, 409);
    assert_eq!(world.start(&operator, "t", &uuid(), &seen).0, 401);
}

#[test]
fn a_revoked_subject_gets_no_replay() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let operator = world.member("op", Role::Operator);
    let mutation = uuid();
    assert_eq!(world.start(&operator, "t", &mutation, &seen).0, 202);
    world.bind(&world.owner, &json!({"type": "user", "id": "op"}), Some("viewer"));
    assert_eq!(refusal(world.start(&operator, "t", &mutation, &seen)), (403, "forbidden".into()));
}

#[test]
fn execution_revision_missing_or_corrupt_503() {
    for sql in [
        "DELETE FROM execution_revisions",
        "UPDATE execution_revisions SET execution = replace(execution, 'true', 'halt')",
        "UPDATE execution_revisions SET digest = zeroblob(32)",
        "UPDATE execution_revisions SET task_digest = zeroblob(32)",
    ] {
        let world = World::new();
        let seen = world.put_task("t", None, true);
        let mutation = uuid();
        assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 202);
        let world = world.tampered(|db| {
            assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
        });
        let (status, body) = world.start(&world.owner, "t", &uuid(), &seen);
        assert_eq!((status, &body["code"]), (503, &json!("task_start_unavailable")), "{sql}: {body}");
        let (_, runs) = world.get(&world.owner, "runs");
        assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{sql}");
        assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 200, "the replay's authority is the stored run");
    }
}

#[test]
fn a_full_queue_is_503_and_empties() {
    static SMALL: Limits = Limits { queued_runs: 2, ..EDGE };
    let world = World::with(&SMALL);
    let seen = world.put_task("t", None, true);
    let mutation = uuid();
    assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 202);
    assert_eq!(world.start(&world.owner, "t", &uuid(), &seen).0, 202);
    let full = world.answer(&world.owner, "POST", "tasks/t/runs", &start(&uuid(), &seen).to_string());
    let body: Value = serde_json::from_slice(&full.body).unwrap();
    assert_eq!(
        (full.status, code(&body).as_str(), full.retry_after),
        (503, "task_start_unavailable/queue_full", Some(1))
    );
    assert_eq!(world.start(&world.owner, "t", &mutation, &seen).0, 200, "a replay needs no place");
    let disabled = world.put_task("t", Some(seen.0), false);
    let seen = world.put_task("t", Some(disabled.0), true);
    assert_eq!(world.start(&world.owner, "t", &uuid(), &seen).0, 202);
}

#[test]
fn concurrent_single_winner() {
    let world = Arc::new(World::new());
    let seen = world.put_task("t", None, true);
    let (mutation, barrier) = (uuid(), Arc::new(Barrier::new(16)));
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let (world, seen, mutation, barrier) = (world.clone(), seen.clone(), mutation.clone(), barrier.clone());
            std::thread::spawn(move || {
                barrier.wait();
                let (status, body) = world.start(&world.owner, "t", &mutation, &seen);
                (status, body["runId"].clone())
            })
        })
        .collect();
    let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(answers.iter().filter(|(status, _)| *status == 202).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 15, "{answers:?}");
    assert!(answers.iter().all(|(_, run)| *run == answers[0].1));
}

#[test]
fn a_refused_start_writes_no_run_and_is_not_an_allowed_row() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    world.put_task("t", Some(seen.0), true);
    let allowed =
        |world: &World| world.audit().iter().filter(|row| row.0 == "task.start" && row.1 == "allowed").count();
    assert_eq!(world.start(&world.owner, "t", &uuid(), &seen).0, 409);
    assert_eq!(allowed(&world), 0);
}
