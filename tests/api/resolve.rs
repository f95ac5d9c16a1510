//! Evidence about a run and settling one that nobody can decide, over the API: their contract, who may,
//! and what is written down.

use super::world::{World, code, uuid};
use qinglet::execution::board::{Doubt, Undecided};
use qinglet::execution::evidence::{ReceiptSeen, Seen};
use qinglet::execution::host::Inspection;
use qinglet::http::route;
use qinglet::http::routes::ROUTES;
use qinglet::model::digest::Digest;
use qinglet::model::id::{AttemptId, MutationId, RunId};
use qinglet::model::policy::Role;
use qinglet::store::cancel::EndAsked;
use qinglet::store::resolve::{ResolveRun, Resolved, Resolver};
use qinglet::store::start::{BeginStart, Step, TakeOwnership};
use serde_json::{Value, json};

struct Scene {
    world: World,
    run: String,
    attempt: AttemptId,
}

/// A world with a running run that the engine says nobody can decide.
fn scene() -> Scene {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (_, started) = world.start(&world.owner, "t", &uuid(), &seen);
    let (run, attempt) = (started["runId"].as_str().unwrap(), started["attemptId"].as_str().unwrap());
    let (id, attempt) = (RunId::parse(run).unwrap(), AttemptId::parse(attempt).unwrap());
    let token_digest = Digest::of("t", b"");
    let log_artifact = "local-0".into();
    let begin = BeginStart { run: id, attempt, token_digest, log_artifact, deadline: None, resolved: Vec::new() };
    assert_eq!(world.store.call(begin).unwrap(), Step::Done);
    let own = TakeOwnership { run: id, attempt, token_digest, handle: "ql3lp1.b.42.42.7".into(), pid: 42 };
    assert_eq!(world.store.call(own).unwrap(), Step::Done);
    let doubt = Undecided { run: id, attempt, doubt: Doubt::ProcessUnknown, since_ms: 1_800_000_000_000 };
    world.side.board.show_undecided([doubt].into_iter());
    Scene { run: run.to_owned(), world, attempt }
}

fn body(mutation: &str) -> Value {
    json!({"schema": "qinglong/run-resolution@v1", "mutationId": mutation, "resolution": "lost"})
}

impl Scene {
    fn resolve(&self, token: &str, mutation: &str) -> (u16, Value) {
        self.world.ask(token, "POST", &format!("runs/{}/resolution", self.run), &body(mutation).to_string())
    }

    fn sees(&self, receipt: ReceiptSeen, process: Inspection) {
        *self.world.side.look.0.lock().unwrap() = Seen { receipt, process: Some(process) };
    }

    fn rows(&self) -> Vec<(String, String)> {
        let rows = self.world.audit().into_iter().filter(|row| row.0 == "run.resolve");
        rows.map(|row| (row.1, row.2)).collect()
    }

    fn shown(&self) -> Value {
        self.world.get(&self.world.owner, &format!("runs/{}", self.run)).1["run"].take()
    }

    fn evidence(&self) -> Value {
        let (status, mut body) = self.world.get(&self.world.owner, &format!("runs/{}/evidence", self.run));
        assert_eq!(status, 200, "{body}");
        body["evidence"].take()
    }
}

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

#[test]
fn the_evidence_is_shown_in_its_exact_fields_and_nothing_of_the_machine() {
    let scene = scene();
    let started_at_ms = scene.shown()["startedAtMs"].clone();
    assert_eq!(
        scene.evidence(),
        json!({
            "runId": scene.run, "taskId": "t", "status": "running", "version": 6,
            "undecided": {"reason": "process_unknown", "sinceMs": 1_800_000_000_000_i64},
            "attempts": [{
                "id": scene.attempt.to_string(), "number": 1, "status": "running", "startedAtMs": started_at_ms,
                "receipt": "absent", "quarantined": false, "process": "unavailable",
            }],
            "next": "look_again", "resolution": "allowed",
        })
    );
    let viewer = scene.world.member("v", Role::Viewer);
    assert_eq!(scene.world.get(&viewer, &format!("runs/{}/evidence", scene.run)).0, 200);
    let nothing = "runs/018f5e7a-9b1c-7def-8123-456789abcdef/evidence";
    assert_eq!(refusal(scene.world.get(&viewer, nothing)), (404, "run_not_found".into()));
}

