//! Triggers with the real binary: what starts tasks by itself, once for each occurrence, and what keeps
//! one from starting anything.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs;
use support::{Bench, until};

/// A bench whose daemon takes the clock as it is.
fn serving() -> Bench {
    let mut bench = Bench::ready();
    bench.serve(&["--clock", "always"]);
    bench
}

fn marking(bench: &Bench, task: &str, options: &[&str], text: &str) {
    let marks = bench.root().join(format!("{task}.marks"));
    bench.shell_with(task, options, &format!("env | grep QINGLET_ >> {}; {text}", marks.display()));
}

fn marks(bench: &Bench, task: &str) -> String {
    fs::read_to_string(bench.root().join(format!("{task}.marks"))).unwrap_or_default()
}

fn trigger(bench: &Bench, id: &str) -> Value {
    bench.json(&["trigger", "show", id])["trigger"].take()
}

fn runs_of(bench: &Bench, task: &str) -> Vec<Value> {
    bench.json_lines(&["runs", "--task", task])
}

fn ended(bench: &Bench, task: &str, count: usize) -> Vec<Value> {
    until("the runs to end", || {
        let runs = runs_of(bench, task);
        let over = runs.iter().filter(|run| run["finishedAtMs"].is_i64()).count();
        (over >= count).then_some(runs)
    })
}

#[test]
fn a_schedule_starts_its_task_at_its_times_and_says_which_time_it_was_for() {
    let bench = serving();
    marking(&bench, "tick", &[], "true");
    let said = bench.ok(&["trigger", "set", "every", "--task", "tick", "--cron", "* * * * * *", "--zone", "UTC"]);
    assert!(said.contains("trigger every: * * * * * * UTC starts tick"), "{said}");
    let runs = ended(&bench, "tick", 2);
    bench.ok(&["trigger", "disable", "every"]);
    let run = &runs[runs.len() - 1];
    assert_eq!((&run["triggerId"], &run["executionOrigin"]), (&json!("every"), &json!("trigger")));
    let shown = trigger(&bench, "every");
    assert_eq!((&shown["state"], &shown["nextFireAtMs"]), (&json!("disabled"), &Value::Null));
    let lines = marks(&bench, "tick");
    let at: Vec<i64> = lines
        .lines()
        .filter_map(|line| line.strip_prefix("QINGLET_SCHEDULED_FOR_MS="))
        .map(|ms| ms.parse().unwrap())
        .collect();
    assert!(at.iter().all(|ms| ms % 1000 == 0) && at.windows(2).all(|two| two[0] < two[1]), "{at:?}");
    assert!(lines.contains("QINGLET_TRIGGER_ID=every"), "{lines}");
    let events = bench.json_lines(&["events", run["id"].as_str().unwrap()]);
    assert_eq!(events[0]["actorType"], "scheduler");
}

#[test]
fn what_is_refused_says_where_and_what_to_do() {
    let bench = serving();
    bench.shell("task", "true");
    let set = |args: &[&str]| bench.cli(&[&["trigger", "set", "x", "--task", "task"], args].concat());
    for (args, code, words) in [
        (&["--cron", "0 0 30 2 *", "--zone", "UTC"][..], 2, "at character 5: no month that is given has a day 30"),
        (&["--cron", "0 0 * * *", "--zone", "Mars/Base"], 2, "there is no zone Mars/Base"),
        (&["--cron", "@reboot"], 2, "`@reboot` is no time; make a trigger on boot"),
        (&["--on", "shutdown"], 2, "--on must be boot"),
        (&["--after", "task"], 2, "--after needs --outcome"),
        (&["--after", "task", "--outcome", "done"], 2, "outcomes: must be a list"),
        (&["--after", "nobody", "--outcome", "failed"], 3, "no such task"),
        (&["--cron", "0 0 * * *", "--on", "boot"], 2, "say when: one of"),
        (&["--on", "boot", "--zone", "UTC"], 2, "--zone goes with --cron only"),
        (&["--cron", "0 0 * * *", "--overlap", "maybe"], 2, "overlap: must be one of skip, allow, queue"),
    ] {
        let output = set(args);
        assert!(output.code == code && output.stderr.contains(words), "{args:?}: {output:?}");
    }
    assert_eq!(
        bench.ok(&["trigger", "list"]),
        "no triggers yet; `qinglet --state STATE help trigger set` shows how to make one"
            .replace("STATE", bench.state().to_str().unwrap())
    );
    bench.ok(&["task", "disable", "task"]);
    let output = set(&["--on", "boot"]);
    assert!(output.code == 3 && output.stderr.contains("the task is disabled"), "{output:?}");
    assert_eq!(set(&["--on", "boot", "--disabled"]).code, 0, "switched off it may wait for its task");
}

