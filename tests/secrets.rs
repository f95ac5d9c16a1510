//! Secrets through the real binary: set, used, replaced in the log, sealed anew, refused when missing;
//! and a value that is looked for byte by byte in everything a daemon leaves and shows.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Bench, Output, until};

/// `secret set` with this on its standard input.
fn set_as(bench: &Bench, options: &[&str], name: &str, value: &[u8]) -> Output {
    let args: Vec<&str> = options.iter().copied().chain(["secret", "set", name]).collect();
    let mut command = bench.command(&args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that refuses does not read to the end.
    let _ = stdin.write_all(value);
    drop(stdin);
    let done = child.wait_with_output().unwrap();
    Output {
        code: done.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        bytes: done.stdout,
    }
}

fn set(bench: &Bench, name: &str, value: &[u8]) {
    let done = set_as(bench, &[], name, value);
    assert_eq!(done.code, 0, "{}", done.stderr);
}

fn log_of(bench: &Bench, run: &Value) -> String {
    String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap()
}

#[test]
fn a_task_gets_a_secret_and_its_log_shows_the_name() {
    let bench = Bench::serving();
    set(&bench, "db", b"correct horse\n");
    bench.shell_with(
        "t",
        &["--secret-env", "PW=db"],
        "echo ${#PW}; echo \"pw=$PW.\"; printf 'correct '; sleep 0.3; echo horse",
    );
    assert!(bench.ok(&["task", "show", "t"]).contains("PW=[secret db]"));
    let (run, code) = bench.run_wait("t");
    assert_eq!(
        (code, log_of(&bench, &run).as_str()),
        (0, "13\npw=[secret db].\n[secret db]\n"),
        "one newline is not its own"
    );

    set(&bench, "db", b"battery staple");
    let (run, _) = bench.run_wait("t");
    assert_eq!(log_of(&bench, &run).lines().nth(1), Some("pw=[secret db]."), "the next start has the new value");
    assert_eq!(log_of(&bench, &run).lines().next(), Some("14"));
    let listed = bench.json_lines(&["secret", "list"]);
    assert_eq!((listed[0]["name"].as_str(), listed[0]["version"].as_i64()), (Some("db"), Some(2)));

    bench.shell_with("open", &["--secret-env", "PW=db", "--no-redact"], "echo $PW");
    let (run, _) = bench.run_wait("open");
    assert_eq!(log_of(&bench, &run), "battery staple\n", "off for a task that says so");
    let shown = bench.ok(&["task", "show", "open"]);
    assert!(!shown.contains("staple"), "{shown}");
    set(&bench, "pin", b"12345");
    bench.shell_with("short", &["--secret-env", "PW=pin"], "echo $PW");
    let (run, _) = bench.run_wait("short");
    assert_eq!(log_of(&bench, &run), "12345\n", "too short to be looked for");
}

#[test]
fn a_start_without_its_secret_is_refused_and_says_which() {
    let bench = Bench::serving();
    bench.shell_with("t", &["--secret-env", "PW=db", "--retry", "0"], "touch ran");
    let run = |word: &str| {
        let (run, code) = bench.run_wait("t");
        let attempt = &run["latestAttempt"];
        assert_eq!((code, attempt["errorCode"].as_str()), (1, Some("SECRET_UNAVAILABLE")), "{run}");
        assert!(run["startedAtMs"].is_null(), "nothing of it ran");
        let shown = bench.ok(&["show", run["id"].as_str().unwrap()]);
        assert!(shown.contains(word), "{shown}");
    };
    run("qinglet secret set db");
    set(&bench, "db", b"value-of-it");
    assert_eq!(bench.run_wait("t").1, 0);
    let keyring = bench.state().join("keyring");
    let aside = bench.root().join("keyring");
    fs::rename(&keyring, &aside).unwrap();
    run("`keyring` is missing");
    assert_eq!(set_as(&bench, &[], "db", b"x").code, 4, "nothing is sealed without a keyring");
    fs::copy(&aside, &keyring).unwrap();
    fs::set_permissions(&keyring, Permissions::from_mode(0o644)).unwrap();
    run("0600");
    fs::set_permissions(&keyring, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(bench.run_wait("t").1, 0);
    bench.ok(&["secret", "delete", "db"]);
    run("is not there");
    assert_eq!(bench.cli(&["secret", "delete", "db"]).code, 3);
    assert!(bench.json_lines(&["secret", "list"]).is_empty());
}

#[test]
fn a_lost_keyring_is_never_replaced_while_secrets_need_it() {
    let mut bench = Bench::serving();
    set(&bench, "db", b"value-of-it");
    bench.stop();
    fs::remove_file(bench.state().join("keyring")).unwrap();
    let init = bench.cli(&["init"]);
    assert_eq!(init.code, 0, "{}", init.stderr);
    assert!(init.stderr.contains("keyring is missing"), "{}", init.stderr);
    assert!(!bench.state().join("keyring").exists());
    bench.serve(&[]);
    assert!(fs::read_to_string(bench.daemon_log()).unwrap().contains("warn: keyring_missing"));
    bench.shell("plain", "echo fine");
    assert_eq!(bench.run_wait("plain").1, 0, "what uses no secret runs");
    bench.ok(&["secret", "delete", "db"]);
    bench.stop();
    bench.ok(&["init"]);
    assert!(bench.state().join("keyring").exists(), "nothing needs the old one any more");
}

#[test]
fn a_rekey_moves_every_value_and_forgets_the_old_key() {
    let bench = Bench::serving();
    for n in 0..40 {
        set(&bench, &format!("s{n}"), format!("value-number-{n}").as_bytes());
    }
    set(&bench, "s0", b"value-number-0-again");
    let keyring = || fs::read_to_string(bench.state().join("keyring")).unwrap();
    let before: Value = serde_json::from_str(&keyring()).unwrap();
    let done = bench.json(&["secret", "rekey"]);
    assert_eq!((done["status"].as_str(), done["moved"].as_i64()), (Some("rekeyed"), Some(41)), "{done}");
    let after: Value = serde_json::from_str(&keyring()).unwrap();
    assert_ne!(before["activeKeyId"], after["activeKeyId"]);
    assert_eq!(after["keys"].as_object().unwrap().len(), 1);
    bench.shell_with("t", &["--no-redact", "--secret-env", "A=s0", "--secret-env", "B=s39"], "echo $A $B");
    let (run, _) = bench.run_wait("t");
    assert_eq!(log_of(&bench, &run), "value-number-0-again value-number-39\n");
    let audit = bench.ok(&["audit"]);
    assert!(audit.contains("secret.rekey") && !audit.contains("value-number"), "{audit}");
}

/// Broken off after the keyring has its new key and before every value has moved, it goes on.
#[test]
fn a_rekey_that_was_broken_off_is_finished_by_the_next() {
    let mut bench = Bench::serving();
    for n in 0..20 {
        set(&bench, &format!("s{n}"), b"value-of-it");
    }
    let first = "11111111-1111-4111-8111-111111111111";
    let body = json!({"schema": "qinglong/keyring-rotation@v1", "mutationId": first});
    let answer = bench.http("POST", "/keyring/rotation", Some(&body)).body;
    assert_eq!((answer["status"].as_str(), answer["remaining"].as_i64()), (Some("more"), Some(4)), "{answer}");
    bench.kill();
    bench.serve(&[]);
    bench.shell_with("t", &["--secret-env", "A=s0", "--secret-env", "B=s19"], "test $A = $B");
    assert_eq!(bench.run_wait("t").1, 0, "both keys are still there");
    let done = bench.json(&["secret", "rekey"]);
    assert_eq!((done["moved"].as_i64(), done["remaining"].as_i64()), (Some(20), Some(0)), "{done}");
    assert_eq!(bench.run_wait("t").1, 0);
    let ring: Value = serde_json::from_str(&fs::read_to_string(bench.state().join("keyring")).unwrap()).unwrap();
    assert_eq!(ring["keys"].as_object().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_a_value_is_refused_with_the_way_out_and_never_repeated() {
    let bench = Bench::serving();
    for (value, words) in [
        (&b""[..], "no value"),
        (b"\n", "no value"),
        (b"a\0b", "NUL"),
        (b"\xff\xfe-not-text", "base64"),
        (&vec![b'x'; 16 * 1024 + 1], "longer than 16384"),
    ] {
        let done = set_as(&bench, &[], "n", value);
        assert_eq!(done.code, 2, "{}", done.stderr);
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
    assert_eq!(set_as(&bench, &[], "n", &[b'x'; 16 * 1024]).code, 0, "the most fits");
    let wrong = bench.cli(&["task", "add", "t", "--secret-env", "PW=hunter2 is my password", "--shell", "true"]);
    assert_eq!(wrong.code, 2);
    assert!(!wrong.stderr.contains("hunter2"), "{}", wrong.stderr);
}

/// Where a value must not be: in any file below the folder.
fn files_with(folder: &Path, needle: &[u8], found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            files_with(&path, needle, found);
        } else if kind.is_file() && holds(&fs::read(&path).unwrap(), needle) {
            found.push(path.display().to_string());
        }
    }
}

fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn no_value_is_in_any_file_answer_or_process_but_the_tasks_own() {
    const CANARY: &str = "canary-5f1e0c-value";
    let mut bench = Bench::serving();
    set(&bench, "bird", CANARY.as_bytes());
    let token = bench.token().trim().to_owned();
    let secret_of_token = token[token.len() - 43..].to_owned();
    let mark = bench.root().join("mark");
    let text = format!(
        "echo begin $BIRD; echo $$ > {0}.new; mv {0}.new {0}; while [ ! -e {0}.go ]; do sleep 0.05; done; exit 3",
        mark.display()
    );
    bench.shell_with("t", &["--secret-env", "BIRD=bird", "--retry", "1", "--retry-delay", "100ms"], &text);
    let run = bench.start("t");
    let pid: i32 = until("the task", || fs::read_to_string(&mark).ok()).trim().parse().unwrap();
    // While it runs: the daemon's and the shim's command lines and environments.
    let shim =
        support::tree::below(bench.pid()).into_iter().map(|found| found.pid).find(|child| *child != pid).unwrap();
    for (who, pid) in [("daemon", bench.pid()), ("shim", shim)] {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            for needle in [CANARY, &secret_of_token] {
                assert!(!holds(&bytes, needle.as_bytes()), "{who} {file}");
            }
        }
    }
    if support::is_root() {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
        assert!(holds(&environ, CANARY.as_bytes()), "the task itself has it");
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let core: Vec<&str> =
            limits.lines().find(|line| line.starts_with("Max core")).unwrap().split_whitespace().collect();
        assert_eq!(core[4..6], ["0", "0"], "the task dumps no core");
    }
    // Everything that can be asked, errors too.
    let mut said = String::new();
    for args in [
        &["show", &run][..],
        &["events", &run],
        &["logs", &run],
        &["runs"],
        &["task", "show", "t"],
        &["task", "list"],
        &["secret", "list"],
        &["audit"],
        &["access", "list"],
        &["status"],
        &["check"],
        &["doctor"],
        &["trigger", "list"],
        &["show", "no-such-run"],
        &["secret", "delete", "no-such"],
        &["task", "add", "t", "--secret-env", "BIRD=bird", "--shell", "true"],
    ] {
        for json in [false, true] {
            let args: Vec<&str> = json.then_some("--json").into_iter().chain(args.iter().copied()).collect();
            let done = bench.cli(&args);
            said.push_str(&done.stdout);
            said.push_str(&done.stderr);
        }
    }
    assert!(said.contains("[secret bird]"), "the log was read");
    fs::write(format!("{}.go", mark.display()), "").unwrap();
    bench.run_in(&run, "failed");
    bench.ok(&["secret", "rekey"]);
    set(&bench, "bird", CANARY.as_bytes());
    // Copies of everything hold no value either; the keys only where they were asked for.
    for (name, options) in [("plain", &[][..]), ("keys", &["--with-keyring"])] {
        let copy = bench.root().join(name);
        bench.ok(&[&["backup", copy.to_str().unwrap()], options].concat());
        let bytes = fs::read(&copy).unwrap();
        let ring = fs::read_to_string(bench.state().join("keyring")).unwrap();
        let ring: Value = serde_json::from_str(&ring).unwrap();
        let key = ring["keys"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        for needle in [CANARY, &secret_of_token] {
            assert!(!holds(&bytes, needle.as_bytes()), "{name}: {needle}");
        }
        assert_eq!(holds(&bytes, key.as_bytes()), !options.is_empty(), "{name}");
    }
    // A crash and a recovery, then an end in order.
    bench.kill();
    bench.serve(&[]);
    bench.stop();
    said.push_str(&fs::read_to_string(bench.daemon_log()).unwrap());
    for needle in [CANARY, &secret_of_token] {
        assert!(!said.contains(needle), "said: {needle}");
    }
    let mut found = Vec::new();
    files_with(&bench.state(), CANARY.as_bytes(), &mut found);
    assert!(found.is_empty(), "{found:?}");
    files_with(&bench.state(), secret_of_token.as_bytes(), &mut found);
    assert_eq!(found, [bench.state().join("owner.token").display().to_string()]);
    // Neither the pepper nor a key is anywhere but in its own file, as bytes or as text.
    let ring: Value = serde_json::from_slice(&fs::read(bench.state().join("keyring")).unwrap()).unwrap();
    let key = ring["keys"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
    found.clear();
    files_with(&bench.state(), key.as_bytes(), &mut found);
    assert_eq!(found, [bench.state().join("keyring").display().to_string()]);
    found.clear();
    files_with(&bench.state(), &fs::read(bench.state().join("pepper")).unwrap(), &mut found);
    assert_eq!(found, [bench.state().join("pepper").display().to_string()]);
}

/// A daemon that is killed by a signal that dumps core, as far as its parent allows, leaves none.
#[test]
fn a_crash_of_the_daemon_dumps_no_core() {
    let mut bench = Bench::ready();
    let folder = bench.root().join("cores");
    fs::create_dir(&folder).unwrap();
    let crash = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -c unlimited && {script}")]).current_dir(&folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let control = crash("kill -ABRT $$").status().unwrap();
    if !control.core_dumped() {
        return support::skip("a_crash_of_the_daemon_dumps_no_core", "no core can be dumped here");
    }
    let (binary, state) = (env!("CARGO_BIN_EXE_qinglet"), bench.state());
    let mut daemon = crash(&format!("exec {binary} --state {} serve", state.display())).spawn().unwrap();
    until("the socket", || bench.cli(&["status"]).stdout.contains("uptime").then_some(()));
    set(&bench, "bird", b"canary-5f1e0c-value");
    support::tree::signal(daemon.id() as i32, libc::SIGABRT);
    let status = daemon.wait().unwrap();
    assert_eq!((status.signal(), status.core_dumped()), (Some(libc::SIGABRT), false));
    bench.remember_tasks();
}
