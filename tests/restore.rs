//! `restore` through the real program: onto an empty place, onto another state, what it refuses, what becomes
//! of what was running, kills.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use support::filter::Filter;
use support::hold::Hold;
use support::{Bench, older, tree, until};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A backup of the bench's state, made now.
fn backup(bench: &Bench, options: &[&str]) -> PathBuf {
    let path = bench.root().join("b.qb");
    bench.ok(&[&["backup", "--force", text(&path)][..], options].concat());
    path
}

/// Another bench, without a state.
fn elsewhere() -> Bench {
    Bench::new()
}

fn put_secret(bench: &Bench, name: &str, value: &str) {
    let path = bench.root().join("value");
    fs::write(&path, value).unwrap();
    let mut set = bench.command(&["secret", "set", name]);
    assert!(set.stdin(fs::File::open(&path).unwrap()).status().unwrap().success());
}

/// The names beside the state folder that a restore makes.
fn beside(bench: &Bench) -> Vec<String> {
    let names = fs::read_dir(bench.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("state.")).collect();
    names.sort();
    names
}

#[test]
fn on_another_machine_tasks_run_tokens_and_secrets_work() {
    let first = Bench::serving();
    put_secret(&first, "db", "canary-value");
    first.ok(&["task", "add", "old", "--secret-env", "DB=db", "--no-redact", "--shell", "printf %s \"$DB\""]);
    let (run, _) = first.run_wait("old");
    let run = run["id"].as_str().unwrap().to_owned();
    let token = first.token();
    let file = backup(&first, &["--with-keyring"]);

    let mut second = elsewhere();
    let told = second.ok(&["restore", text(&file)]);
    assert!(told.contains("--reissue-owner"), "{told}");
    second.ok(&["init"]);
    second.serve(&[]);
    let shown = second.http_as(&token, "GET", &format!("/runs/{run}"), None);
    assert_eq!((shown.status, shown.body["run"]["status"].clone()), (200, json!("succeeded")), "the token works");
    second.stop();
    second.ok(&["init", "--reissue-owner"]);
    second.serve(&[]);
    let (again, code) = second.run_wait("old");
    assert_eq!(code, 0, "{again}");
    assert_eq!(second.log(again["id"].as_str().unwrap()), b"canary-value");
    let gone = second.cli(&["logs", &run]);
    assert_eq!(gone.code, 3, "logs are not in a backup, and that is said: {gone:?}");
    let audit = second.json_lines(&["audit"]);
    assert!(audit.iter().any(|row| row["operation"] == "backup.restore" && row["outcome"] == "allowed"), "{audit:?}");
}

#[test]
fn what_ran_is_lost_and_nothing_of_the_old_state_is_taken_for_the_new_ones() {
    let mut bench = Bench::serving();
    let hold = Hold::new(&bench, "hold");
    bench.shell("long", &format!("{}; exit 7", hold.text()));
    let run = bench.start("long");
    hold.wait(1);
    bench.run_in(&run, "running");
    let file = backup(&bench, &[]);
    let below = tree::below(bench.pid());
    bench.kill();
    let refused = bench.cli(&["restore", "--force", text(&file)]);
    assert_eq!(refused.code, 3, "its task still runs: {refused:?}");
    assert!(refused.stderr.contains("1 runs"), "{refused:?}");
    // Its receipt comes while no daemon runs, and stays with the old state.
    hold.release(1);
    let receipt = || {
        let shards = fs::read_dir(bench.state().join("receipts")).unwrap().map(|shard| shard.unwrap().path());
        shards.flat_map(|shard| fs::read_dir(shard).unwrap()).count()
    };
    until("the shim to end", || (receipt() == 1 && below.iter().all(|process| !tree::is_alive(process))).then_some(()));
    let token = bench.token();
    assert_eq!(bench.cli(&["restore", text(&file)]).code, 3, "a state that is there is not replaced unasked");
    let told = bench.ok(&["restore", "--force", text(&file)]);
    assert!(told.contains("state.before-restore-1"), "{told}");
    assert_eq!(beside(&bench), ["state.before-restore-1"]);
    assert_eq!(receipt(), 0);
    assert!(bench.root().join("state.before-restore-1/receipts").read_dir().unwrap().count() > 0);
    assert_eq!(bench.token(), token, "the owner's token was carried over");
    bench.serve(&[]);
    assert_eq!(bench.run(&run)["status"], "lost");
}

