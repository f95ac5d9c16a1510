//! `leftovers: keep`: the run is over with its main process; what it leaves behind lives on, through
//! whatever happens to the daemon, and nobody ends it but who asked for an end before.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use support::tree::{self, Process};
use support::{Bench, until};

/// A run that waits for a file, then leaves a process behind that never ends.
struct Scene {
    bench: Bench,
    run: String,
    go: PathBuf,
}

fn scene(options: &[&str]) -> Scene {
    let mut bench = Bench::ready();
    bench.serve(options);
    let go = bench.root().join("go");
    // What is left behind marks that it runs and can write: more than a pipe holds, again and again.
    let text = format!(
        "while head -c 100000 /dev/zero && echo >> '{0}/wrote'; do sleep 0.05; done & \
         echo ready > '{0}/ready'; while ! [ -e '{0}/go' ]; do sleep 0.05; done; exit 7",
        bench.root().display()
    );
    bench.shell_with("task", &["--leftovers", "keep", "--grace", "300ms"], &text);
    let run = bench.start("task");
    until("it to run", || bench.root().join("ready").exists().then_some(()));
    bench.run_in(&run, "running");
    Scene { bench, run, go }
}

impl Scene {
    fn let_it_end(&self) {
        fs::write(&self.go, "").unwrap();
    }

    fn wrote(&self) -> u64 {
        fs::metadata(self.bench.root().join("wrote")).map_or(0, |meta| meta.len())
    }

    /// The shim and what is below it, to be ended with the test.
    fn all(&self) -> Vec<Process> {
        tree::below(self.bench.pid())
    }

    /// The run has ended with what its main process said, and what it left behind goes on and can write.
    fn is_over_and_kept(&self, all: &[Process]) {
        let run = self.bench.run_in(&self.run, "failed");
        let attempt = &run["latestAttempt"];
        assert_eq!((&attempt["exitCode"], &attempt["signal"]), (&json!(7), &Value::Null), "{run}");
        assert!(attempt["leftovers"].as_i64().is_some_and(|count| (1..=2).contains(&count)), "{run}");
        self.is_kept(all);
    }

    fn is_kept(&self, all: &[Process]) {
        let before = self.wrote();
        until("what was left behind to write on", || (self.wrote() > before + 5).then_some(()));
        assert!(tree::is_alive(&all[0]), "its shim stays");
    }
}

#[test]
fn a_run_is_over_with_its_main_process_and_what_it_left_behind_goes_on() {
    let scene = scene(&[]);
    let shown = scene.bench.ok(&["task", "show", "task"]);
    assert!(shown.lines().any(|line| line.split_whitespace().eq(["leftovers", "keep"])), "{shown}");
    let all = scene.all();
    scene.let_it_end();
    scene.is_over_and_kept(&all);
    let log = scene.bench.log(&scene.run);
    scene.is_kept(&all);
    assert_eq!(scene.bench.log(&scene.run), log, "what comes after the end is not stored");
    assert!(scene.bench.ok(&["show", &scene.run]).contains("left behind"));
    assert_eq!(scene.bench.json(&["stop", &scene.run])["status"], "already_terminal");
    scene.is_kept(&all);
    // The end of the last one is the end of the shim.
    tree::end(&tree::children(all[0].pid));
    until("the shim to end", || (!tree::is_alive(&all[0])).then_some(()));
}

#[test]
fn nobody_looks_for_the_receipt_of_a_task_whose_leftovers_stay() {
    let mut scene = scene(&[]);
    for restart in [false, true] {
        if restart {
            scene.bench.kill();
            scene.bench.serve(&[]);
        }
        let daemon = scene.bench.pid();
        let mut before = tree::sleeps(daemon);
        until("the daemon to be quiet", || {
            std::thread::sleep(Duration::from_millis(500));
            let now = tree::sleeps(daemon);
            (std::mem::replace(&mut before, now) == now).then_some(())
        });
        std::thread::sleep(Duration::from_millis(2_500));
        let woken = tree::sleeps(daemon) - before;
        assert!(woken <= 1, "the daemon woke {woken} times while nothing happened");
    }
}

