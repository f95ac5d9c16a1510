//! Another Attempt of the same Run: whether there is one, when it is due, and making it
//! (spec/execution section 1.4, design D9 and D14).
//!
//! Whether there is one is decided in the transaction that ends the Attempt before it, so that no
//! crash can forget it. The delay is kept on the boot clock: what another boot has counted says
//! nothing, so that after a reboot the whole delay begins again.

use super::advance::Live;
use super::definition;
use super::fail::Fail;
use super::queue;
use super::start::Step;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::{AttemptId, RunId, Uuid};
use crate::model::life::{AttemptState, CancelReason, RunState};
use crate::model::limits::{PAGE_MAX, TIME_MS_MAX};
use crate::model::name::Name;
use crate::model::task::TaskRef;
use rusqlite::params;

/// How long the Run waits for another Attempt after the one that has just ended; `None` when there is
/// none: the policy that was frozen at admission does not say so, somebody asked for its end, or the
/// task is not there or switched off by now. `unproven`: something of the Attempt may still run.
pub(super) fn delay(tx: &Tx<'_>, live: &Live, unproven: bool) -> Result<Option<i64>, Fail> {
    let asked = live.cancel.is_some_and(|(_, reason)| reason != CancelReason::Timeout);
    let timed_out = live.attempt_state == AttemptState::TimedOut;
    let may = matches!(live.attempt_state, AttemptState::Failed | AttemptState::TimedOut | AttemptState::Lost);
    if !may || !live.latest || asked || live.cancel.is_some() != timed_out {
        return Ok(None);
    }
    let sql = "SELECT project, task, task_revision, task_digest FROM runs WHERE id = ?1 AND no_retry IS NULL";
    let found = tx.find(sql, params![live.run], |row| {
        Ok((row.get::<_, Name>(0)?, row.get::<_, Name>(1)?, TaskRef { revision: row.get(2)?, digest: row.get(3)? }))
    })?;
    let Some((project, task, task_ref)) = found else { return Ok(None) };
    let Ok(pinned) = definition::executable(tx, &project, &task, task_ref)? else { return Ok(None) };
    let Some(policy) = pinned.command.retry else { return Ok(None) };
    let Some(delay_ms) = policy.delay_after(live.number, live.attempt_state, unproven) else { return Ok(None) };
    let enabled = definition::current(tx, &project, &task)?.is_some_and(|task| task.head.enabled);
    Ok(enabled.then_some(delay_ms))
}

/// Stores how long a Run waits from now on.
pub(super) fn note_wait(tx: &Tx<'_>, run: RunId, now_ms: i64, delay_ms: i64) -> Result<(), Fail> {
    let sql = "UPDATE runs SET next_attempt_delay_ms = ?2, next_attempt_at_ms = ?3, next_attempt_boot = NULL,
        next_attempt_boot_ms = NULL WHERE id = ?1";
    let at_ms = now_ms.saturating_add(delay_ms).min(TIME_MS_MAX);
    tx.change(sql, params![run, delay_ms, at_ms])?;
    Ok(())
}

/// Says that there must not be another Attempt, while a timeout's intent, which stays, is ending one.
/// Answers whether that is news.
pub(super) fn forbid(tx: &Tx<'_>, run: RunId) -> Result<bool, Fail> {
    let sql = "UPDATE runs SET no_retry = 1
        WHERE id = ?1 AND cancel_reason = 'timeout' AND no_retry IS NULL AND finished_at_ms IS NULL";
    Ok(tx.change(sql, params![run])? == 1)
}

/// Reads the Runs that wait for another Attempt, the earliest due first, after setting the time of
/// those that have none in this boot.
pub struct ListRetries {
    /// This boot.
    pub boot: Uuid,
    /// Milliseconds since it began.
    pub boot_ms: i64,
    /// At most so many.
    pub limit: usize,
}

/// A Run that waits for another Attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The Run.
    pub run: RunId,
    /// When its next Attempt is due, in milliseconds of this boot.
    pub due_boot_ms: i64,
}

impl Operation for ListRetries {
    type Out = Vec<Waiting>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Vec<Waiting>, Fail> {
        let boot = *self.boot.as_bytes();
        // Both walk the Runs that wait, of which there are at most as many as may be queued.
        let sql =
            "UPDATE runs SET next_attempt_boot = ?1, next_attempt_boot_ms = ?2 + coalesce(next_attempt_delay_ms, 0)
            WHERE id IN (SELECT id FROM runs INDEXED BY runs_open WHERE finished_at_ms IS NULL
                AND status = 'retry_wait' AND next_attempt_boot IS NOT ?1)";
        tx.change(sql, params![boot, self.boot_ms])?;
        let sql = "SELECT id, next_attempt_boot_ms FROM runs INDEXED BY runs_open
            WHERE finished_at_ms IS NULL AND status = 'retry_wait' AND cancel_requested_at_ms IS NULL
            ORDER BY next_attempt_boot_ms, id LIMIT ?1";
        tx.rows(sql, params![self.limit.min(PAGE_MAX)], |row| {
            Ok(Waiting { run: row.get(0)?, due_boot_ms: row.get(1)? })
        })
    }
}

/// T10: makes the next Attempt of a Run that waits for it and puts the Run in the queue again.
/// `Raced`: it does not wait any more, or somebody has asked for its end.
pub struct BeginRetry {
    /// The Run.
    pub run: RunId,
}

impl Operation for BeginRetry {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        let sql = "SELECT id FROM attempts WHERE run = ?1 ORDER BY number DESC LIMIT 1";
        let latest: Option<AttemptId> = tx.find(sql, params![self.run], |row| row.get(0))?;
        let Some(latest) = latest else { return Ok(Step::Raced) };
        let Some(mut live) = Live::load(tx, self.run, latest)? else { return Ok(Step::Raced) };
        if live.run_state != RunState::RetryWait || live.cancel.is_some() {
            return Ok(Step::Raced);
        }
        let Some(number) = live.queue_again(tx)? else { return Err(Fail::Word("version_conflict")) };
        let now_ms = live.now_ms;
        live.save(tx)?;
        let attempt = AttemptId(tx.id(now_ms)?);
        queue::insert_attempt(tx, self.run, number, attempt, now_ms)?;
        let sql = "UPDATE runs SET next_attempt_delay_ms = NULL, next_attempt_at_ms = NULL, next_attempt_boot = NULL,
            next_attempt_boot_ms = NULL WHERE id = ?1";
        tx.change(sql, params![self.run])?;
        Ok(Step::Done)
    }
}
