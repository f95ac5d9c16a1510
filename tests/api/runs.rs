//! Runs, events and logs over the API.

use super::world::{World, code, uuid};
use base64ct::{Base64, Encoding};
use qinglet::execution::logs::LogReadError;
use qinglet::model::digest::Digest;
use qinglet::model::id::{AttemptId, RunId};
use qinglet::store::start::{BeginStart, Step};
use serde_json::{Value, json};

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

/// Starts a task; answers the ids.
fn started(world: &World, task: &str, seen: &(i64, String)) -> (RunId, AttemptId) {
    let (status, body) = world.start(&world.owner, task, &uuid(), seen);
    assert_eq!(status, 202, "{body}");
    let text = |field: &str| body[field].as_str().unwrap().to_owned();
    (RunId::parse(&text("runId")).unwrap(), AttemptId::parse(&text("attemptId")).unwrap())
}

/// Gives an Attempt a log, as the engine does before it spawns.
fn begun(world: &World, run: RunId, attempt: AttemptId, artifact: &str) {
    let token_digest = Digest::of("test", b"token");
    let begin =
        BeginStart { run, attempt, token_digest, log_artifact: artifact.into(), deadline: None, resolved: Vec::new() };
    assert_eq!(world.store.call(begin).unwrap(), Step::Done);
}

#[test]
fn a_run_shows_its_exact_fields_and_nothing_of_the_machine() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (run, attempt) = started(&world, "t", &seen);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let (_, queued) = world.get(&world.owner, &format!("runs/{run}"));
    assert!(keys(&queued["run"]).contains(&"waitReason".to_owned()));
    begun(&world, run, attempt, "local-a");
    let (status, body) = world.get(&world.owner, &format!("runs/{run}"));
    assert_eq!(status, 200);
    let want = [
        "createdAtMs",
        "eventSequence",
        "executionOrigin",
        "executionOwner",
        "finishedAtMs",
        "id",
        "latestAttempt",
        "priority",
        "projectId",
        "queuedAtMs",
        "startedAtMs",
        "status",
        "taskId",
        "taskRevision",
        "version",
    ];
    assert_eq!(keys(&body["run"]), want);
    let want = [
        "createdAtMs",
        "descendants",
        "errorCode",
        "errorSummary",
        "exitCode",
        "finishedAtMs",
        "id",
        "leftovers",
        "logAvailable",
        "logComplete",
        "number",
        "signal",
        "startedAtMs",
        "status",
    ];
    assert_eq!(keys(&body["run"]["latestAttempt"]), want);
    assert_eq!(
        (&body["run"]["status"], &body["run"]["latestAttempt"]["logAvailable"]),
        (&json!("dispatching"), &json!(true))
    );
    for secret in ["hunter2", "local-a", "handle", "pid", "/bin/sh"] {
        assert!(!body.to_string().contains(secret), "{secret}");
    }
    let (status, first) = world.get(&world.owner, &format!("runs/{run}?attempt=1"));
    assert_eq!((status, &first["run"]), (200, &body["run"]));
    let second = world.get(&world.owner, &format!("runs/{run}?attempt=2"));
    assert_eq!(refusal(second), (404, "attempt_not_found".into()));
}

#[test]
fn what_is_not_here_is_one_404() {
    let world = World::new();
    let id = "018f5e7a-9b1c-7def-8123-456789abcdef";
    for target in [format!("runs/{id}"), "runs/x".into(), format!("runs/{id}/events"), "runs/x/events".into()] {
        assert_eq!(refusal(world.get(&world.owner, &target)), (404, "run_not_found".into()), "{target}");
    }
}

