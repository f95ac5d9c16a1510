//! The only file that names the database's path: making it, its copies, opening, checks, pragmas.
//!
//! Closing ANY descriptor of a file drops every fcntl lock that the process holds on it (fcntl(2)),
//! `SQLite`'s too, so nothing else may ever open it; a test looks for the name everywhere else.

use super::copy::Snapshot;
use super::fail::{self, Fail};
use super::migrate::{self, MIGRATIONS, Migration, Standing};
use super::state::{StateDir, StateError, StateLock, cannot, check_file};
use crate::model::limits::{self, Limits};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the store is to be opened.
#[derive(Clone)]
pub struct Options {
    /// The profile's sizes.
    pub limits: &'static Limits,
    /// The wall clock, in epoch milliseconds, read inside each transaction.
    pub clock_ms: fn() -> i64,
    /// The name of a registered `SQLite` VFS; `None` = the system's. For tests of faults.
    pub vfs: Option<String>,
}

/// What `init` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Initialised {
    /// There was no store; now there is.
    Created,
    /// The store was of an older version; it was copied here first and then brought up to date.
    Migrated {
        /// The copy of the old store.
        copy: PathBuf,
    },
    /// The store was up to date.
    Unchanged,
}

const DATABASE: &str = "qinglet.db";
/// A store that is being made. It becomes the store by a rename, whole or not at all.
const UNFINISHED: &str = "qinglet.db.new";
/// A copy that is being made.
const COPYING: &str = "qinglet.db.copy";
/// A copy that is being made for somebody, until it loses its name.
const SNAPSHOT: &str = "qinglet.db.snapshot";
/// Files that `SQLite` puts beside a database.
const SIDECARS: [&str; 3] = ["-wal", "-journal", "-shm"];
/// "QLET": tells our files from any other SQLite database.
const APPLICATION_ID: i64 = 0x514c_4554;
/// A commit writes whole pages, and most of a Run's commits change a few hundred bytes on each of
/// several: measured, a Run costs 44 KiB of flash with these pages and 128 KiB with 4 KiB ones.
pub(super) const PAGE_BYTES: u32 = 1024;

/// Makes the store, or brings an older one up to date after copying it; repeatable, and finishes
/// what a crash left half done. Never runs by itself: `serve` only opens.
pub fn init(state: &StateDir, lock: &StateLock, options: &Options) -> Result<Initialised, StateError> {
    init_with(state, lock, options, MIGRATIONS)
}

fn init_with(
    state: &StateDir,
    lock: &StateLock,
    options: &Options,
    list: &[Migration],
) -> Result<Initialised, StateError> {
    lock.must_cover(state)?;
    for rest in [UNFINISHED, COPYING, SNAPSHOT] {
        remove(&state.path().join(rest))?;
    }
    let path = state.path().join(DATABASE);
    match fs::symlink_metadata(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            must_have_no_journal(&path)?;
            must_be_unused(state)?;
            create(state.path(), options, list)?;
            return Ok(Initialised::Created);
        }
        Err(e) => return Err(cannot("look at", &path, &e)),
        Ok(_) => {}
    }
    let conn = connect(&path, options)?;
    let explained = |e: rusqlite::Error| explain(&path, &e);
    let Standing::Older(applied) = recognise(&path, &conn, list)? else {
        check_shape(&path, &conn, list)?;
        prove_writable(&conn).map_err(explained)?;
        close(conn);
        return Ok(Initialised::Unchanged);
    };
    let from = list.get(applied.wrapping_sub(1)).map_or(0, |step| step.id);
    let copy = state.path().join(format!("{DATABASE}.before-{}", from + 1));
    copy_to(&conn, state.path(), &copy, options)?;
    conn.execute_batch("BEGIN IMMEDIATE").map_err(explained)?;
    // A failure drops the connection, which rolls back: the old shape is whole.
    migrate::apply(&conn, list, (options.clock_ms)()).map_err(explained)?;
    conn.execute_batch("COMMIT").map_err(explained)?;
    check_shape(&path, &conn, list)?;
    close(conn);
    Ok(Initialised::Migrated { copy })
}

/// A new database beside an old journal would have that journal played into it.
fn must_have_no_journal(path: &Path) -> Result<(), StateError> {
    match SIDECARS.iter().map(|sidecar| beside(path, sidecar)).find(|stray| fs::symlink_metadata(stray).is_ok()) {
        None => Ok(()),
        Some(stray) => Err(StateError::new(format!(
            "{} is there but {} is missing: put the store back, or move the journal away to start anew",
            stray.display(),
            path.display()
        ))),
    }
}

