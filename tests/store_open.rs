//! Opening and making the store: locks, folders, files, schema, pragmas. What is wrong is said in a
//! plain sentence that says what to do, and nothing is changed.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::limits::{EDGE, Limits, STANDALONE};
use qinglet::store::Store;
use qinglet::store::open::{self, Initialised, Options};
use qinglet::store::runs::CountRuns;
use qinglet::store::state::{StateDir, StateLock};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use store_support::*;

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn refusal(path: &Path) -> String {
    StateDir::open(path).map(drop).unwrap_err().to_string()
}

/// A made and closed store with its lock.
fn closed() -> (Folder, StateDir, StateLock) {
    let folder = Folder::new();
    let state = StateDir::create(&folder.state()).unwrap();
    let lock = state.lock("test").unwrap();
    assert_eq!(open::init(&state, &lock, &options()), Ok(Initialised::Created));
    (folder, state, lock)
}

fn start(state: &StateDir, lock: &StateLock) -> Result<Store, String> {
    Store::start(state, lock, options()).map_err(|e| e.to_string())
}

fn init(state: &StateDir, lock: &StateLock) -> Result<Initialised, String> {
    open::init(state, lock, &options()).map_err(|e| e.to_string())
}

/// The database's file name, learned by looking: only the store itself knows it.
fn database_name() -> String {
    let (_folder, state, _lock) = closed();
    database(state.path()).file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn the_second_to_come_is_told_who_holds_the_state_even_after_the_file_was_opened_elsewhere() {
    let (_folder, state, lock) = closed();
    drop(lock);
    let lock = state.lock("serve --profile edge").unwrap();
    let store = start(&state, &lock).unwrap();
    let second = || StateDir::open(state.path()).unwrap().lock("init").map(drop).unwrap_err().to_string();
    let pid = std::process::id();
    assert!(
        second().contains(&format!("in use by `qinglet serve --profile edge` (process {pid}): stop that")),
        "{}",
        second()
    );
    // Closing any descriptor of a file drops the process's fcntl locks on it: ours is another file's.
    drop(fs::File::open(database(state.path())).unwrap());
    assert!(second().contains("in use by"));
    store.call(CountRuns).unwrap();
    store.close();
    drop(lock);
    assert!(state.lock("init").is_ok());
}

#[test]
fn a_folder_that_others_may_enter_or_own_is_refused() {
    let (folder, state, _lock) = closed();
    let path = state.path();
    chmod(path, 0o755);
    assert!(refusal(path).contains("has mode 0755: run `chmod 700"), "{}", refusal(path));
    chmod(path, 0o700);
    chmod(&state.logs_dir(), 0o770);
    assert!(refusal(path).contains("logs has mode 0770: run `chmod 700"), "{}", refusal(path));
    fs::remove_dir(state.logs_dir()).unwrap();
    assert!(refusal(path).contains("logs is missing: run `qinglet init` again"), "{}", refusal(path));
    StateDir::create(path).unwrap();
    // As root another's folder is made; as anybody else, root's is another's.
    let foreign = match chown(path, Some(12_345), None) {
        Ok(()) => path.to_owned(),
        Err(_) => PathBuf::from("/usr"),
    };
    assert!(refusal(&foreign).contains("belongs to user id"), "{}", refusal(&foreign));
    chown(path, Some(own_uid()), None).unwrap();
    chmod(&folder.0, 0o777);
    assert!(refusal(path).contains("run `chmod o-w"), "{}", refusal(path));
    chmod(&folder.0, 0o1777);
    assert!(StateDir::open(path).is_ok(), "sticky: only owners exchange what is in it");
    if chown(&folder.0, Some(12_345), None).is_ok() {
        assert!(refusal(path).contains("could exchange what is below it"), "{}", refusal(path));
    }
}

fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid()
}

