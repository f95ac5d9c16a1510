//! Asking a run to end, over the API: its contract, who may, and what is written down.

use super::world::{World, code, uuid};
use qinglet::http::route;
use qinglet::http::routes::ROUTES;
use qinglet::model::id::RunId;
use qinglet::model::policy::Role;
use qinglet::store::cancel::{EndAsked, ListCancelling};
use qinglet::store::start::Step;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

fn body(mutation: &str) -> Value {
    json!({"schema": "qinglong/run-cancellation@v1", "mutationId": mutation})
}

fn cancel(world: &World, token: &str, run: &str) -> (u16, Value) {
    world.ask(token, "POST", &format!("runs/{run}/cancellation"), &body(&uuid()).to_string())
}

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

/// A world with one queued run.
fn world() -> (World, String) {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (status, started) = world.start(&world.owner, "t", &uuid(), &seen);
    assert_eq!(status, 202, "{started}");
    let run = started["runId"].as_str().unwrap().to_owned();
    (world, run)
}

/// Every audit row of this operation: outcome and reason, newest first.
fn rows(world: &World) -> Vec<(String, String)> {
    world.audit().into_iter().filter(|row| row.0 == "run.cancel").map(|row| (row.1, row.2)).collect()
}

#[test]
fn the_first_is_202_the_next_200_and_after_the_end_200_again() {
    let (world, run) = world();
    let pokes = || world.pokes.load(Ordering::Relaxed);
    let before = pokes();
    let says = |status: &str| json!({"status": status, "runId": run});
    assert_eq!(cancel(&world, &world.owner, &run), (202, says("accepted")));
    assert_eq!(pokes(), before + 1, "the engine is told");
    let (_, asked) = world.get(&world.owner, &format!("runs/{run}"));
    assert_eq!((&asked["run"]["status"], &asked["run"]["cancelReason"]), (&json!("queued"), &json!("user")));

    let operator = world.member("op", Role::Operator);
    assert_eq!(cancel(&world, &operator, &run), (200, says("already_requested")));
    assert_eq!(world.get(&world.owner, &format!("runs/{run}")).1, asked, "the first intent stays");

    let page = world.store.call(ListCancelling { limit: 256 }).unwrap();
    assert_eq!((page.len(), page[0].run), (1, RunId::parse(&run).unwrap()));
    let end = EndAsked { run: page[0].run, attempt: page[0].attempt, unproven: false };
    assert_eq!(world.store.call(end).unwrap(), Step::Done);
    let (_, ended) = world.get(&world.owner, &format!("runs/{run}"));
    assert_eq!(ended["run"]["status"], "cancelled");
    assert_eq!(cancel(&world, &world.owner, &run), (200, says("already_terminal")));
    assert_eq!(world.get(&world.owner, &format!("runs/{run}")).1, ended);
    assert_eq!(pokes(), before + 1, "nobody is told of nothing");
    assert_eq!(rows(&world), [("allowed".to_owned(), String::new())], "one row, for the accepted one");
}

#[test]
fn what_is_not_here_is_404_and_through_another_project_nothing_is_reached() {
    let (world, run) = world();
    for id in ["018f5e7a-9b1c-7def-8123-456789abcdef", "x"] {
        assert_eq!(refusal(cancel(&world, &world.owner, id)), (404, "run_not_found".into()), "{id}");
    }
    let mutation = body(&uuid()).to_string();
    let elsewhere = format!("/api/v3/projects/other/runs/{run}/cancellation");
    let there = world.ask(&world.owner, "POST", &elsewhere, &mutation);
    assert_eq!(refusal(there), (403, "forbidden".into()), "nobody has a role there");
    let (_, shown) = world.get(&world.owner, &format!("runs/{run}"));
    assert_eq!((&shown["run"]["status"], shown["run"].get("cancelReason")), (&json!("queued"), None));
    assert!(rows(&world).iter().all(|row| row.0 != "allowed"), "{:?}", rows(&world));
}

