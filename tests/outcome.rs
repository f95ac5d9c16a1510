//! How a run ended, as `show` tells it: exit codes, signals, starts that failed before anything ran,
//! and what a main process left behind.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use support::{Bench, is_root, tree, until};

/// A user that is not root and owns nothing.
const NOBODY: u32 = 65_534;

/// Runs a shell text; the whole run.
fn run(bench: &Bench, text: &str) -> Value {
    bench.shell("one", text);
    let (run, _) = bench.run_wait("one");
    bench.ok(&["task", "delete", "one"]);
    run
}

/// `show` in words.
fn shown(bench: &Bench, run: &Value) -> String {
    bench.ok(&["show", run["id"].as_str().unwrap()])
}

fn end(run: &Value) -> (&Value, &Value, &Value) {
    let attempt = &run["latestAttempt"];
    (&run["status"], &attempt["exitCode"], &attempt["signal"])
}

#[test]
fn s03_14_4_exit_codes_and_signals_are_told_as_they_were() {
    let bench = Bench::serving();
    for (text, status, code, signal, words) in [
        ("exit 0", "succeeded", 0, None, "succeeded with exit code 0"),
        ("exit 1", "failed", 1, None, "failed with exit code 1"),
        ("exit 137", "failed", 137, None, "failed with exit code 137"),
        ("exit 255", "failed", 255, None, "failed with exit code 255"),
        ("kill -SEGV $$", "failed", 139, Some(11), "failed: signal 11 (SEGV) ended it"),
        ("kill -TERM $$", "failed", 143, Some(15), "failed: signal 15 (TERM) ended it"),
        ("kill -9 0", "failed", 137, Some(9), "failed: signal 9 (KILL) ended it"),
        ("sh -c 'kill -9 $$'; exit 3", "failed", 3, None, "failed with exit code 3"),
    ] {
        let run = run(&bench, text);
        assert_eq!(end(&run), (&json!(status), &json!(code), &json!(signal)), "{text}");
        let shown = shown(&bench, &run);
        assert!(shown.contains(&format!("\nThe run {words}.\n")), "{text}: {shown}");
    }
}

#[test]
fn s03_14_4_a_kill_from_outside_is_told_as_its_signal() {
    let bench = Bench::serving();
    let file = bench.root().join("pid");
    bench.shell("long", &format!("echo $$ > {0}.new && mv {0}.new {0}; while :; do sleep 0.1; done", file.display()));
    let run = bench.start("long");
    let pid = until("the process", || fs::read_to_string(&file).ok());
    tree::signal(pid.trim().parse().unwrap(), libc::SIGKILL);
    let run = bench.run_in(&run, "failed");
    assert_eq!(end(&run), (&json!("failed"), &json!(137), &json!(9)));
}

#[test]
fn s03_14_6_what_a_main_process_leaves_behind_ends_at_the_drain_grace_and_is_counted() {
    let bench = Bench::serving();
    // It would last longer than any wait of a test.
    let run = run(&bench, "( sleep 300 ) & echo done; exit 0");
    assert_eq!(end(&run), (&json!("succeeded"), &json!(0), &Value::Null));
    assert!(run["latestAttempt"]["leftovers"].as_i64().is_some_and(|count| count >= 1), "{run}");
    assert_eq!(bench.log(run["id"].as_str().unwrap()), b"done\n");
    assert!(shown(&bench, &run).contains("left behind"));
    until("every process of the run to end", || tree::below(bench.pid()).is_empty().then_some(()));
}

#[test]
fn a_killed_supervisor_is_a_lost_run_and_takes_its_whole_session_with_it() {
    let bench = Bench::serving();
    bench.shell("long", "sleep 300 & wait");
    let run = bench.start("long");
    bench.run_in(&run, "running");
    let whole = |tree: &Vec<tree::Process>| tree.len() == 3;
    let tree = until("supervisor, program and its child", || Some(tree::below(bench.pid())).filter(whole));
    tree::signal(tree[0].pid, libc::SIGKILL);
    let run = bench.run_in(&run, "lost");
    assert_eq!(run["errorCode"], "RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT");
    until("program and child to end", || tree.iter().all(|process| !tree::is_alive(process)).then_some(()));
    assert_eq!(bench.json(&["status"])["status"]["activeAttempts"], 0, "its place is free");
}