/// Serves with logs in a folder of their own, and gives the run of a task that says `hello`.
fn serve_with_logs(bench: &mut Bench, logs: &Path) -> String {
    bench.config(&json!({"logs": text(logs), "limits": {"activeAttempts": 1}}).to_string());
    bench.serve(&[]);
    bench.shell("hello", "echo hello");
    bench.run_wait("hello").0["id"].as_str().unwrap().to_owned()
}

#[test]
fn logs_in_a_folder_of_their_own_stay_and_those_that_are_gone_are_removed_ones() {
    let mut bench = Bench::ready();
    let logs = bench.root().join("memory/logs");
    let kept = serve_with_logs(&mut bench, &logs);
    let kept_files = support::folder::snapshot(&logs);
    let gone = bench.run_wait("hello").0["id"].as_str().unwrap().to_owned();
    let file = backup(&bench, &[]);
    let later = bench.run_wait("hello").0["id"].as_str().unwrap().to_owned();
    bench.stop();
    let of_gone =
        bench.db().query_row("SELECT log_artifact FROM attempts ORDER BY created_at_ms LIMIT 1 OFFSET 1", [], |row| {
            row.get::<_, String>(0)
        });
    let shard = logs.join(&of_gone.as_ref().unwrap()[6..8]);
    let of_gone = shard.join(format!("{}.log", of_gone.unwrap()));
    fs::remove_file(of_gone).unwrap();

    bench.ok(&["restore", "--force", text(&file)]);
    let check = bench.cli(&["check"]);
    assert!(check.code == 0 && check.stdout.contains("ok    logs      1 logs are there"), "{check:?}");
    bench.serve(&[]);
    assert_eq!(bench.log(&kept), b"hello\n");
    let told = bench.cli(&["logs", &gone]);
    assert!(told.code == 3 && told.stderr.contains("was removed at"), "{told:?}");
    assert_eq!(bench.cli(&["show", &later]).code, 3, "it is of after the backup");
    bench.stop();

    // Elsewhere there are none of them.
    let other = elsewhere();
    other.config(&json!({"logs": other.root().join("logs")}).to_string());
    other.ok(&["restore", text(&file)]);
    assert!(!other.root().join("logs").exists(), "nothing is made for what is not there");
    let check = other.cli(&["check"]);
    assert!(check.code == 0 && check.stdout.contains("ok    logs      0 logs are there"), "{check:?}");
    // And with the folder named by a flag, they are there again.
    let check = other.ok(&["restore", "--force", "--logs", text(&logs), text(&file)]);
    let check = format!("{check}{}", other.ok(&["check", "--logs", text(&logs)]));
    assert!(check.contains("ok    logs      1 logs are there"), "{check}");
    assert!(kept_files.iter().all(|(path, entry)| support::folder::snapshot(&logs).get(path) == Some(entry)));
}

#[test]
fn a_run_that_begins_again_after_a_restore_begins_its_log_again() {
    let mut bench = Bench::ready();
    let logs = bench.root().join("memory/logs");
    serve_with_logs(&mut bench, &logs);
    let hold = Hold::new(&bench, "hold");
    bench.shell("long", &hold.text());
    bench.shell("much", "head -c 300000 /dev/zero | tr '\\0' x");
    bench.start("long");
    hold.wait(1);
    let (waits, fills) = (bench.start("hello"), bench.start("much"));
    let file = backup(&bench, &[]);
    hold.release(1);
    bench.run_in(&waits, "succeeded");
    bench.run_in(&fills, "succeeded");
    bench.stop();
    assert_eq!(bench.cli(&["restore", "--force", text(&file)]).code, 0);
    bench.serve(&[]);
    bench.run_in(&waits, "succeeded");
    bench.run_in(&fills, "succeeded");
    assert_eq!(bench.log(&waits), b"hello\n", "what it wrote before the restore is not part of it");
    assert_eq!(bench.log(&fills).len(), 300_000);
}

