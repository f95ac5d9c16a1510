//! Group commit: the queued requests of one turn in one transaction, each of several in its own savepoint,
//! one commit, then all the answers (design D2).
//!
//! `SQLite` may roll back the WHOLE transaction by itself (full disk, I/O, memory), and the next
//! SAVEPOINT would then silently open a transaction of its own. So after every error, and after
//! every operation, autocommit is looked at: if the transaction is gone, nobody's change is there,
//! everybody is told so, and nothing more of the batch runs.

use super::copy::{CopyJob, Snapshot};
use super::fail::{self, Fail};
use super::open::{self, Options};
use super::state::StateError;
use super::thread::{Meanwhile, StoreError, UNKNOWN};
use super::tx::Tx;
use crate::model::id::{IdSource, Uuid};
use crate::model::limits::{self, Limits};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// A queued operation and the way to its caller.
pub(super) trait Request: Send {
    /// Does it, inside a savepoint; keeps what it answers.
    fn perform(&mut self, tx: &mut Tx<'_>) -> Result<(), Fail>;

    /// Tells the caller what it answered, or why it was not done.
    fn answer(self: Box<Self>, verdict: Result<(), StoreError>);
}

/// How a batch ended.
enum End {
    /// Each request has its own verdict: committed, or failed alone.
    Settled,
    /// Nothing of it is stored, and all are told this. The connection is not to be trusted.
    Gone(StoreError),
}

/// Owns the connection. Lives on the store thread.
pub(super) struct Keeper {
    folder: PathBuf,
    options: Options,
    /// The numbers in force: those of the options until a setting changes.
    limits: Limits,
    conn: Option<Connection>,
    ids: IdSource,
    /// It was opened only to look, so it is not opened again to write.
    only_looks: bool,
}

impl Keeper {
    pub(super) fn new(folder: PathBuf, options: Options, conn: Connection) -> Result<Self, StateError> {
        let mut ids = IdSource::default();
        prime(&conn, &mut ids)
            .map_err(|e| StateError::new(format!("cannot read the newest ids of the store ({e}): restore a backup")))?;
        Ok(Self { folder, limits: *options.limits, options, conn: Some(conn), ids, only_looks: false })
    }

    /// For a connection that only looks. It makes no id, so a page that the newest ones stand on may be damaged.
    pub(super) fn looking(folder: PathBuf, options: Options, conn: Connection) -> Self {
        Self { folder, limits: *options.limits, options, conn: Some(conn), ids: IdSource::default(), only_looks: true }
    }

    /// Runs one batch and answers everybody in it, exactly once.
    pub(super) fn run(&mut self, batch: Vec<Box<dyn Request>>) {
        if let Err(fail) = self.connection() {
            answer(batch, Err(StoreError::Unavailable(fail.word())));
            return;
        }
        let Self { options, limits, conn, ids, .. } = self;
        let trusted = conn.as_ref().is_some_and(|conn| run_on(conn, options, limits, ids, batch));
        if !trusted {
            self.let_go();
        }
    }

    /// Copies the whole store in steps, and runs what comes in between them.
    pub(super) fn copy(&mut self, job: &CopyJob, meanwhile: &dyn Fn() -> Meanwhile) {
        let end = match self.connection() {
            Ok(()) => self.copy_pages(job, meanwhile),
            Err(fail) => Err(fail.word()),
        };
        job.end(end);
    }

    fn copy_pages(&mut self, job: &CopyJob, meanwhile: &dyn Fn() -> Meanwhile) -> Result<Snapshot, &'static str> {
        let Self { folder, options, limits: in_force, conn, ids, .. } = self;
        let Some(source) = conn.as_ref() else { return Err("storage_unavailable") };
        let mut copy = open::begin_copy(folder, job.into.clone(), options).map_err(|fail| fail.word())?;
        let mut trusted = true;
        let end = {
            let target = copy.target().map_err(|fail| fail.word())?;
            let backup = Backup::new(source, target).map_err(|e| fail::word(&e))?;
            loop {
                match backup.step(limits::BACKUP_STEP_PAGES) {
                    Ok(StepResult::Done) => break Ok(()),
                    Ok(StepResult::More) => {}
                    // Nobody else may use either file, so it does not pass by waiting.
                    Ok(_) => break Err("store_busy"),
                    Err(e) => break Err(fail::word(&e)),
                }
                let at = backup.progress();
                let bytes = |pages: i32| pages.max(0) as u64 * u64::from(open::PAGE_BYTES);
                job.progress(bytes(at.pagecount - at.remaining), bytes(at.pagecount));
                #[cfg(debug_assertions)]
                slow_down();
                match meanwhile() {
                    Meanwhile::Closing => break Err("store_closed"),
                    _ if !job.is_wanted() => break Err("nobody_waits"),
                    Meanwhile::Nothing => {}
                    Meanwhile::Batch(batch) => {
                        trusted = run_on(source, options, in_force, ids, batch);
                        if !trusted {
                            break Err("store_reopened");
                        }
                    }
                }
            }
        };
        if !trusted {
            self.let_go();
        }
        end?;
        copy.finish().map_err(|fail| fail.word())
    }

    pub(super) fn close(&mut self) {
        if let Some(conn) = self.conn.take() {
            open::close(conn);
        }
    }

