//! The commands against a real daemon: what a person or a script sees of the main job.

mod support;

use serde_json::{Value, json};
use std::fs;
use support::{Bench, until};

#[test]
fn a_task_is_added_run_and_its_end_is_known() {
    let bench = Bench::serving();
    assert!(bench.ok(&["task", "list"]).starts_with("no tasks yet; add one with `qinglet --state "));
    assert!(bench.ok(&["runs"]).starts_with("no runs yet; start one with `qinglet --state "));
    assert!(bench.ok(&["task", "add", "hello", "--", "/bin/echo", "a  b", ""]).starts_with("added task hello; run it"));
    let output = bench.cli(&["run", "hello", "--wait"]);
    let run = output.stdout.trim();
    assert_eq!((output.code, output.stderr), (0, format!("run {run} of hello succeeded with exit code 0\n")));
    assert_eq!(bench.log(run), b"a  b \n");
    let shown = bench.ok(&["show", run]);
    for part in
        ["task       hello (revision 1)\n", "exit code  0\n", "\nThe run succeeded with exit code 0.\nIts log: qinglet"]
    {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let events = bench.ok(&["events", run]);
    assert_eq!(events.lines().count(), 9, "{events}");
    assert!(events.starts_with("SEQ  TIME ") && events.contains("attempt.succeeded  executor"), "{events}");
    let runs = bench.ok(&["runs"]);
    assert!(runs.starts_with("RUN ID ") && runs.lines().nth(1).unwrap().starts_with(run), "{runs}");
    assert!(runs.ends_with("  0"), "{runs}");
}

#[test]
fn json_is_what_the_wire_says() {
    let bench = Bench::serving();
    let added = bench.json(&["task", "add", "a", "--shell", "exit 3"]);
    assert_eq!((&added["status"], &added["task"]["revision"]), (&json!("created"), &json!(1)));
    let started = bench.json(&["run", "a"]);
    let keys: Vec<&str> = started.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["attemptId", "queuedAtMs", "runId", "status", "taskId", "taskRevision"]);
    let run = started["runId"].as_str().unwrap();
    let ended = bench.run_in(run, "failed");
    assert_eq!(ended["latestAttempt"]["exitCode"], 3);
    assert_eq!(ended["latestAttempt"]["id"], started["attemptId"]);
    assert_eq!(bench.json_lines(&["runs"])[0]["id"], started["runId"]);
    assert_eq!(bench.json_lines(&["events", run])[0]["type"], "run.created");
    assert_eq!(bench.json(&["task", "list"])["taskId"], "a");
    assert_eq!(bench.json(&["task", "show", "a"])["task"]["spec"]["config"]["command"]["command"], "exit 3");
    let status = bench.json(&["status"]);
    assert_eq!((&status["status"]["profile"], &status["status"]["listen"]), (&json!("edge"), &Value::Null));
}

#[test]
fn every_way_to_fail_is_told_apart_in_words_and_exits_1() {
    let bench = Bench::serving();
    let plain = bench.root().join("plain");
    fs::write(&plain, "text").unwrap();
    bench.shell("seven", "exit 7");
    bench.shell("killed", "kill -9 $$");
    bench.ok(&["task", "add", "nothing", "--", "/does/not/exist"]);
    bench.ok(&["task", "add", "plain", "--", plain.to_str().unwrap()]);
    bench.ok(&["task", "add", "nowhere", "--cwd", "/does/not/exist", "--", "/bin/true"]);
    let told = |task: &str| {
        let output = bench.cli(&["run", task, "--wait"]);
        assert_eq!(output.code, 1, "{output:?}");
        let run = output.stdout.trim();
        let sentence = output.stderr.trim_end().strip_prefix(&format!("run {run} of {task} ")).unwrap().to_owned();
        assert!(bench.ok(&["show", run]).contains(&format!("\nThe run {sentence}.")));
        sentence
    };
    assert_eq!(told("seven"), "failed with exit code 7");
    assert_eq!(told("killed"), "failed: signal 9 (KILL) ended it");
    assert_eq!(told("nothing"), "failed to start: the program does not exist");
    assert_eq!(told("plain"), "failed to start: the program is not executable; give it an execute bit");
    assert_eq!(told("nowhere"), "failed to start: the working directory does not exist");
}

