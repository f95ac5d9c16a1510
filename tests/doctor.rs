//! `doctor` against the real binary: with and without a daemon, what it finds wrong and its exit code, and
//! that it changes nothing. What it decides is tested beside each look, with made-up facts.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use support::{Bench, folder};

const LOOKS: [&str; 15] = [
    "kernel", "proc", "pidfd", "cgroups", "clock", "zone", "entropy", "room", "rlimits", "config", "state", "files",
    "space", "tokens", "listen",
];

/// The report, and the exit code.
fn report(bench: &Bench, args: &[&str]) -> (Value, i32) {
    let output = bench.cli(&[&["--json", "doctor"][..], args].concat());
    assert_eq!(output.stderr, "", "{output:?}");
    (serde_json::from_str(&output.stdout).unwrap(), output.code)
}

fn look(report: &Value, name: &str) -> (String, String, String) {
    let found = report["looks"].as_array().unwrap().iter().find(|look| look["name"] == name).unwrap();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("level"), text("found"), text("todo"))
}

/// This look must be at that level and say so; and the exit code must fit the levels.
#[track_caller]
fn finds(bench: &Bench, name: &str, level: &str, says: &[&str]) {
    let (report, code) = report(bench, &[]);
    let (is, found, todo) = look(&report, name);
    assert_eq!(is, level, "{found}: {todo}");
    assert_eq!(level == "ok", todo.is_empty(), "{todo}");
    for part in says {
        assert!(found.contains(part) || todo.contains(part), "{part:?} is not in {found}: {todo}");
    }
    let failed = report["looks"].as_array().unwrap().iter().any(|look| look["level"] == "fail");
    assert_eq!((code, &report["ok"]), (i32::from(failed), &Value::Bool(!failed)));
}

#[test]
fn it_looks_at_everything_with_and_without_a_daemon_and_changes_nothing() {
    let mut bench = Bench::ready();
    let before = folder::snapshot(&bench.state());
    let (first, _) = report(&bench, &[]);
    let names: Vec<&str> = first["looks"].as_array().unwrap().iter().filter_map(|look| look["name"].as_str()).collect();
    assert_eq!(names, LOOKS);
    folder::assert_unchanged(&bench.state(), &before);
    finds(&bench, "state", "ok", &["no daemon answers"]);
    finds(&bench, "tokens", "ok", &[]);
    finds(&bench, "listen", "ok", &["local socket only"]);

    bench.serve(&["--listen", "127.0.0.1:0"]);
    finds(&bench, "state", "ok", &["a daemon serves it"]);
    finds(&bench, "listen", "ok", &[&bench.address().to_string()]);
    bench.shell("x", "echo x");
    assert_eq!(bench.run_wait("x").1, 0, "the daemon goes on");
    let text = bench.cli(&["doctor"]).stdout;
    assert_eq!(text.lines().count(), LOOKS.len(), "{text}");
    for line in text.lines() {
        let level = line.split_whitespace().next().unwrap();
        assert!(["ok", "warn", "fail"].contains(&level), "{line}");
        assert_eq!(level == "ok", !line.contains(" -> "), "{line}");
    }
}

#[test]
fn without_a_state_it_says_how_to_make_one_and_makes_none() {
    let bench = Bench::new();
    finds(&bench, "state", "warn", &["there is none at", "init"]);
    finds(&bench, "tokens", "ok", &["none yet"]);
    assert!(!bench.state().exists());
}

#[test]
fn what_is_wrong_fails_with_the_command_that_puts_it_right() {
    let bench = Bench::ready();
    let state = bench.state();
    let mode = |name: &str, mode: u32| fs::set_permissions(state.join(name), Permissions::from_mode(mode)).unwrap();
    mode("owner.token", 0o644);
    finds(&bench, "tokens", "fail", &["mode 0644", "chmod 600"]);
    mode("owner.token", 0o600);
    mode("", 0o755);
    finds(&bench, "state", "fail", &["mode 0755", "chmod 700"]);
    mode("", 0o700);
    bench.config(r#"{"listen": "0.0.0.0:7370"}"#);
    finds(&bench, "listen", "warn", &["0.0.0.0:7370", "proxy"]);
    bench.config(r#"{"limits": {"logDays": 0}}"#);
    finds(&bench, "config", "fail", &["config.json", "`limits.logDays` is 0 and must be from 1 to 3650"]);
    bench.config(r#"{"limits": {"activeAttempts": 17}}"#);
    finds(&bench, "config", "fail", &["under the profile edge"]);
    fs::remove_file(bench.root().join("config.json")).unwrap();
    finds(&bench, "config", "ok", &["there is no"]);
    fs::remove_file(state.join("owner.token")).unwrap();
    finds(&bench, "tokens", "warn", &["owner.token is not there", "--reissue-owner"]);
    fs::remove_file(state.join("pepper")).unwrap();
    finds(&bench, "tokens", "fail", &["pepper is missing"]);
}

#[test]
fn a_limit_that_serve_would_refuse_fails() {
    let mut bench = Bench::ready();
    let output = support::Output::of(
        std::process::Command::new("/bin/sh")
            .args(["-c", "ulimit -n 40; exec \"$0\" --state \"$1\" --json doctor"])
            .arg(env!("CARGO_BIN_EXE_qinglet"))
            .arg(bench.state()),
    );
    assert_eq!(output.code, 1, "{output:?}");
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let (level, found, todo) = look(&report, "rlimits");
    assert!(level == "fail" && found.contains("64 open files are needed") && todo.contains("ulimit -n"), "{found}");
    bench.start_from("ulimit -n 40");
    bench.launch(&[]);
    assert_eq!(bench.ended(), 4, "and serve does refuse it");
}
