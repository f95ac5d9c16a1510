//! What survives what: stops, kills, restarts and upgrades of the daemon beside running tasks.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use support::hold::Hold;
use support::tree::{self, Process};
use support::{Bench, copy_program, folder, http, until};

/// A daemon whose one task waits in the middle and then exits with 7.
struct Scene {
    bench: Bench,
    hold: Hold,
    run: String,
    /// The shim, then what is below it.
    processes: Vec<Process>,
}

/// The scene, the task having come to its middle.
fn scene() -> Scene {
    let bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("long", &format!("echo before; {}; echo after; exit 7", hold.text()));
    let run = bench.start("long");
    hold.wait(1);
    bench.run_in(&run, "running");
    let processes = tree::below(bench.pid());
    assert!(processes.len() >= 2, "a shim and a shell: {processes:?}");
    Scene { bench, hold, run, processes }
}

impl Scene {
    fn all_live(&self) {
        assert!(self.processes.iter().all(tree::is_alive), "{:?}", self.processes);
    }

    /// Lets the task end, and waits until nothing is left of it.
    fn let_it_end(&self) {
        self.hold.release(1);
        until("the shim to end", || (!self.processes.iter().any(tree::is_alive)).then_some(()));
    }

    /// The run must have ended as its program ended, told by its receipt.
    fn ended_with_7(&self) {
        let run = self.bench.run_in(&self.run, "failed");
        let attempt = &run["latestAttempt"];
        assert_eq!((&attempt["exitCode"], &attempt["signal"]), (&json!(7), &Value::Null), "{run}");
        assert_eq!((&attempt["number"], &attempt["logComplete"]), (&json!(1), &json!(true)), "{run}");
        assert_eq!(self.bench.log(&self.run), b"before\nafter\n");
    }
}

#[test]
fn a_stop_leaves_the_task_running_and_the_next_daemon_completes_it() {
    let mut scene = scene();
    let begun = Instant::now();
    assert_eq!(scene.bench.stop(), 0);
    // The drains are bounded by 5 s and 10 s; nothing holds them up here.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    scene.all_live();
    assert!(!scene.bench.state().join("run/api.sock").exists(), "the socket is gone with the daemon");
    scene.bench.serve(&[]);
    assert_eq!(scene.bench.run(&scene.run)["status"], "running");
    scene.all_live();
    scene.let_it_end();
    scene.ended_with_7();
}

#[test]
fn a_killed_daemon_leaves_the_task_running_and_the_next_one_completes_it() {
    let mut scene = scene();
    scene.bench.kill();
    scene.all_live();
    scene.bench.serve(&[]);
    assert_eq!(scene.bench.run(&scene.run)["status"], "running");
    scene.all_live();
    scene.let_it_end();
    scene.ended_with_7();
}

#[test]
fn an_end_that_no_daemon_saw_is_known_after_the_restart() {
    for stop in [Bench::stop as fn(&mut Bench) -> i32, killed] {
        let mut scene = scene();
        stop(&mut scene.bench);
        scene.let_it_end();
        scene.bench.serve(&[]);
        // Recovery comes before the first answer, so there is nothing to wait for.
        assert_eq!(scene.bench.run(&scene.run)["status"], "failed");
        scene.ended_with_7();
        scene.bench.stop();
        scene.bench.serve(&[]);
        scene.ended_with_7();
    }
}

fn killed(bench: &mut Bench) -> i32 {
    bench.kill();
    -libc::SIGKILL
}

#[test]
fn a_run_whose_shim_is_killed_is_lost_and_its_processes_are_gone() {
    let mut bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    // A second process of the same group, which nobody would reap.
    bench.shell("long", &format!("sleep 1000 & {}; wait", hold.text()));
    let run = bench.start("long");
    hold.wait(1);
    let processes = tree::below(bench.pid());
    assert!(processes.len() >= 3, "{processes:?}");
    bench.remember_tasks();
    tree::signal(processes[0].pid, libc::SIGKILL);
    let lost = bench.run_in(&run, "lost");
    let attempt = &lost["latestAttempt"];
    assert_eq!((&attempt["exitCode"], &attempt["signal"]), (&Value::Null, &Value::Null), "never a guess: {lost}");
    assert!(bench.ok(&["show", &run]).contains("is lost: its process is gone and left no word of how it ended"));
    until("the group to be gone", || (!processes.iter().any(tree::is_alive)).then_some(()));
    // Its place is free again.
    bench.shell("next", "true");
    assert_eq!(bench.run_wait("next").1, 0);
}

#[test]
fn a_shim_killed_while_no_daemon_is_there_is_lost_after_the_restart() {
    let mut scene = scene();
    scene.bench.kill();
    tree::signal(scene.processes[0].pid, libc::SIGKILL);
    until("the group to be gone", || (!scene.processes.iter().any(tree::is_alive)).then_some(()));
    scene.bench.serve(&[]);
    let lost = scene.bench.run_in(&scene.run, "lost");
    assert_eq!(lost["latestAttempt"]["exitCode"], Value::Null, "{lost}");
}

