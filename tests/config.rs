//! The configuration file against the real binary: who wins, what is refused and how, what a SIGHUP
//! changes and what it only names, and where logs and sockets go.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, symlink};
use std::path::Path;
use support::{Bench, Output, tree, until};

/// The daemon's log, once this stands in it.
fn said(bench: &Bench, part: &str) -> String {
    until(&format!("the daemon to say {part:?}"), || {
        fs::read_to_string(bench.daemon_log()).ok().filter(|log| log.contains(part))
    })
}

fn setting(bench: &Bench, key: &str) -> (Value, String) {
    let mut status = bench.json(&["status"]);
    let set = status["status"]["settings"][key].take();
    (set["value"].clone(), set["from"].as_str().unwrap_or_else(|| panic!("no {key}")).to_owned())
}

fn is(value: impl Into<Value>, from: &str) -> (Value, String) {
    (value.into(), from.to_owned())
}

/// `serve` must be refused with this code and these words in one line.
#[track_caller]
fn refused(bench: &Bench, args: &[&str], code: i32, says: &[&str]) {
    let output = bench.cli(&[&["serve"][..], args].concat());
    assert_eq!((output.code, output.stdout.as_str(), output.stderr.lines().count()), (code, "", 1), "{output:?}");
    for part in says {
        assert!(output.stderr.contains(part), "{part:?} is not in {}", output.stderr);
    }
}

#[test]
fn status_shows_every_setting_and_where_it_came_from() {
    let mut bench = Bench::ready();
    bench.config(r#"{"onStop": "drain", "logLevel": "warn", "limits": {"queuedRuns": 7, "auditRows": 500}}"#);
    bench.serve(&["--on-stop", "stop"]);
    assert_eq!(setting(&bench, "state"), is(bench.state().to_str().unwrap(), "flag"));
    assert_eq!(setting(&bench, "onStop"), is("stop", "flag"));
    assert_eq!(setting(&bench, "logLevel"), is("warn", "file"));
    assert_eq!(setting(&bench, "limits.queuedRuns"), is(7, "file"));
    assert_eq!(setting(&bench, "limits.activeAttempts"), is(4, "profile"));
    assert_eq!(setting(&bench, "listen"), is(Value::Null, "default"));
    assert_eq!(bench.json(&["status"])["status"]["queuedRunsMax"], 7);
    let text = bench.ok(&["status"]);
    let line = text.lines().find(|line| line.trim_start().starts_with("onStop")).unwrap();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["onStop", "stop", "flag"]);
    let log = fs::read_to_string(bench.daemon_log()).unwrap();
    assert!(!log.contains("info:"), "the level is warn: {log}");
}

