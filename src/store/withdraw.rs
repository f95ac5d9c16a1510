//! Cancelling the waiting Runs of a task that was disabled or deleted, in the same transaction
//! (design D14): a deleted task must not run out of the queue.

use super::advance::Live;
use super::fail::Fail;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{AttemptId, RunId};
use crate::model::life::{AttemptMove, CancelReason, RunMove};
use crate::model::name::Name;
use rusqlite::params;

/// Cancels them all, oldest first, and says which. The queue's cap bounds the work.
pub(super) fn queued_runs(tx: &mut Tx<'_>, project: &Name, task: &Name, actor: &Actor) -> Result<Vec<RunId>, Fail> {
    let queued: Vec<(RunId, AttemptId)> = {
        let sql = "SELECT r.id, (SELECT id FROM attempts WHERE run = r.id ORDER BY number DESC LIMIT 1)
            FROM runs r INDEXED BY runs_open
            WHERE r.finished_at_ms IS NULL AND r.status IN ('queued', 'retry_wait') AND r.project = ?1 AND r.task = ?2 ORDER BY r.id";
        let mut query = tx.conn.prepare_cached(sql)?;
        let rows = query.query_map(params![project, task], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect::<Result<_, _>>()?
    };
    for (run, attempt) in &queued {
        let mut live = Live::load(tx, *run, *attempt)?.ok_or(Fail::Word("run_record_damaged"))?;
        live.request_cancel(tx, CancelReason::Policy, actor)?;
        // One that waits for another Attempt has none that could be cancelled.
        let ended = !live.attempt_state.is_active() || live.move_attempt(tx, AttemptMove::Cancel, actor, &[])?;
        if !ended || !live.move_run(tx, RunMove::Cancel, actor, &[])? {
            return Err(Fail::Word("run_record_damaged"));
        }
        live.save(tx)?;
    }
    Ok(queued.into_iter().map(|(run, _)| run).collect())
}