#[test]
fn a_run_that_nobody_can_decide_says_so_wherever_it_is_shown_and_makes_nobody_unready() {
    let scene = scene();
    assert_eq!(scene.shown()["undecided"], "process_unknown");
    let (_, list) = scene.world.get(&scene.world.owner, "runs");
    assert_eq!(list["runs"][0]["undecided"], "process_unknown");
    let (_, status) = scene.world.get(&scene.world.owner, "status");
    let want = json!({"count": 1, "runs": [{
        "runId": scene.run, "attemptId": scene.attempt.to_string(),
        "reason": "process_unknown", "sinceMs": 1_800_000_000_000_i64,
    }]});
    assert_eq!(status["status"]["undecided"], want);
    let (code, health) = scene.world.get("", "/api/health");
    assert_eq!((code, &health["status"], &health["undecided"]), (200, &json!("ok"), &json!(1)));
}

#[test]
fn the_first_is_202_and_the_same_again_200_whatever_has_become_of_the_run() {
    let scene = scene();
    let (owner, mutation) = (scene.world.owner.clone(), uuid());
    assert_eq!(scene.resolve(&owner, &mutation), (202, json!({"status": "resolved", "runId": scene.run})));
    assert_eq!(*scene.world.side.settled.lock().unwrap(), [scene.attempt], "the engine is told");
    let shown = scene.shown();
    let attempt = &shown["latestAttempt"];
    assert_eq!((&shown["status"], &attempt["status"]), (&json!("lost"), &json!("lost")));
    assert_eq!((&shown["errorCode"], &attempt["descendants"]), (&json!("RUN_RESOLVED_LOST"), &json!("unproven")));
    assert_eq!(shown.get("undecided"), None, "the board may be behind, the store is not");
    let again = json!({"status": "already_resolved", "runId": scene.run});
    assert_eq!(scene.resolve(&owner, &mutation), (200, again.clone()));
    assert_eq!(scene.resolve(&owner, &uuid()), (200, again.clone()), "it is lost");
    assert_eq!(scene.rows(), [("allowed".into(), String::new())], "one row");
    // Closed since by an intent.
    let cancel = json!({"schema": "qinglong/run-cancellation@v1", "mutationId": uuid()}).to_string();
    assert_eq!(scene.world.ask(&owner, "POST", &format!("runs/{}/cancellation", scene.run), &cancel).0, 202);
    let run = RunId::parse(&scene.run).unwrap();
    let end = EndAsked { run, attempt: scene.attempt, unproven: false };
    assert_eq!(scene.world.store.call(end).unwrap(), Step::Done);
    assert_eq!(scene.shown()["status"], "cancelled");
    assert_eq!(scene.shown()["latestAttempt"]["descendants"], "unproven", "that stays");
    assert_eq!(scene.resolve(&owner, &mutation), (200, again));
    assert_eq!(refusal(scene.resolve(&owner, &uuid())), (409, "run_not_resolvable/ended".into()));
    assert_eq!(scene.world.side.settled.lock().unwrap().len(), 1);
}

#[test]
fn what_is_alive_or_has_its_receipt_or_is_in_nobodys_doubt_is_refused_and_says_what_to_do() {
    let scene = scene();
    let owner = scene.world.owner.clone();
    let refused = |want: &str, says: &str| {
        let (status, body) = scene.resolve(&owner, &uuid());
        assert_eq!((status, code(&body)), (409, format!("run_not_resolvable/{want}")));
        assert!(body["message"].as_str().unwrap().contains(says), "{body}");
        assert_eq!(scene.evidence()["resolution"], want);
    };
    scene.sees(ReceiptSeen::Absent, Inspection::Running);
    refused("alive", "stop it instead");
    scene.sees(ReceiptSeen::Found, Inspection::Unavailable);
    refused("end_known", "receipt");
    for (receipt, process) in [
        (ReceiptSeen::Absent, Inspection::Unavailable),
        (ReceiptSeen::Invalid, Inspection::Invalid),
        (ReceiptSeen::Unavailable, Inspection::NotRunning),
    ] {
        scene.sees(receipt, process);
        assert_eq!(scene.evidence()["resolution"], "allowed");
    }
    scene.world.side.board.show_undecided(std::iter::empty());
    refused("not_undecided", "at work on it");
    assert_eq!((scene.shown()["status"].clone(), scene.rows()), (json!("running"), Vec::new()));
}

