//! Trying an ended Run again by hand: always a new Run, pinned to the same revision
//! (spec/execution section 1.4). What has ended is never opened again.

use super::audit;
use super::definition;
use super::event::Fact;
use super::fail::Fail;
use super::fence;
use super::queue::{self, NewRun};
use super::start::{AdmitRetry, Admitted, Retried};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::RunId;
use crate::model::life::RunState;
use crate::model::name::Name;
use crate::model::policy::Permission;
use crate::model::task::TaskRef;
use crate::model::word::FenceReason;
use rusqlite::params;

const OPERATION: &str = "run.retry";
const MINUTE_MS: i64 = 60_000;

impl Operation for AdmitRetry {
    type Out = Retried;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Retried, Fail> {
        let by = &self.authority;
        let target = self.run.to_string();
        if fence::held(tx, by, Permission::RunRetry)?.is_none() {
            return Ok(Retried::Refused(audit::fenced(tx, by, OPERATION, &target)?));
        }
        // Before anything else is looked at, so that a replay is answered whatever came meanwhile.
        let key = format!("ql3:run-retry:v1:{}", self.mutation);
        if let Some(made) = queue::find(tx, &by.project, &key)? {
            return self.replay(tx, made);
        }
        let Some((task, task_ref, state)) = source(tx, &by.project, self.run)? else { return Ok(Retried::NotFound) };
        if !matches!(state, RunState::Failed | RunState::Cancelled | RunState::TimedOut) {
            return Ok(Retried::NotEnded(state));
        }
        let current = match definition::current(tx, &by.project, &task) {
            Ok(Some(current)) => current,
            Ok(None) => return Ok(Retried::TaskNotFound),
            Err(Fail::Word(word)) => return Ok(Retried::Unavailable(word)),
            Err(fail) => return Err(fail),
        };
        if !current.head.enabled {
            return Ok(Retried::Refused(FenceReason::TaskDisabled));
        }
        let execution = match definition::executable(tx, &by.project, &task, task_ref)? {
            Ok(executable) => executable.digest,
            Err(why) => return Ok(Retried::Unavailable(why.word())),
        };
        if queue::is_full(tx)? {
            return Ok(Retried::Unavailable("queue_full"));
        }
        let actor = Actor::Subject(by.subject.clone());
        if lately(tx, &by.project, &actor)? >= i64::from(tx.limits.manual_retries_per_minute) {
            return Ok(Retried::TooMany);
        }
        let facts = [
            Fact::RetryOf(self.run),
            Fact::Definition(task_ref.digest),
            Fact::Execution(execution),
            Fact::Mutation(self.mutation),
            Fact::Fence(by.fence),
        ];
        let new = NewRun {
            project: &by.project,
            task: &task,
            task_ref,
            origin: "manual",
            trigger_type: "run_retry",
            trigger: None,
            serial: false,
            scheduled_for_ms: None,
            cause: None,
            retry_of: Some(self.run),
            key: &key,
            actor: &actor,
            facts: &facts,
        };
        let admitted = queue::insert(tx, &new)?;
        audit::allowed(tx, by, OPERATION, &target)?;
        Ok(Retried::Accepted(admitted))
    }
}

impl AdmitRetry {
    /// Answers from what is stored, when it is this very request.
    fn replay(&self, tx: &Tx<'_>, made: RunId) -> Result<Retried, Fail> {
        let sql = "SELECT r.task, r.task_revision, r.task_digest, r.queued_at_ms, r.retry_of, a.id, e.actor_type,
                e.actor_id
            FROM runs r JOIN attempts a ON a.run = r.id AND a.number = 1
                JOIN run_events e ON e.run = r.id AND e.sequence = 1
            WHERE r.id = ?1";
        let (admitted, same) = tx.row(sql, params![made], |row| {
            let task_ref = TaskRef { revision: row.get(1)?, digest: row.get(2)? };
            let admitted =
                Admitted { run: made, attempt: row.get(5)?, task: row.get(0)?, task_ref, queued_at_ms: row.get(3)? };
            let by = &self.authority.subject;
            let same = row.get::<_, Option<RunId>>(4)? == Some(self.run)
                && row.get::<_, String>(6)? == by.kind.word()
                && row.get::<_, Option<String>>(7)?.as_deref() == Some(&*by.id);
            Ok((admitted, same))
        })?;
        Ok(if same { Retried::Existing(admitted) } else { Retried::Refused(FenceReason::MutationConflict) })
    }
}

fn source(tx: &Tx<'_>, project: &Name, run: RunId) -> Result<Option<(Name, TaskRef, RunState)>, Fail> {
    let sql = "SELECT task, task_revision, task_digest, status FROM runs WHERE id = ?1 AND project = ?2";
    tx.find(sql, params![run, project], |row| {
        Ok((row.get(0)?, TaskRef { revision: row.get(1)?, digest: row.get(2)? }, row.get(3)?))
    })
}

/// How many Runs this subject has tried again within the last minute. What the wall clock calls the
/// future does not count, so that a clock that was ahead cannot refuse for ever.
fn lately(tx: &Tx<'_>, project: &Name, actor: &Actor) -> Result<i64, Fail> {
    let sql = "SELECT count(*) FROM (
            SELECT id FROM runs INDEXED BY runs_ended WHERE finished_at_ms IS NOT NULL AND project = ?1
                AND status IN ('succeeded', 'failed', 'cancelled', 'timed_out')
                AND created_at_ms > ?2 - ?3 AND created_at_ms <= ?2 AND retry_of IS NOT NULL
            UNION ALL SELECT id FROM runs INDEXED BY runs_open WHERE finished_at_ms IS NULL AND project = ?1
                AND created_at_ms > ?2 - ?3 AND created_at_ms <= ?2 AND retry_of IS NOT NULL
        ) r JOIN run_events e ON e.run = r.id AND e.sequence = 1
        WHERE e.actor_type = ?4 AND e.actor_id IS ?5";
    let mut query = tx.conn.prepare_cached(sql)?;
    let values = params![project, tx.now_ms(), MINUTE_MS, actor.type_word(), actor.id()];
    Ok(query.query_row(values, |row| row.get(0))?)
}
