//! Starts over real HTTP: said at once by many, each once and no more; never more active than the
//! profile allows; and what user code sees of its own run as its first act.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use qinglet::model::limits::EDGE;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Barrier;
use support::http::{Reply, raw, request};
use support::{Bench, until};

/// A start of this task with a mutation id of the caller's own.
fn start(bench: &Bench, task: &str, mutation: usize) -> Value {
    let shown = bench.json(&["task", "show", task]);
    json!({"schema": "qinglong/task-start@v1", "mutationId": format!("018f5e7a-9b1c-7def-8123-{mutation:012}"),
        "expectedRevision": shown["task"]["revision"], "expectedContentDigest": shown["task"]["contentDigest"]})
}

/// Sends these starts of one task at the same moment, each from a thread of its own. One that was
/// told to come again because all workers are busy does so; nothing was done of it.
fn at_once(bench: &Bench, task: &str, starts: &[Value]) -> Vec<Reply> {
    let (state, token, path) = (bench.state(), bench.token(), format!("/tasks/{task}/runs"));
    let ready = Barrier::new(starts.len());
    let send = |start: &Value| {
        let bytes = request(&token, "POST", &path, Some(start));
        ready.wait();
        until("an answer", || {
            let reply = Reply::of(&raw(&state, &bytes).unwrap_or_default());
            (reply.status != 0 && reply.code() != "server_overloaded").then_some(reply)
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = starts.iter().map(|start| scope.spawn(|| send(start))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn run_ids(replies: &[Reply]) -> BTreeSet<String> {
    replies.iter().map(|reply| reply.body["runId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn s376_2_of_32_equal_starts_one_is_accepted_and_the_rest_are_the_same_run() {
    let bench = Bench::serving();
    let marks = bench.root().join("marks");
    bench.shell("mark", &format!("echo ran >> {}", marks.display()));
    let same = start(&bench, "mark", 1);
    let replies = at_once(&bench, "mark", &vec![same; 32]);
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    for reply in &replies {
        *statuses.entry(reply.status).or_default() += 1;
    }
    assert_eq!(statuses, BTreeMap::from([(202, 1), (200, 31)]));
    let said = |reply: &Reply| reply.body["status"] == if reply.status == 202 { "accepted" } else { "existing" };
    assert!(replies.iter().all(said));
    let runs = run_ids(&replies);
    assert_eq!(runs.len(), 1);
    bench.run_in(runs.first().unwrap(), "succeeded");
    assert_eq!(bench.json_lines(&["runs"]).len(), 1);
    assert_eq!(fs::read_to_string(marks).unwrap(), "ran\n");
}

#[test]
fn s376_2_64_different_starts_are_64_runs_and_never_more_active_than_the_cap() {
    let bench = Bench::serving();
    let (gate, turns) = (bench.root().join("gate"), bench.root().join("turns"));
    let (gate_is, turns_are) = (gate.display(), turns.display());
    // One line when it begins, one when it ends: together they say how many were there at once.
    bench.shell(
        "turn",
        &format!("echo + >> {turns_are}; until [ -e {gate_is} ]; do sleep 0.05; done; echo - >> {turns_are}"),
    );
    let first = start(&bench, "turn", 0);
    let mutation = |n: usize| {
        let mut start = first.clone();
        start["mutationId"] = format!("018f5e7a-9b1c-7def-8123-{n:012}").into();
        start
    };
    let runs = run_ids(&at_once(&bench, "turn", &(1..=64).map(mutation).collect::<Vec<_>>()));
    assert_eq!(runs.len(), 64);

    let cap = EDGE.active_attempts;
    let counted = || fs::read_to_string(&turns).unwrap_or_default();
    until("as many to run as may", || (counted().lines().count() >= cap).then_some(()));
    let in_state = |status: &str| bench.json_lines(&["runs", "--limit", "100", "--status", status]);
    assert_eq!(in_state("running").len(), cap);
    let waiting = in_state("queued");
    assert_eq!(waiting.len(), 64 - cap);
    let shown = bench.run(waiting[0]["id"].as_str().unwrap());
    assert_eq!(shown["waitReason"], "capacity");
    let sentence = bench.ok(&["show", waiting[0]["id"].as_str().unwrap()]);
    assert!(sentence.contains("waits for a place"), "{sentence}");

    fs::write(&gate, "").unwrap();
    until("all to succeed", || (in_state("succeeded").len() == 64).then_some(()));
    let (mut now, mut most, mut begun) = (0_usize, 0, 0);
    for line in counted().lines() {
        match line {
            "+" => (now, begun) = (now + 1, begun + 1),
            _ => now -= 1,
        }
        most = most.max(now);
    }
    assert_eq!((begun, now, most), (64, 0, cap));
}

#[test]
fn s70_2_user_code_as_its_first_act_sees_running_running_and_every_event_so_far() {
    let bench = Bench::serving();
    let line = format!("{} --state {} --json", env!("CARGO_BIN_EXE_qinglet"), bench.state().display());
    bench.shell("look", &format!("{line} show $QINGLET_RUN_ID && {line} events $QINGLET_RUN_ID"));
    let (run, code) = bench.run_wait("look");
    assert_eq!(code, 0, "{run}");
    let log = String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap();
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let seen = lines.next().unwrap();
    assert_eq!(seen["run"]["status"], "running");
    assert_eq!(seen["run"]["latestAttempt"]["status"], "running");
    let events: Vec<Value> = lines.collect();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types[types.len() - 4..], ["run.dispatching", "attempt.starting", "attempt.running", "run.running"]);
    let sequences: Vec<i64> = events.iter().map(|event| event["sequence"].as_i64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as i64).collect::<Vec<_>>());
    assert_eq!(seen["run"]["eventSequence"], sequences.len());
}

#[test]
fn a_start_that_is_said_again_after_a_restart_is_the_same_run() {
    let mut bench = Bench::serving();
    let marks = bench.root().join("marks");
    bench.shell("mark", &format!("echo ran >> {}", marks.display()));
    let same = start(&bench, "mark", 1);
    let first = bench.http("POST", "/tasks/mark/runs", Some(&same));
    let run = first.body["runId"].as_str().unwrap();
    bench.run_in(run, "succeeded");
    assert_eq!(bench.stop(), 0);
    bench.serve(&[]);
    let again = bench.http("POST", "/tasks/mark/runs", Some(&same));
    assert_eq!((first.status, again.status, again.body["runId"].as_str()), (202, 200, Some(run)));
    assert_eq!(fs::read_to_string(marks).unwrap(), "ran\n");
}
