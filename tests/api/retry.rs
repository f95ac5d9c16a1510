//! Trying an ended run again, over the API: its contract, who may, and what is written down.

use super::world::{World, code, uuid};
use qinglet::model::policy::Role;
use qinglet::store::cancel::{EndAsked, ListCancelling};
use serde_json::{Value, json};

fn body(mutation: &str) -> Value {
    json!({"schema": "qinglong/run-retry@v1", "mutationId": mutation})
}

fn retry(world: &World, token: &str, run: &str, mutation: &str) -> (u16, Value) {
    world.ask(token, "POST", &format!("runs/{run}/retry"), &body(mutation).to_string())
}

/// A world with one run that was cancelled before it began.
fn world() -> (World, String) {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (_, started) = world.start(&world.owner, "t", &uuid(), &seen);
    let run = started["runId"].as_str().unwrap().to_owned();
    let cancel = json!({"schema": "qinglong/run-cancellation@v1", "mutationId": uuid()}).to_string();
    assert_eq!(world.ask(&world.owner, "POST", &format!("runs/{run}/cancellation"), &cancel).0, 202);
    let page = world.store.call(ListCancelling { limit: 1 }).unwrap();
    world.store.call(EndAsked { run: page[0].run, attempt: page[0].attempt, unproven: false }).unwrap();
    (world, run)
}

fn allowed(world: &World) -> usize {
    world.audit().iter().filter(|row| row.0 == "run.retry" && row.1 == "allowed").count()
}

#[test]
fn the_first_is_202_the_same_again_200_with_the_same_run() {
    let (world, run) = world();
    let mutation = uuid();
    let (status, made) = retry(&world, &world.owner, &run, &mutation);
    assert_eq!((status, &made["status"], &made["retryOfRunId"]), (202, &json!("accepted"), &json!(run)));
    let (status, again) = retry(&world, &world.owner, &run, &mutation);
    assert_eq!((status, &again["status"], &again["runId"]), (200, &json!("existing"), &made["runId"]));
    assert_eq!(allowed(&world), 1);
    let (_, shown) = world.get(&world.owner, &format!("runs/{}", made["runId"].as_str().unwrap()));
    assert_eq!((&shown["run"]["retryOfRunId"], &shown["run"]["status"]), (&json!(run), &json!("queued")));
    let (status, said) = retry(&world, &world.owner, made["runId"].as_str().unwrap(), &uuid());
    assert_eq!((status, code(&said).as_str()), (409, "run_not_retryable/queued"));
    let operator = world.member("op", Role::Operator);
    let (status, said) = retry(&world, &operator, &run, &mutation);
    assert_eq!((status, code(&said).as_str()), (409, "run_retry_fence_rejected/mutation_conflict"));
}

#[test]
fn the_minute_is_counted_for_each_subject_and_a_repeated_request_is_free() {
    let (world, run) = world();
    let mutation = uuid();
    for _ in 0..6 {
        assert!(matches!(retry(&world, &world.owner, &run, &mutation).0, 200 | 202));
    }
    for _ in 0..3 {
        assert_eq!(retry(&world, &world.owner, &run, &uuid()).0, 202);
    }
    let (status, said) = retry(&world, &world.owner, &run, &uuid());
    assert_eq!((status, code(&said).as_str()), (429, "run_retry_limited"));
    let operator = world.member("op", Role::Operator);
    assert_eq!(retry(&world, &operator, &run, &uuid()).0, 202, "another one's minute");
}

#[test]
fn what_is_not_exactly_this_request_or_not_here_is_refused_and_nothing_is_made() {
    let (world, run) = world();
    let target = format!("runs/{run}/retry");
    for wrong in [
        json!({}),
        json!({"schema": "qinglong/run-retry@v1"}),
        json!({"schema": "qinglong/run-cancellation@v1", "mutationId": uuid()}),
        json!({"schema": "qinglong/run-retry@v1", "mutationId": uuid(), "now": true}),
    ] {
        let (status, said) = world.ask(&world.owner, "POST", &target, &wrong.to_string());
        assert_eq!((status, code(&said).as_str()), (400, "invalid_run_retry_request"), "{wrong}");
    }
    let (status, said) = retry(&world, &world.owner, "018f5e7a-9b1c-7def-8123-456789abcdef", &uuid());
    assert_eq!((status, code(&said).as_str()), (404, "run_not_found"));
    world.put_task("t", Some(1), false);
    let (status, said) = retry(&world, &world.owner, &run, &uuid());
    assert_eq!((status, code(&said).as_str()), (409, "run_retry_fence_rejected/task_disabled"));
    assert_eq!(allowed(&world), 0);
}

#[test]
fn a_role_that_is_taken_away_between_admission_and_transaction_is_409() {
    let (world, run) = world();
    let operator = world.member("op", Role::Operator);
    let target = format!("runs/{run}/retry");
    let request = World::request(&operator, "POST", &target, &body(&uuid()).to_string());
    let admitted = world.api.admit(&request).unwrap();
    assert_eq!(world.bind(&world.owner, &json!({"type": "user", "id": "op"}), Some("viewer")).0, 200);
    let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    let said: Value = serde_json::from_slice(&no.body).unwrap();
    assert_eq!((no.status, code(&said).as_str()), (409, "run_retry_fence_rejected/authorization_changed"));
    assert_eq!(allowed(&world), 0);
}
