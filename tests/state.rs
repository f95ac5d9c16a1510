//! A state that cannot be used: `init` and `serve` say in a sentence what is wrong and what to do,
//! exit with 4 and change nothing, or the next `init` finishes what was begun.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use support::folder::{assert_unchanged, snapshot};
use support::mount::Mount;
use support::{Bench, Output, http, is_root, skip, until};

/// Nobody's user id on every Linux.
const NOBODY: u32 = 65534;

/// Both commands must be refused with a sentence that has these words, and change nothing.
#[track_caller]
fn refused(bench: &Bench, words: &[&str]) {
    refuses(bench, "init", words);
    refuses(bench, "serve", words);
}

#[track_caller]
fn refuses(bench: &Bench, command: &str, words: &[&str]) {
    let before = snapshot(bench.root());
    says(bench, command, words);
    assert_unchanged(bench.root(), &before);
}

#[track_caller]
fn says(bench: &Bench, command: &str, words: &[&str]) {
    let output = bench.cli(&[command]);
    assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{command}: {output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "one sentence: {output:?}");
    for word in words {
        assert!(output.stderr.contains(word), "{command} does not say {word:?}: {}", output.stderr);
    }
}

/// The state is as good as new.
#[track_caller]
fn works(bench: &mut Bench) {
    bench.serve(&[]);
    bench.ok(&["task", "list"]);
    assert_eq!(bench.stop(), 0);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// The database, known by its first bytes.
fn database(bench: &Bench) -> PathBuf {
    let files = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.is_file() && fs::read(path).unwrap().starts_with(b"SQLite format 3\0"));
    files.next().expect("a database")
}

/// Changes the stored rows behind the program's back.
fn tamper(bench: &Bench, sql: &str) {
    let conn = rusqlite::Connection::open(database(bench)).unwrap();
    conn.execute_batch(sql).unwrap();
    conn.close().unwrap();
}

fn needs_root(test: &str) -> bool {
    if !is_root() {
        skip(test, "only root can give a file to somebody else");
    }
    is_root()
}

#[test]
fn a_mode_that_lets_others_in_is_refused_with_the_command_that_mends_it() {
    let mut bench = Bench::ready();
    let state = bench.state();
    for path in [state.clone(), state.join("run"), state.join("logs"), state.join("receipts")] {
        set_mode(&path, 0o755);
        refused(&bench, &["has mode 0755", &format!("run `chmod 700 {}`", path.display())]);
        set_mode(&path, 0o700);
    }
    let database = database(&bench);
    set_mode(&database, 0o644);
    refused(&bench, &["has mode 0644", &format!("run `chmod 600 {}`", database.display())]);
    set_mode(&database, 0o600);
    set_mode(&state.join("pepper"), 0o640);
    // Seen only when the store is open already, which has then proven that it can write.
    for command in ["init", "serve"] {
        says(&bench, command, &["pepper", "0600"]);
    }
    set_mode(&state.join("pepper"), 0o600);
    works(&mut bench);
}

#[test]
fn what_belongs_to_somebody_else_is_refused() {
    if !needs_root("what_belongs_to_somebody_else_is_refused") {
        return;
    }
    let mut bench = Bench::ready();
    let words = ["belongs to user id 65534", "run as that user, or `chown 0"];
    for path in [bench.state(), bench.state().join("run"), bench.state().join("logs"), database(&bench)] {
        chown(&path, Some(NOBODY), None).unwrap();
        refused(&bench, &words);
        chown(&path, Some(0), None).unwrap();
    }
    chown(bench.root(), Some(NOBODY), None).unwrap();
    refused(&bench, &["belongs to user id 65534", "who could exchange what is below it", "--state"]);
    chown(bench.root(), Some(0), None).unwrap();
    works(&mut bench);
}

#[test]
fn a_folder_that_anybody_may_exchange_is_refused() {
    let mut bench = Bench::ready();
    set_mode(bench.root(), 0o777);
    refused(&bench, &["anybody may exchange what is below", &format!("`chmod o-w {}`", bench.root().display())]);
    set_mode(bench.root(), 0o1777);
    works(&mut bench);
}