/// Without a database a folder may hold nothing that only a database can explain: whoever lost only that
/// wants it back, and not a new beginning that no log and no token belongs to.
fn must_be_unused(state: &StateDir) -> Result<(), StateError> {
    let filled = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    let left = [state.pepper_path(), state.owner_token_path()].into_iter().find(|path| path.exists());
    let left = left.or_else(|| [state.logs_dir(), state.receipts_dir()].into_iter().find(|folder| filled(folder)));
    match left {
        None => Ok(()),
        Some(left) => Err(StateError::new(format!(
            "the database of {} is missing although {} is there: put a copy of the database back, or move the folder away \
             to begin anew",
            state.path().display(),
            left.display()
        ))),
    }
}

/// Opens the store for the store thread: every check of design D2, nothing is changed but the
/// journal mode. Never migrates.
pub(super) fn open(state: &Path, options: &Options) -> Result<Connection, StateError> {
    let path = state.join(DATABASE);
    // Of a daemon that was killed while it copied.
    remove(&state.join(SNAPSHOT))?;
    let conn = connect(&path, options)?;
    match recognise(&path, &conn, MIGRATIONS)? {
        Standing::Older(_) => {
            return Err(StateError::new(format!(
                "the store {} is of an older version: run `qinglet init`, which copies it first",
                path.display()
            )));
        }
        _ => check_shape(&path, &conn, MIGRATIONS)?,
    }
    check_pages(&path, &conn)?;
    prove_writable(&conn).map_err(|e| explain(&path, &e))?;
    Ok(conn)
}

/// Opens the store again after a failure in the middle of work. It was checked when it was opened
/// first, so only what a connection needs is done; the transaction that failed is decided here, by
/// `SQLite`'s own recovery.
pub(super) fn reopen(state: &Path, options: &Options) -> Result<Connection, Fail> {
    let path = state.join(DATABASE);
    if let Err(e) = fs::symlink_metadata(&path)
        .map_err(|e| cannot("look at", &path, &e))
        .and_then(|found| check_file(&path, &found))
    {
        drop(e);
        return Err(Fail::Word("storage_unavailable"));
    }
    Ok(raw_connect(&path, options).and_then(|conn| configure(&conn, options).map(|()| conn))?)
}

/// Puts the WAL into the database and closes. Nothing is lost if it fails: the next opening
/// recovers.
pub(super) fn close(conn: Connection) {
    let _ = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    let _ = conn.close();
}

fn create(folder: &Path, options: &Options, list: &[Migration]) -> Result<(), StateError> {
    let path = folder.join(DATABASE);
    let unfinished = folder.join(UNFINISHED);
    make_private(&unfinished)?;
    let explained = |e: rusqlite::Error| explain(&unfinished, &e);
    let conn = raw_connect(&unfinished, options).map_err(explained)?;
    // No journal on disk: until the rename nobody sees this file, and a rest of it is removed.
    let made = conn
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = FULL;
             PRAGMA application_id = {APPLICATION_ID}; BEGIN IMMEDIATE"
        ))
        .and_then(|()| migrate::apply(&conn, list, (options.clock_ms)()))
        .and_then(|()| conn.execute_batch("COMMIT"));
    made.map_err(explained)?;
    conn.close().map_err(|(_, e)| explain(&unfinished, &e))?;
    publish(folder, &unfinished, &path)
}

fn copy_to(conn: &Connection, folder: &Path, copy: &Path, options: &Options) -> Result<(), StateError> {
    let copying = folder.join(COPYING);
    make_private(&copying)?;
    let explained = |e: rusqlite::Error| explain(&copying, &e);
    let mut target = raw_connect(&copying, options).map_err(explained)?;
    target.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = FULL").map_err(explained)?;
    {
        let backup = Backup::new(conn, &mut target).map_err(explained)?;
        match backup.step(-1).map_err(explained)? {
            StepResult::Done => {}
            _ => return Err(StateError::new(format!("cannot copy the store to {}: try again", copying.display()))),
        }
    }
    // The copy must not want a WAL beside it: it may be moved about by hand.
    target.execute_batch("PRAGMA journal_mode = DELETE").map_err(explained)?;
    target.close().map_err(|(_, e)| explain(&copying, &e))?;
    publish(folder, &copying, copy)
}

