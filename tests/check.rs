//! Runs that nobody can decide, through the real program: they show, everything else goes on, and
//! `check` tells what is known and settles them, with a daemon and without.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use support::hold::Hold;
use support::tree::{self, Process};
use support::{Bench, copy_program, http, is_root, skip, until};

/// Changes the store from outside while no daemon runs.
fn tamper(bench: &Bench, sql: &str) {
    let mut files = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|e| e == "db")).unwrap();
    rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
}

/// A daemon that has died and left one running task behind, with the task's processes.
struct Left {
    bench: Bench,
    run: String,
    hold: Hold,
    processes: Vec<Process>,
}

fn left() -> Left {
    let mut bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("long", &format!("{}; exit 7", hold.text()));
    bench.shell("short", "true");
    let run = bench.start("long");
    hold.wait(1);
    bench.run_in(&run, "running");
    let processes = tree::below(bench.pid());
    bench.kill();
    Left { bench, run, hold, processes }
}

/// The same, its handle damaged.
fn undecided() -> Left {
    let left = left();
    tamper(&left.bench, "UPDATE attempts SET handle = 'ql3lp1.damaged' WHERE status = 'running'");
    left
}

/// The runs that `check` lists, without what it says of the state.
fn undecided_lines(bench: &Bench) -> Vec<Value> {
    bench.json_lines(&["check"]).into_iter().filter(|line| line["check"].is_null()).collect()
}

fn resolved(bench: &Bench) -> Vec<Value> {
    bench.json_lines(&["audit"]).into_iter().filter(|row| row["operation"] == "run.resolve").collect()
}

#[test]
fn an_undecidable_run_keeps_its_place_and_shows_while_everything_else_opens() {
    let mut left = undecided();
    let (bench, run) = (&mut left.bench, left.run.as_str());
    bench.serve(&[]);
    let shown = bench.run(run);
    assert_eq!((&shown["status"], &shown["undecided"]), (&json!("running"), &json!("handle_invalid")));
    assert_eq!(bench.run_wait("short").1, 0, "everything else goes on");
    let health = http::get(&bench.state(), "/api/health").unwrap();
    assert_eq!((health.status, &health.body["undecided"]), (200, &json!(1)));
    let status = bench.ok(&["status"]);
    let way_out = format!("undecided  1; see `qinglet --state {} check {run}`", bench.state().display());
    assert!(status.split('\n').any(|line| words(line) == words(&way_out)), "{status}");
    assert_eq!(bench.json(&["status"])["status"]["activeAttempts"], 1, "it keeps its place");
    assert!(bench.ok(&["runs"]).contains("running, handle_invalid"));
    assert!(bench.ok(&["show", run]).contains("is in doubt (handle_invalid)"));

    let list = bench.ok(&["check"]);
    assert!(list.contains(run) && list.contains("handle_invalid") && list.contains("check RUN"), "{list}");
    let listed = undecided_lines(bench).remove(0);
    assert_eq!((&listed["runId"], &listed["reason"]), (&json!(run), &json!("handle_invalid")));
    assert!(listed["sinceMs"].as_i64() > shown["startedAtMs"].as_i64());
    let text = bench.ok(&["check", run]);
    for line in [
        "task             long",
        "the store says   running",
        "attempt          1, running",
        "receipt          none",
        "process          its stored identity cannot be read, so nobody knows which it is",
        "undecided        handle_invalid: the stored identity of its process is damaged",
        "what will happen it keeps its place and is looked at again every few seconds",
    ] {
        assert!(text.split('\n').any(|shown| words(shown) == words(line)), "{line}\n{text}");
    }
    assert!(text.contains(&format!("check {run} --resolve lost")), "{text}");
    let evidence = &bench.json(&["check", run])["evidence"];
    assert_eq!((&evidence["resolution"], &evidence["next"]), (&json!("allowed"), &json!("look_again")));
    assert!(!evidence.to_string().contains("ql3lp1"), "never a handle");

    // What can be said again is taken in: the receipt needs no handle.
    left.hold.release(1);
    let ended = bench.run_in(run, "failed");
    assert_eq!((&ended["latestAttempt"]["exitCode"], ended.get("undecided")), (&json!(7), None));
    assert!(bench.ok(&["check"]).starts_with("no undecided runs\n"));
    assert!(undecided_lines(bench).is_empty());
}

