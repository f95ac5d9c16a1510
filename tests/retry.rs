//! A run whose task says so is tried again: the same run, another attempt, after a delay that a
//! restart does not shorten; and never where somebody asked for its end or nobody can say that it is
//! harmless. By hand it is always a new run.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};
use support::{Bench, tree, until};

/// Adds a task that appends its attempt's number to a file and then does this.
fn counting(bench: &Bench, task: &str, options: &[&str], text: &str) {
    let marks = bench.root().join("marks");
    bench.shell_with(task, options, &format!("echo $QINGLET_ATTEMPT >> {}; {text}", marks.display()));
}

/// Stores a task with a retry policy of its own.
fn apply(bench: &Bench, task: &str, retry: &Value, text: &str) {
    let text = format!("echo $QINGLET_ATTEMPT >> {}; {text}", bench.root().join("marks").display());
    let config = json!({"command": {"kind": "shell", "command": text}, "retry": retry});
    let spec = json!({"schema": "qinglong/command@v1", "config": config});
    let file = bench.root().join("task.json");
    fs::write(&file, json!({"taskId": task, "name": task, "spec": spec}).to_string()).unwrap();
    bench.ok(&["task", "apply", file.to_str().unwrap()]);
}

fn marks(bench: &Bench) -> String {
    fs::read_to_string(bench.root().join("marks")).unwrap_or_default()
}