/// A copy that is being made; it goes when it is dropped before it is finished.
pub(super) struct Copy {
    target: Option<Connection>,
    path: PathBuf,
    keep_name: bool,
}

/// Begins a copy: into a new file of this name, or into one in the state folder that will lose its name.
pub(super) fn begin_copy(folder: &Path, into: Option<PathBuf>, options: &Options) -> Result<Copy, Fail> {
    let keep_name = into.is_some();
    let path = into.unwrap_or_else(|| folder.join(SNAPSHOT));
    if !keep_name {
        remove(&path).map_err(|_| Fail::Word("storage_unavailable"))?;
    }
    make_private(&path).map_err(|_| Fail::Word("storage_unavailable"))?;
    let mut copy = Copy { target: None, path, keep_name };
    let target = raw_connect(&copy.path, options)?;
    // Nothing is lost with it, so it need not be brought to the flash: it may be gone before it gets there.
    target.execute_batch(&format!(
        "PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; PRAGMA cache_size = -{}",
        limits::BACKUP_CACHE_KIB
    ))?;
    copy.target = Some(target);
    Ok(copy)
}

impl Copy {
    /// Where the pages go.
    pub(super) fn target(&mut self) -> Result<&mut Connection, Fail> {
        self.target.as_mut().ok_or(Fail::Word("storage_unavailable"))
    }

    /// Makes a database of it that wants no journal beside it.
    pub(super) fn finish(mut self) -> Result<Snapshot, Fail> {
        self.target()?.execute_batch("PRAGMA journal_mode = DELETE")?;
        if let Some(target) = self.target.take() {
            target.close().map_err(|(_, e)| e)?;
        }
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&self.path);
        let snapshot = file.and_then(Snapshot::new).map_err(|_| Fail::Word("storage_io"))?;
        if self.keep_name {
            // Its name is the caller's from now on.
            self.path = PathBuf::new();
        }
        Ok(snapshot)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        drop(self.target.take());
        if !self.path.as_os_str().is_empty() {
            let _ = remove(&self.path);
        }
    }
}

/// Puts a database into a state folder that has none: the first `bytes` of what is read, whole or not at
/// all.
pub fn place(state: &StateDir, lock: &StateLock, database: impl io::Read, bytes: u64) -> Result<(), StateError> {
    lock.must_cover(state)?;
    let (path, unfinished) = (state.path().join(DATABASE), state.path().join(UNFINISHED));
    if fs::symlink_metadata(&path).is_ok() {
        return Err(StateError::new(format!("there is a database in {} already", state.path().display())));
    }
    must_have_no_journal(&path)?;
    remove(&unfinished)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
    let file = file.as_mut().map_err(|e| cannot("make", &unfinished, e))?;
    let written = io::copy(&mut database.take(bytes), file).and_then(|count| file.sync_all().map(|()| count));
    match written {
        Ok(count) if count == bytes => publish(state.path(), &unfinished, &path),
        Ok(_) => Err(StateError::new("the backup ends before its database does: it is damaged")),
        Err(e) => {
            let _ = remove(&unfinished);
            Err(cannot("write", &unfinished, &e))
        }
    }
}

/// Opens a database only to look at it: neither it nor anything beside it is written, and no lock is taken.
/// The caller knows that nobody writes meanwhile. What stands in a WAL beside it is not seen.
pub(super) fn open_to_look(path: &Path, limits: &Limits) -> Result<Connection, StateError> {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(*byte)),
            // Writing to a String cannot fail.
            other => drop(write!(uri, "%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let explained = |e: rusqlite::Error| explain(path, &e);
    let conn = Connection::open_with_flags(uri, flags).map_err(explained)?;
    for (flag, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        conn.set_db_config(flag, on).map_err(explained)?;
    }
    let kib = limits.cache_bytes / 1024;
    let set = format!("PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{kib}");
    conn.execute_batch(&set).map_err(explained)?;
    Ok(conn)
}

/// Whether it is a database of ours; reads nothing else.
pub(super) fn is_ours(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("PRAGMA application_id", [], |row| row.get::<_, i64>(0)).map(|id| id == APPLICATION_ID)
}

/// Opens a state's database only to look at it. What a daemon that was killed has left in the WAL is
/// looked at in a copy in the system's folder for temporary files, which goes at once. `false`: there is no
/// space for that, and the WAL was passed over.
pub(super) fn look(state: &StateDir, lock: &StateLock, options: &Options) -> Result<(Connection, bool), StateError> {
    lock.must_cover(state)?;
    let path = state.path().join(DATABASE);
    match fs::symlink_metadata(&path) {
        Ok(found) => check_file(&path, &found)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StateError::new(format!("there is no store at {}: run `qinglet init` first", path.display())));
        }
        Err(e) => return Err(cannot("look at", &path, &e)),
    }
    let left = |name: &str| fs::metadata(beside(&path, name)).map_or(0, |found| found.len());
    if left("-wal") == 0 && left("-journal") == 0 {
        return open_to_look(&path, options.limits).map(|conn| (conn, true));
    }
    match look_at_copy(&path, options) {
        Some(conn) => Ok((conn, true)),
        None => open_to_look(&path, options.limits).map(|conn| (conn, false)),
    }
}