/// A line's words, whatever the columns.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn a_pid_beside_the_handle_that_it_does_not_name_makes_it_undecidable_even_if_nothing_lives() {
    let mut left = left();
    tree::end(&left.processes);
    tamper(&left.bench, "UPDATE attempts SET pid = pid + 1 WHERE status = 'running'");
    left.bench.serve(&[]);
    assert_eq!(left.bench.run(&left.run)["undecided"], "handle_invalid");
}

#[test]
fn a_run_is_settled_through_the_daemon_its_place_is_free_at_once_and_its_late_end_changes_nothing() {
    let mut left = undecided();
    let (bench, run) = (&mut left.bench, left.run.as_str());
    bench.serve(&[]);
    assert_eq!(bench.cli(&["check", "--resolve", "lost"]).code, 2);
    assert_eq!(bench.cli(&["check", run, "--resolve", "failed"]).code, 2);
    assert_eq!(bench.ok(&["check", run, "--resolve", "lost"]), "the run is lost now");
    let lost = bench.run(run);
    let attempt = &lost["latestAttempt"];
    assert_eq!((&lost["status"], &attempt["status"]), (&json!("lost"), &json!("lost")));
    assert_eq!((&attempt["descendants"], &lost["errorCode"]), (&json!("unproven"), &json!("RUN_RESOLVED_LOST")));
    assert!(bench.ok(&["show", run]).contains("somebody called it lost"));
    until("its place", || (bench.json(&["status"])["status"]["activeAttempts"] == 0).then_some(()));
    assert_eq!(bench.json(&["check", run, "--resolve", "lost"])["status"], "already_resolved");
    assert_eq!(bench.ok(&["check", run, "--resolve", "lost"]), "it was settled before");
    let rows = resolved(bench);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["outcome"], &rows[0]["target"]), (&json!("allowed"), &json!(run)));
    left.hold.release(1);
    until("the task to end", || (!left.processes.iter().any(tree::is_alive)).then_some(()));
    assert_eq!(bench.run_wait("short").1, 0);
    assert_eq!(bench.run(run)["status"], "lost");
    assert_eq!(bench.stop(), 0);
    bench.serve(&[]);
    assert_eq!(bench.run(run)["status"], "lost");
}

#[test]
fn an_intent_that_was_there_closes_a_settled_run_as_cancelled() {
    let mut left = undecided();
    let (bench, run) = (&mut left.bench, left.run.as_str());
    bench.serve(&[]);
    bench.ok(&["stop", run]);
    assert_eq!(bench.run(run)["status"], "running", "nothing is signalled on a doubt");
    left.processes.iter().for_each(|process| assert!(tree::is_alive(process)));
    assert_eq!(bench.ok(&["check", run, "--resolve", "lost"]), "the run is lost now");
    let closed = bench.run_in(run, "cancelled");
    assert_eq!(closed["latestAttempt"]["status"], "lost");
    tree::end(&left.processes);
}

#[test]
fn a_run_is_settled_without_a_daemon_audited_as_a_local_act() {
    let mut left = undecided();
    let (bench, run) = (&mut left.bench, left.run.as_str());
    let list = bench.ok(&["check"]);
    assert!(list.contains(run) && list.contains("unclear"), "{list}");
    let text = bench.ok(&["check", run]);
    assert!(text.contains("no daemon runs; the next `qinglet serve` looks at it"), "{text}");
    assert_eq!(bench.json(&["check", run])["evidence"]["resolution"], "allowed");
    assert_eq!(bench.cli(&["check", "018f5e7a-9b1c-7def-8123-456789abcdef"]).code, 3);
    assert_eq!(bench.json(&["check", run, "--resolve", "lost"])["status"], "resolved");
    assert_eq!(bench.ok(&["check", run, "--resolve", "lost"]), "it was settled before");
    assert!(bench.ok(&["check"]).starts_with("no undecided runs\n"));
    bench.serve(&[]);
    assert_eq!(bench.run(run)["status"], "lost");
    let rows = resolved(bench);
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["subject"], json!({"type": "system", "id": "local"}));
    tree::end(&left.processes);
}