#[test]
fn a_symbolic_link_is_not_followed_to_the_state_or_to_its_database() {
    let bench = Bench::ready();
    let link = bench.root().join("link");
    symlink(bench.state(), &link).unwrap();
    refused(&Bench::at(&link), &["is a symbolic link", "give the folder it points to with --state"]);
    let (database, elsewhere) = (database(&bench), bench.root().join("elsewhere"));
    fs::rename(&database, &elsewhere).unwrap();
    symlink(&elsewhere, &database).unwrap();
    refused(&bench, &["is a symbolic link", "put the real file in its place"]);
    fs::remove_file(&database).unwrap();
    fs::rename(&elsewhere, &database).unwrap();
    fs::hard_link(&database, &elsewhere).unwrap();
    refused(&bench, &["has 2 names", "remove the other hard links"]);
    fs::remove_file(&elsewhere).unwrap();
    let logs = bench.state().join("logs");
    fs::rename(&logs, &elsewhere).unwrap();
    symlink(&elsewhere, &logs).unwrap();
    refused(&bench, &["logs", "is not a folder", "move it away"]);
}

#[test]
fn a_link_on_the_way_is_followed_only_while_nobody_else_can_turn_it() {
    let outer = Bench::new();
    // As on a router, where /var is a link to /tmp.
    fs::create_dir(outer.root().join("tmp")).unwrap();
    let var = outer.root().join("var");
    symlink("tmp", &var).unwrap();
    let mut bench = Bench::at(&var.join("lib/qinglet"));
    bench.init();
    bench.serve(&[]);
    bench.shell("a", "true");
    assert_eq!(bench.run_wait("a").1, 0);
    bench.stop();
    assert!(outer.root().join("tmp/lib/qinglet/owner.token").exists());
    if needs_root("a_link_on_the_way_is_followed_only_while_nobody_else_can_turn_it") {
        lchown(&var, Some(NOBODY), None).unwrap();
        refused(&bench, &["is a symbolic link of user id 65534", "give the real path with --state"]);
    }
}

#[test]
fn a_damaged_database_is_left_as_it_is() {
    let mut bench = Bench::ready();
    bench.serve(&[]);
    for task in 0..20 {
        bench.shell(&format!("task-{task}"), &"x".repeat(2000));
    }
    bench.stop();
    let database = database(&bench);
    let good = fs::read(&database).unwrap();
    let flipped = |at: usize, len: usize| {
        let mut bytes = good.clone();
        bytes[at..at + len].iter_mut().for_each(|byte| *byte ^= 0xff);
        bytes
    };
    let damaged = ["is damaged", "keep a copy of the whole state folder", "restore a backup"];
    // The file's magic; the first page's own head.
    for (at, len) in [(0, 16), (100, 8)] {
        fs::write(&database, flipped(at, len)).unwrap();
        refused(&bench, &damaged);
    }
    for length in [good.len() / 2, 4096, 100] {
        fs::write(&database, &good[..length]).unwrap();
        refused(&bench, &damaged);
    }
    // A page in the middle: found by the check of every page that `serve` makes.
    fs::write(&database, flipped(good.len() / 2 / 4096 * 4096, 4096)).unwrap();
    refuses(&bench, "serve", &damaged);
    fs::write(&database, b"").unwrap();
    refused(&bench, &["is not a store of qinglet", "move it away, or restore a backup"]);
    fs::write(&database, &good).unwrap();
    works(&mut bench);
}

#[test]
fn a_database_of_a_newer_or_another_program_is_left_as_it_is() {
    let mut bench = Bench::ready();
    let database = database(&bench);
    let good = fs::read(&database).unwrap();
    // Whatever this one knows, the next step is a newer one's.
    let next = "INSERT INTO schema_migrations SELECT max(id) + 1, 'next', zeroblob(32), 0 FROM schema_migrations";
    tamper(&bench, next);
    refused(&bench, &["was made by a newer qinglet (schema ", "; this one knows ", "install that version again"]);
    fs::write(&database, &good).unwrap();
    tamper(&bench, "UPDATE schema_migrations SET checksum = zeroblob(32)");
    refused(&bench, &["made with another text of schema step 1", "install the qinglet that made it"]);
    fs::write(&database, &good).unwrap();
    tamper(&bench, "DELETE FROM schema_migrations");
    refused(&bench, &["has no schema history", "restore a backup"]);
    fs::write(&database, &good).unwrap();
    tamper(&bench, "DROP INDEX runs_ended");
    refused(&bench, &["`runs_ended` is missing, changed or foreign", "restore a backup"]);
    fs::remove_file(&database).unwrap();
    let foreign = rusqlite::Connection::open(&database).unwrap();
    foreign.execute_batch("CREATE TABLE theirs (a)").unwrap();
    foreign.close().unwrap();
    set_mode(&database, 0o600);
    refused(&bench, &["is not a store of qinglet", "move it away"]);
    fs::write(&database, &good).unwrap();
    works(&mut bench);
}

