//! `backup` through the real program: with a daemon under load and without one, who may, what is in the file,
//! full disks, kills.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use support::{Bench, until};

fn file(bench: &Bench) -> PathBuf {
    bench.root().join("b.qb")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A look at the database in a backup: any `SQLite` opens the file as it is.
fn open(path: &Path) -> rusqlite::Connection {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    rusqlite::Connection::open_with_flags(format!("file:{}?immutable=1", path.display()), flags).unwrap()
}

fn one<T: rusqlite::types::FromSql>(conn: &rusqlite::Connection, sql: &str) -> T {
    conn.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Makes the store so large that copying it takes several steps.
fn fill(bench: &Bench) {
    for number in 0..20 {
        bench.shell(&format!("large{number}"), &format!(": {}", "x".repeat(15_000)));
    }
}

/// What a backup may leave beside its file, or in the state: nothing.
fn assert_no_rests(bench: &Bench) {
    for folder in [bench.root().to_owned(), bench.state()] {
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.contains(".part") && !name.contains("snapshot"), "{name}");
        }
    }
}

#[test]
fn a_backup_under_load_is_consistent_and_everything_goes_on_meanwhile() {
    let mut bench = Bench::ready();
    bench.serve(&[]);
    fill(&bench);
    bench.stop();
    bench.env("QINGLET_COPY_STEP_MS", "50");
    bench.serve(&[]);
    bench.shell("quick", "true");
    for _ in 0..8 {
        bench.start("quick");
    }
    let mut backup = bench.command(&["backup", text(&file(&bench))]).spawn().unwrap();
    let mut started = 0;
    while backup.try_wait().unwrap().is_none() {
        bench.start("quick");
        started += 1;
        assert!(started < 2_000, "the backup does not end");
    }
    assert!(backup.wait().unwrap().success());
    assert!(started > 4, "nothing was answered while it copied");
    let conn = open(&file(&bench));
    assert_eq!(one::<String>(&conn, "PRAGMA integrity_check"), "ok");
    assert_eq!(conn.prepare("PRAGMA foreign_key_check").unwrap().query_map([], |_| Ok(())).unwrap().count(), 0);
    let torn =
        "SELECT count(*) FROM runs r WHERE event_sequence <> (SELECT max(sequence) FROM run_events WHERE run = r.id)";
    assert_eq!(one::<i64>(&conn, torn), 0, "a run and its events are of one moment");
    assert!(one::<i64>(&conn, "SELECT count(*) FROM runs") >= 8);
    let audit =
        "SELECT count(*) FROM audit WHERE operation = 'backup.create' AND outcome = 'allowed' AND subject_id = 'owner'";
    assert_eq!(one::<i64>(&conn, audit), 1);
    let mode = fs::metadata(file(&bench)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert_no_rests(&bench);
}

#[test]
fn without_a_daemon_it_copies_by_itself_and_a_serving_one_gives_the_same() {
    let mut bench = Bench::ready();
    let made = bench.json(&["backup", text(&file(&bench))]);
    assert_eq!(made["backup"]["bytes"], json!(fs::metadata(file(&bench)).unwrap().len()));
    assert_eq!(one::<i64>(&open(&file(&bench)), "SELECT count(*) FROM audit WHERE operation = 'backup.create'"), 1);
    let again = bench.cli(&["backup", text(&file(&bench))]);
    assert_eq!(again.code, 3, "{again:?}");
    assert!(again.stderr.contains("--force"), "{again:?}");
    bench.serve(&[]);
    bench.ok(&["backup", "--force", text(&file(&bench))]);
    assert_eq!(one::<i64>(&open(&file(&bench)), "SELECT count(*) FROM audit WHERE operation = 'backup.create'"), 2);
    let link = bench.root().join("link");
    std::os::unix::fs::symlink(file(&bench), &link).unwrap();
    assert_eq!(bench.cli(&["backup", "--force", text(&link)]).code, 3, "what is no plain file is not replaced");
    let nowhere = bench.cli(&["backup", text(&bench.root().join("no/such/b.qb"))]);
    assert_eq!(nowhere.code, 4, "{nowhere:?}");
    assert_no_rests(&bench);
}

#[test]
fn keys_of_secrets_are_in_it_only_when_asked_for_and_no_token_ever() {
    let bench = Bench::serving();
    let value = "canary-value-of-a-secret";
    let mut set = bench.command(&["secret", "set", "s"]);
    let value_file = bench.root().join("value");
    fs::write(&value_file, value).unwrap();
    assert!(set.stdin(fs::File::open(&value_file).unwrap()).status().unwrap().success());
    let find = |haystack: &[u8], needle: &[u8]| haystack.windows(needle.len()).any(|part| part == needle);
    let keyring = fs::read_to_string(bench.state().join("keyring")).unwrap();
    let key = keyring.split("\"keys\":{").nth(1).unwrap().split('"').nth(3).unwrap();
    let told = bench.cli(&["backup", text(&file(&bench))]);
    assert!(told.stderr.contains("--with-keyring"), "{told:?}");
    let bytes = fs::read(file(&bench)).unwrap();
    for (what, needle) in [("the value", value), ("the key", key), ("the token", &bench.token())] {
        assert!(!find(&bytes, needle.as_bytes()), "{what}");
    }
    bench.ok(&["backup", "--force", "--with-keyring", text(&file(&bench))]);
    let bytes = fs::read(file(&bench)).unwrap();
    assert!(find(&bytes, key.as_bytes()));
    assert!(!find(&bytes, value.as_bytes()) && !find(&bytes, bench.token().as_bytes()));
}

#[test]
fn only_an_owner_gets_the_state() {
    let bench = Bench::serving();
    for role in ["admin", "operator", "viewer"] {
        bench.ok(&["access", "grant", role, role]);
        let token = bench.json(&["access", "token", "new", role]);
        let token = token["token"].as_str().unwrap_or_else(|| panic!("{token}")).to_owned();
        let path = bench.root().join(format!("{role}.token"));
        fs::write(&path, format!("{token}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let refused = bench.cli(&["--token-file", text(&path), "backup", text(&file(&bench))]);
        assert_eq!(refused.code, 3, "{refused:?}");
        assert!(refused.stderr.contains("forbidden"), "{refused:?}");
        assert!(!file(&bench).exists());
        let body = json!({"schema": "qinglong/backup@v1", "mutationId": "018f5e7a-9b1c-7def-8123-456789abcdef"});
        assert_eq!(bench.http_as(&token, "POST", "/backups", Some(&body)).status, 403);
    }
    let denied = bench.json_lines(&["audit"]).into_iter().filter(|row| row["operation"] == "backup.create");
    assert_eq!(denied.filter(|row| row["outcome"] == "denied").count(), 6);
    assert_no_rests(&bench);
}

#[test]
fn one_copy_at_a_time_is_read_in_pieces_and_let_go() {
    let bench = Bench::serving();
    let ask =
        |id: &str| bench.http("POST", "/backups", Some(&json!({"schema": "qinglong/backup@v1", "mutationId": id})));
    let (id, other) = ("018f5e7a-9b1c-7def-8123-456789abcdef", "018f5e7a-9b1c-7def-8123-456789abcde0");
    assert_eq!((ask(id).status, ask(id).body["status"].clone()), (202, json!("existing")));
    assert_eq!((ask(other).status, ask(other).code()), (409, "backup_busy"));
    until("the copy", || {
        (bench.http("GET", &format!("/backups/{id}"), None).body["backup"]["status"] == "ready").then_some(())
    });
    let total = bench.http("GET", &format!("/backups/{id}/content"), None).body["totalBytes"].as_u64().unwrap();
    let (mut offset, mut last) = (0, json!(null));
    while offset < total {
        last = bench.http("GET", &format!("/backups/{id}/content?offset={offset}"), None).body;
        let end = last["endExclusive"].as_u64().unwrap();
        assert!(end > offset && end - offset <= 45 * 1024);
        offset = end;
    }
    assert_eq!(last["sha256"].as_str().map(str::len), Some(64));
    let past = bench.http("GET", &format!("/backups/{id}/content?offset={}", total + 7), None);
    assert_eq!((past.status, past.body["content"].clone()), (200, json!("")));
    assert_eq!(bench.http("GET", &format!("/backups/{other}/content"), None).code(), "backup_not_found");
    let delete = json!({"schema": "qinglong/backup-deletion@v1"});
    assert_eq!(bench.http("DELETE", &format!("/backups/{id}"), Some(&delete)).status, 200);
    assert_eq!(bench.http("GET", &format!("/backups/{id}"), None).status, 404);
    assert_eq!(ask(other).status, 202);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_behind() {
    let bench = Bench::serving();
    let full = bench.root().join("full");
    fs::create_dir(&full).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=32k,mode=700", "tmpfs"])
        .arg(&full)
        .output()
        .is_ok_and(|done| done.status.success());
    if !mounted {
        support::skip("a_full_disk_is_said_and_leaves_nothing_behind", "the right to mount");
        return;
    }
    let failed = bench.cli(&["backup", text(&full.join("b.qb"))]);
    let left = fs::read_dir(&full).unwrap().count();
    assert!(std::process::Command::new("umount").arg(&full).status().unwrap().success());
    assert_eq!(failed.code, 4, "{failed:?}");
    assert!(failed.stderr.contains("full"), "{failed:?}");
    assert_eq!(left, 0);
}

#[test]
fn a_disk_that_says_no_at_any_write_leaves_no_file_under_the_name() {
    let bench = Bench::ready();
    // The shell's limit of a file's size stands for a full disk where nobody may mount (setrlimit(2)).
    for blocks in [0, 1, 30, 100] {
        let (state, target) = (bench.state(), file(&bench));
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_qinglet"), "--state"]).arg(&state);
        let failed = command.arg("backup").arg(&target).output().unwrap();
        assert_eq!(failed.status.code(), Some(4), "{blocks}: {failed:?}");
        assert!(!target.exists());
        let rests = fs::read_dir(bench.root()).unwrap().count();
        assert_eq!(rests, 1, "only the state: {:?}", fs::read_dir(bench.root()).unwrap().collect::<Vec<_>>());
    }
    bench.ok(&["backup", text(&file(&bench))]);
}

#[test]
fn a_kill_in_the_middle_leaves_no_backup_and_the_next_one_is_whole() {
    let mut bench = Bench::serving();
    fill(&bench);
    bench.ok(&["backup", text(&file(&bench))]);
    let first = fs::read(file(&bench)).unwrap();
    bench.env("QINGLET_CRASH_AT", "backup.written");
    let killed = bench.cli(&["backup", "--force", text(&file(&bench))]);
    bench.no_env("QINGLET_CRASH_AT");
    assert_eq!(killed.code, -9, "{killed:?}");
    assert!(fs::read(file(&bench)).unwrap() == first, "the older one is as it was");
    bench.ok(&["backup", "--force", text(&file(&bench))]);
    assert_no_rests(&bench);

    // The daemon dies while it copies: its copy goes with the next start.
    bench.stop();
    bench.env("QINGLET_COPY_STEP_MS", "200");
    bench.serve(&[]);
    let mut asked = bench.command(&["backup", "--force", text(&file(&bench))]);
    let mut asked = asked.stderr(std::process::Stdio::null()).spawn().unwrap();
    let snapshot = || {
        let mut names = fs::read_dir(bench.state()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.contains("snapshot"))
    };
    until("the copy to begin", || snapshot().then_some(()));
    bench.kill();
    asked.kill().unwrap();
    asked.wait().unwrap();
    bench.no_env("QINGLET_COPY_STEP_MS");
    bench.serve(&[]);
    bench.ok(&["backup", "--force", text(&file(&bench))]);
    assert_no_rests(&bench);
}