#[test]
fn a_task_that_changes_takes_its_triggers_along_and_one_that_is_off_or_gone_starts_nothing() {
    let bench = serving();
    marking(&bench, "task", &[], "true");
    bench.ok(&["trigger", "set", "every", "--task", "task", "--cron", "* * * * * *", "--zone", "UTC"]);
    ended(&bench, "task", 1);
    bench.ok(&["task", "disable", "task"]);
    let shown = until("a skip", || {
        let shown = trigger(&bench, "every");
        (shown["skipped"].as_i64() > Some(0)).then_some(shown)
    });
    assert_eq!((&shown["state"], &shown["lastSkipReason"]), (&json!("task_disabled"), &json!("task_disabled")));
    assert!(bench.ok(&["trigger", "show", "every"]).contains("qinglet task enable task"));
    let count = runs_of(&bench, "task").len();
    bench.ok(&["task", "enable", "task"]);
    assert_eq!(trigger(&bench, "every")["state"], "active", "pinned to the new revision in the same transaction");
    ended(&bench, "task", count + 1);
    // Through the API without it: the pin is stale, visibly.
    let task = bench.json(&["task", "show", "task"])["task"].take();
    let body = json!({"schema": "qinglong/task-definition@v1", "mutationId": "018f5e7a-9b1c-7def-8123-000000000001",
        "expectedRevision": task["revision"], "name": "other", "kind": "command", "spec": task["spec"],
        "labels": {}, "enabled": true});
    let answer = bench.http("PUT", "/tasks/task", Some(&body));
    assert_eq!(answer.status, 200, "{answer:?}");
    until("a skip", || (trigger(&bench, "every")["lastSkipReason"] == "pin_stale").then_some(()));
    assert_eq!(trigger(&bench, "every")["state"], "pin_stale");
    bench.ok(&["trigger", "enable", "every"]);
    assert_eq!(trigger(&bench, "every")["state"], "active");
    bench.ok(&["task", "delete", "task"]);
    assert_eq!(trigger(&bench, "every")["state"], "task_deleted");
    bench.ok(&["trigger", "delete", "every"]);
    assert_eq!(bench.cli(&["trigger", "show", "every"]).code, 3);
}

#[test]
fn a_task_that_outlives_its_period_is_skipped_joined_or_waited_for() {
    let bench = serving();
    for (overlap, task) in [("skip", "skips"), ("allow", "allows"), ("queue", "queues")] {
        marking(&bench, task, &[], "sleep 4");
        bench.ok(&[
            "trigger",
            "set",
            overlap,
            "--task",
            task,
            "--cron",
            "* * * * * *",
            "--zone",
            "UTC",
            "--overlap",
            overlap,
        ]);
        until("its first run", || (!runs_of(&bench, task).is_empty()).then_some(()));
        std::thread::sleep(std::time::Duration::from_millis(2_500));
        bench.ok(&["trigger", "disable", overlap]);
        let states: Vec<String> =
            runs_of(&bench, task).iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect();
        let (count, shown) = (states.len(), trigger(&bench, overlap));
        match overlap {
            "skip" => assert_eq!(count, 1, "{states:?}"),
            "allow" => assert!(count >= 3, "{states:?}"),
            _ => assert_eq!(states, ["cancelled", "running"], "one waited, and ended with its trigger"),
        }
        if overlap == "allow" {
            assert_eq!(shown["skipped"], 0);
        } else {
            assert_eq!(shown["lastSkipReason"], "overlap");
            assert!((1..=3).contains(&shown["skipped"].as_i64().unwrap()), "once for each occurrence: {shown}");
        }
        for run in runs_of(&bench, task) {
            bench.ok(&["stop", run["id"].as_str().unwrap()]);
        }
    }
}

#[test]
fn at_boot_it_starts_once_whatever_the_daemon_does() {
    let mut bench = Bench::ready();
    bench.serve(&[]);
    marking(&bench, "task", &[], "true");
    bench.ok(&["trigger", "set", "up", "--task", "task", "--on", "boot"]);
    assert_eq!(bench.stop(), 0);
    bench.serve(&[]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(runs_of(&bench, "task").is_empty(), "made in this boot, so not due in it");
    // As if it had been made in an earlier boot.
    assert_eq!(bench.stop(), 0);
    let file = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "db")).unwrap();
    let database = rusqlite::Connection::open(file).unwrap();
    database.execute("UPDATE trigger_schedules SET last_boot = zeroblob(16)", []).unwrap();
    drop(database);
    for _ in 0..2 {
        bench.serve(&[]);
        ended(&bench, "task", 1);
        bench.kill();
    }
    bench.serve(&[]);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(runs_of(&bench, "task").len(), 1);
    assert!(marks(&bench, "task").contains("QINGLET_TRIGGER_ID=up"));
}

