//! `stop RUN` ends everything a run has started, wherever it has gone, and nothing else; the run's
//! end is told by its receipt.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use support::hold::Hold;
use support::tree::{self, Process};
use support::{Bench, until};

/// A process of the same user that is nobody's task.
struct Neighbour(Child);

impl Neighbour {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").env("QINGLET_RUN_ID", "another").spawn().unwrap())
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run of a shell text that has come so far that `ready` holds for its processes.
struct Scene {
    bench: Bench,
    run: String,
    neighbour: Neighbour,
}

fn scene(text: &str, ready: impl Fn(&[Process]) -> bool) -> Scene {
    let bench = Bench::serving();
    let neighbour = Neighbour::new();
    bench.shell_with("task", &["--grace", "300ms"], text);
    let run = bench.start("task");
    until("the task to be ready", || ready(&tree::marked(&run)).then_some(()));
    bench.run_in(&run, "running");
    Scene { bench, run, neighbour }
}

fn at_least(count: usize) -> impl Fn(&[Process]) -> bool {
    move |processes| processes.len() >= count
}

/// Whether one of them is where this says: state, process group, session.
fn one_is(of: impl Fn(i32, (char, i32, i32)) -> bool) -> impl Fn(&[Process]) -> bool {
    move |processes| processes.iter().any(|process| tree::place(process.pid).is_some_and(|at| of(process.pid, at)))
}

impl Scene {
    /// Stops the run: nothing of it is left, everything else is, and the receipt says what ended it.
    fn ends_by(self, signal: i64) {
        assert_eq!(self.bench.ok(&["stop", &self.run]), "asked it to end");
        self.has_ended_by(signal);
    }