#[test]
fn evidence_that_was_looked_at_before_something_happened_settles_nothing() {
    let scene = scene();
    let run = RunId::parse(&scene.run).unwrap();
    let mutation = MutationId::parse(&uuid()).unwrap();
    let resolve = |version| ResolveRun { by: Resolver::Local, run, mutation, version };
    assert_eq!(scene.world.store.call(resolve(5)).unwrap(), Resolved::Changed);
    assert_eq!((scene.shown()["status"].clone(), scene.rows()), (json!("running"), Vec::new()));
    assert_eq!(scene.world.store.call(resolve(6)).unwrap(), Resolved::Lost(vec![scene.attempt]));
}

#[test]
fn a_run_that_waits_is_refused() {
    let scene = scene();
    let seen = scene.world.put_task("u", None, true);
    let (_, started) = scene.world.start(&scene.world.owner, "u", &uuid(), &seen);
    let target = format!("runs/{}/resolution", started["runId"].as_str().unwrap());
    let answer = scene.world.ask(&scene.world.owner, "POST", &target, &body(&uuid()).to_string());
    assert!(answer.1["message"].as_str().unwrap().contains("has not started"), "{answer:?}");
    assert_eq!(refusal(answer), (409, "run_not_resolvable/waiting".into()));
}

#[test]
fn a_body_that_is_not_exactly_a_resolution_is_400() {
    let scene = scene();
    let target = format!("runs/{}/resolution", scene.run);
    let with = |name: &str, value: Value| {
        let mut body = body(&uuid());
        body[name] = value;
        body.to_string()
    };
    for wrong in [
        "{}".into(),
        with("schema", json!("qinglong/run-cancellation@v1")),
        with("mutationId", json!("1")),
        with("resolution", json!("succeeded")),
        with("resolution", json!(null)),
        with("reason", json!("x")),
    ] {
        let got = refusal(scene.world.ask(&scene.world.owner, "POST", &target, &wrong));
        assert_eq!(got, (400, "invalid_run_resolution_request".into()), "{wrong}");
    }
    let path = "/api/v3/projects/default/runs/018f5e7a-9b1c-7def-8123-456789abcdef/resolution";
    assert_eq!(route::find(&ROUTES, "POST", path).unwrap().route.body_bytes_max, 512);
    assert_eq!((scene.shown()["status"].clone(), scene.rows()), (json!("running"), Vec::new()));
}

#[test]
fn it_takes_more_than_stopping_and_a_role_that_is_taken_away_meanwhile_changes_nothing() {
    let scene = scene();
    let operator = scene.world.member("op", Role::Operator);
    assert_eq!(refusal(scene.resolve(&operator, &uuid())), (403, "forbidden".into()));
    assert_eq!(scene.rows(), [("denied".into(), "permission_missing".into())]);
    let admin = scene.world.member("a", Role::Admin);
    let target = format!("runs/{}/resolution", scene.run);
    let request = World::request(&admin, "POST", &target, &body(&uuid()).to_string());
    let admitted = scene.world.api.admit(&request).unwrap();
    scene.world.bind(&scene.world.owner, &json!({"type": "user", "id": "a"}), Some("viewer"));
    let no = scene.world.api.handle(&request, admitted.as_ref()).unwrap_err();
    let said: Value = serde_json::from_slice(&no.body).unwrap();
    assert_eq!((no.status, code(&said)), (409, "run_resolution_fence_rejected/authorization_changed".into()));
    assert_eq!(scene.rows()[0], ("refused".into(), "authorization_changed".into()));
    assert_eq!(scene.shown()["status"], "running");
    scene.world.bind(&scene.world.owner, &json!({"type": "user", "id": "a"}), Some("admin"));
    assert_eq!(scene.resolve(&admin, &uuid()).0, 202);
}