#[test]
fn symbolic_links_are_not_followed_where_they_matter() {
    let (folder, state, _lock) = closed();
    let link = folder.0.join("link");
    symlink(state.path(), &link).unwrap();
    assert!(refusal(&link).contains("is a symbolic link: give the folder it points to"), "{}", refusal(&link));
    let way = folder.0.join("way");
    symlink(&folder.0, &way).unwrap();
    let through = StateDir::open(&way.join("state")).unwrap();
    assert_eq!(through.path(), state.path(), "our own link on the way is fine, and the path is the real one");
    if std::os::unix::fs::lchown(&way, Some(12_345), None).is_ok() {
        let sentence = refusal(&way.join("state"));
        assert!(sentence.contains("symbolic link of user id 12345, who could turn it elsewhere"), "{sentence}");
    }
    assert!(refusal(&folder.0.join("none")).contains("run `qinglet init` first"));
    fs::write(folder.0.join("file"), "").unwrap();
    assert!(refusal(&folder.0.join("file")).contains("is not a folder"));
    fs::rename(state.run_dir(), folder.0.join("run")).unwrap();
    symlink(folder.0.join("run"), state.run_dir()).unwrap();
    assert!(refusal(state.path()).contains("run is not a folder"), "{}", refusal(state.path()));
    let lock = state.path().join("lock");
    fs::remove_file(&lock).unwrap();
    symlink(folder.0.join("file"), &lock).unwrap();
    let sentence = state.lock("serve").map(drop).unwrap_err().to_string();
    assert!(sentence.contains("symbolic link"), "{sentence}");
}

#[test]
fn a_database_that_is_not_as_it_must_be_stops_the_start_and_stays_as_it_is() {
    let (folder, state, lock) = closed();
    start(&state, &lock).unwrap().close();
    let path = database(state.path());
    let whole = fs::read(&path).unwrap();
    let expect = |words: &str| {
        let before = fs::read(&path).ok();
        for sentence in [start(&state, &lock).map(drop).unwrap_err(), init(&state, &lock).map(drop).unwrap_err()] {
            assert!(sentence.contains(words), "{sentence}");
        }
        assert_eq!(fs::read(&path).ok(), before, "nothing is replaced or repaired");
    };
    chmod(&path, 0o644);
    expect("has mode 0644: run `chmod 600");
    chmod(&path, 0o600);
    fs::hard_link(&path, folder.0.join("second")).unwrap();
    expect("has 2 names: remove the other hard links");
    fs::remove_file(&path).unwrap();
    symlink(folder.0.join("second"), &path).unwrap();
    expect("is a symbolic link: put the real file in its place");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    expect("is not a regular file");
    fs::remove_dir(&path).unwrap();
    let write = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        chmod(&path, 0o600);
    };
    write(b"");
    expect("is not a store of qinglet");
    write(&b"no database at all ".repeat(1000));
    expect("is damaged: keep a copy of the whole state folder, then restore a backup");
    let mut torn = whole.clone();
    torn.truncate(whole.len() / 2);
    write(&torn);
    let sentence = start(&state, &lock).map(drop).unwrap_err();
    assert!(sentence.contains("is damaged"), "{sentence}");
    write(&whole);
    start(&state, &lock).unwrap().close();
    raw(&path).pragma_update(None, "application_id", 5).unwrap();
    expect("is not a store of qinglet: move it away");
}

#[test]
fn every_damaged_page_of_a_small_store_stops_the_start() {
    let mut bench = Bench::new();
    let task_ref = bench.task("hello");
    for _ in 0..40 {
        bench.start("hello", task_ref);
    }
    bench.store.close();
    let path = bench.database();
    let whole = fs::read(&path).unwrap();
    for page in 1..whole.len() / 1024 {
        let mut bent = whole.clone();
        bent[page * 1024..page * 1024 + 64].fill(0xa5);
        fs::write(&path, &bent).unwrap();
        let sentence = bench.restart(&options()).unwrap_err();
        assert!(sentence.contains("is damaged") || sentence.contains("restore a backup"), "page {page}: {sentence}");
    }
    fs::write(&path, &whole).unwrap();
    bench.restart(&options()).unwrap();
}