#[test]
fn a_run_that_belongs_to_another_project_is_not_found_by_its_id() {
    let (world, run) = world();
    let world = world.tampered(|db| {
        db.pragma_update(None, "foreign_keys", false).unwrap();
        assert_eq!(db.execute("UPDATE runs SET project = 'other'", []).unwrap(), 1);
    });
    assert_eq!(refusal(cancel(&world, &world.owner, &run)), (404, "run_not_found".into()));
    assert_eq!(world.store.call(ListCancelling { limit: 1 }).unwrap(), []);
}

#[test]
fn a_body_that_is_not_exactly_a_cancellation_is_400() {
    let (world, run) = world();
    let target = format!("runs/{run}/cancellation");
    let mutation = uuid();
    for wrong in [
        "{}".into(),
        "[]".into(),
        json!({"schema": "qinglong/run-cancellation@v1"}).to_string(),
        json!({"mutationId": mutation}).to_string(),
        json!({"schema": "qinglong/task-start@v1", "mutationId": mutation}).to_string(),
        json!({"schema": "qinglong/run-cancellation@v1", "mutationId": "1"}).to_string(),
        json!({"schema": "qinglong/run-cancellation@v1", "mutationId": mutation, "reason": "timeout"}).to_string(),
    ] {
        let got = refusal(world.ask(&world.owner, "POST", &target, &wrong));
        assert_eq!(got, (400, "invalid_run_cancellation_request".into()), "{wrong}");
    }
    for wrong in [String::new(), format!("{}x", body(&mutation))] {
        let got = refusal(world.ask(&world.owner, "POST", &target, &wrong));
        assert_eq!(got, (400, "invalid_request_body".into()), "{wrong}");
    }
    assert_eq!(rows(&world), []);
    assert_eq!(world.store.call(ListCancelling { limit: 1 }).unwrap(), []);
}

#[test]
fn the_body_is_bounded_by_512_bytes() {
    let path = "/api/v3/projects/default/runs/018f5e7a-9b1c-7def-8123-456789abcdef/cancellation";
    assert_eq!(route::find(&ROUTES, "POST", path).unwrap().route.body_bytes_max, 512);
}

#[test]
fn a_viewer_is_refused_and_that_is_written_down() {
    let (world, run) = world();
    let viewer = world.member("v", Role::Viewer);
    assert_eq!(refusal(cancel(&world, &viewer, &run)), (403, "forbidden".into()));
    assert_eq!(rows(&world), [("denied".into(), "permission_missing".into())]);
    assert_eq!(world.store.call(ListCancelling { limit: 1 }).unwrap(), []);
}

#[test]
fn a_role_that_is_taken_away_between_admission_and_transaction_is_409_and_nothing_is_stored() {
    let (world, run) = world();
    let operator = world.member("op", Role::Operator);
    let target = format!("runs/{run}/cancellation");
    let request = World::request(&operator, "POST", &target, &body(&uuid()).to_string());
    let admitted = world.api.admit(&request).unwrap();
    assert_eq!(world.bind(&world.owner, &json!({"type": "user", "id": "op"}), Some("viewer")).0, 200);
    let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    let said: Value = serde_json::from_slice(&no.body).unwrap();
    assert_eq!(no.status, 409);
    assert_eq!(code(&said), "run_cancellation_fence_rejected/authorization_changed");
    assert_eq!(world.store.call(ListCancelling { limit: 1 }).unwrap(), []);
    assert!(rows(&world).iter().all(|row| row.0 != "allowed"), "{:?}", rows(&world));
}

#[test]
fn a_store_that_is_closed_is_503_and_says_that_the_daemon_is_ending() {
    let (world, run) = world();
    let target = format!("runs/{run}/cancellation");
    let request = World::request(&world.owner, "POST", &target, &body(&uuid()).to_string());
    let admitted = world.api.admit(&request).unwrap();
    world.store.close();
    let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    let said: Value = serde_json::from_slice(&no.body).unwrap();
    assert_eq!((no.status, &said["code"]), (503, &json!("server_draining")));
}