#[test]
fn deleting_or_disabling_a_task_cancels_what_waits_and_leaves_what_runs() {
    let bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("deleted", &hold.text());
    bench.shell("disabled", "true");
    let running: Vec<String> = (0..4).map(|_| bench.start("deleted")).collect();
    hold.wait(4);
    let (waits, waits_too) = (bench.start("deleted"), bench.start("disabled"));
    until("the reason to wait", || (bench.run(&waits_too)["waitReason"] == "capacity").then_some(()));
    bench.ok(&["task", "delete", "deleted"]);
    bench.ok(&["task", "disable", "disabled"]);
    for run in [&waits, &waits_too] {
        // Cancelled in the very transaction, so there is nothing to wait for.
        assert_eq!(bench.run(run)["status"], "cancelled");
        let text = bench.ok(&["show", run]);
        assert!(text.contains("was cancelled, because its task was disabled or deleted"), "{text}");
    }
    assert_eq!(bench.cli(&["run", "deleted"]).code, 3);
    assert_eq!(bench.cli(&["run", "disabled"]).code, 3);
    for run in &running {
        assert_eq!(bench.run(run)["status"], "running");
    }
    hold.release(4);
    for run in &running {
        bench.run_in(run, "succeeded");
    }
    assert_eq!(hold.came(), 4, "what was cancelled never ran");
}

#[test]
fn a_second_daemon_and_an_init_are_refused_naming_the_one_that_serves() {
    let bench = Bench::serving();
    quiet(bench.pid());
    let before = folder::snapshot(&bench.state());
    for line in [&["init"][..], &["serve"], &["init", "--reissue-owner"]] {
        let output = bench.cli(line);
        assert_eq!(output.code, 4, "{output:?}");
        let holder = format!("is in use by `qinglet serve` (process {})", bench.pid());
        assert!(output.stderr.contains(&holder) && output.stderr.contains("stop that first"), "{output:?}");
    }
    folder::assert_unchanged(&bench.state(), &before);
    bench.shell("a", "true");
    assert_eq!(bench.run_wait("a").1, 0);
}

#[test]
fn a_hangup_does_not_end_the_daemon() {
    let bench = Bench::serving();
    tree::signal(bench.pid(), libc::SIGHUP);
    until("the daemon to say it", || fs::read_to_string(bench.daemon_log()).ok().filter(|log| log.contains("reload")));
    assert_eq!(http::get(&bench.state(), "/api/health").unwrap().status, 200);
}

#[test]
fn an_upgrade_under_a_serving_daemon_stops_nothing() {
    let mut bench = Bench::ready();
    let (program, next) = (bench.root().join("qinglet"), bench.root().join("qinglet.new"));
    copy_program(&program);
    bench.program(&program).serve(&[]);
    let hold = Hold::new(&bench, "hold");
    bench.shell("long", &format!("{}; exit 7", hold.text()));
    bench.shell("short", "true");
    let before = bench.start("long");
    hold.wait(1);
    // As a package manager does it.
    copy_program(&next);
    fs::rename(&next, &program).unwrap();
    assert_eq!(bench.run_wait("short").1, 0);
    let between = bench.start("long");
    hold.wait(2);
    // What starts tasks is the daemon that runs, not whatever has its name by now.
    fs::write(&next, "#!/bin/false\n").unwrap();
    fs::rename(&next, &program).unwrap();
    let client = bench.root().join("client");
    copy_program(&client);
    bench.program(&client);
    assert_eq!(bench.run_wait("short").1, 0);
    assert_eq!(bench.stop(), 0);
    bench.serve(&[]);
    hold.release(2);
    for run in [&before, &between] {
        assert_eq!(bench.run_in(run, "failed")["latestAttempt"]["exitCode"], 7);
    }
    assert_eq!(bench.run_wait("short").1, 0);
}

/// Waits until a daemon has done what it does after a start, its first housekeeping with it.
fn quiet(daemon: i32) {
    let mut before = tree::sleeps(daemon);
    until("the daemon to be quiet", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = tree::sleeps(daemon);
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
}

#[test]
fn the_end_of_an_adopted_task_is_told_of_and_not_looked_for() {
    let mut scene = scene();
    scene.bench.kill();
    scene.bench.serve(&[]);
    // Where the kernel has no pidfds an adopted shim is looked at once a second, which is no failure.
    let fds = fs::read_dir(format!("/proc/{}/fd", scene.bench.pid())).unwrap().flatten();
    let kinds = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    if !kinds.into_iter().any(|kind| kind.to_string_lossy().contains("[pidfd]")) {
        return support::skip("the_end_of_an_adopted_task_is_told_of_and_not_looked_for", "this kernel has no pidfds");
    }
    let daemon = scene.bench.pid();
    quiet(daemon);
    let before = tree::sleeps(daemon);
    std::thread::sleep(Duration::from_millis(2_500));
    let woken = tree::sleeps(daemon) - before;
    assert!(woken <= 1, "the daemon woke {woken} times while nothing happened");
    scene.let_it_end();
    scene.ended_with_7();
    assert_eq!(scene.bench.run(&scene.run)["status"], "failed");
}

#[test]
fn too_few_descriptors_are_a_sentence_at_the_start_and_not_a_crash_later() {
    let mut bench = Bench::ready();
    for most in [20, 40, 63] {
        bench.start_from(&format!("ulimit -n {most}"));
        bench.launch(&[]);
        assert_eq!(bench.ended(), 4, "{most}");
        let log = fs::read_to_string(bench.daemon_log()).unwrap();
        assert!(log.contains(&format!("only {most} files may be open at once")), "{log}");
    }
}

#[test]
fn a_state_that_has_lost_only_its_database_is_not_begun_anew() {
    let mut bench = Bench::serving();
    bench.shell("task", "echo hello");
    bench.run_wait("task");
    assert_eq!(bench.stop(), 0);
    for entry in fs::read_dir(bench.state()).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().contains(".db") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let refused = bench.cli(&["init"]);
    assert!(refused.code == 4 && refused.stderr.contains("is missing although"), "{refused:?}");
    assert!(bench.state().join("owner.token").exists(), "nothing was replaced");
}