#[test]
fn what_is_alive_has_ended_or_waits_is_not_settled_and_the_way_out_is_said() {
    let mut left = left();
    let (bench, run) = (&mut left.bench, left.run.as_str());
    let refused = |bench: &Bench, run: &str, says: &str| {
        let output = bench.cli(&["check", run, "--resolve", "lost"]);
        assert_eq!(output.code, 3, "{output:?}");
        assert!(output.stderr.contains(says), "{output:?}");
    };
    refused(bench, run, "stop it instead");
    assert!(bench.ok(&["check"]).contains("1 more under way"));
    bench.serve(&[]);
    refused(bench, run, "stop it instead");
    let hold = Hold::new(bench, "places");
    bench.shell("place", &hold.text());
    (0..3).for_each(|_| drop(bench.start("place")));
    hold.wait(3);
    let waits = bench.start("place");
    refused(bench, &waits, "it has not started");
    bench.ok(&["stop", &waits, "--wait"]);
    left.hold.release(1);
    bench.run_in(run, "failed");
    refused(bench, run, "it has ended");
    assert!(bench.ok(&["check", run]).contains(&format!("show {run}")));
    hold.release(3);
    assert!(resolved(bench).is_empty());
}

#[test]
fn a_receipt_that_lies_there_is_taken_in_and_not_overridden() {
    let mut left = left();
    left.hold.release(1);
    until("the task to end", || (!left.processes.iter().any(tree::is_alive)).then_some(()));
    tamper(&left.bench, "UPDATE attempts SET handle = 'damaged' WHERE status = 'running'");
    let output = left.bench.cli(&["check", &left.run, "--resolve", "lost"]);
    assert!(output.code == 3 && output.stderr.contains("its receipt is there"), "{output:?}");
    left.bench.serve(&[]);
    assert_eq!(left.bench.run(&left.run)["status"], "failed");
}

#[test]
fn check_without_a_state_or_beside_a_daemon_without_an_api_says_what_to_do() {
    let bench = Bench::new();
    let output = bench.cli(&["check"]);
    assert!(output.code == 4 && output.stderr.contains("init"), "{output:?}");
    let mut bench = Bench::ready();
    assert!(bench.ok(&["check"]).starts_with("no undecided runs\n"));
    bench.launch(&["--api", "off"]);
    until("the daemon to serve", || {
        fs::read_to_string(bench.daemon_log()).ok().filter(|log| log.contains("info: serving"))
    });
    let output = bench.cli(&["check"]);
    assert!(output.code == 4 && output.stderr.contains("is in use by `qinglet serve`"), "{output:?}");
}

#[test]
fn a_survivor_is_promoted_and_written_down_as_the_reconcilers() {
    let mut left = left();
    tamper(
        &left.bench,
        "UPDATE runs SET status = 'dispatching', started_at_ms = NULL WHERE status = 'running';
        UPDATE attempts SET status = 'starting', started_at_ms = NULL WHERE status = 'running'",
    );
    left.bench.serve(&[]);
    assert_eq!(left.bench.run(&left.run)["status"], "running", "before the door opens");
    let events = left.bench.json_lines(&["events", &left.run]);
    let last: Vec<_> = events[events.len() - 3..].iter().map(|e| (&e["type"], &e["actorType"])).collect();
    let by = &json!("reconciler");
    let kinds = ["attempt.running", "run.running", "run.reconciled"].map(|kind| json!(kind));
    assert_eq!(last, kinds.iter().map(|kind| (kind, by)).collect::<Vec<_>>());
    left.hold.release(1);
    assert_eq!(left.bench.run_in(&left.run, "failed")["latestAttempt"]["exitCode"], 7);
}