/// A connection on a copy with its journal played in, whose files have no names any more.
fn look_at_copy(path: &Path, options: &Options) -> Option<Connection> {
    let folder = std::env::temp_dir().join(format!("qinglet-look-{}", std::process::id()));
    fs::DirBuilder::new().mode(0o700).create(&folder).ok()?;
    let copy = folder.join("copy");
    let mut copied = fs::copy(path, &copy).is_ok();
    for name in ["-wal", "-journal"] {
        let from = beside(path, name);
        copied = copied && (fs::symlink_metadata(&from).is_err() || fs::copy(&from, beside(&copy, name)).is_ok());
    }
    let played = copied.then(|| raw_connect(&copy, options).ok()).flatten().is_some_and(|conn| {
        let mode = conn.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
        mode.is_ok_and(|mode| mode == "delete") && conn.close().is_ok()
    });
    let conn = played.then(|| open_to_look(&copy, options.limits).ok()).flatten();
    let _ = remove(&copy);
    let _ = fs::remove_dir(&folder);
    conn
}

/// Whether a file of this name in the state folder is the store's own.
pub fn is_own_name(name: &str) -> bool {
    let own = [DATABASE, UNFINISHED, COPYING, SNAPSHOT];
    let sidecar = own.iter().any(|own| name.strip_prefix(own).is_some_and(|rest| SIDECARS.contains(&rest)));
    sidecar || own.contains(&name) || name.starts_with("qinglet.db.before-")
}

/// Gives a finished file its name, durably.
fn publish(folder: &Path, from: &Path, to: &Path) -> Result<(), StateError> {
    fs::rename(from, to).map_err(|e| cannot("rename to", to, &e))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| cannot("sync", folder, &e))
}

fn make_private(path: &Path) -> Result<(), StateError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map(drop).map_err(|e| cannot("make", path, &e))
}

fn remove(path: &Path) -> Result<(), StateError> {
    for name in [path.to_owned(), beside(path, "-wal"), beside(path, "-journal"), beside(path, "-shm")] {
        match fs::remove_file(&name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(cannot("remove", &name, &e)),
            _ => {}
        }
    }
    Ok(())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Checks the files, then opens and sets what a connection needs.
fn connect(path: &Path, options: &Options) -> Result<Connection, StateError> {
    match fs::symlink_metadata(path) {
        Ok(found) => check_file(path, &found)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StateError::new(format!("there is no store at {}: run `qinglet init` first", path.display())));
        }
        Err(e) => return Err(cannot("look at", path, &e)),
    }
    for sidecar in SIDECARS {
        let sidecar = beside(path, sidecar);
        if let Ok(found) = fs::symlink_metadata(&sidecar) {
            check_file(&sidecar, &found)?;
        }
    }
    let conn = raw_connect(path, options).map_err(|e| explain(path, &e))?;
    let readonly = conn.is_readonly("main").map_err(|e| explain(path, &e))?;
    if readonly {
        return Err(StateError::new(format!(
            "cannot write {}: mount its file system writable, or use another folder with --state",
            path.display()
        )));
    }
    // Before anything else is read: another program's database must not be switched to WAL.
    let id: i64 = conn.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(|e| explain(path, &e))?;
    if id != APPLICATION_ID {
        return Err(StateError::new(format!(
            "{} is not a store of qinglet: move it away, or restore a backup of the store",
            path.display()
        )));
    }
    configure(&conn, options).map_err(|e| explain(path, &e))?;
    Ok(conn)
}