#[test]
fn a_backup_without_keys_says_which_are_missing_and_takes_those_of_the_old_state() {
    let mut bench = Bench::serving();
    put_secret(&bench, "db", "canary-value");
    bench.ok(&["task", "add", "old", "--secret-env", "DB=db", "--no-redact", "--shell", "printf %s \"$DB\""]);
    let file = backup(&bench, &[]);
    bench.stop();
    let mut other = elsewhere();
    let told = other.cli(&["restore", text(&file)]);
    assert_eq!(told.code, 0, "{told:?}");
    let restored = elsewhere().json(&["restore", text(&file)]);
    let key = restored["restored"]["missingKeys"][0].as_str().unwrap().to_owned();
    assert!(told.stderr.contains(&key) && told.stderr.contains("keyring"), "{told:?}");
    assert!(!other.state().join("keyring").exists());
    let keyring = bench.state().join("keyring");
    other.ok(&["restore", "--force", "--keyring", text(&keyring), text(&file)]);
    other.ok(&["init", "--reissue-owner"]);
    other.serve(&[]);
    assert_eq!(other.run_wait("old").1, 0);
    other.stop();
    let (stranger, empty) = (elsewhere(), elsewhere());
    stranger.ok(&["init"]);
    let refused = empty.cli(&["restore", "--keyring", text(&stranger.state().join("keyring")), text(&file)]);
    assert_eq!((refused.code, empty.state().exists()), (3, false), "{refused:?}");
    bench.ok(&["restore", "--force", text(&file)]);
    bench.serve(&[]);
    assert_eq!(bench.run_wait("old").1, 0, "the old state's keys fit");
}

#[test]
fn what_is_no_sound_backup_is_refused_and_nothing_is_touched() {
    let mut bench = Bench::serving();
    let file = backup(&bench, &["--with-keyring"]);
    let busy = bench.cli(&["restore", "--force", text(&file)]);
    assert_eq!(busy.code, 4, "{busy:?}");
    assert!(busy.stderr.contains("in use by"), "{busy:?}");
    bench.stop();
    let before = support::folder::snapshot(&bench.state());
    let bytes = fs::read(&file).unwrap();
    let bad = bench.root().join("bad");
    let database = database_ends(&bytes);
    let refuse = |what: &str, bytes: &[u8]| {
        fs::write(&bad, bytes).unwrap();
        let refused = bench.cli(&["restore", "--force", text(&bad)]);
        assert_eq!(refused.code, 4, "{what}: {refused:?}");
        support::folder::assert_unchanged(&bench.state(), &before);
        assert!(beside(&bench).is_empty(), "{what}");
    };
    for at in
        [0, 100, 5_000, database - 1, database + 3, database + 25, bytes.len() - 200, bytes.len() - 50, bytes.len() - 3]
    {
        let mut changed = bytes.clone();
        changed[at] ^= 0x20;
        refuse(&format!("byte {at}"), &changed);
    }
    for length in [0, 10, 94, 1_000, database, bytes.len() - 1] {
        refuse(&format!("the first {length} bytes"), &bytes[..length]);
    }
    refuse("the bare database", &bytes[..database]);
    refuse("nothing of ours", "x".repeat(4_000).as_bytes());
    assert_eq!(bench.cli(&["restore", "--force", text(bench.root())]).code, 4, "a folder");
    assert_eq!(bench.cli(&["restore", "--force", text(&bench.root().join("none"))]).code, 4, "nothing");
    // With the right digest it is still no store of ours.
    for (what, sql, says) in [
        ("another program's", "PRAGMA application_id = 7", "not a store of qinglet"),
        ("a newer one", "INSERT INTO schema_migrations VALUES (99, 'x', x'00', 0)", "newer"),
        (
            "one with a dangling row",
            "PRAGMA foreign_keys = OFF; INSERT INTO role_bindings VALUES
            ('none', 'user', 'x', 1, 'viewer', NULL, 'user', 'x', 0)",
            "refers to nothing",
        ),
    ] {
        refuse(what, &sealed(&bench, &bytes, sql));
        let said = bench.cli(&["restore", "--force", text(&bad)]).stderr;
        assert!(said.contains(says), "{what}: {said}");
    }
}