#[test]
fn the_end_of_a_run_starts_another_and_tells_it_how_it_was() {
    let bench = serving();
    bench.shell("first", "exit 7");
    marking(&bench, "then", &[], "true");
    marking(&bench, "never", &[], "true");
    bench.ok(&["trigger", "set", "on-failure", "--task", "then", "--after", "first", "--outcome", "failed,lost"]);
    bench.ok(&["trigger", "set", "on-success", "--task", "never", "--after", "first", "--outcome", "succeeded"]);
    let (cause, _) = bench.run_wait("first");
    ended(&bench, "then", 1);
    let lines = marks(&bench, "then");
    let id = cause["id"].as_str().unwrap();
    for line in [
        format!("QINGLET_CAUSE_RUN_ID={id}"),
        "QINGLET_CAUSE_TASK_ID=first".into(),
        "QINGLET_CAUSE_OUTCOME=failed".into(),
        "QINGLET_CAUSE_EXIT_CODE=7".into(),
        "QINGLET_TRIGGER_ID=on-failure".into(),
    ] {
        assert!(lines.contains(&line), "{line} in {lines}");
    }
    assert!(runs_of(&bench, "never").is_empty());
    // A run that is tried again has not ended; the last attempt's end is the run's.
    bench.shell_with("twice", &["--retry", "1", "--retry-delay", "10ms"], "exit 1");
    marking(&bench, "told", &[], "true");
    bench.ok(&["trigger", "set", "tell", "--task", "told", "--after", "twice", "--outcome", "failed"]);
    bench.run_wait("twice");
    ended(&bench, "told", 1);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(runs_of(&bench, "told").len(), 1);
}

#[test]
fn tasks_that_start_themselves_or_each_other_stop_and_say_so() {
    let bench = serving();
    bench.shell("own", "true");
    bench.ok(&["trigger", "set", "loop", "--task", "own", "--after", "own", "--outcome", "succeeded"]);
    bench.run_wait("own");
    let shown = trigger(&bench, "loop");
    assert_eq!((&shown["skipped"], &shown["lastSkipReason"]), (&json!(1), &json!("chain_loop")));
    assert_eq!(runs_of(&bench, "own").len(), 1);
    for (one, other) in [("ping", "pong"), ("pong", "ping")] {
        bench.shell(one, "true");
        if other == "ping" {
            bench.ok(&["trigger", "set", "ab", "--task", "pong", "--after", "ping", "--outcome", "succeeded"]);
            bench.ok(&["trigger", "set", "ba", "--task", "ping", "--after", "pong", "--outcome", "succeeded"]);
        }
    }
    bench.run_wait("ping");
    ended(&bench, "pong", 1);
    until("the loop to be seen", || (trigger(&bench, "ba")["lastSkipReason"] == "chain_loop").then_some(()));
    assert_eq!((runs_of(&bench, "ping").len(), runs_of(&bench, "pong").len()), (1, 1));
    // Ten tasks in a row: the ninth is one too many.
    for step in 0..10 {
        bench.shell(&format!("step{step}"), "true");
    }
    for step in 1..10 {
        let (task, after) = (format!("step{step}"), format!("step{}", step - 1));
        bench.ok(&[
            "trigger",
            "set",
            &format!("to{step}"),
            "--task",
            &task,
            "--after",
            &after,
            "--outcome",
            "succeeded",
        ]);
    }
    bench.run_wait("step0");
    ended(&bench, "step8", 1);
    until("the bound to be seen", || (trigger(&bench, "to9")["lastSkipReason"] == "chain_too_long").then_some(()));
    assert!(runs_of(&bench, "step9").is_empty());
}

#[test]
fn a_schedule_waits_for_a_clock_that_can_be_believed_and_says_so() {
    let mut bench = Bench::ready();
    // Without the setting the host decides; this test is about what is shown either way.
    bench.serve(&[]);
    bench.shell("task", "true");
    bench.ok(&["trigger", "set", "later", "--task", "task", "--cron", "0 0 1 1 *", "--zone", "UTC"]);
    let clock = until("the clock to be judged", || {
        let health = bench.json(&["status"])["status"]["clock"].clone();
        let state = trigger(&bench, "later")["state"].clone();
        let agree = (health == "trusted") == (state == "active");
        agree.then_some(health)
    });
    assert!(clock == "trusted" || clock == "untrusted");
}