/// A start that must fail before anything runs: never `running`, no exit code, and this reason.
#[track_caller]
fn never_starts(bench: &Bench, more: &[&str], program: &str, says: &str) {
    let mut line = vec!["task", "add", "bad"];
    line.extend(more);
    line.extend(["--", program]);
    bench.ok(&line);
    let (run, code) = bench.run_wait("bad");
    assert_eq!((code, end(&run)), (1, (&json!("failed"), &Value::Null, &Value::Null)), "{says}: {run}");
    assert_eq!(run["startedAtMs"], Value::Null, "{says}");
    assert_eq!(run["errorCode"], "EXECUTOR_START_FAILED", "{says}");
    let shown = shown(bench, &run);
    assert!(shown.contains(&format!("\nThe run failed to start: {says}.\n")), "{says}: {shown}");
    let events = bench.json_lines(&["events", run["id"].as_str().unwrap()]);
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types[types.len() - 2..], ["attempt.failed", "run.failed"], "{says}");
    assert!(types.iter().all(|kind| !kind.ends_with(".running")), "{says}: {types:?}");
    bench.ok(&["task", "delete", "bad"]);
}

fn program(folder: &Path, name: &str, text: &str, mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn s03_14_2_a_start_that_cannot_be_is_never_running_and_each_cause_is_told_apart() {
    let bench = Bench::serving();
    let file = |name, text, mode| program(bench.root(), name, text, mode);
    let good = file("good", "#!/bin/sh\n", 0o755);
    never_starts(&bench, &[], "/does/not/exist", "the program does not exist");
    never_starts(&bench, &["--cwd", "/does/not/exist"], &good, "the working directory does not exist");
    never_starts(&bench, &["--cwd", &good], &good, "the working directory is not a directory");
    let orphan = file("orphan", "#!/does/not/exist\n", 0o755);
    never_starts(&bench, &[], &orphan, "the program's interpreter does not exist");
    let plain = file("plain", "#!/bin/sh\n", 0o644);
    never_starts(&bench, &[], &plain, "the program is not executable; give it an execute bit");
    let through_plain = file("through", &format!("#!{plain}\n"), 0o755);
    never_starts(&bench, &[], &through_plain, "the program's interpreter is not executable");
    never_starts(&bench, &[], "/", "the program is not a regular file");
    bench.shell("good", "true");
    assert_eq!(bench.run_wait("good").1, 0, "the daemon goes on");
}

#[test]
fn s03_14_2_a_permission_that_is_missing_is_told_apart() {
    // Root may nearly everything, so this daemon is somebody else.
    let mut bench = Bench::new();
    let folder = bench.root().to_owned();
    if is_root() {
        bench.run_as(NOBODY);
    }
    bench.init();
    bench.serve(&[]);
    let others = program(&folder, "others", "#!/bin/sh\n", 0o611);
    let locked = folder.join("locked");
    fs::create_dir(&locked).unwrap();
    let inside = program(&locked, "inside", "#!/bin/sh\n", 0o755);
    for path in [Path::new(&others), &locked] {
        if is_root() {
            chown(path, Some(NOBODY), None).unwrap();
        }
    }
    fs::set_permissions(&locked, Permissions::from_mode(0o000)).unwrap();
    never_starts(&bench, &[], &others, "permission denied: the program may not be executed by this user");
    never_starts(&bench, &[], &inside, "permission denied on the way to the program");
    never_starts(
        &bench,
        &["--cwd", locked.to_str().unwrap()],
        "/bin/true",
        "permission denied on the working directory",
    );
    fs::set_permissions(&locked, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_only_exec_can_find_out_fails_with_its_reason_after_the_release() {
    let bench = Bench::serving();
    // No `#!` and no binary: executable by its mode, and nothing any kernel can run.
    let text = program(bench.root(), "text", "echo never\n", 0o755);
    bench.ok(&["task", "add", "text", "--", &text]);
    let (run, code) = bench.run_wait("text");
    assert_eq!((code, &run["status"], &run["errorCode"]), (1, &json!("failed"), &json!("EXECUTOR_START_FAILED")));
    let shown = shown(&bench, &run);
    assert!(shown.contains("neither a script with `#!` nor a binary for this machine"), "{shown}");
    assert_eq!(bench.log(run["id"].as_str().unwrap()), b"");
}
