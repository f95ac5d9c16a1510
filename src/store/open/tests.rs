use super::*;
use crate::model::limits::{EDGE, STANDALONE};
use std::sync::atomic::{AtomicU64, Ordering};

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn scratch() -> (Scratch, StateDir, StateLock) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("qinglet-open-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().canonicalize().unwrap().join(name);
    let state = StateDir::create(&path).unwrap();
    let lock = state.lock("test").unwrap();
    (Scratch(path), state, lock)
}

fn options(limits: &'static Limits) -> Options {
    Options { limits, clock_ms: || 1_800_000_000_000, vfs: None }
}

fn pragma(conn: &Connection, name: &str) -> String {
    let value = conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pragmas_by_profile() {
    for (limits, cache, journal, checkpoint) in
        [(&EDGE, "-1024", "1048576", "1024"), (&STANDALONE, "-8192", "8388608", "4096")]
    {
        let (_scratch, state, lock) = scratch();
        init(&state, &lock, &options(limits)).unwrap();
        let conn = open(state.path(), &options(limits)).unwrap();
        for (name, want) in [
            ("journal_mode", "wal"),
            ("locking_mode", "exclusive"),
            ("synchronous", "2"),
            ("foreign_keys", "1"),
            ("trusted_schema", "0"),
            ("mmap_size", "0"),
            ("temp_store", "2"),
            ("cache_size", cache),
            ("journal_size_limit", journal),
            ("wal_autocheckpoint", checkpoint),
            ("page_size", "1024"),
        ] {
            assert_eq!(pragma(&conn, name), want, "{name}");
        }
        for (flag, want) in [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        ] {
            assert_eq!(conn.db_config(flag).unwrap(), want);
        }
        assert!(conn.prepare("SELECT \"no such column\" FROM projects").is_err(), "a double-quoted name is no string");
        let again = reopen(state.path(), &options(limits));
        assert!(again.is_err_and(|fail| fail.word() == "store_busy"), "a second connection is kept out");
    }
}

const SECOND: &str = "CREATE TABLE later (a INTEGER) STRICT; ALTER TABLE projects ADD COLUMN later INTEGER";
const THIRD: &str = "CREATE INDEX later_by_a ON later (a)";

/// The steps there are and so many more.
fn longer(more: usize) -> Vec<Migration> {
    let known = MIGRATIONS.iter().map(|step| Migration { id: step.id, name: step.name, sql: step.sql });
    let rest = [("then", SECOND), ("last", THIRD)].into_iter().take(more);
    let ids = MIGRATIONS.len() as i64 + 1..;
    known.chain(rest.zip(ids).map(|((name, sql), id)| Migration { id, name, sql })).collect()
}

#[test]
fn an_older_store_is_copied_then_brought_up_to_date_and_a_start_only_says_so() {
    let (_scratch, state, lock) = scratch();
    let options = options(&EDGE);
    init(&state, &lock, &options).unwrap();
    close(open(state.path(), &options).unwrap());
    let copy = state.path().join(format!("{DATABASE}.before-{}", MIGRATIONS.len() + 1));
    let done = init_with(&state, &lock, &options, &longer(2)).unwrap();
    assert_eq!(done, Initialised::Migrated { copy: copy.clone() });
    let old = Connection::open(&copy).unwrap();
    assert_eq!(migrate::standing(&old, MIGRATIONS).unwrap(), Standing::Current, "the copy is the old store, whole");
    assert_eq!(pragma(&old, "integrity_check"), "ok");
    assert_eq!(pragma(&old, "journal_mode"), "delete", "and needs no file beside it");
    assert_eq!(init_with(&state, &lock, &options, &longer(2)).unwrap(), Initialised::Unchanged);
    let sentence = open(state.path(), &options).map(drop).unwrap_err().to_string();
    let known = MIGRATIONS.len();
    let newer = format!("made by a newer qinglet (schema {}; this one knows {known})", known + 1);
    assert!(sentence.contains(&newer), "{sentence}");
    // Put the copy back: the way out that the sentence names.
    fs::rename(&copy, state.path().join(DATABASE)).unwrap();
    close(open(state.path(), &options).unwrap());
}

#[test]
fn a_migration_that_fails_leaves_the_old_store_whole() {
    let (_scratch, state, lock) = scratch();
    let options = options(&EDGE);
    init(&state, &lock, &options).unwrap();
    let mut list = longer(2);
    list[MIGRATIONS.len() + 1].sql = "CREATE TABLE later (a)";
    assert!(init_with(&state, &lock, &options, &list).is_err());
    close(open(state.path(), &options).unwrap());
    assert!(matches!(init_with(&state, &lock, &options, &longer(2)), Ok(Initialised::Migrated { .. })));
}

#[test]
fn a_store_of_every_earlier_version_is_brought_up_to_date() {
    for steps in 1..MIGRATIONS.len() {
        let (_scratch, state, lock) = scratch();
        let options = options(&EDGE);
        init_with(&state, &lock, &options, &MIGRATIONS[..steps]).unwrap();
        let sentence = open(state.path(), &options).map(drop).unwrap_err().to_string();
        assert!(sentence.contains("qinglet init"), "{sentence}");
        assert!(matches!(init(&state, &lock, &options), Ok(Initialised::Migrated { .. })), "from {steps}");
        close(open(state.path(), &options).unwrap());
    }
}

#[test]
fn the_frozen_texts_have_their_checksums() {
    let listed: Vec<_> =
        MIGRATIONS.iter().map(|step| format!("{} {} {}\n", step.id, step.name, step.checksum())).collect();
    assert_eq!(listed.concat(), include_str!("../../../tests/data/migrations.txt"));
    assert!(MIGRATIONS.iter().zip(1..).all(|(step, id)| step.id == id));
}

#[test]
fn what_ended_before_the_lists_had_their_index_is_in_it() {
    let (_scratch, state, lock) = scratch();
    let options = options(&EDGE);
    init_with(&state, &lock, &options, &MIGRATIONS[..5]).unwrap();
    let old = Connection::open(state.path().join(DATABASE)).unwrap();
    let run =
        "INSERT INTO runs (id, project, task, task_revision, task_digest, status, version, event_sequence, priority,
        origin, trigger_type, created_at_ms, finished_at_ms, end_order) VALUES";
    old.execute_batch(&format!(
        "{run} (zeroblob(16), 'default', 'hello', 1, zeroblob(32), 'failed', 2, 2, 0, 'manual', 'manual', 5, 6, 1);
         {run} (randomblob(16), 'default', 'hello', 1, zeroblob(32), 'queued', 2, 2, 0, 'manual', 'manual', 7, NULL, NULL)"
    ))
    .unwrap();
    old.close().unwrap();
    assert!(matches!(init(&state, &lock, &options), Ok(Initialised::Migrated { .. })));
    let conn = open(state.path(), &options).unwrap();
    let sql = "SELECT count(*), max(id) FROM runs INDEXED BY runs_ended_by_task
        WHERE project = 'default' AND task = 'hello' AND status = 'failed' AND finished_at_ms IS NOT NULL";
    let ended: (i64, [u8; 16]) = conn.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(ended, (1, [0; 16]));
    assert_eq!(pragma(&conn, "integrity_check"), "ok");
}
