//! `check` without a run looks a whole state through, with a daemon and without one, and changes nothing.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use support::{Bench, until};

/// A state with a bit of everything, served.
fn full() -> Bench {
    let bench = Bench::serving();
    bench.shell("talk", "echo hello");
    bench.ok(&["trigger", "set", "nightly", "--task", "talk", "--cron", "30 3 * * *"]);
    let path = bench.root().join("value");
    fs::write(&path, "canary-value").unwrap();
    let mut set = bench.command(&["secret", "set", "db"]);
    set.stdin(fs::File::open(&path).unwrap()).stdout(std::process::Stdio::null());
    assert!(set.status().unwrap().success());
    assert_eq!(bench.run_wait("talk").1, 0);
    bench
}

/// What `check` says of each check, and its exit code.
fn check(bench: &Bench) -> (Vec<Value>, i32) {
    let output = bench.cli(&["--json", "check"]);
    let lines = output.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    (lines.filter(|line| line["check"].is_string()).collect(), output.code)
}

/// Which checks do not say ok, with what they say.
fn wrong(bench: &Bench) -> (Vec<(String, String, String)>, i32) {
    let (lines, code) = check(bench);
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or("").to_owned();
    let wrong = lines.iter().filter(|line| line["level"] != "ok");
    (wrong.map(|line| (text(line, "check"), text(line, "level"), text(line, "message"))).collect(), code)
}

fn assert_found(bench: &Bench, check: &str, level: &str, part: &str) {
    let (found, code) = wrong(bench);
    let there = found.iter().any(|(c, l, message)| c == check && l == level && message.contains(part));
    assert!(there, "{check} {level} {part}: {found:?}");
    assert_eq!(code, i32::from(found.iter().any(|(_, level, _)| level == "fail")), "{found:?}");
}

fn database(bench: &Bench) -> PathBuf {
    let mut files = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|e| e == "db")).unwrap()
}

fn tamper(bench: &Bench, sql: &str) {
    rusqlite::Connection::open(database(bench)).unwrap().execute_batch(sql).unwrap();
}

/// The first file below a folder with this end.
fn find(folder: &Path, end: &str) -> Option<PathBuf> {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            if let Some(found) = find(&entry, end) {
                return Some(found);
            }
        } else if entry.to_str().unwrap().ends_with(end) {
            return Some(entry);
        }
    }
    None
}

/// Times of everything in the state folder, nanoseconds and all.
fn times(bench: &Bench) -> BTreeMap<PathBuf, (i64, i64, u64)> {
    let entries = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| !path.ends_with("lock"));
    entries
        .map(|path| (path.metadata().unwrap(), path))
        .map(|(m, p)| (p, (m.mtime(), m.mtime_nsec(), m.len())))
        .collect()
}

#[test]
fn a_sound_state_is_ok_with_a_daemon_and_without_and_nothing_is_changed() {
    let mut bench = full();
    let served = check(&bench);
    assert_eq!(served.1, 0, "{served:?}");
    let names: Vec<&str> = served.0.iter().map(|line| line["check"].as_str().unwrap()).collect();
    assert_eq!(names, ["shape", "pages", "tasks", "triggers", "secrets", "folder", "logs", "files", "receipts"]);
    assert!(served.0.iter().all(|line| line["level"] == "ok"), "{served:?}");
    bench.stop();
    let (before, folder) = (times(&bench), support::folder::snapshot(&bench.state()));
    let unserved = check(&bench);
    assert_eq!((unserved.0, unserved.1), (served.0, 0), "the same without a daemon");
    let text = bench.ok(&["check"]);
    assert!(text.starts_with("no undecided runs\n") && text.contains("ok    logs      1 logs are there"), "{text}");
    support::folder::assert_unchanged(&bench.state(), &folder);
    assert_eq!(times(&bench), before, "not even a time");

    // What a killed daemon has left in the journal is seen, and stays as it is.
    bench.serve(&[]);
    bench.shell("late", "true");
    bench.kill();
    let (before, folder) = (times(&bench), support::folder::snapshot(&bench.state()));
    let (lines, code) = check(&bench);
    let tasks = lines.iter().find(|line| line["check"] == "tasks").unwrap()["message"].as_str().unwrap();
    assert_eq!((code, tasks), (0, "2 revisions match their digests"), "{lines:?}");
    support::folder::assert_unchanged(&bench.state(), &folder);
    assert_eq!(times(&bench), before);
}