/// Where a backup's database ends.
fn database_ends(bytes: &[u8]) -> usize {
    bytes.windows(19).position(|part| part == b"\nqinglet-backup@v1 ").unwrap()
}

/// A backup whose database was changed by a statement.
fn sealed(bench: &Bench, bytes: &[u8], sql: &str) -> Vec<u8> {
    resealed(bench, bytes, |path| rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap())
}

/// A backup whose database was changed, with its lengths and digest made right again.
fn resealed(bench: &Bench, bytes: &[u8], change: impl Fn(&Path)) -> Vec<u8> {
    use sha2::Digest as _;
    let database = database_ends(bytes);
    let path = bench.root().join("changed");
    fs::write(&path, &bytes[..database]).unwrap();
    change(&path);
    let mut changed = fs::read(&path).unwrap();
    let length = changed.len();
    let trailer = String::from_utf8_lossy(&bytes[database..bytes.len() - 94]).into_owned();
    let label = format!("\"databaseBytes\":{database}");
    let at = trailer.find(&label).unwrap();
    changed.extend(&bytes[database..database + at]);
    changed.extend(format!("\"databaseBytes\":{length}").bytes());
    changed.extend(&bytes[database + at + label.len()..bytes.len() - 94]);
    let sha = sha2::Sha256::digest(&changed).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    changed.extend(format!("\nsha256 {sha} {length:020}\n").bytes());
    changed
}

#[test]
fn an_older_versions_backup_is_brought_up_to_date_and_kept_beside() {
    let mut bench = Bench::serving();
    bench.shell("old", "echo hello");
    let run = bench.run_wait("old").0["id"].as_str().unwrap().to_owned();
    let file = backup(&bench, &["--with-keyring"]);
    bench.shell("new", "true");
    bench.stop();
    let bytes = fs::read(&file).unwrap();
    let older = bench.root().join("older.qb");
    fs::write(&older, resealed(&bench, &bytes, |path| older::make_older(path, &bench.root().join("scratch")))).unwrap();
    let kept = |bench: &Bench| {
        let names = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".before-")).count()
    };
    let told = bench.ok(&["restore", "--force", text(&older)]);
    assert!(told.contains("older version") && told.contains("state.before-restore-1"), "{told}");
    assert_eq!(kept(&bench), 1, "the store as it was");
    let check = bench.cli(&["check"]);
    assert!(check.code == 0 && !check.stdout.contains("warn"), "{check:?}");
    bench.serve(&[]);
    assert_eq!(bench.run(&run)["status"], "succeeded");
    assert_eq!(bench.cli(&["task", "show", "new"]).code, 3);
    assert_eq!(bench.run_wait("old").1, 0);
    bench.stop();
    let restored = elsewhere().json(&["restore", text(&older)]);
    assert_eq!(restored["restored"]["migrated"], true, "{restored}");
    // It is checked as it is, before anything is made of it.
    let sql = "PRAGMA foreign_keys = OFF; INSERT INTO role_bindings VALUES
        ('none', 'user', 'x', 1, 'viewer', NULL, 'user', 'x', 0)";
    fs::write(&older, sealed(&bench, &fs::read(&older).unwrap(), sql)).unwrap();
    let (before, others) = (support::folder::snapshot(&bench.state()), beside(&bench));
    let refused = bench.cli(&["restore", "--force", text(&older)]);
    assert!(refused.code == 4 && refused.stderr.contains("refers to nothing"), "{refused:?}");
    support::folder::assert_unchanged(&bench.state(), &before);
    assert_eq!(beside(&bench), others);
}