/// A group of the version 1 freezer, whose processes not even KILL ends while it is frozen. (Version
/// 2's frozen processes die.)
struct Freezer(PathBuf);

impl Freezer {
    fn new(test: &str) -> Option<Self> {
        if !is_root() {
            skip(test, "only root may make a group of the freezer");
            return None;
        }
        let root = Path::new("/sys/fs/cgroup/freezer");
        let group = root.join(format!("qinglet-test-{}", std::process::id()));
        if !root.join("tasks").exists() || fs::create_dir(&group).is_err() {
            skip(test, "there is no version 1 freezer here");
            return None;
        }
        Some(Self(group))
    }

    fn freeze(&self, processes: &[Process]) {
        for process in processes {
            fs::write(self.0.join("cgroup.procs"), process.pid.to_string()).unwrap();
        }
        fs::write(self.0.join("freezer.state"), "FROZEN").unwrap();
        until("them to freeze", || {
            fs::read_to_string(self.0.join("freezer.state")).is_ok_and(|state| state == "FROZEN\n").then_some(())
        });
    }

    fn thaw(&self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

#[test]
fn a_frozen_task_is_unkillable_shows_as_such_and_ends_properly_once_it_is_let_go() {
    let Some(freezer) = Freezer::new("a_frozen_task_is_unkillable_shows_as_such_and_ends_properly_once_it_is_let_go")
    else {
        return;
    };
    let mut bench = Bench::serving();
    bench.shell_with("frozen", &["--grace", "100ms"], "sleep 1000; true");
    let run = bench.start("frozen");
    until("the task", || (tree::marked(&run).len() == 2).then_some(()));
    bench.remember_tasks();
    freezer.freeze(&tree::marked(&run));
    bench.ok(&["stop", &run]);
    let shown = until("it to show", || Some(bench.run(&run)).filter(|run| run["undecided"].is_string()));
    assert_eq!((&shown["undecided"], &shown["status"]), (&json!("unkillable"), &json!("running")));
    let evidence = bench.json(&["check", &run])["evidence"].take();
    assert_eq!((&evidence["next"], &evidence["resolution"]), (&json!("kill_again"), &json!("alive")));
    let output = bench.cli(&["check", &run, "--resolve", "lost"]);
    assert!(output.code == 3 && output.stderr.contains("a process of it lives"), "{output:?}");
    freezer.thaw();
    let ended = bench.run_in(&run, "cancelled");
    assert_eq!(ended["latestAttempt"]["signal"], libc::SIGKILL, "its receipt says so: {ended}");
    assert_eq!(tree::marked(&run), []);
    assert!(bench.ok(&["check"]).starts_with("no undecided runs\n"));
}

/// A process that the test started and ends.
struct Mine(Child);

impl Drop for Mine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user that is not root and owns nothing.
const NOBODY: u32 = 65_534;

#[test]
fn what_a_killed_supervisor_may_have_let_go_is_said_and_what_it_has_not_is_not() {
    // A user of this test's own: whatever else that user started meanwhile and does not show its
    // environment, another test's daemon for one, would be a doubt.
    for user in [None, is_root().then_some(NOBODY - 1 - std::process::id() % 4_096)] {
        let mut bench = Bench::new();
        if let Some(user) = user {
            bench.run_as(user);
        }
        bench.init();
        bench.serve(&[]);
        let_go(&bench);
    }
}

fn let_go(bench: &Bench) {
    bench.shell("stays", "sleep 1000 & sleep 1000; true");
    bench.shell("leaves", "setsid sleep 1000 & sleep 1000; true");
    let killed = |task: &str| {
        let run = bench.start(task);
        let shim = |p: &Process| tree::place(p.pid).map(|(_, _, session)| session);
        let processes = until("the task", || Some(tree::marked(&run)).filter(|all| all.len() == 3));
        if task == "leaves" {
            until("it to leave", || processes.iter().any(|p| shim(p) == Some(p.pid)).then_some(()));
        }
        let shim = tree::children(bench.pid()).into_iter().find(|shim| {
            let below = tree::below(shim.pid);
            processes.iter().any(|process| below.contains(process))
        });
        tree::signal(shim.unwrap().pid, libc::SIGKILL);
        (bench.run_in(&run, "lost"), processes)
    };
    let (lost, processes) = killed("stays");
    assert!(!processes.iter().any(tree::is_alive));
    assert_eq!(lost["latestAttempt"]["descendants"], Value::Null, "{lost}");
    let (lost, processes) = killed("leaves");
    let away: Vec<Process> = processes.into_iter().filter(tree::is_alive).collect();
    assert_eq!(away.len(), 1, "what left the session is not killed on its mark alone");
    tree::end(&away);
    assert_eq!(lost["latestAttempt"]["descendants"], "unproven", "{lost}");
    assert!(
        words(&bench.ok(&["show", lost["id"].as_str().unwrap()])).windows(2).any(|w| w == ["descendants", "unproven"])
    );
    // Neither another's process counts, nor a younger run's supervisor, which hides its environment.
    let _mine = Mine(Command::new("sleep").arg("1000").env("QINGLET_RUN_ID", "another").spawn().unwrap());
    let hold = Hold::new(bench, "hold");
    bench.shell("beside", &hold.text());
    let run = bench.start("stays");
    let processes = until("the task", || Some(tree::marked(&run)).filter(|all| all.len() == 3));
    let older = tree::children(bench.pid())[0];
    fs::set_permissions(hold.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(hold.folder().join("fifo"), fs::Permissions::from_mode(0o666)).unwrap();
    let beside = bench.start("beside");
    hold.wait(1);
    assert!(tree::below(older.pid).iter().any(|process| processes.contains(process)));
    tree::signal(older.pid, libc::SIGKILL);
    assert_eq!(bench.run_in(&run, "lost")["latestAttempt"]["descendants"], Value::Null);
    hold.release(1);
    bench.run_in(&beside, "succeeded");
}

#[test]
fn where_proc_does_not_show_every_process_nothing_can_be_proven_about_what_was_let_go() {
    let test = "where_proc_does_not_show_every_process_nothing_can_be_proven_about_what_was_let_go";
    if !is_root() {
        return skip(test, "only root may mount another /proc");
    }
    let mut bench = Bench::new();
    let program = bench.root().join("qinglet");
    copy_program(&program);
    chown(bench.root(), Some(NOBODY), Some(NOBODY)).unwrap();
    let as_nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let hidden = "mount --make-rprivate / && mount -t proc -o hidepid=2 proc /proc";
    let enters = Command::new("unshare").args(["-m", "sh", "-c", hidden]).output();
    if !enters.is_ok_and(|output| output.status.success()) {
        return skip(test, "the kernel does not let this root mount another /proc");
    }
    bench.program(&program);
    let state = bench.state();
    let init = Command::new("sh")
        .args(["-c", &format!("exec {as_nobody} \"$0\" \"$@\"")])
        .args([program.as_path(), Path::new("--state"), &state, Path::new("init")])
        .output();
    assert!(init.unwrap().status.success());
    bench.start_from(&format!("exec unshare -m sh -c '{hidden} && exec {as_nobody} \"$0\" \"$@\"' \"$0\" \"$@\""));
    bench.serve(&[]);
    bench.shell("long", "sleep 1000; true");
    let run = bench.start("long");
    let processes = until("the task", || Some(tree::marked(&run)).filter(|all| all.len() == 2));
    bench.run_in(&run, "running");
    tree::signal(tree::children(bench.pid())[0].pid, libc::SIGKILL);
    let lost = bench.run_in(&run, "lost");
    assert_eq!(lost["latestAttempt"]["descendants"], "unproven", "{lost}");
    assert!(!processes.iter().any(tree::is_alive), "what can be seen is ended all the same");
}