#[test]
fn a_damaged_page_a_broken_digest_and_a_dangling_row_fail_and_say_where() {
    let mut bench = full();
    bench.stop();
    let sound = fs::read(database(&bench)).unwrap();
    // A byte of a definition: SQLite does not mind, the digest does.
    let at = sound.windows(10).position(|part| part == b"echo hello").unwrap();
    let mut bytes = sound.clone();
    bytes[at] = b'E';
    fs::write(database(&bench), &bytes).unwrap();
    assert_found(&bench, "tasks", "fail", "task talk");
    // A byte of that page's own head. (A page that the schema stands on keeps the store from being opened at all.)
    let mut bytes = sound.clone();
    bytes[at / 1024 * 1024] ^= 0x55;
    fs::write(database(&bench), &bytes).unwrap();
    let (found, code) = wrong(&bench);
    let said = bench.cli(&["check"]);
    assert!(
        code == 1 && found.iter().any(|(check, level, _)| check == "pages" && level == "fail"),
        "{code} {found:?} {said:?}"
    );
    fs::write(database(&bench), &sound).unwrap();
    tamper(
        &bench,
        "PRAGMA foreign_keys = OFF; INSERT INTO role_bindings VALUES
        ('none', 'user', 'x', 1, 'viewer', NULL, 'user', 'x', 0)",
    );
    assert_found(&bench, "pages", "fail", "role_bindings");
    fs::write(database(&bench), &sound).unwrap();
    tamper(&bench, "DROP INDEX runs_ended");
    assert_found(&bench, "shape", "fail", "runs_ended");
    fs::write(database(&bench), &sound).unwrap();
    tamper(&bench, "UPDATE trigger_revisions SET definition = replace(definition, '30 3', '31 3')");
    assert_found(&bench, "triggers", "fail", "trigger nightly");
    fs::write(database(&bench), &sound).unwrap();
    tamper(&bench, "UPDATE secret_envelopes SET sealed = zeroblob(length(sealed))");
    assert_found(&bench, "secrets", "fail", "secret db");
    bench.serve(&[]);
    assert_found(&bench, "secrets", "fail", "secret db");
}