fn events(bench: &Bench, run: &str) -> Vec<String> {
    bench.json_lines(&["events", run]).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn id(run: &Value) -> &str {
    run["id"].as_str().unwrap()
}

#[test]
fn a_run_that_fails_is_tried_again_until_it_works() {
    let bench = Bench::serving();
    counting(&bench, "task", &["--retry", "4", "--retry-delay", "50ms"], "test $QINGLET_ATTEMPT = 3");
    let (run, code) = bench.run_wait("task");
    assert_eq!((code, &run["status"], &run["latestAttempt"]["number"]), (0, &json!("succeeded"), &json!(3)), "{run}");
    assert_eq!(run.get("errorCode"), None);
    assert_eq!(marks(&bench), "1\n2\n3\n");
    let again = ["run.dispatching", "attempt.starting", "attempt.running", "run.running"];
    let failed = ["attempt.failed", "run.retry_wait", "attempt.claimed", "run.queued"];
    let ended = ["attempt.succeeded", "run.succeeded"];
    let parts: [&[&str]; 7] = [&["run.created", "run.queued"], &again, &failed, &again, &failed, &again, &ended];
    assert_eq!(events(&bench, id(&run)), parts.concat());
    let sequences = bench.json_lines(&["events", id(&run)]);
    assert!(sequences.iter().zip(1..).all(|(event, at)| event["sequence"] == at), "without holes");
    assert_eq!((&run["version"], &run["eventSequence"]), (&json!(24), &json!(24)));
    for (number, want) in [("1", "failed"), ("2", "failed"), ("3", "succeeded")] {
        let answer = bench.json(&["show", id(&run)]);
        assert_eq!(answer["run"]["id"], run["id"]);
        let log = bench.cli(&["logs", id(&run), "--attempt", number]);
        assert_eq!(log.code, 0, "each attempt has its log: {want}");
    }
}

#[test]
fn the_last_attempt_decides_and_one_attempt_is_never_repeated() {
    let bench = Bench::serving();
    counting(&bench, "task", &["--retry", "2", "--retry-delay", "10ms"], "exit 7");
    let (run, code) = bench.run_wait("task");
    assert_eq!((code, &run["status"], &run["latestAttempt"]["exitCode"]), (1, &json!("failed"), &json!(7)));
    assert_eq!(marks(&bench), "1\n2\n3\n");
    counting(&bench, "once", &["--retry", "0"], "exit 7");
    assert_eq!(bench.run_wait("once").0["latestAttempt"]["number"], 1);
    counting(&bench, "well", &["--retry", "5"], "exit 0");
    assert_eq!(bench.run_wait("well").0["latestAttempt"]["number"], 1);
}

#[test]
fn a_timeout_and_a_start_that_fails_are_tried_again_too() {
    let bench = Bench::serving();
    let options = ["--retry", "1", "--retry-delay", "10ms", "--timeout", "300ms"];
    counting(&bench, "slow", &options, "test $QINGLET_ATTEMPT = 2 || sleep 1000");
    let (run, code) = bench.run_wait("slow");
    assert_eq!((code, &run["latestAttempt"]["number"]), (0, &json!(2)), "{run}");
    assert_eq!(run.get("cancelReason"), None, "the timeout has ended its attempt, not the run");
    counting(&bench, "ever", &options, "sleep 1000");
    let (run, code) = bench.run_wait("ever");
    assert_eq!((code, &run["status"], &run["latestAttempt"]["number"]), (1, &json!("timed_out"), &json!(2)), "{run}");
    let missing = bench.root().join("missing");
    bench.ok(&["task", "add", "late", "--retry", "9", "--retry-delay", "50ms", "--", missing.to_str().unwrap()]);
    let run = bench.start("late");
    until("a failed start", || (bench.run(&run)["latestAttempt"]["number"] == 2).then_some(()));
    fs::copy("/bin/true", &missing).unwrap();
    assert_eq!(bench.run_in(&run, "succeeded").get("errorCode"), None);
}

#[test]
fn waiting_is_shown_and_followed() {
    let bench = Bench::serving();
    counting(
        &bench,
        "task",
        &["--retry", "1", "--retry-delay", "2s"],
        "echo say $QINGLET_ATTEMPT; exit $((2 - QINGLET_ATTEMPT))",
    );
    let follower = bench.root().join("follower");
    let mut client = bench.spawn(&["run", "task", "--follow"], &follower);
    let run = until("a run", || bench.json_lines(&["runs"]).first().cloned());
    let waiting = bench.run_in(id(&run), "retry_wait");
    let (due, queued) = (waiting["nextAttemptAtMs"].as_i64().unwrap(), waiting["queuedAtMs"].as_i64().unwrap());
    assert!(due >= queued + 2000, "{waiting}");
    let text = bench.ok(&["show", id(&run)]);
    assert!(text.contains("waits to be tried again; attempt 1 failed with exit code 1"), "{text}");
    assert!(text.contains("next attempt"), "{text}");
    assert_eq!(bench.json(&["status"])["status"]["runs"]["retryWait"], 1);
    assert_eq!(until("the follower", || client.try_wait().unwrap()).code(), Some(0));
    let seen = fs::read_to_string(&follower).unwrap();
    assert!(seen.contains("say 1\n") && seen.contains("say 2\n"), "both logs, in order: {seen}");
}

#[test]
fn stop_ends_one_that_waits_and_one_that_is_being_timed_out() {
    let bench = Bench::serving();
    counting(&bench, "task", &["--retry", "9", "--retry-delay", "1h"], "exit 1");
    let run = bench.start("task");
    bench.run_in(&run, "retry_wait");
    assert_eq!(bench.ok(&["stop", &run, "--wait"]), "asked it to end");
    let ended = bench.run_in(&run, "cancelled");
    assert_eq!((&ended["latestAttempt"]["status"], &ended["cancelReason"]), (&json!("failed"), &json!("user")));
    // Its timeout's intent stays, and yet there is no other attempt.
    let options = ["--retry", "9", "--retry-delay", "10ms", "--timeout", "200ms", "--grace", "2s"];
    counting(&bench, "deaf", &options, "trap '' TERM; while :; do sleep 0.1; done");
    let run = bench.start("deaf");
    until("its timeout", || (bench.run(&run)["cancelReason"] == "timeout").then_some(()));
    assert_eq!(bench.ok(&["stop", &run, "--wait"]), "it was asked to end before");
    let ended = bench.run_in(&run, "timed_out");
    assert_eq!(ended["latestAttempt"]["number"], 1);
    assert_eq!(tree::marked(&run), []);
}

#[test]
fn disabling_or_deleting_the_task_ends_what_waits() {
    let bench = Bench::serving();
    for (task, how) in [("off", "disable"), ("gone", "delete")] {
        counting(&bench, task, &["--retry", "9", "--retry-delay", "1h"], "exit 1");
        let run = bench.start(task);
        bench.run_in(&run, "retry_wait");
        bench.ok(&["task", how, task]);
        let ended = bench.run_in(&run, "cancelled");
        assert_eq!(ended["cancelReason"], "policy");
        // One that is running then ends, and is not tried again.
        counting(&bench, &format!("{task}-later"), &["--retry", "9", "--retry-delay", "10ms"], "sleep 1; exit 1");
        let run = bench.start(&format!("{task}-later"));
        bench.run_in(&run, "running");
        bench.ok(&["task", how, &format!("{task}-later")]);
        assert_eq!(bench.run_in(&run, "failed")["latestAttempt"]["number"], 1);
    }
}

#[test]
fn a_delay_goes_on_through_a_restart_of_the_daemon() {
    let mut bench = Bench::serving();
    counting(&bench, "task", &["--retry", "1", "--retry-delay", "3s"], "test $QINGLET_ATTEMPT = 2");
    let run = bench.start("task");
    bench.run_in(&run, "retry_wait");
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(500));
    bench.kill();
    std::thread::sleep(Duration::from_millis(500));
    bench.serve(&[]);
    bench.run_in(&run, "succeeded");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(2_500) && took < Duration::from_secs(6), "{took:?}");
    assert_eq!(marks(&bench), "1\n2\n");
}