#[test]
fn a_killed_daemons_successor_learns_of_the_end_although_the_shim_stays() {
    let mut scene = scene(&[]);
    let all = scene.all();
    scene.bench.kill();
    scene.bench.serve(&[]);
    scene.let_it_end();
    scene.is_over_and_kept(&all);
    scene.bench.kill();
    scene.is_kept(&all);
    scene.bench.serve(&[]);
    scene.is_over_and_kept(&all);
    assert_eq!(scene.bench.json(&["status"])["status"]["activeAttempts"], 0, "it holds no place");
}

#[test]
fn an_end_that_comes_while_no_daemon_runs_is_found_afterwards() {
    let mut scene = scene(&[]);
    let all = scene.all();
    scene.bench.kill();
    scene.let_it_end();
    let receipts = scene.bench.state().join("receipts");
    let has_receipt = |shard: fs::DirEntry| {
        let names = fs::read_dir(shard.path()).unwrap().flatten().map(|file| file.file_name());
        names.into_iter().any(|name| name.to_string_lossy().ends_with("json"))
    };
    until("the receipt", || fs::read_dir(&receipts).unwrap().flatten().any(has_receipt).then_some(()));
    scene.bench.serve(&[]);
    scene.is_over_and_kept(&all);
}

#[test]
fn a_stop_spares_nothing_that_would_have_been_kept() {
    let scene = scene(&[]);
    scene.bench.ok(&["stop", &scene.run]);
    let run = scene.bench.run_in(&scene.run, "cancelled");
    assert_eq!(run["latestAttempt"]["signal"], libc::SIGTERM, "{run}");
    assert_eq!(tree::marked(&scene.run), [], "nothing of it is left");
}

#[test]
fn a_stop_or_a_timeout_just_before_the_receipt_spares_nothing_either() {
    for options in [&[][..], &["--timeout", "1500ms"]] {
        let bench = Bench::serving();
        let options = [&["--leftovers", "keep", "--grace", "300ms"], options].concat();
        bench.shell_with("task", &options, "trap '' TERM; sleep 1000 & exit 7");
        let run = bench.start("task");
        // The main process has ended, and the two seconds of what it left are not over.
        until("only the child to be left", || {
            let of_run = tree::marked(&run);
            let sleeps = |process: &Process| {
                fs::read_to_string(format!("/proc/{}/comm", process.pid)).is_ok_and(|name| name == "sleep\n")
            };
            (of_run.len() == 1 && of_run.iter().all(sleeps)).then_some(())
        });
        let want = if options.len() == 4 {
            bench.ok(&["stop", &run]);
            "cancelled"
        } else {
            "timed_out"
        };
        let ended = bench.run_in(&run, want);
        assert_eq!(ended["latestAttempt"]["exitCode"], 7, "{ended}");
        assert_eq!(tree::marked(&run), [], "nothing of it is left");
    }
}

#[test]
fn a_daemon_that_ends_its_tasks_leaves_what_an_ended_run_has_left_behind() {
    let mut scene = scene(&["--on-stop", "stop"]);
    let all = scene.all();
    scene.let_it_end();
    scene.is_over_and_kept(&all);
    scene.bench.shell("other", "sleep 1000; true");
    let other = scene.bench.start("other");
    scene.bench.run_in(&other, "running");
    assert_eq!(scene.bench.stop(), 0);
    assert_eq!(tree::marked(&other), [], "what runs is ended");
    scene.is_kept(&all);
    let told = "SELECT count(*) FROM run_events WHERE payload GLOB '*\"leftovers\":[1-9]*'";
    assert_eq!(scene.bench.db().query_one(told, [], |row| row.get::<_, i64>(0)).unwrap(), 1, "an event says so");
}