#[test]
fn files_without_rows_rows_without_files_and_strangers_are_named() {
    let mut bench = full();
    for served in [true, false] {
        if !served {
            bench.stop();
        }
        let log = find(&bench.state().join("logs"), ".log").unwrap();
        let aside = bench.root().join("aside");
        fs::rename(&log, &aside).unwrap();
        assert_found(&bench, "logs", "warn", "is missing");
        fs::rename(&aside, &log).unwrap();
        let unknown = log.parent().unwrap().join(format!(
            "local-{}{}.log",
            log.parent().unwrap().file_name().unwrap().to_str().unwrap(),
            "0".repeat(28)
        ));
        fs::write(&unknown, "x").unwrap();
        assert_found(&bench, "files", "warn", "belongs to no run");
        fs::remove_file(&unknown).unwrap();
        let strange = log.with_file_name("strange");
        fs::write(&strange, "x").unwrap();
        assert_found(&bench, "files", "warn", "strange");
        fs::remove_file(&strange).unwrap();
        let strange = bench.state().join("notes.txt");
        fs::write(&strange, "x").unwrap();
        assert_found(&bench, "folder", "warn", "notes.txt");
        fs::remove_file(&strange).unwrap();
        let receipt = bench.state().join("receipts/ef");
        let _ = fs::create_dir(&receipt);
        let receipt = receipt.join("018f5e7a-9b1c-7def-8123-456789abcdef.json");
        fs::write(&receipt, "x").unwrap();
        assert_found(&bench, "receipts", "warn", "belongs to no run");
        fs::remove_file(&receipt).unwrap();
        let keyring = bench.state().join("keyring");
        let keys = fs::read(&keyring).unwrap();
        fs::remove_file(&keyring).unwrap();
        assert_found(&bench, "secrets", "fail", "missing");
        fs::write(&keyring, keys).unwrap();
        fs::set_permissions(&keyring, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(wrong(&bench), (vec![], 0));
    }
}

/// Serves with these options; the socket may be anywhere, and whoever knows the state finds it.
fn serve(bench: &mut Bench, options: &[&str]) {
    bench.launch(options);
    until("the daemon", || (bench.cli(&["status"]).code == 0).then_some(()));
}

#[test]
fn the_file_that_says_where_the_runtime_folder_is_is_no_stranger() {
    for below in ["memory/run", "state/sockets"] {
        let mut bench = Bench::ready();
        let runtime = bench.root().join(below);
        serve(&mut bench, &["--runtime", runtime.to_str().unwrap()]);
        assert!(runtime.join("api.sock").exists());
        assert_eq!(wrong(&bench), (vec![], 0), "{below}, served");
        bench.stop();
        assert_eq!(wrong(&bench), (vec![], 0), "{below}, unserved");
        // It is a file of ours like the others.
        fs::set_permissions(bench.state().join("runtime"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_found(&bench, "folder", "warn", "chmod 600");
    }
}

#[test]
fn without_a_daemon_logs_are_looked_for_where_serve_puts_them() {
    for by_file in [true, false] {
        let mut bench = Bench::ready();
        let logs = bench.root().join("memory/logs");
        let text = logs.to_str().unwrap();
        let option = ["--logs", text];
        let options = if by_file { &[][..] } else { &option[..] };
        let named = bench.root().join("named.json");
        if by_file {
            fs::write(&named, format!("{{\"logs\": {text:?}}}")).unwrap();
            fs::copy(&named, bench.root().join("config.json")).unwrap();
        }
        bench.serve(options);
        bench.shell("talk", "echo hello");
        assert_eq!(bench.run_wait("talk").1, 0);
        assert_eq!(wrong(&bench), (vec![], 0), "served");
        bench.stop();
        let found = |options: &[&str], says: &str| {
            let output = bench.cli(&[&["check"][..], options].concat());
            assert!(output.code == 0 && output.stdout.contains(says), "{options:?}: {output:?}");
        };
        found(options, "ok    logs      1 logs are there\nok    files     1 log files belong to runs\n");
        if by_file {
            // A named file, and a flag above it.
            fs::remove_file(bench.root().join("config.json")).unwrap();
            found(&["--config", named.to_str().unwrap()], "ok    logs      1 logs");
            found(&["--config", named.to_str().unwrap(), "--logs", "/nonexistent/x"], "warn  logs      the log of run");
            // What a daemon would not start with is no place to look at.
            bench.config("{\"logs\": 1}");
            let refused = bench.cli(&["check"]);
            assert!(refused.code == 2 && refused.stderr.contains("`logs` must be a string"), "{refused:?}");
            bench.config(&format!("{{\"logs\": {text:?}}}"));
        } else {
            found(&[], "warn  logs      the log of run");
        }
        fs::set_permissions(&logs, fs::Permissions::from_mode(0o755)).unwrap();
        let refused = bench.cli(&[&["check"][..], options].concat());
        assert!(refused.code == 4 && refused.stderr.contains("chmod 700"), "{refused:?}");
        // As after a boot, when the folder was in memory.
        fs::remove_dir_all(bench.root().join("memory")).unwrap();
        found(options, "warn  logs      the log of run");
        found(options, "ok    files     0 log files");
        assert!(!logs.exists(), "looking makes nothing");
    }
}

#[test]
fn runs_that_come_and_go_meanwhile_are_not_taken_for_strangers() {
    let bench = full();
    let mut runs = Vec::new();
    for _ in 0..12 {
        runs.push(bench.start("talk"));
        assert_eq!(wrong(&bench), (vec![], 0));
    }
    for run in runs {
        bench.run_in(&run, "succeeded");
    }
}

#[test]
fn it_takes_an_admin() {
    let bench = Bench::serving();
    for (role, may) in [("admin", true), ("operator", false), ("viewer", false)] {
        bench.ok(&["access", "grant", role, role]);
        let token = bench.json(&["access", "token", "new", role])["token"].as_str().unwrap().to_owned();
        let answer = bench.http_as(&token, "GET", "/check", None);
        assert_eq!(answer.status, if may { 200 } else { 403 }, "{role}");
        if may {
            for bad in ["x", "files:16", "logs:1", "pages:x", "tasks"] {
                let refused = bench.http_as(&token, "GET", &format!("/check?step={bad}"), None);
                assert_eq!((refused.status, refused.code()), (400, "invalid_query"), "{bad}");
            }
        }
    }
}
