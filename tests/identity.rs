//! Nobody but the very process a run was started as is ever signalled: not the next one with its number,
//! not one of another boot; and what cannot be seen is not taken for gone.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use support::hold::Hold;
use support::stranger::Stranger;
use support::tree::{self, Process};
use support::{Bench, inside, until};

/// A task that writes down each TERM and never ends by itself.
fn deaf(bench: &Bench, task: &str, options: &[&str]) {
    let file = bench.root().join(task);
    let text = format!("trap \"echo TERM >> '{}'\" TERM; while :; do sleep 0.05; done", file.display());
    bench.shell_with(task, options, &text);
}

fn terms(bench: &Bench, task: &str) -> usize {
    fs::read_to_string(bench.root().join(task)).unwrap_or_default().lines().count()
}

/// A run of that task, and its shim.
fn running(bench: &Bench, task: &str) -> (String, Process) {
    let before = tree::children(bench.pid());
    let run = bench.start(task);
    until("it to run", || (tree::marked(&run).len() >= 2).then_some(()));
    bench.run_in(&run, "running");
    let shim = tree::children(bench.pid()).into_iter().find(|shim| !before.contains(shim)).unwrap();
    (run, shim)
}

/// When an event of this run was stored; epoch milliseconds.
fn stored_at(bench: &Bench, run: &str, kind: &str) -> i64 {
    let events = bench.json_lines(&["events", run]);
    events.iter().find(|event| event["type"] == kind).unwrap()["createdAtMs"].as_i64().unwrap()
}

#[test]
fn a_stranger_with_a_dead_shims_number_is_never_signalled_while_the_daemon_lives() {
    if !inside::enter("a_stranger_with_a_dead_shims_number_is_never_signalled_while_the_daemon_lives", ":") {
        return;
    }
    let bench = Bench::serving();
    deaf(&bench, "task", &["--grace", "60s"]);
    // With a stop under way, between TERM and KILL, and without. The number is free from the moment the
    // daemon has seen the end until it is done with it; on a busy machine that takes more than one try.
    for stopped in [true, false] {
        let in_time = (0..20).any(|_| {
            let (run, shim) = running(&bench, "task");
            if stopped {
                let before = terms(&bench, "task");
                bench.ok(&["stop", &run]);
                until("TERM", || (terms(&bench, "task") > before).then_some(()));
            }
            tree::signal(shim.pid, libc::SIGKILL);
            let stranger = Stranger::take(shim.pid, bench.root());
            let (end, event) = if stopped { ("cancelled", "run.cancelled") } else { ("lost", "run.lost") };
            bench.run_in(&run, end);
            let done_ms = stored_at(&bench, &run, event);
            bench.ok(&["stop", &run]);
            until("nothing of it to be left", || tree::marked(&run).is_empty().then_some(()));
            stranger.assert_untouched();
            stranger.came_ms < done_ms
        });
        assert!(in_time, "never came before the daemon was done");
    }
}

#[test]
fn a_stranger_that_comes_between_term_and_kill_is_not_killed() {
    if !inside::enter("a_stranger_that_comes_between_term_and_kill_is_not_killed", ":") {
        return;
    }
    let mut bench = Bench::serving();
    deaf(&bench, "task", &["--grace", "1s"]);
    let (run, shim) = running(&bench, "task");
    // An adopted shim is freed by another parent, so its number can change hands while the daemon is
    // not looking.
    bench.kill();
    bench.serve(&[]);
    bench.ok(&["stop", &run]);
    until("TERM", || (terms(&bench, "task") > 0).then_some(()));
    let daemon = bench.pid();
    tree::signal(daemon, libc::SIGSTOP);
    tree::signal(shim.pid, libc::SIGKILL);
    let stranger = Stranger::take(shim.pid, bench.root());
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    tree::signal(daemon, libc::SIGCONT);
    let run = bench.run_in(&run, "cancelled");
    assert_eq!(run["latestAttempt"]["exitCode"], Value::Null, "nobody knows: {run}");
    stranger.assert_untouched();
}

#[test]
fn a_stranger_that_comes_while_no_daemon_runs_is_not_taken_for_the_task() {
    if !inside::enter("a_stranger_that_comes_while_no_daemon_runs_is_not_taken_for_the_task", ":") {
        return;
    }
    let mut bench = Bench::serving();
    deaf(&bench, "task", &["--grace", "60s"]);
    deaf(&bench, "timed", &["--grace", "60s", "--timeout", "2s"]);
    let ((left, one), (asked, two), (timed, three)) =
        (running(&bench, "task"), running(&bench, "task"), running(&bench, "timed"));
    bench.ok(&["stop", &asked]);
    until("TERM", || (terms(&bench, "task") > 0).then_some(()));
    bench.kill();
    for shim in [one, two, three] {
        tree::signal(shim.pid, libc::SIGKILL);
    }
    let strangers = [one, two, three].map(|shim| Stranger::take(shim.pid, bench.root()));
    bench.serve(&[]);
    assert_eq!(bench.run_in(&left, "lost")["errorCode"], "RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT");
    bench.run_in(&asked, "cancelled");
    until("the timed one to be settled", || {
        let status = bench.run(&timed)["status"].take();
        (status == "lost" || status == "timed_out").then_some(())
    });
    bench.ok(&["stop", &left]);
    bench.run_in(&left, "cancelled");
    strangers.iter().for_each(Stranger::assert_untouched);
}