    fn connection(&mut self) -> Result<(), Fail> {
        if self.conn.is_none() {
            if self.only_looks {
                return Err(Fail::Word("storage_unavailable"));
            }
            self.conn = Some(open::reopen(&self.folder, &self.options)?);
        }
        Ok(())
    }

    /// Rolls back what may be left and closes; the next batch opens anew.
    fn let_go(&mut self) {
        if let Some(conn) = self.conn.take() {
            if !conn.is_autocommit() {
                let _ = conn.execute_batch("ROLLBACK");
            }
            let _ = conn.close();
        }
    }
}

/// Slows copies down, so that a test has something to do meanwhile or to kill.
#[cfg(debug_assertions)]
fn slow_down() {
    if let Some(ms) = std::env::var("QINGLET_COPY_STEP_MS").ok().and_then(|text| text.parse().ok()) {
        std::thread::sleep(std::time::Duration::from_millis(ms));
    }
}

/// Tells everybody the same.
fn answer(batch: Vec<Box<dyn Request>>, verdict: Result<(), StoreError>) {
    for request in batch {
        request.answer(verdict);
    }
}

/// Runs one batch on a connection and answers everybody in it. `false`: nothing of it is stored, and the
/// connection is not to be trusted.
fn run_on(
    conn: &Connection,
    options: &Options,
    limits: &mut Limits,
    ids: &mut IdSource,
    mut batch: Vec<Box<dyn Request>>,
) -> bool {
    let mut verdicts = Vec::with_capacity(batch.len());
    match transaction(conn, options, limits, ids, &mut batch, &mut verdicts) {
        End::Settled => {
            for (request, verdict) in batch.into_iter().zip(verdicts) {
                request.answer(verdict);
            }
            true
        }
        End::Gone(error) => {
            // Rolled back before anybody hears of it and asks again.
            if !conn.is_autocommit() {
                let _ = conn.execute_batch("ROLLBACK");
            }
            answer(batch, Err(error));
            false
        }
    }
}

/// One order to the transaction, kept compiled: there are three of them and more around each operation.
fn order(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

fn transaction(
    conn: &Connection,
    options: &Options,
    limits: &mut Limits,
    ids: &mut IdSource,
    batch: &mut [Box<dyn Request>],
    verdicts: &mut Vec<Result<(), StoreError>>,
) -> End {
    let gone = |word| End::Gone(StoreError::Unavailable(word));
    if let Err(e) = order(conn, "BEGIN IMMEDIATE") {
        return gone(fail::word(&e));
    }
    let mut wrote = false;
    // Whoever is alone is undone with the transaction. A savepoint keeps a copy of every page that is written.
    let shared = batch.len() > 1;
    for request in batch.iter_mut() {
        if shared && let Err(e) = order(conn, "SAVEPOINT one") {
            return gone(fail::word(&e));
        }
        let before = conn.total_changes();
        let mut tx = Tx { conn, limits: &mut *limits, clock_ms: options.clock_ms, ids: &mut *ids };
        let done = catch_unwind(AssertUnwindSafe(|| request.perform(&mut tx)));
        // The panic was printed by the hook; here it is one operation that failed.
        let done = done.unwrap_or(Err(Fail::Word("operation_panicked")));
        if conn.is_autocommit() {
            return gone(done.err().map_or("transaction_lost", |fail| fail.word()));
        }
        let done = done.map_err(|fail| StoreError::Unavailable(fail.word()));
        wrote |= done.is_ok() && conn.total_changes() != before;
        let undone = if shared && done.is_err() { order(conn, "ROLLBACK TO one") } else { Ok(()) };
        if let Err(e) = undone.and_then(|()| if shared { order(conn, "RELEASE one") } else { Ok(()) }) {
            return gone(fail::word(&e));
        }
        verdicts.push(done);
    }
    // Without a change there is nothing to commit, and a commit after a rolled-back savepoint
    // would still write and sync a page.
    match order(conn, if wrote { "COMMIT" } else { "ROLLBACK" }) {
        Ok(()) => End::Settled,
        Err(e) if !wrote => gone(fail::word(&e)),
        // Refused before anything was written; rolled back, so it is known.
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => gone("store_busy"),
        // SQLite says so only of a write that was cut short, and the commit record is written last: it
        // is not whole, and opening again passes it over. A full disk is called by its name.
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DiskFull) => gone("storage_full"),
        // The commit record may be on disk or not. Opening again decides it.
        Err(_) => End::Gone(UNKNOWN),
    }
}

/// Lets new ids start above every stored one, so that they rise across restarts too: an append
/// stays an append, and the audit's order is the order of writing, whatever the wall clock did.
fn prime(conn: &Connection, ids: &mut IdSource) -> rusqlite::Result<()> {
    let newest = "SELECT max(id) FROM (SELECT max(id) AS id FROM runs
        UNION ALL SELECT (SELECT max(id) FROM audit WHERE project = projects.id) FROM projects)";
    let newest: Option<Uuid> = conn.query_row(newest, [], |row| row.get(0))?;
    if let Some(newest) = newest {
        let millisecond = newest.as_bytes()[..6].iter().fold(0, |ms, byte| ms << 8 | i64::from(*byte));
        ids.next(millisecond + 1, [0; 10]);
    }
    Ok(())
}