#[test]
fn a_missing_database_is_not_made_anew_beside_its_journal() {
    let mut bench = Bench::ready();
    let database = database(&bench);
    let away = bench.root().join("away");
    fs::rename(&database, &away).unwrap();
    refuses(&bench, "serve", &["there is no store at", "run `qinglet init` first"]);
    let journal = PathBuf::from(format!("{}-wal", database.display()));
    fs::write(&journal, b"somebody's last words").unwrap();
    refuses(&bench, "init", &["-wal is there but", "put the store back, or move the journal away"]);
    fs::remove_file(&journal).unwrap();
    fs::rename(&away, &database).unwrap();
    works(&mut bench);
}

#[test]
fn a_file_in_place_of_a_folder_is_refused() {
    let bench = Bench::new();
    fs::write(bench.state(), b"mine").unwrap();
    refused(&bench, &["is not a folder", "move it away and run `qinglet init`"]);
    let below = Bench::at(&bench.state().join("state"));
    refuses(&below, "init", &["a part of the path is not a folder", "--state"]);
    refuses(&below, "serve", &["a part of the path is not a folder", "--state"]);
    let bench = Bench::ready();
    let run = bench.state().join("run");
    fs::remove_dir(&run).unwrap();
    refuses(&bench, "serve", &["run is missing", "run `qinglet init` again"]);
    fs::write(&run, b"").unwrap();
    refused(&bench, &["is not a folder", "move it away"]);
}

#[test]
fn a_read_only_file_system_is_named() {
    let outer = Bench::new();
    let Some(disk) = Mount::new("a_read_only_file_system_is_named", &outer.root().join("disk"), 8192) else { return };
    let words = ["Read-only file system", "mount it writable or use another folder with --state"];
    let mut bench = Bench::at(&outer.root().join("disk/state"));
    disk.remount("ro");
    refuses(&bench, "init", &words);
    disk.remount("rw");
    bench.init();
    disk.remount("ro");
    refused(&bench, &words);
    disk.remount("rw");
    works(&mut bench);
}

#[test]
fn a_full_file_system_is_named_and_the_next_init_finishes() {
    let outer = Bench::new();
    let path = outer.root().join("disk");
    let test = "a_full_file_system_is_named_and_the_next_init_finishes";
    let mut refusals = 0;
    // From none to enough, one page at a time where `init` writes its own files.
    for kib in (0..24).step_by(4).chain((24..140).step_by(16)).chain((140..180).step_by(4)).chain([256]) {
        let Some(disk) = Mount::new(test, &path, 2048) else { return };
        let bench = Bench::at(&path.join("state"));
        let ballast = disk.fill();
        let file = fs::OpenOptions::new().write(true).open(&ballast).unwrap();
        file.set_len(fs::metadata(&ballast).unwrap().len() - kib * 1024).unwrap();
        drop(file);
        let output = bench.cli(&["init"]);
        if output.code != 0 {
            refusals += 1;
            assert_eq!((output.code, output.stderr.lines().count()), (4, 1), "{kib} KiB: {output:?}");
            let says = |words: [&str; 2]| words.iter().all(|word| output.stderr.contains(word));
            // A commit that met the end of the space cannot say for sure that this was why.
            let said = says(["full", "free some space and try again"])
                || says(["full", "run the same command again"])
                || says(["No space left", "again"]);
            assert!(said, "{kib} KiB: {output:?}");
        }
        fs::remove_file(&ballast).unwrap();
        bench.init();
        bench.token();
        drop(disk);
    }
    assert!((8..24).contains(&refusals), "{refusals} were too small");
}