#[test]
fn following_ends_with_the_run_and_the_standard_output_is_the_log_alone() {
    let bench = Bench::serving();
    bench.shell("slow", r"printf 'one\n'; sleep 0.3; printf '\000\377two' >&2; exit 4");
    let output = bench.cli(&["run", "slow", "--follow"]);
    assert_eq!((output.code, &output.bytes[..]), (0, &b"one\n\0\xfftwo"[..]), "{output:?}");
    let output = bench.cli(&["run", "slow", "--follow", "--wait"]);
    assert_eq!((output.code, &output.bytes[..]), (1, &b"one\n\0\xfftwo"[..]), "{output:?}");
    let run = output.stderr.lines().next().unwrap();
    assert_eq!(output.stderr, format!("{run}\nrun {run} of slow failed with exit code 4\n"));
    assert_eq!(bench.cli(&["logs", run, "--follow"]).bytes, output.bytes);
    assert_eq!(bench.cli(&["logs", run, "--attempt", "1"]).bytes, output.bytes);
    let output = bench.cli(&["logs", run, "--attempt", "2"]);
    assert_eq!(output.code, 3, "{output:?}");
}

#[test]
fn following_goes_on_over_a_restart_of_the_daemon() {
    let mut bench = Bench::serving();
    let gate = bench.root().join("gate");
    bench.shell("long", &format!("echo begin; until [ -e {} ]; do sleep 0.05; done; echo end", gate.display()));
    let file = bench.root().join("out");
    let mut follower = bench.spawn(&["run", "long", "--follow", "--wait"], &file);
    until("its first line", || fs::read_to_string(&file).unwrap().contains("begin\n").then_some(()));
    bench.kill();
    bench.serve(&[]);
    fs::write(&gate, "").unwrap();
    assert_eq!(until("its end", || follower.try_wait().unwrap()).code(), Some(0));
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!((text.matches("begin\n").count(), text.matches("end\n").count()), (1, 1), "{text}");
}

#[test]
fn a_task_file_is_applied_once_and_what_show_prints_applies_again() {
    let bench = Bench::serving();
    let file = bench.root().join("task.json");
    let path = file.to_str().unwrap();
    let mut task = json!({"taskId": "a", "name": "A task", "labels": {"room": "attic"}, "spec": {
        "schema": "qinglong/command@v1", "config": {"command": {"kind": "argv", "file": "/bin/true", "args": []}}}});
    let apply = |task: &Value| {
        fs::write(&file, task.to_string()).unwrap();
        bench.ok(&["task", "apply", path])
    };
    assert_eq!(apply(&task), "task a created, revision 1");
    assert_eq!(apply(&task), "task a unchanged, revision 1");
    task["description"] = "does nothing, well".into();
    assert_eq!(apply(&task), "task a updated, revision 2");
    let shown = bench.json(&["task", "show", "a"]);
    assert_eq!(apply(&shown), "task a unchanged, revision 2");
    task["lables"] = json!({});
    fs::write(&file, task.to_string()).unwrap();
    let output = bench.cli(&["task", "apply", path]);
    assert_eq!(output.code, 2);
    assert_eq!(output.stderr, format!("qinglet: {path}: unknown field `lables`; the nearest known one is `labels`\n"));
}