fn raw_connect(path: &Path, options: &Options) -> rusqlite::Result<Connection> {
    // No CREATE: a file that is missing is a fault, not a wish for a new one. No mutex: one thread.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = match &options.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs.as_str())?,
        None => Connection::open_with_flags(path, flags)?,
    };
    conn.busy_timeout(Duration::from_millis(limits::STORE_BUSY_MS))?;
    conn.set_prepared_statement_cache_capacity(limits::STORE_STATEMENTS);
    // Exclusive before the first read, so that a WAL never wants shared memory, which jffs2 cannot map.
    conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY")?;
    Ok(conn)
}

fn configure(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    let limits = options.limits;
    for (flag, on) in [
        // A plan never depends on the values: else a kept statement is compiled anew for each that it sees.
        (DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true),
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
    ] {
        conn.set_db_config(flag, on)?;
    }
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        // Refused, which is not an error: a file system that cannot do it keeps a rollback journal.
        conn.query_row("PRAGMA journal_mode = TRUNCATE", [], |_| Ok(()))?;
    }
    conn.execute_batch(&format!(
        "PRAGMA synchronous = FULL;
         PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -{};
         PRAGMA journal_size_limit = {};
         PRAGMA wal_autocheckpoint = {}",
        limits.cache_bytes / 1024,
        limits.journal_bytes,
        limits.checkpoint_pages,
    ))
}

pub(super) fn recognise(path: &Path, conn: &Connection, list: &[Migration]) -> Result<Standing, StateError> {
    let standing = migrate::standing(conn, list).map_err(|e| explain(path, &e))?;
    match standing {
        Standing::Current | Standing::Older(_) => Ok(standing),
        Standing::Newer(id) => Err(StateError::new(format!(
            "the store {} was made by a newer qinglet (schema {id}; this one knows {}): install that version again, \
             or restore a copy from before",
            path.display(),
            list.len()
        ))),
        Standing::Changed(id) => Err(StateError::new(format!(
            "the store {} was made with another text of schema step {id}: install the qinglet that made it, \
             or restore a backup",
            path.display()
        ))),
        Standing::None => Err(StateError::new(format!(
            "the store {} has no schema history: it is damaged; restore a backup",
            path.display()
        ))),
    }
}

pub(super) fn check_shape(path: &Path, conn: &Connection, list: &[Migration]) -> Result<(), StateError> {
    match migrate::drift(conn, list) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(StateError::new(format!(
            "the store {} is not as qinglet made it (`{name}` is missing, changed or foreign): restore a backup",
            path.display()
        ))),
        Err(Fail::Sqlite(e)) => Err(explain(path, &e)),
        Err(Fail::Word(word)) => Err(StateError::new(format!("cannot check {}: {word}", path.display()))),
    }
}

fn check_pages(path: &Path, conn: &Connection) -> Result<(), StateError> {
    let explained = |e: rusqlite::Error| explain(path, &e);
    let number = |pragma: &str| conn.query_row(pragma, [], |row| row.get::<_, i64>(0)).map_err(explained);
    let bytes = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?);
    if bytes as u64 > limits::STORE_CHECK_BYTES_MAX {
        return Ok(());
    }
    let verdict: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(explained)?;
    if verdict == "ok" { Ok(()) } else { Err(corrupt(path)) }
}

/// One small write and sync, so that a full or read-only file system is met now and not by the
/// first Run.
fn prove_writable(conn: &Connection) -> rusqlite::Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE; PRAGMA user_version = 0; COMMIT")
}

fn corrupt(path: &Path) -> StateError {
    StateError::new(format!(
        "the store {} is damaged: keep a copy of the whole state folder, then restore a backup",
        path.display()
    ))
}

pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> StateError {
    let folder = path.parent().unwrap_or(path).display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => corrupt(path),
        Some(ErrorCode::DiskFull) => {
            StateError::new(format!("the file system of {folder} is full: free some space and try again"))
        }
        Some(ErrorCode::ReadOnly) => StateError::new(format!(
            "cannot write in {folder}: mount its file system writable, or use another folder with --state"
        )),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => StateError::new(format!(
            "cannot open {} or make a file beside it: look at the rights of {folder} and whether its file system \
             is read-only or full",
            path.display()
        )),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StateError::new(format!("{} is open in another program: close it there and try again", path.display()))
        }
        Some(ErrorCode::SystemIoFailure) => StateError::new(format!(
            "reading or writing {} failed: look at the kernel's log for faults of the storage, and try again",
            path.display()
        )),
        _ if fail::word(error) == "record_damaged" => corrupt(path),
        _ => StateError::new(format!("cannot use the store {} ({error}): try again", path.display())),
    }
}

#[cfg(test)]
mod tests;