#[test]
fn a_daemon_does_not_start_on_a_full_file_system() {
    let outer = Bench::new();
    let path = outer.root().join("disk");
    let Some(disk) = Mount::new("a_daemon_does_not_start_on_a_full_file_system", &path, 4096) else { return };
    let mut bench = Bench::at(&path.join("state"));
    bench.init();
    let ballast = disk.fill();
    let before = snapshot(&bench.state());
    let output = bench.cli(&["serve"]);
    assert_eq!(output.code, 4, "{output:?}");
    assert!(output.stderr.contains("is full") && output.stderr.contains("free some space"), "{output:?}");
    assert_unchanged(&bench.state(), &before);
    fs::remove_file(ballast).unwrap();
    works(&mut bench);
}

/// The program in a folder of the test's own, with no state named but what the arguments say.
fn there(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qinglet"));
    command.args(args).current_dir(folder).stdin(Stdio::null()).env_remove("QINGLET_TOKEN_FILE");
    command
}

/// A daemon that no bench knows of; it does not outlive its test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended and was waited for is not signalled.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_relative_path_names_the_same_state_for_the_daemon_that_goes_elsewhere() {
    let bench = Bench::new();
    let run = |args: &[&str]| {
        let output = Output::of(&mut there(bench.root(), args));
        assert_eq!(output.code, 0, "{output:?}");
        output
    };
    run(&["--state", "a/state", "init"]);
    let state = bench.root().join("a/state");
    let mut command = there(bench.root(), &["--state", "./a/../a/state", "serve"]);
    let mut daemon = Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until("the daemon to answer", || http::get(&state, "/api/health").ok().filter(|reply| reply.status == 200));
    run(&["--state", "a/state", "task", "add", "t", "--shell", "pwd"]);
    let id = run(&["--state=a/state", "run", "t", "--wait"]).stdout;
    assert_eq!(run(&["--state", "a/state", "logs", id.trim()]).stdout, "/\n");
    support::tree::signal(daemon.0.id() as i32, libc::SIGTERM);
    assert!(until("the daemon to end", || daemon.0.try_wait().unwrap()).success());
}

#[test]
fn any_path_will_do() {
    let outer = Bench::new();
    let odd = "a b/it's \"quoted\" $HOME;\u{e9}";
    let long = format!("{}/{}", "d".repeat(100), "e".repeat(100));
    for name in [odd, &long] {
        let mut bench = Bench::at(&outer.root().join(name).join("state"));
        bench.init();
        bench.serve(&["--listen", "127.0.0.1:0"]);
        bench.shell("a", "echo out");
        let (run, code) = bench.run_wait("a");
        assert_eq!(code, 0, "{run}");
        assert_eq!(bench.log(run["id"].as_str().unwrap()), b"out\n");
        assert_eq!(bench.stop(), 0);
        let left: Vec<_> = fs::read_dir(bench.state().join("run")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        // Nothing that tells what to type may break at a blank.
        let told = bench.cli(&["runs"]).stderr;
        let typed = told.split('`').nth(1).expect(&told).to_owned();
        let shown = Output::of(Command::new("sh").args(["-c", &format!("set -- {typed}; printf %s \"$3\"")]));
        assert_eq!(shown.stdout, bench.state().to_str().unwrap(), "{told}");
    }
}

#[test]
fn the_default_state_is_named_when_it_is_missing() {
    let output = Output::of(&mut there(Path::new("/"), &["help"]));
    assert!(output.stdout.contains("/var/lib/qinglet"), "{}", output.stdout);
    if !Path::new("/var/lib/qinglet").exists() {
        let output = Output::of(&mut there(Path::new("/"), &["runs"]));
        assert_eq!(output.code, 4);
        assert_eq!(output.stderr, "qinglet: there is no state at /var/lib/qinglet; make one with `qinglet init`\n");
        let output = Output::of(&mut there(Path::new("/"), &["serve"]));
        assert_eq!(output.code, 4);
        assert!(output.stderr.contains("/var/lib/qinglet: run `qinglet init` first"), "{output:?}");
        assert!(!Path::new("/var/lib/qinglet").exists());
    }
}