#[test]
fn a_newer_a_changed_and_a_foreign_schema_are_told_apart() {
    let cases = [
        ("INSERT INTO schema_migrations VALUES (99, 'later', zeroblob(32), 0)", "made by a newer qinglet (schema 99;"),
        ("UPDATE schema_migrations SET checksum = zeroblob(32)", "made with another text of schema step 1"),
        ("DELETE FROM schema_migrations", "has no schema history"),
        ("DROP TABLE schema_migrations", "has no schema history"),
        ("DROP INDEX runs_open", "`runs_open` is missing, changed or foreign"),
        (
            "CREATE TRIGGER evil AFTER INSERT ON runs BEGIN DELETE FROM audit; END",
            "`evil` is missing, changed or foreign",
        ),
        ("CREATE VIEW evil AS SELECT 1", "`evil` is missing"),
        ("DROP TABLE receipt_journal; CREATE TABLE receipt_journal (a)", "`receipt_journal` is missing"),
    ];
    for (change, words) in cases {
        let (_folder, state, lock) = closed();
        let path = database(state.path());
        raw(&path).execute_batch(change).unwrap();
        let before = fs::read(&path).unwrap();
        for sentence in [start(&state, &lock).map(drop).unwrap_err(), init(&state, &lock).map(drop).unwrap_err()] {
            assert!(sentence.contains(words), "{change}: {sentence}");
        }
        assert_eq!(fs::read(&path).unwrap().len(), before.len());
    }
    let (_folder, state, lock) = closed();
    raw(&database(state.path())).execute_batch("CREATE TABLE mine (a)").unwrap();
    assert!(start(&state, &lock).is_ok(), "a table of somebody's own is left alone");
}

#[test]
fn init_is_repeatable_and_finishes_what_a_crash_left_half_done() {
    let folder = Folder::new();
    let state = StateDir::create(&folder.state()).unwrap();
    let lock = state.lock("init").unwrap();
    let sentence = start(&state, &lock).map(drop).unwrap_err();
    assert!(sentence.contains("there is no store") && sentence.contains("run `qinglet init` first"), "{sentence}");
    // Killed while the new file was being written, with whatever stood beside it.
    let name = database_name();
    for rest in [".new", ".new-journal", ".copy"] {
        fs::write(state.path().join(format!("{name}{rest}")), "half").unwrap();
    }
    assert_eq!(init(&state, &lock), Ok(Initialised::Created));
    let names: Vec<_> = fs::read_dir(state.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().contains(".db.")), "{names:?}");
    assert_eq!(init(&state, &lock), Ok(Initialised::Unchanged));
    StateDir::create(state.path()).unwrap();
    start(&state, &lock).unwrap().close();
    // A journal without its database: a new database would have it played into it.
    let path = database(state.path());
    fs::rename(&path, folder.0.join("kept")).unwrap();
    fs::write(state.path().join(format!("{name}-wal")), "left").unwrap();
    let sentence = init(&state, &lock).map(drop).unwrap_err();
    assert!(sentence.contains("put the store back, or move the journal away"), "{sentence}");
    let other = StateDir::create(&folder.0.join("other")).unwrap();
    let sentence = init(&other, &lock).map(drop).unwrap_err();
    assert!(sentence.contains("does not cover"), "{sentence}");
}

#[test]
fn sqlite_never_makes_a_file_that_others_may_read() {
    let bench = Bench::new();
    bench.task("hello");
    let files: Vec<_> = fs::read_dir(bench.state.path()).unwrap().map(|e| e.unwrap()).collect();
    let mut seen = Vec::new();
    for file in files.iter().filter(|file| file.metadata().unwrap().is_file()) {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
        seen.push(file.file_name().into_string().unwrap());
    }
    seen.sort();
    let name = database_name();
    assert_eq!(
        seen,
        ["lock".into(), name.clone(), format!("{name}-wal")],
        "and no shared memory, which jffs2 cannot map"
    );
}

#[test]
fn a_store_that_was_not_closed_goes_on_from_its_journal() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let admitted = bench.start("hello", task_ref);
    // As after a power cut: the files as they are, in another place.
    let folder = Folder::new();
    let state = StateDir::create(&folder.state()).unwrap();
    let name = database_name();
    for name in [name.clone(), format!("{name}-wal")] {
        fs::copy(bench.state.path().join(&name), state.path().join(&name)).unwrap();
        chmod(&state.path().join(&name), 0o600);
    }
    let lock = state.lock("test").unwrap();
    let store = start(&state, &lock).unwrap();
    let run = qinglet::store::runs::GetRun { project: project(), run: admitted.run, attempt_number: None };
    assert!(store.call(run).unwrap().is_some());
}

#[test]
fn both_profiles_open_the_same_store() {
    let folder = Folder::new();
    let state = StateDir::create(&folder.state()).unwrap();
    let lock = state.lock("test").unwrap();
    for limits in [&EDGE, &STANDALONE] as [&'static Limits; 2] {
        let options = Options { limits, ..options() };
        open::init(&state, &lock, &options).unwrap();
        Store::start(&state, &lock, options).unwrap().close();
    }
}