#[test]
fn a_disabled_task_is_not_started_and_a_deleted_one_is_not_there() {
    let bench = Bench::serving();
    bench.shell("a", "true");
    assert_eq!(bench.ok(&["task", "disable", "a"]), "task a is disabled");
    let output = bench.cli(&["run", "a", "--wait"]);
    assert_eq!((output.code, output.stdout.as_str()), (3, ""));
    assert!(output.stderr.contains("cannot run task \"a\": the task is disabled"), "{output:?}");
    assert_eq!(bench.ok(&["task", "disable", "a"]), "task a is already disabled");
    assert_eq!(bench.ok(&["task", "enable", "a"]), "task a is enabled");
    assert_eq!(bench.run_wait("a").1, 0);
    let output = bench.cli(&["task", "add", "a", "--shell", "false"]);
    assert_eq!(output.code, 3);
    assert!(output.stderr.contains("there is a task \"a\" already; change it with `qinglet task apply`"), "{output:?}");
    assert_eq!(bench.ok(&["task", "delete", "a"]), "deleted task a");
    let output = bench.cli(&["run", "a"]);
    assert_eq!(output.code, 3);
    assert!(output.stderr.contains("(task_not_found)") && output.stderr.contains("`qinglet task list`"), "{output:?}");
    assert_eq!(bench.json_lines(&["runs", "--task", "a"]).len(), 1, "its history stays");
    bench.shell("a", "true");
    assert_eq!(bench.run_wait("a").1, 0);
}

#[test]
fn roles_and_tokens_are_given_and_taken_and_the_audit_knows() {
    let bench = Bench::serving();
    bench.shell("a", "true");
    assert!(bench.ok(&["access", "grant", "alice", "viewer"]).starts_with("user:alice is viewer now"));
    let token = bench.cli(&["access", "token", "new", "alice"]);
    assert_eq!((token.code, token.stdout.lines().count()), (0, 1));
    let file = bench.root().join("alice.token");
    fs::write(&file, &token.stdout).unwrap();
    let as_alice = |line: &[&str]| bench.cli(&[&["--token-file", file.to_str().unwrap()][..], line].concat());
    assert_eq!(as_alice(&["task", "list"]).code, 0);
    let refused = as_alice(&["run", "a"]);
    assert_eq!(refused.code, 3);
    assert!(refused.stderr.contains("(forbidden)"), "{refused:?}");
    let refused = as_alice(&["task", "disable", "a"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (3, ""));
    let id = bench.json_lines(&["access", "list"]).iter().find_map(|entry| {
        let alice = entry["subject"]["id"] == "alice";
        alice.then(|| entry["credentials"][0]["credentialId"].as_str().unwrap().to_owned())
    });
    let id = id.unwrap();
    assert!(bench.ok(&["access", "list"]).contains(&format!("user:alice  viewer  {id}")));
    assert_eq!(bench.ok(&["access", "token", "revoke", &id]), format!("token {id} works for nobody any more"));
    let refused = as_alice(&["task", "list"]);
    assert_eq!(refused.code, 3);
    assert!(refused.stderr.contains("the token is not accepted"), "{refused:?}");
    assert_eq!(bench.ok(&["access", "revoke", "alice"]), "user:alice has no role any more");
    let audit = bench.ok(&["audit"]);
    for part in ["credential.revoke", "user:alice", "denied", "task.start", "task.create"] {
        assert!(audit.contains(part), "{part} is not in\n{audit}");
    }
    let secret = token.stdout.trim().splitn(3, '_').nth(2).unwrap();
    assert!(secret.len() > 20 && !audit.contains(secret), "a secret is in the audit");
}

#[test]
fn the_last_owner_cannot_be_taken_away() {
    let bench = Bench::serving();
    let output = bench.cli(&["access", "revoke", "owner"]);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(output.stderr.contains("last_owner"), "{output:?}");
}

#[test]
fn status_is_for_people_too() {
    let bench = Bench::serving();
    let status = bench.ok(&["status"]);
    for part in ["profile", "edge", "uptime", "runs queued", "active attempts max"] {
        assert!(status.contains(part), "{part} is not in\n{status}");
    }
}

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let bench = Bench::serving();
    let output = bench.cli(&["serve"]);
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.stderr.contains("in use by `qinglet serve`"), "{output:?}");
    assert_eq!(bench.cli(&["init"]).code, 4);
    bench.ok(&["status"]);
}

#[test]
fn a_new_owner_token_ends_the_old_one() {
    let mut bench = Bench::serving();
    let old = bench.token();
    assert_eq!(bench.stop(), 0);
    bench.ok(&["init", "--reissue-owner"]);
    bench.serve(&[]);
    bench.ok(&["task", "list"]);
    assert_eq!(bench.http_as(&old, "GET", "/tasks", None).status, 401);
}