    fn has_ended_by(mut self, signal: i64) {
        let run = self.bench.run_in(&self.run, "cancelled");
        assert_eq!(tree::marked(&self.run), [], "nothing of it is left");
        assert!(self.neighbour.lives(), "what is not the task's goes on");
        let attempt = &run["latestAttempt"];
        assert_eq!(attempt["status"], "cancelled");
        let end = (&attempt["signal"], &attempt["exitCode"], &attempt["logComplete"]);
        assert_eq!(end, (&json!(signal), &json!(128 + signal), &json!(true)), "its receipt says so: {run}");
        let shown = self.bench.ok(&["show", &self.run]);
        assert!(shown.contains(&format!("was cancelled: signal {signal} (")), "{shown}");
        assert_eq!(run["cancelReason"], "user");
        let daemon = self.bench.pid();
        until("the shim to be gone", || tree::below(daemon).is_empty().then_some(()));
    }
}

const TERM: i64 = libc::SIGTERM as i64;
const KILL: i64 = libc::SIGKILL as i64;

#[test]
fn a_stop_ends_a_pipeline() {
    scene("sleep 1000 | cat | cat; true", at_least(4)).ends_by(TERM);
}

#[test]
fn a_stop_ends_what_ignores_hangups() {
    scene("nohup sleep 1000 & wait", at_least(2)).ends_by(TERM);
}

#[test]
fn a_stop_ends_what_leads_a_session_of_its_own() {
    scene("setsid sleep 1000 & sleep 1000; true", one_is(|pid, (_, _, session)| session == pid)).ends_by(TERM);
}

#[test]
fn a_stop_ends_what_leads_a_group_of_its_own() {
    let leads_alone = |pid, (_, group, session)| pid == group && session != pid;
    let scene = scene("perl -e 'setpgrp; sleep 1000' & sleep 1000; true", move |processes| {
        processes.iter().filter(|p| tree::place(p.pid).is_some_and(|at| leads_alone(p.pid, at))).count() == 2
    });
    scene.ends_by(TERM);
}

#[test]
fn a_stop_ends_a_daemon_that_forked_twice() {
    let text = "(setsid sh -c 'sleep 1000 & sleep 1000 & exec >&- 2>&-' &); sleep 1000; true";
    let scene = scene(text, at_least(4));
    let shim = tree::children(scene.bench.pid())[0].pid;
    until("the shim to be the parent of what was let go", || (tree::children(shim).len() >= 3).then_some(()));
    scene.ends_by(TERM);
}

#[test]
fn a_stop_kills_what_ignores_term_after_its_grace() {
    scene("trap '' TERM; while :; do sleep 1; done", at_least(2)).ends_by(KILL);
}

#[test]
fn a_stop_wakes_and_ends_what_was_stopped() {
    let scene = scene("sleep 1000 & kill -STOP $! $$; true", |processes| {
        processes.iter().filter(|p| tree::place(p.pid).is_some_and(|(state, ..)| state == 'T')).count() == 2
    });
    scene.ends_by(TERM);
}

#[test]
fn a_stop_ends_what_was_stopped_and_ignores_term() {
    scene("trap '' TERM; while :; do kill -STOP $$; done", one_is(|_, (state, ..)| state == 'T')).ends_by(KILL);
}

#[test]
fn a_stop_ends_a_loop_that_forks_as_fast_as_it_can() {
    // Ends by itself after so many, and each after so long, should the stop not work.
    let text = "trap '' TERM; n=0; while [ $n -lt 1500 ]; do sleep 20 & n=$((n+1)); done; wait";
    scene(text, at_least(50)).ends_by(KILL);
}

#[test]
fn a_stop_ends_a_process_that_forks_on_and_on_to_get_away() {
    // Each generation makes the next and is gone; the last of 20,000 would end by itself.
    let text = "trap '' TERM; f() { n=$((n+1)); [ $n -lt 20000 ] && f & }; n=0; f; sleep 1000; true";
    scene(text, at_least(2)).ends_by(KILL);
}

#[test]
fn a_stop_ends_a_task_whose_shim_was_stopped() {
    let scene = scene("sleep 1000; true", at_least(2));
    let shim = tree::children(scene.bench.pid())[0].pid;
    tree::signal(shim, libc::SIGSTOP);
    until("the shim to stop", || tree::place(shim).filter(|(state, ..)| *state == 'T'));
    scene.ends_by(TERM);
}

#[test]
fn a_stop_ends_a_task_whose_shim_is_stopped_between_term_and_kill() {
    let bench = Bench::serving();
    let file = bench.root().join("asked");
    let text = format!("trap 'echo >> {}' TERM; while :; do sleep 0.05; done", file.display());
    bench.shell_with("task", &["--grace", "1s"], &text);
    let scene = Scene { run: bench.start("task"), bench, neighbour: Neighbour::new() };
    until("the task to be ready", || (tree::marked(&scene.run).len() >= 2).then_some(()));
    let shim = tree::children(scene.bench.pid())[0].pid;
    scene.bench.ok(&["stop", &scene.run]);
    until("TERM", || file.exists().then_some(()));
    tree::signal(shim, libc::SIGSTOP);
    scene.has_ended_by(KILL);
}

#[test]
fn a_stop_ends_what_has_cleared_its_environment() {
    let bench = Bench::serving();
    let file = bench.root().join("pid");
    let text = format!(
        "env -i setsid sh -c 'trap \"\" TERM; echo $$ > {0}.new; mv {0}.new {0}; while :; do sleep 0.05; done' & wait",
        file.display()
    );
    bench.shell_with("task", &["--grace", "300ms"], &text);
    let scene = Scene { run: bench.start("task"), bench, neighbour: Neighbour::new() };
    let pid: i32 = until("its pid", || fs::read_to_string(&file).ok()?.trim().parse().ok());
    let process = tree::process(pid).unwrap();
    scene.bench.ok(&["stop", &scene.run]);
    scene.has_ended_by(TERM);
    assert!(!tree::is_alive(&process), "it bears no mark, and is below the shim all the same");
}

#[test]
fn a_queued_run_that_is_stopped_never_starts() {
    let bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("task", &hold.text());
    let active: Vec<String> = (0..4).map(|_| bench.start("task")).collect();
    hold.wait(4);
    let (waits, next) = (bench.start("task"), bench.start("task"));
    assert_eq!(bench.ok(&["stop", &waits, "--wait"]), "asked it to end");
    let run = bench.run(&waits);
    assert_eq!((&run["status"], &run["latestAttempt"]["status"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(run["latestAttempt"]["startedAtMs"], Value::Null);
    hold.release(5);
    for run in active.iter().chain([&next]) {
        bench.run_in(run, "succeeded");
    }
    assert_eq!(hold.came(), 5);
    assert_eq!(bench.run(&waits), run, "nothing more happens to it");
}

#[test]
fn a_stop_is_one_intent_however_often_it_is_said() {
    let bench = Bench::serving();
    bench.shell_with("task", &["--grace", "60s"], "trap '' TERM; while :; do sleep 1; done");
    let run = bench.start("task");
    let status = |run: &str| bench.json(&["stop", run])["status"].as_str().unwrap().to_owned();
    until("it to run", || (tree::marked(&run).len() == 2).then_some(()));
    assert_eq!(status(&run), "accepted");
    let first = bench.run(&run);
    assert_eq!(status(&run), "already_requested");
    assert_eq!(bench.ok(&["stop", &run]), "it was asked to end before");
    let events = |kind: &str| bench.json_lines(&["events", &run]).iter().filter(|e| e["type"] == kind).count();
    assert_eq!((events("run.cancel_requested"), &bench.run(&run)), (1, &first));
    for process in tree::marked(&run) {
        tree::signal(process.pid, libc::SIGKILL);
    }
    let ended = bench.run_in(&run, "cancelled");
    assert_eq!(status(&run), "already_terminal");
    assert_eq!(bench.ok(&["stop", &run]), "it has ended already");
    assert_eq!(bench.run(&run), ended);
    let audited = bench.json_lines(&["audit"]);
    assert_eq!(audited.iter().filter(|row| row["operation"] == "run.cancel").count(), 1, "the accepted one");
}

#[test]
fn cancel_body_513_rejected() {
    let bench = Bench::serving();
    bench.shell("task", "true");
    let path = format!("/runs/{}/cancellation", bench.start("task"));
    let padded = |bytes: usize| {
        let body = json!({"schema": "qinglong/run-cancellation@v1", "mutationId": ""});
        let room = bytes - body.to_string().len();
        bench.http("POST", &path, Some(&json!({"schema": body["schema"], "mutationId": "x".repeat(room)})))
    };
    let (fits, too_long) = (padded(512), padded(513));
    assert_eq!((fits.status, fits.code()), (400, "invalid_run_cancellation_request"));
    assert_eq!(too_long.status, 413, "{too_long:?}");
}

#[test]
fn a_stop_that_comes_after_the_end_changes_nothing() {
    let bench = Bench::serving();
    bench.shell("task", "true");
    let (ended, _) = bench.run_wait("task");
    let run = ended["id"].as_str().unwrap();
    assert_eq!(bench.json(&["stop", run])["status"], "already_terminal");
    assert_eq!((&bench.run(run), &ended["status"]), (&ended, &json!("succeeded")));
}

#[test]
fn a_task_that_ends_well_when_it_is_asked_to_was_cancelled_all_the_same() {
    let bench = Bench::serving();
    let marks = bench.root().join("marks");
    let text = format!("trap 'echo asked >> {}; exit 0' TERM; while :; do sleep 0.1; done", marks.display());
    bench.shell("task", &text);
    let run = bench.start("task");
    until("it to run", || (tree::marked(&run).len() == 2).then_some(()));
    let begun = Instant::now();
    bench.ok(&["stop", &run]);
    let ended = bench.run_in(&run, "cancelled");
    assert!(begun.elapsed() < Duration::from_secs(4), "the grace of 5 s is not waited for: {:?}", begun.elapsed());
    assert_eq!((&ended["latestAttempt"]["exitCode"], &ended["latestAttempt"]["signal"]), (&json!(0), &Value::Null));
    assert_eq!(fs::read_to_string(marks).unwrap(), "asked\n");
}