#[test]
fn a_lost_attempt_is_followed_by_another_only_where_that_is_harmless() {
    let bench = Bench::serving();
    let lose = "kill -9 $PPID; sleep 1000";
    let safe = json!({"maxAttempts": 2, "delayMs": 10, "on": ["lost"], "safety": "idempotent"});
    apply(&bench, "safe", &safe, &format!("test $QINGLET_ATTEMPT = 2 || {{ {lose}; }}"));
    let run = bench.run_in(&bench.start("safe"), "succeeded");
    assert_eq!(run["latestAttempt"]["number"], 2);
    let seen = events(&bench, id(&run));
    let at = seen.iter().position(|event| event == "run.lost").unwrap();
    assert_eq!(seen[at + 1..at + 4], ["run.retry_wait", "attempt.claimed", "run.queued"]);
    counting(&bench, "unsafe", &["--retry", "3", "--retry-delay", "10ms"], lose);
    let run = bench.run_in(&bench.start("unsafe"), "lost");
    assert_eq!(run["latestAttempt"]["number"], 1);
    let refused = bench.cli(&["retry", id(&run)]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("the run is lost"), "{refused:?}");
}

#[test]
fn by_hand_it_is_a_new_run_of_the_same_revision() {
    let bench = Bench::serving();
    let flag = bench.root().join("flag");
    counting(&bench, "task", &[], &format!("test -e {}", flag.display()));
    let (old, _) = bench.run_wait("task");
    fs::write(&flag, "").unwrap();
    let text = bench.ok(&["task", "show", "task", "--json"]);
    let mut task: Value = serde_json::from_str(&text).unwrap();
    task["task"]["spec"]["config"]["command"]["command"] = "exit 9".into();
    let file = bench.root().join("task.json");
    let spec = &task["task"]["spec"];
    fs::write(&file, json!({"taskId": "task", "name": "task", "spec": spec}).to_string()).unwrap();
    bench.ok(&["task", "apply", file.to_str().unwrap()]);
    let output = bench.cli(&["retry", id(&old), "--wait", "--json"]);
    assert_eq!(output.code, 0, "{output:?}");
    let made: Value = serde_json::from_str(output.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(made["retryOfRunId"], old["id"]);
    let new = bench.run(made["runId"].as_str().unwrap());
    assert_eq!((&new["status"], &new["taskRevision"]), (&json!("succeeded"), &old["taskRevision"]));
    assert_eq!(new["retryOfRunId"], old["id"]);
    assert_eq!(bench.run(id(&old))["status"], "failed", "the old one stays as it ended");
    let audit = bench.json_lines(&["audit"]);
    assert!(audit.iter().any(|row| row["operation"] == "run.retry" && row["outcome"] == "allowed"), "{audit:?}");
    // One that ended well, one that is not there, and one too many in a minute.
    let refused = bench.cli(&["retry", id(&new)]);
    assert!(refused.code == 3 && refused.stderr.contains("the run is succeeded"), "{refused:?}");
    assert_eq!(bench.cli(&["retry", "018f5e7a-9b1c-7def-8123-000000000001"]).code, 3);
    assert_eq!(bench.cli(&["retry", "nonsense"]).code, 2);
    for _ in 0..3 {
        bench.ok(&["retry", id(&old)]);
    }
    let refused = bench.cli(&["retry", id(&old)]);
    assert!(refused.code == 3 && refused.stderr.contains("within a minute"), "{refused:?}");
    bench.ok(&["task", "disable", "task"]);
    let refused = bench.cli(&["retry", id(&old)]);
    assert!(refused.code == 3 && refused.stderr.contains("disabled"), "{refused:?}");
}
