//! What becomes of tasks when the daemon is told to stop: left, waited for, or ended.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use rusqlite::Connection;
use std::fs;
use std::time::{Duration, Instant};
use support::hold::Hold;
use support::tree;
use support::{Bench, http, until};

const DEAF: &str = "trap '' TERM; while :; do sleep 1; done";

fn serving(on_stop: &str) -> Bench {
    let mut bench = Bench::ready();
    bench.serve(&["--on-stop", on_stop]);
    bench
}

/// Tells the daemon to stop and waits until it says this.
fn told(bench: &Bench, word: &str) {
    tree::signal(bench.pid(), libc::SIGTERM);
    until(word, || fs::read_to_string(bench.daemon_log()).unwrap().contains(word).then_some(()));
}

/// A run started from a shell text, once it has this many processes.
fn running(bench: &Bench, task: &str, processes: usize) -> String {
    let run = bench.start(task);
    until("it to run", || (tree::marked(&run).len() >= processes).then_some(()));
    bench.run_in(&run, "running");
    run
}

/// State and reason of a run as the dead daemon has left it.
fn stored(database: &Connection, run: &str) -> (String, Option<String>) {
    let id = qinglet::model::id::Uuid::parse(run).unwrap();
    let sql = "SELECT status, cancel_reason FROM runs WHERE id = ?1";
    database.query_one(sql, [id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

fn was(state: &str, reason: Option<&str>) -> (String, Option<String>) {
    (state.to_owned(), reason.map(str::to_owned))
}

#[test]
fn a_drain_waits_for_what_runs_and_starts_and_accepts_nothing() {
    let mut bench = serving("drain");
    let hold = Hold::new(&bench, "hold");
    bench.shell("task", &hold.text());
    let active: Vec<String> = (0..4).map(|_| bench.start("task")).collect();
    hold.wait(4);
    let waits = bench.start("task");
    told(&bench, "draining");
    assert!(http::get(&bench.state(), "/api/health").is_err(), "nobody listens any more");
    // A place is free, and nobody takes it.
    hold.release(1);
    until("one to end", || (tree::children(bench.pid()).len() == 3).then_some(()));
    hold.release(3);
    assert_eq!(bench.ended(), 0);
    let database = bench.db();
    for run in &active {
        assert_eq!(stored(&database, run), was("succeeded", None));
    }
    assert_eq!((stored(&database, &waits), hold.came()), (was("queued", None), 4));
    bench.serve(&[]);
    hold.release(1);
    bench.run_in(&waits, "succeeded");
}

#[test]
fn a_second_signal_ends_a_drain_and_leaves_what_runs_to_the_next_daemon() {
    let mut bench = serving("drain");
    let hold = Hold::new(&bench, "hold");
    bench.shell("task", &format!("{}; exit 7", hold.text()));
    let run = running(&bench, "task", 1);
    told(&bench, "draining");
    let begun = Instant::now();
    assert_eq!(bench.stop(), 0);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(!tree::marked(&run).is_empty(), "the task goes on");
    assert_eq!(stored(&bench.db(), &run), was("running", None));
    bench.serve(&[]);
    hold.wait(1);
    hold.release(1);
    assert_eq!(bench.run_in(&run, "failed")["latestAttempt"]["exitCode"], 7);
}

#[test]
fn a_stop_ends_what_runs_with_its_reason_and_keeps_what_waits() {
    let mut bench = serving("stop");
    bench.shell("kind", "setsid sleep 1000 & sleep 1000; true");
    bench.shell_with("deaf", &["--grace", "300ms"], DEAF);
    bench.shell_with("asked", &["--grace", "2s"], DEAF);
    let shut_down = [running(&bench, "kind", 3), running(&bench, "kind", 3), running(&bench, "deaf", 2)];
    let asked = running(&bench, "asked", 2);
    let waits = bench.start("kind");
    bench.ok(&["stop", &asked]);
    let processes = tree::below(bench.pid());
    assert_eq!(bench.stop(), 0);
    assert!(!processes.iter().any(tree::is_alive), "nothing is left when the daemon has ended");
    let database = bench.db();
    for run in &shut_down {
        assert_eq!(stored(&database, run), was("cancelled", Some("shutdown")));
    }
    assert_eq!(stored(&database, &asked), was("cancelled", Some("user")), "the first intent stays");
    assert_eq!(stored(&database, &waits), was("queued", None));
    bench.serve(&[]);
    for (run, signal) in shut_down.iter().zip([15, 15, 9]) {
        let shown = bench.run(run);
        assert_eq!(shown["latestAttempt"]["signal"], signal, "its receipt says so: {shown}");
        assert!(bench.ok(&["show", run]).contains("because the daemon was told to end its tasks"));
    }
    bench.run_in(&waits, "running");
}

#[test]
fn a_second_signal_kills_at_once_what_a_stop_gave_its_grace() {
    let mut bench = serving("stop");
    let marks = bench.root().join("marks");
    let text = format!("trap 'echo asked >> {}' TERM; while :; do sleep 0.1; done", marks.display());
    bench.shell_with("deaf", &["--grace", "5m"], &text);
    let run = running(&bench, "deaf", 2);
    told(&bench, "stopping");
    until("TERM to arrive", || fs::read_to_string(&marks).is_ok().then_some(()));
    let begun = Instant::now();
    assert_eq!(bench.stop(), 0);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(tree::marked(&run), []);
    assert_eq!(stored(&bench.db(), &run), was("cancelled", Some("shutdown")));
}

#[test]
fn a_stop_that_is_cut_off_is_finished_by_the_next_daemon_for_the_same_reason() {
    let mut bench = serving("stop");
    bench.shell_with("deaf", &["--grace", "2s"], DEAF);
    let run = running(&bench, "deaf", 2);
    told(&bench, "stopping");
    bench.kill();
    bench.serve(&[]);
    // Whether the intent was stored before the kill is the store's to say.
    let word = bench.json(&["stop", &run])["status"].as_str().unwrap().to_owned();
    let shown = bench.run_in(&run, "cancelled");
    let reason = if word == "accepted" { "user" } else { "shutdown" };
    assert_eq!((&shown["cancelReason"], tree::marked(&run).len()), (&reason.into(), 0));
}

#[test]
fn a_daemon_without_tasks_stops_at_once_however_it_is_told_to() {
    for on_stop in ["leave", "drain", "stop"] {
        let mut bench = serving(on_stop);
        let begun = Instant::now();
        assert_eq!(bench.stop(), 0);
        assert!(begun.elapsed() < Duration::from_secs(30), "{on_stop}: {:?}", begun.elapsed());
    }
    let refused = Bench::ready().cli(&["serve", "--on-stop", "kill"]);
    assert_eq!((refused.code, refused.stderr.contains("--on-stop must be leave, drain or stop")), (2, true));
}