#[test]
fn where_two_names_cannot_be_exchanged_the_old_state_is_renamed_first() {
    // A kernel without the call, and a file system without its flags.
    for error in [libc::ENOSYS, libc::EINVAL] {
        let filter = Filter::without(&[libc::SYS_renameat2], error);
        if let Err(e) = filter.try_out() {
            let test = "where_two_names_cannot_be_exchanged_the_old_state_is_renamed_first";
            return support::skip(test, &format!("no filters: {e}"));
        }
        let mut bench = Bench::serving();
        bench.shell("old", "true");
        let file = backup(&bench, &[]);
        bench.shell("new", "true");
        bench.stop();
        let restore = || {
            let mut command = bench.command(&["restore", "--force", text(&file)]);
            support::Output::of(filter.around(&mut command))
        };
        let before = support::folder::snapshot(&bench.state());
        let told = restore();
        assert_eq!(told.code, 0, "{told:?}");
        assert_eq!(beside(&bench), ["state.before-restore-1"]);
        let aside = bench.root().join("state.before-restore-1");
        let after = support::folder::snapshot(&aside);
        let moved = |path: &PathBuf| aside.join(path.strip_prefix(bench.state()).unwrap());
        assert!(before.iter().all(|(path, entry)| after.get(&moved(path)).is_some_and(|now| now == entry)), "{error}");
        // And once more, beside the first.
        assert_eq!(restore().code, 0);
        assert_eq!(beside(&bench), ["state.before-restore-1", "state.before-restore-2"]);
        bench.serve(&[]);
        assert_eq!(bench.cli(&["task", "show", "new"]).code, 3);
        assert_eq!(bench.run_wait("old").1, 0);
    }
}

#[test]
fn a_kill_at_any_step_leaves_the_old_state_or_the_new_one_whole() {
    let mut bench = Bench::serving();
    bench.shell("old", "true");
    let file = backup(&bench, &[]);
    bench.shell("new", "true");
    bench.stop();
    for (point, restored) in
        [("restore.placed", false), ("restore.built", false), ("restore.whole", false), ("restore.exchanged", true)]
    {
        bench.env("QINGLET_CRASH_AT", point);
        let killed = bench.cli(&["restore", "--force", text(&file)]);
        bench.no_env("QINGLET_CRASH_AT");
        assert_eq!(killed.code, -9, "{point}: {killed:?}");
        bench.ok(&["init"]);
        bench.serve(&[]);
        assert_eq!(bench.cli(&["task", "show", "new"]).code == 3, restored, "{point}");
        assert_eq!(bench.run_wait("old").1, 0, "{point}");
        bench.stop();
        // Again, it is finished, and no whole state was thrown away.
        bench.ok(&["restore", "--force", text(&file)]);
        bench.serve(&[]);
        assert_eq!(bench.cli(&["task", "show", "new"]).code, 3, "{point}");
        bench.shell("new", "true");
        bench.stop();
        assert!(!beside(&bench).contains(&"state.restoring".to_owned()), "{:?}", beside(&bench));
    }
    for aside in beside(&bench) {
        let ok = bench.root().join(&aside).join("receipts").is_dir();
        assert!(ok, "{aside} is a whole state");
    }
}

#[test]
fn a_full_disk_leaves_the_old_state_and_no_rests() {
    let mut bench = Bench::serving();
    bench.shell("old", "true");
    let file = backup(&bench, &[]);
    bench.stop();
    let before = support::folder::snapshot(&bench.state());
    for blocks in [1, 30, 100] {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_qinglet"), "--state"]).arg(bench.state());
        let failed = command.args(["restore", "--force"]).arg(&file).output().unwrap();
        assert_eq!(failed.status.code(), Some(4), "{blocks}: {failed:?}");
        support::folder::assert_unchanged(&bench.state(), &before);
        assert!(beside(&bench).is_empty());
    }
}

#[test]
fn an_empty_folder_is_as_good_as_none_and_one_cut_between_two_renames_is_not_hidden_by_init() {
    let first = Bench::serving();
    let file = backup(&first, &[]);
    let second = elsewhere();
    fs::create_dir(second.state()).unwrap();
    second.ok(&["restore", text(&file)]);
    assert_eq!(second.ok(&["init"]).lines().next().unwrap().split(' ').next(), Some("State"));
    // As on a file system that cannot exchange two names: the old one is aside, the new one not yet in its place.
    fs::rename(second.state(), second.root().join("state.restoring")).unwrap();
    let refused = second.cli(&["init"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(refused.stderr.contains("restoring"), "{refused:?}");
    fs::rename(second.root().join("state.restoring"), second.state()).unwrap();
    second.ok(&["init"]);
}
