//! The one way a Run comes to be: queued, with its first Attempt and its first two events.

use super::event::{self, Fact, Place};
use super::fail::Fail;
use super::start::Admitted;
use super::tx::Tx;
use crate::model::event::{Actor, EventType};
use crate::model::id::{AttemptId, RunId};
use crate::model::life::{AttemptState, RunMove, RunState};
use crate::model::name::Name;
use crate::model::task::TaskRef;
use rusqlite::params;

/// A Run to be made. Whoever makes it has checked everything that can be checked.
pub(super) struct NewRun<'a> {
    pub(super) project: &'a Name,
    pub(super) task: &'a Name,
    /// The pinned revision.
    pub(super) task_ref: TaskRef,
    /// `manual` or `trigger`.
    pub(super) origin: &'static str,
    pub(super) trigger_type: &'static str,
    /// The trigger that makes it, and its revision.
    pub(super) trigger: Option<(&'a Name, i64)>,
    /// It waits until no earlier Run of its trigger goes on.
    pub(super) serial: bool,
    /// The instant it was scheduled for.
    pub(super) scheduled_for_ms: Option<i64>,
    /// The Run whose end starts it, and how many led to one another before.
    pub(super) cause: Option<(RunId, i64)>,
    /// The ended Run that is tried again with it.
    pub(super) retry_of: Option<RunId>,
    /// What makes it the same Run when it is asked for again.
    pub(super) key: &'a str,
    pub(super) actor: &'a Actor,
    /// What `run.created` says.
    pub(super) facts: &'a [Fact<'a>],
}

/// Inserts it in the caller's transaction.
pub(super) fn insert(tx: &mut Tx<'_>, new: &NewRun<'_>) -> Result<Admitted, Fail> {
    let now_ms = tx.now_ms();
    let (run, attempt) = (RunId(tx.id(now_ms)?), AttemptId(tx.id(now_ms)?));
    let state = RunState::Created.after(RunMove::Queue).ok_or(Fail::Word("run_record_damaged"))?;
    let sql = "INSERT INTO runs (id, project, task, task_revision, task_digest, status, version, event_sequence,
            priority, origin, trigger_type, idempotency_key, created_at_ms, queued_at_ms, retry_of, trigger_id,
            trigger_revision, scheduled_for_ms, cause_run, chain_depth, serial)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, 2, 2, 0, ?7, ?8, ?9, ?10, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    tx.change(
        sql,
        params![
            run,
            new.project,
            new.task,
            new.task_ref.revision,
            new.task_ref.digest,
            state,
            new.origin,
            new.trigger_type,
            new.key,
            now_ms,
            new.retry_of,
            new.trigger.map(|(id, _)| id),
            new.trigger.map(|(_, revision)| revision),
            new.scheduled_for_ms,
            new.cause.map(|(run, _)| run),
            new.cause.map(|(_, depth)| depth),
            new.serial.then_some(1),
        ],
    )?;
    insert_attempt(tx, run, 1, attempt, now_ms)?;
    let place = |sequence| Place { run, sequence, attempt_number: None, actor: new.actor, at_ms: now_ms };
    event::append(tx, &place(1), EventType::Run(RunState::Created), new.facts)?;
    event::append(tx, &place(2), EventType::Run(state), &[])?;
    Ok(Admitted { run, attempt, task: new.task.clone(), task_ref: new.task_ref, queued_at_ms: now_ms })
}

/// Inserts a claimed Attempt.
pub(super) fn insert_attempt(
    tx: &Tx<'_>,
    run: RunId,
    number: i64,
    attempt: AttemptId,
    now_ms: i64,
) -> Result<(), Fail> {
    let sql = "INSERT INTO attempts (run, number, id, status, callback_sequence, created_at_ms)
        VALUES (?1, ?2, ?3, ?4, 0, ?5)";
    tx.change(sql, params![run, number, attempt, AttemptState::Claimed, now_ms])?;
    Ok(())
}

/// The Run that was made under this key.
pub(super) fn find(tx: &Tx<'_>, project: &Name, key: &str) -> Result<Option<RunId>, Fail> {
    let sql = "SELECT id FROM runs WHERE project = ?1 AND idempotency_key = ?2";
    tx.find(sql, params![project, key], |row| row.get(0))
}

/// Whether no more Runs may wait, those for another Attempt included. Counted in the index of what is
/// open, so the history costs nothing.
pub(super) fn is_full(tx: &Tx<'_>) -> Result<bool, Fail> {
    let sql = "SELECT count(*) FROM runs INDEXED BY runs_open
        WHERE finished_at_ms IS NULL AND status IN ('queued', 'retry_wait')";
    let waiting: i64 = tx.row(sql, &[], |row| row.get(0))?;
    Ok(waiting >= tx.limits.queued_runs as i64)
}