#[test]
fn a_broken_file_names_file_key_and_range_and_nothing_starts() {
    let bench = Bench::ready();
    let path = bench.root().join("config.json");
    let file = path.to_str().unwrap();
    for (text, says) in [
        (r#"{"limits": {"activeAttempts": 99}}"#, "`limits.activeAttempts` is 99 and must be from 1 to 64"),
        (r#"{"limits": {"activeAttempts": 17}}"#, "under the profile edge it must be from 1 to 16"),
        (r#"{"listen": 80}"#, "`listen` must be a string, not such a number"),
        (r#"{"lisen": "127.0.0.1:80"}"#, "`lisen` is unknown; the nearest known key is `listen`"),
        (r#"{"api": "off", "listen": "127.0.0.1:0"}"#, "`listen` needs the API"),
        ("", "it is not JSON as it must be"),
        ("{\"profile\": \"edge\"", "it is not JSON as it must be"),
    ] {
        bench.config(text);
        refused(&bench, &[], 2, &[file, says]);
    }
    bench.config(&" ".repeat(70_000));
    refused(&bench, &[], 2, &[file, "longer than 65536 bytes"]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(&bench, &[], 4, &[file, "not a regular file"]);
    refused(&bench, &["--config", "/nonexistent/c.json"], 4, &["/nonexistent/c.json", "cannot be read"]);
}

#[test]
fn other_commands_find_the_state_the_same_way() {
    let mut bench = Bench::new();
    let elsewhere = bench.root().join("elsewhere");
    let named = bench.root().join("named.json");
    fs::write(&named, format!("{{\"state\": {elsewhere:?}}}")).unwrap();
    let alone = |args: &[&str]| Output::of(&mut bench.command_alone(args));
    let with = |args: &[&str]| alone(&[&["--config", named.to_str().unwrap()][..], args].concat());
    assert_eq!(with(&["init"]).code, 0);
    assert!(elsewhere.join("owner.token").exists());
    let output = with(&["runs"]);
    let start = format!("start it with `qinglet --config {} serve`", named.display());
    assert!(output.code == 4 && output.stderr.contains(&start), "{output:?}");
    let output = alone(&["--config", "/nonexistent", "runs"]);
    assert!(output.code == 4 && output.stderr.contains("/nonexistent"), "{output:?}");

    // The default file is as good as a named one; a flag is better than both.
    fs::copy(&named, bench.root().join("config.json")).unwrap();
    let output = alone(&["runs"]);
    assert!(output.code == 4 && output.stderr.contains("with `qinglet serve`"), "{output:?}");
    bench.config("{");
    let output = alone(&["runs"]);
    assert!(output.code == 2 && output.stderr.contains("not JSON"), "{output:?}");
    assert_eq!(alone(&["trigger", "preview", "0 3 * * *"]).code, 0, "what needs no state needs no configuration");
    assert_eq!(bench.cli(&["init"]).code, 0, "nor does what has a state");
    fs::remove_file(bench.root().join("config.json")).unwrap();
    bench.serve(&[]);
}

#[test]
fn a_hangup_changes_what_it_may_and_names_what_needs_a_restart() {
    let mut bench = Bench::ready();
    bench.serve(&[]);
    bench.shell("sleeper", "sleep 60");
    bench.config(
        r#"{"logLevel": "debug", "listen": "127.0.0.1:0", "profile": "standalone", "onStop": "stop",
            "limits": {"activeAttempts": 1, "queuedRuns": 1, "historyRuns": 500}}"#,
    );
    tree::signal(bench.pid(), libc::SIGHUP);
    let log = said(&bench, "reloaded");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("restart_needed")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].starts_with("qinglet: warn: restart_needed: "), "{}", lines[0]);
    assert!(lines[0].ends_with("has changed profile, listen: this needs a restart"), "{}", lines[0]);
    assert_eq!(setting(&bench, "logLevel"), is("debug", "file"));
    assert_eq!(setting(&bench, "limits.historyRuns"), is(500, "file"));
    assert_eq!(setting(&bench, "profile"), is("edge", "default"));
    assert_eq!(setting(&bench, "listen"), is(Value::Null, "default"));

    // One runs, one waits, and a third is refused: both numbers are in force, in the engine and in the store.
    let first = bench.start("sleeper");
    bench.run_in(&first, "running");
    let second = bench.start("sleeper");
    until("the second to wait", || (bench.json(&["status"])["status"]["waitReason"] == "capacity").then_some(()));
    assert_eq!(bench.run(&second)["status"], "queued");
    assert_eq!(bench.cli(&["run", "sleeper"]).code, 4);

    // A file that is no use changes nothing and says so.
    bench.config(r#"{"logLevel": "loud"}"#);
    tree::signal(bench.pid(), libc::SIGHUP);
    let log = said(&bench, "reload_refused");
    let line = log.lines().find(|line| line.contains("reload_refused")).unwrap();
    assert!(line.contains("config.json") && line.contains("`logLevel` must be error, warn, info or debug"), "{line}");
    assert!(line.ends_with("the settings stay as they were"), "{line}");
    assert_eq!(setting(&bench, "logLevel"), is("debug", "file"));

    // Back to what it was: the second run finds a place at once.
    fs::remove_file(bench.root().join("config.json")).unwrap();
    tree::signal(bench.pid(), libc::SIGHUP);
    bench.run_in(&second, "running");
    assert_eq!(setting(&bench, "limits.activeAttempts"), is(4, "profile"));
    bench.config(r#"{"onStop": "stop"}"#);
    tree::signal(bench.pid(), libc::SIGHUP);
    said(&bench, "onStop=\"stop\" (file)");
    assert_eq!(bench.stop(), 0);
    said(&bench, "stopping: ending 2 running tasks");
}

#[test]
fn history_and_audit_are_cut_to_what_a_hangup_sets() {
    let mut bench = Bench::ready();
    bench.serve(&[]);
    bench.shell("quick", ":");
    for _ in 0..103 {
        bench.start("quick");
    }
    let count = |args: &[&str]| bench.json_lines(args).len();
    let runs = || count(&["runs", "--limit", "1000"]);
    until("every run to end", || (count(&["runs", "--limit", "1000", "--status", "succeeded"]) == 103).then_some(()));
    assert!(count(&["audit", "--limit", "1000"]) > 103);
    bench.config(r#"{"limits": {"historyRuns": 100, "auditRows": 100}}"#);
    tree::signal(bench.pid(), libc::SIGHUP);
    until("three runs to be forgotten", || (runs() == 100).then_some(()));
    until("the audit to be cut", || (count(&["audit", "--limit", "1000"]) == 100).then_some(()));
}

#[test]
fn logs_and_sockets_go_where_they_are_put_and_receipts_stay() {
    let mut bench = Bench::ready();
    let (logs, runtime) = (bench.root().join("memory/logs"), bench.root().join("memory/run"));
    bench.config(&format!("{{\"logs\": {logs:?}, \"runtime\": {runtime:?}}}"));
    bench.launch(&["--listen", "127.0.0.1:0"]);
    // The command line knows the state only.
    until("the daemon", || (bench.cli(&["status"]).code == 0).then_some(()));
    for folder in [&logs, &runtime] {
        assert_eq!(fs::metadata(folder).unwrap().mode() & 0o7777, 0o700);
    }
    assert!(fs::metadata(runtime.join("api.sock")).unwrap().file_type().is_socket());
    assert!(fs::read_to_string(runtime.join("address")).unwrap().starts_with("127.0.0.1:"));
    let left = |folder: &str| fs::read_dir(bench.state().join(folder)).unwrap().count();
    assert_eq!(left("run"), 0, "nothing is beside it");
    bench.shell("hello", "echo hello; readlink /proc/$PPID/fd/* | sort");
    let (run, code) = bench.run_wait("hello");
    let log = String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap();
    assert!(code == 0 && log.starts_with("hello\n"), "{log}");
    assert_eq!(left("logs"), 0, "nothing is beside it");
    assert!(log.contains(bench.state().join("receipts").to_str().unwrap()), "a receipt lies with the state: {log}");
    assert_eq!(setting(&bench, "runtime"), is(runtime.to_str().unwrap(), "file"));

    // A daemon of another state may not take the same runtime folder.
    let other = Bench::ready();
    let output = other.cli(&["serve", "--runtime", runtime.to_str().unwrap()]);
    assert!(output.code == 4 && output.stderr.contains("--runtime"), "{output:?}");
    assert_eq!(bench.cli(&["status"]).code, 0, "and takes nothing away");

    // After a reboot the memory is empty; then back to the state's own folders.
    assert_eq!(bench.stop(), 0);
    fs::remove_dir_all(bench.root().join("memory")).unwrap();
    bench.launch(&[]);
    until("the daemon", || (bench.cli(&["status"]).code == 0).then_some(()));
    assert_eq!(bench.run_wait("hello").1, 0);
    assert_eq!(bench.stop(), 0);
    fs::remove_file(bench.root().join("config.json")).unwrap();
    bench.serve(&[]);
    assert_eq!(bench.cli(&["status"]).code, 0);
}

#[test]
fn a_state_behind_a_link_keeps_its_own_folders() {
    let bench = Bench::new();
    let root = bench.root();
    fs::create_dir(root.join("real")).unwrap();
    symlink(root.join("real"), root.join("link")).unwrap();
    let mut bench = Bench::at(&root.join("link/state"));
    bench.init();
    bench.serve(&[]);
    let state = bench.state();
    assert!(!state.join("runtime").exists() && !state.join("run/lock").exists(), "they are where they always are");
    assert_eq!(bench.cli(&["status"]).code, 0);
}

#[test]
fn folders_that_are_not_ours_alone_are_refused_by_name() {
    let bench = Bench::ready();
    let root = bench.root();
    symlink(bench.state(), root.join("link")).unwrap();
    refused(&bench, &["--logs", root.join("link").to_str().unwrap()], 4, &["log folder", "symbolic link", "--logs"]);
    let open = root.join("open");
    fs::create_dir(&open).unwrap();
    std::os::unix::fs::chown(&open, None, None).unwrap();
    assert!(std::process::Command::new("chmod").arg("755").arg(&open).status().unwrap().success());
    refused(&bench, &["--runtime", open.to_str().unwrap()], 4, &["has mode 0755", "chmod 700"]);
    let state = bench.state();
    let inside = |path: &Path| path.to_str().unwrap().to_owned();
    refused(&bench, &["--logs", &inside(&state)], 2, &["state folder itself"]);
    refused(&bench, &["--logs", &inside(&state.join("receipts"))], 4, &["receipts folder at once"]);
    refused(&bench, &["--log-level", "loud"], 2, &["--log-level must be error, warn, info or debug"]);
}

#[test]
fn debug_says_every_setting_and_each_message_is_one_line_of_the_same_form() {
    let mut bench = Bench::ready();
    bench.serve(&["--log-level", "debug"]);
    assert_eq!(bench.stop(), 0);
    let log = fs::read_to_string(bench.daemon_log()).unwrap();
    assert!(log.contains("qinglet: debug: setting: logLevel=\"debug\" (flag)\n"), "{log}");
    for line in log.lines() {
        let parts: Vec<&str> = line.splitn(4, ": ").collect();
        assert!(parts.len() == 4 && parts[0] == "qinglet", "{line}");
        assert!(["error", "warn", "info", "debug"].contains(&parts[1]), "{line}");
        assert!(parts[2].bytes().all(|c| c.is_ascii_lowercase() || c == b'_'), "{line}");
    }
}
