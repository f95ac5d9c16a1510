//! The receipt journal: which Attempts may have a receipt on disk that nobody has dealt with yet
//! (spec/execution section 4). A row stands from before the spawn until the receipt is deleted.

use super::fail::Fail;
use super::start::{ListResolvable, QuarantineReceipt, Resolvable, Resolve, Step};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::{AttemptId, RunId};
use crate::model::limits;
use rusqlite::params;

/// Notes, in T2's transaction, that a receipt of this Attempt may come to be.
pub(super) fn register(tx: &Tx<'_>, attempt: AttemptId, run: RunId, number: i64, now_ms: i64) -> Result<(), Fail> {
    let sql = "INSERT INTO receipt_journal VALUES (?1, ?2, ?3, 'pending', ?4)";
    tx.change(sql, params![attempt, run, number, now_ms])?;
    Ok(())
}

/// Takes rows out whose receipts are deleted, only those of ended Attempts: an active one's receipt
/// may still come.
pub(super) fn resolve(tx: &Tx<'_>, attempts: &[AttemptId]) -> Result<(), Fail> {
    let sql = "DELETE FROM receipt_journal WHERE attempt = ?1 AND EXISTS (SELECT 1 FROM attempts a
        WHERE a.run = receipt_journal.run AND a.number = receipt_journal.number
        AND a.status NOT IN ('claimed', 'starting', 'running'))";
    for attempt in attempts.iter().take(limits::RESOLVED_MAX) {
        tx.change(sql, params![attempt])?;
    }
    Ok(())
}

impl Operation for ListResolvable {
    type Out = Vec<Resolvable>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        // The journal holds one row for each Attempt that is active, was just ended, or ended
        // without a receipt not long ago. Without ownership there was no release, so no receipt.
        let sql = "SELECT j.attempt, j.status = 'quarantined',
                CASE WHEN j.status = 'quarantined' THEN max(j.updated_at_ms, coalesce(a.finished_at_ms, 0))
                    WHEN a.callback_sequence = 0 AND a.started_at_ms IS NOT NULL THEN a.finished_at_ms END
            FROM receipt_journal j JOIN attempts a ON a.run = j.run AND a.number = j.number
            WHERE a.status NOT IN ('claimed', 'starting', 'running') AND j.attempt > ?1
            ORDER BY j.attempt LIMIT ?2";
        let mut query = tx.conn.prepare_cached(sql)?;
        let after = self.after.map_or([0; 16], |attempt| *attempt.0.as_bytes());
        let rows = query.query_map(params![after, self.limit.min(limits::RESOLVED_MAX)], |row| {
            Ok(Resolvable { attempt: row.get(0)?, quarantined: row.get(1)?, since_ms: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

impl Operation for Resolve {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        resolve(tx, &self.attempts)
    }
}

impl Operation for QuarantineReceipt {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        let sql = "UPDATE receipt_journal SET status = 'quarantined', updated_at_ms = ?3
            WHERE attempt = ?1 AND run = ?2 AND status = 'pending'";
        let changed = tx.change(sql, params![self.attempt, self.run, tx.now_ms()])?;
        Ok(if changed == 1 { Step::Done } else { Step::Raced })
    }
}
