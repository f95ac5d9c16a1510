//! Cancelling the waiting Runs of a task or a trigger that was disabled or deleted, in the same
//! transaction (design D14): a deleted task must not run out of the queue.

use super::advance::Live;
use super::fail::Fail;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{AttemptId, RunId};
use crate::model::life::{AttemptMove, CancelReason, RunMove};
use crate::model::name::Name;
use rusqlite::params;

/// Cancels a task's, oldest first, and says which. The queue's cap bounds the work.
pub(super) fn queued_runs(tx: &mut Tx<'_>, project: &Name, task: &Name, actor: &Actor) -> Result<Vec<RunId>, Fail> {
    let sql = "SELECT r.id, (SELECT id FROM attempts WHERE run = r.id ORDER BY number DESC LIMIT 1)
        FROM runs r INDEXED BY runs_open WHERE r.finished_at_ms IS NULL AND r.status IN ('queued', 'retry_wait')
            AND r.project = ?1 AND r.task = ?2 ORDER BY r.id";
    cancel(tx, sql, project, task, actor)
}

/// Cancels those that a trigger made.
pub(super) fn runs_of_trigger(
    tx: &mut Tx<'_>,
    project: &Name,
    trigger: &Name,
    actor: &Actor,
) -> Result<Vec<RunId>, Fail> {
    let sql = "SELECT r.id, (SELECT id FROM attempts WHERE run = r.id ORDER BY number DESC LIMIT 1)
        FROM runs r INDEXED BY runs_open WHERE r.finished_at_ms IS NULL AND r.status IN ('queued', 'retry_wait')
            AND r.project = ?1 AND r.trigger_id = ?2 ORDER BY r.id";
    cancel(tx, sql, project, trigger, actor)
}

fn cancel(tx: &mut Tx<'_>, sql: &str, project: &Name, of: &Name, actor: &Actor) -> Result<Vec<RunId>, Fail> {
    let waiting: Vec<(RunId, AttemptId)> = tx.rows(sql, params![project, of], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (run, attempt) in &waiting {
        let mut live = Live::load(tx, *run, *attempt)?.ok_or(Fail::Word("run_record_damaged"))?;
        live.request_cancel(tx, CancelReason::Policy, actor)?;
        // One that waits for another Attempt has none that could be cancelled.
        let ended = !live.attempt_state.is_active() || live.move_attempt(tx, AttemptMove::Cancel, actor, &[])?;
        if !ended || !live.move_run(tx, RunMove::Cancel, actor, &[])? {
            return Err(Fail::Word("run_record_damaged"));
        }
        live.save(tx)?;
    }
    Ok(waiting.into_iter().map(|(run, _)| run).collect())
}