#[test]
fn runs_page_newest_first_with_filters() {
    let world = World::new();
    let (a, b) = (world.put_task("a", None, true), world.put_task("b", None, true));
    let mut all = Vec::new();
    for i in 0..7 {
        let (task, seen) = if i % 2 == 0 { ("a", &a) } else { ("b", &b) };
        all.push(started(&world, task, seen).0.to_string());
    }
    all.reverse();
    let ids = |page: &Value| {
        page["runs"].as_array().unwrap().iter().map(|r| r["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (mut seen, mut target) = (Vec::new(), "runs?limit=3".to_owned());
    loop {
        let (status, page) = world.get(&world.owner, &target);
        assert_eq!(status, 200);
        seen.extend(ids(&page));
        let next = &page["next"];
        if page["hasMore"] == false {
            break;
        }
        let (at, id) = (&next["createdAtMs"], next["runId"].as_str().unwrap());
        target = format!("runs?limit=3&after_created_at_ms={at}&after_run_id={id}");
    }
    assert_eq!(seen, all);
    assert_eq!(ids(&world.get(&world.owner, "runs?task=b").1).len(), 3);
    assert_eq!(ids(&world.get(&world.owner, "runs?task=b&status=queued&limit=2").1).len(), 2);
    assert_eq!(ids(&world.get(&world.owner, "runs?status=running").1).len(), 0);
    let item = &world.get(&world.owner, "runs?limit=1").1["runs"][0];
    assert_eq!((item.get("projectId"), item.get("latestAttempt")), (None, None));
}

#[test]
fn events_go_on_where_they_stopped() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (run, attempt) = started(&world, "t", &seen);
    begun(&world, run, attempt, "local-a");
    let (_, all) = world.get(&world.owner, &format!("runs/{run}/events"));
    let types: Vec<_> = all["events"].as_array().unwrap().iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(types.len(), 4);
    assert_eq!(types[..2], ["run.created", "run.queued"]);
    assert_eq!((&all["hasMore"], &all["nextAfterSequence"]), (&json!(false), &json!(4)));
    let keys: Vec<&String> = all["events"][0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["actorType", "createdAtMs", "sequence", "type"]);
    let (_, page) = world.get(&world.owner, &format!("runs/{run}/events?after_sequence=1&limit=2"));
    let sequences: Vec<_> =
        page["events"].as_array().unwrap().iter().map(|e| e["sequence"].as_i64().unwrap()).collect();
    assert_eq!((sequences, &page["hasMore"], &page["nextAfterSequence"]), (vec![2, 3], &json!(true), &json!(3)));
    let (_, none) = world.get(&world.owner, &format!("runs/{run}/events?after_sequence=4"));
    assert_eq!((&none["events"], &none["nextAfterSequence"]), (&json!([]), &json!(4)));
}

#[test]
fn range_pending_missing_and_past_end_empty() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (run, attempt) = started(&world, "t", &seen);
    let log = format!("runs/{run}/attempts/{attempt}/log");
    let schema = "qinglong/run-attempt-log-read-result@v1";
    assert_eq!(world.get(&world.owner, &log), (202, json!({"schema": schema, "status": "pending"})));
    begun(&world, run, attempt, "local-a");
    assert_eq!(refusal(world.get(&world.owner, &log)), (503, "artifact_unavailable/missing".into()));
    let bytes: Vec<u8> = (0..40_000_u32).map(|i| (i % 251) as u8).collect();
    world.logs.0.lock().unwrap().insert("local-a".into(), Ok(bytes.clone()));
    let (status, first) = world.get(&world.owner, &log);
    assert_eq!(status, 200);
    assert_eq!((&first["schema"], &first["status"]), (&json!(schema), &json!("available")));
    assert_eq!(
        (&first["start"], &first["endExclusive"], &first["nextOffset"]),
        (&json!(0), &json!(16_384), &json!(16_384))
    );
    assert_eq!(
        (&first["totalBytes"], &first["truncated"], &first["droppedBytes"]),
        (&json!(40_000), &json!("unknown"), &Value::Null)
    );
    let (mut got, mut offset) = (Vec::new(), 0);
    loop {
        let (status, range) = world.get(&world.owner, &format!("{log}?offset={offset}&length=32768"));
        assert_eq!(status, 200);
        got.extend(Base64::decode_vec(range["content"].as_str().unwrap()).unwrap());
        match range["nextOffset"].as_u64() {
            Some(next) => {
                assert!(next > offset, "every range moves on");
                offset = next;
            }
            None => break,
        }
    }
    assert!(got == bytes, "byte for byte");
    let (status, past) = world.get(&world.owner, &format!("{log}?offset=99999"));
    assert_eq!(
        (status, &past["content"], &past["start"], past.get("nextOffset")),
        (200, &json!(""), &json!(40_000), None)
    );
    let other = started(&world, "t", &seen);
    let elsewhere = format!("runs/{}/attempts/{attempt}/log", other.0);
    assert_eq!(
        refusal(world.get(&world.owner, &elsewhere)),
        (404, "artifact_not_found".into()),
        "another run's attempt"
    );
    world.logs.0.lock().unwrap().insert("local-a".into(), Err(LogReadError::Unsafe));
    assert_eq!(refusal(world.get(&world.owner, &log)), (503, "artifact_unavailable/unsafe".into()));
}

#[test]
fn status_counts_without_names() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let (run, attempt) = started(&world, "t", &seen);
    started(&world, "t", &seen);
    begun(&world, run, attempt, "local-a");
    world.api.listening_on("127.0.0.1:5700".parse().unwrap());
    let (status, body) = world.get(&world.owner, "status");
    assert_eq!(status, 200);
    let status = &body["status"];
    assert_eq!(status["runs"], json!({"queued": 1, "retryWait": 0, "active": 1, "lost": 0}));
    assert_eq!((&status["listen"], &status["profile"]), (&json!("127.0.0.1:5700"), &json!("edge")));
    let (_, health) = world.get("", "/api/health");
    assert_eq!(health["runs"], status["runs"]);
    assert_eq!(health["waitReason"], Value::Null);
}
