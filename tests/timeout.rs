//! A task with a timeout is ended when its time is up: however busy the daemon is, whichever daemon
//! it is, and only if it has not ended before.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::hold::Hold;
use support::tree;
use support::{Bench, until};

const DEAF: &str = "trap '' TERM; while :; do sleep 1; done";

/// What ended it, as its receipt says: signal and exit code.
fn end(run: &Value) -> (&Value, &Value) {
    (&run["latestAttempt"]["signal"], &run["latestAttempt"]["exitCode"])
}

fn running(run: &str, processes: usize) {
    until("it to run", || (tree::marked(run).len() >= processes).then_some(()));
}

#[test]
fn a_task_whose_time_is_up_is_asked_to_end_and_timed_out() {
    let bench = Bench::serving();
    bench.shell_with("task", &["--timeout", "200ms"], "sleep 1000; true");
    let run = bench.run_in(&bench.start("task"), "timed_out");
    assert_eq!((end(&run), &run["cancelReason"]), ((&json!(15), &json!(143)), &json!("timeout")));
    assert_eq!(run["latestAttempt"]["status"], "timed_out");
    let at = |field: &str| run[field].as_i64().unwrap();
    assert!(at("cancelRequestedAtMs") - at("queuedAtMs") >= 200, "not before its time: {run}");
    let id = run["id"].as_str().unwrap();
    assert_eq!(tree::marked(id), []);
    assert!(bench.ok(&["show", id]).contains("was ended, because its time was up"));
    assert_eq!(bench.cli(&["run", "task", "--wait"]).code, 1);
}

#[test]
fn a_task_that_ignores_term_is_killed_after_its_grace_and_timed_out() {
    let bench = Bench::serving();
    bench.shell_with("task", &["--timeout", "200ms", "--grace", "300ms"], DEAF);
    let run = bench.run_in(&bench.start("task"), "timed_out");
    assert_eq!(end(&run), (&json!(9), &json!(137)));
    assert_eq!(tree::marked(run["id"].as_str().unwrap()), []);
}

#[test]
fn a_task_that_ends_well_when_its_time_is_up_was_timed_out_all_the_same() {
    let bench = Bench::serving();
    bench.shell_with("task", &["--timeout", "200ms"], "trap 'exit 0' TERM; while :; do sleep 0.1; done");
    let run = bench.run_in(&bench.start("task"), "timed_out");
    assert_eq!(end(&run), (&Value::Null, &json!(0)));
}

#[test]
fn a_task_that_ends_in_time_is_not_timed_out() {
    let bench = Bench::serving();
    bench.shell_with("task", &["--timeout", "60s"], "exit 0");
    let (run, code) = bench.run_wait("task");
    assert_eq!((code, run.get("cancelReason")), (0, None), "{run}");
}

#[test]
fn stops_with_a_long_grace_hold_up_no_timeout_and_no_end_of_another_task() {
    let mut bench = Bench::ready();
    bench.serve(&["--profile", "standalone"]);
    bench.shell_with("deaf", &["--grace", "60s"], DEAF);
    let deaf: Vec<String> = (0..4).map(|_| bench.start("deaf")).collect();
    for run in &deaf {
        running(run, 2);
        assert_eq!(bench.ok(&["stop", run]), "asked it to end");
    }
    let begun = Instant::now();
    bench.shell_with("slow", &["--timeout", "200ms"], "sleep 1000; true");
    assert_eq!(end(&bench.run_in(&bench.start("slow"), "timed_out")).0, &json!(15));
    bench.shell("quick", "exit 7");
    assert_eq!(bench.run_wait("quick").0["latestAttempt"]["exitCode"], 7);
    let daemon = bench.pid();
    until("all that ended to be reaped", || (tree::children(daemon).len() == deaf.len()).then_some(()));
    assert!(begun.elapsed() < Duration::from_secs(50), "before any grace was over: {:?}", begun.elapsed());
    for run in &deaf {
        let shown = bench.run(run);
        assert_eq!((&shown["status"], &shown["cancelReason"]), (&json!("running"), &json!("user")));
        tree::end(&tree::marked(run));
    }
    for run in &deaf {
        assert_eq!(end(&bench.run_in(run, "cancelled")).0, &json!(9));
    }
}

/// A bench whose daemon is killed while a task with this timeout waits in a hold.
fn left_alone(timeout: &str) -> (Bench, Hold, String) {
    let mut bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell_with("task", &["--timeout", timeout], &hold.text());
    let run = bench.start("task");
    hold.wait(1);
    let shown = bench.run_in(&run, "running");
    assert_eq!(shown.get("cancelReason"), None, "its time is not up yet");
    bench.kill();
    (bench, hold, run)
}

#[test]
fn a_timeout_outlives_the_daemon_that_took_the_task_on() {
    let (mut bench, _hold, run) = left_alone("4s");
    bench.serve(&[]);
    let ended = bench.run_in(&run, "timed_out");
    assert_eq!(end(&ended).0, &json!(15));
    let at = |field: &str| ended[field].as_i64().unwrap();
    assert!(at("cancelRequestedAtMs") - at("queuedAtMs") >= 4_000, "not before its time: {ended}");
    assert_eq!(tree::marked(&run), []);
}

#[test]
fn a_timeout_that_passes_while_no_daemon_is_there_is_acted_on_by_the_next() {
    let (mut bench, _hold, run) = left_alone("3s");
    std::thread::sleep(Duration::from_secs(3));
    assert!(!tree::marked(&run).is_empty(), "nobody was there to end it");
    bench.serve(&[]);
    assert_eq!(end(&bench.run_in(&run, "timed_out")).0, &json!(15));
}

#[test]
fn an_end_in_time_counts_although_it_is_learned_after_the_time_was_up() {
    let (mut bench, hold, run) = left_alone("3s");
    hold.release(1);
    until("it to end", || tree::marked(&run).is_empty().then_some(()));
    std::thread::sleep(Duration::from_secs(3));
    bench.serve(&[]);
    let ended = bench.run_in(&run, "succeeded");
    assert_eq!((end(&ended), ended.get("cancelReason")), ((&Value::Null, &json!(0)), None));
}