fn mount(args: &[&str], target: &str) {
    let done = Command::new("mount").args(args).arg(target).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn processes_of_another_boot_are_gone_and_never_signalled() {
    if !inside::enter("processes_of_another_boot_are_gone_and_never_signalled", ":") {
        return;
    }
    let mut bench = Bench::serving();
    deaf(&bench, "left", &["--grace", "1s"]);
    deaf(&bench, "asked", &["--grace", "1s"]);
    deaf(&bench, "timed", &["--grace", "1s", "--timeout", "2s"]);
    let (left, asked, timed) = (running(&bench, "left"), running(&bench, "asked"), running(&bench, "timed"));
    bench.ok(&["stop", &asked.0]);
    until("TERM", || (terms(&bench, "asked") == 1).then_some(()));
    bench.kill();
    let all: Vec<Process> = [&left, &asked, &timed].iter().flat_map(|(run, _)| tree::marked(run)).collect();
    // The machine could not have started again and kept them; so whatever has these numbers is another's.
    let other = bench.root().join("boot_id");
    fs::write(&other, "018f5e7a-9b1c-7def-8123-456789abcdef\n").unwrap();
    mount(&["--bind", other.to_str().unwrap()], "/proc/sys/kernel/random/boot_id");
    bench.serve(&[]);
    for (run, end) in [(&left.0, "lost"), (&asked.0, "cancelled"), (&timed.0, "lost")] {
        let run = bench.run_in(run, end);
        assert_eq!(run["latestAttempt"]["exitCode"], Value::Null, "{run}");
    }
    bench.ok(&["stop", &left.0]);
    bench.run_in(&left.0, "cancelled");
    // A grace more than any stop would have left them.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    let shims = [left.1, asked.1, timed.1];
    let untouched =
        |process: &Process| tree::is_alive(process) && tree::place(process.pid).is_some_and(|(state, ..)| state != 'T');
    assert!(shims.iter().all(untouched), "the shims live on");
    assert!(all.iter().filter(|process| untouched(process)).count() >= 3, "and so do the programs");
    assert_eq!(["left", "asked", "timed"].map(|task| terms(&bench, task)), [0, 1, 0]);
}

const NOBODY: u32 = 65_534;

#[test]
fn what_an_ordinary_user_cannot_see_in_proc_is_not_lost() {
    let hide = "mount -t proc -o hidepid=2 proc /proc";
    if !inside::enter("what_an_ordinary_user_cannot_see_in_proc_is_not_lost", hide) {
        return;
    }
    let hidden = Command::new("ls").arg("/proc/1").uid(NOBODY).gid(NOBODY).output();
    assert!(hidden.is_ok_and(|ls| !ls.status.success()), "another user's process is hidden");
    let mut bench = Bench::new();
    bench.run_as(NOBODY);
    bench.init();
    bench.serve(&[]);
    assert!(fs::read_to_string(bench.daemon_log()).unwrap().contains("warn: proc_hidden: "), "it says what it does");
    let hold = Hold::new(&bench, "hold");
    allow(&bench, Path::new("hold"));
    bench.shell("ends", &format!("{}; exit 7", hold.text()));
    deaf(&bench, "deaf", &["--grace", "300ms"]);
    let (ends, (stopped, _)) = (bench.start("ends"), running(&bench, "deaf"));
    hold.wait(1);
    let (third, shim) = running(&bench, "deaf");
    for _ in 0..2 {
        bench.kill();
        bench.serve(&[]);
        for run in [&ends, &stopped, &third] {
            assert_eq!(bench.run(run)["status"], "running");
        }
    }
    hold.release(1);
    let end = bench.run_in(&ends, "failed");
    assert_eq!(end["latestAttempt"]["exitCode"], 7);
    bench.ok(&["stop", &stopped]);
    let end = bench.run_in(&stopped, "cancelled");
    assert_eq!(end["latestAttempt"]["signal"], json!(libc::SIGKILL), "it ignored TERM: {end}");
    assert_eq!(tree::marked(&stopped), []);
    // And what really is gone is seen to be.
    tree::signal(shim.pid, libc::SIGKILL);
    bench.run_in(&third, "lost");
    assert_eq!(tree::marked(&third), []);
}

/// Lets the bench's user use what this test has made below its folder.
fn allow(bench: &Bench, name: &Path) {
    let folder = bench.root().join(name);
    let inner = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    for path in inner.chain([folder.clone()]) {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}
