//! Group commit: the queued requests of one turn in one transaction, each in its own savepoint,
//! one commit, then all the answers (design D2).
//!
//! `SQLite` may roll back the WHOLE transaction by itself (full disk, I/O, memory), and the next
//! SAVEPOINT would then silently open a transaction of its own. So after every error, and after
//! every operation, autocommit is looked at: if the transaction is gone, nobody's change is there,
//! everybody is told so, and nothing more of the batch runs.

use super::fail::{self, Fail};
use super::open::{self, Options};
use super::state::StateError;
use super::thread::{StoreError, UNKNOWN};
use super::tx::Tx;
use crate::model::id::{IdSource, Uuid};
use crate::model::limits::Limits;
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
}

impl Keeper {
    pub(super) fn new(folder: PathBuf, options: Options, conn: Connection) -> Result<Self, StateError> {
        let mut ids = IdSource::default();
        prime(&conn, &mut ids)
            .map_err(|e| StateError::new(format!("cannot read the newest ids of the store ({e}): restore a backup")))?;
        Ok(Self { folder, limits: *options.limits, options, conn: Some(conn), ids })
    }

    /// Runs one batch and answers everybody in it, exactly once.
    pub(super) fn run(&mut self, mut batch: Vec<Box<dyn Request>>) {
        let mut verdicts = Vec::with_capacity(batch.len());
        let end = match self.connection() {
            Ok(()) => self.transaction(&mut batch, &mut verdicts),
            Err(fail) => End::Gone(StoreError::Unavailable(fail.word())),
        };
        if let End::Gone(error) = end {
            self.let_go();
            verdicts.clear();
            verdicts.resize(batch.len(), Err(error));
        }
        for (request, verdict) in batch.into_iter().zip(verdicts) {
            request.answer(verdict);
        }
    }

    pub(super) fn close(&mut self) {
        if let Some(conn) = self.conn.take() {
            open::close(conn);
        }
    }

    fn connection(&mut self) -> Result<(), Fail> {
        if self.conn.is_none() {
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

    fn transaction(&mut self, batch: &mut [Box<dyn Request>], verdicts: &mut Vec<Result<(), StoreError>>) -> End {
        let Some(conn) = self.conn.as_ref() else { return End::Gone(StoreError::Unavailable("storage_unavailable")) };
        let gone = |word| End::Gone(StoreError::Unavailable(word));
        if let Err(e) = conn.execute_batch("BEGIN IMMEDIATE") {
            return gone(fail::word(&e));
        }
        let mut wrote = false;
        for request in batch.iter_mut() {
            if let Err(e) = conn.execute_batch("SAVEPOINT one") {
                return gone(fail::word(&e));
            }
            let before = conn.total_changes();
            let limits = &mut self.limits;
            let mut tx = Tx { conn, limits, clock_ms: self.options.clock_ms, ids: &mut self.ids };
            let done = catch_unwind(AssertUnwindSafe(|| request.perform(&mut tx)));
            // The panic was printed by the hook; here it is one operation that failed.
            let done = done.unwrap_or(Err(Fail::Word("operation_panicked")));
            if conn.is_autocommit() {
                return gone(done.err().map_or("transaction_lost", |fail| fail.word()));
            }
            let (after, verdict) = match done {
                Ok(()) => {
                    wrote |= conn.total_changes() != before;
                    ("RELEASE one", Ok(()))
                }
                Err(fail) => ("ROLLBACK TO one; RELEASE one", Err(StoreError::Unavailable(fail.word()))),
            };
            if let Err(e) = conn.execute_batch(after) {
                return gone(fail::word(&e));
            }
            verdicts.push(verdict);
        }
        // Without a change there is nothing to commit, and a commit after a rolled-back savepoint
        // would still write and sync a page.
        match conn.execute_batch(if wrote { "COMMIT" } else { "ROLLBACK" }) {
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
