//! Reads of Runs, Attempts and events.

use super::fail::Fail;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::EventType;
use crate::model::id::{AttemptId, RunId};
use crate::model::life::{AttemptState, RunState};
use crate::model::limits;
use crate::model::name::Name;
use crate::model::record::{Attempt, End, Event, LogPlace, LogRetired, Run};
use crate::model::task::TaskRef;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension as _, Row, params, params_from_iter};

const RUN: &str = "id, task, task_revision, task_digest, status, version, event_sequence, priority, origin, trigger_id,
    created_at_ms, queued_at_ms, started_at_ms, finished_at_ms, cancel_requested_at_ms, cancel_reason, error_code,
    next_attempt_at_ms, retry_of";

fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get(0)?,
        task: row.get(1)?,
        task_ref: TaskRef { revision: row.get(2)?, digest: row.get(3)? },
        state: row.get(4)?,
        version: row.get(5)?,
        event_sequence: row.get(6)?,
        priority: row.get(7)?,
        origin: row.get(8)?,
        trigger: row.get(9)?,
        created_at_ms: row.get(10)?,
        queued_at_ms: row.get(11)?,
        started_at_ms: row.get(12)?,
        finished_at_ms: row.get(13)?,
        cancel_requested_at_ms: row.get(14)?,
        cancel_reason: row.get(15)?,
        error_code: row.get(16)?,
        next_attempt_at_ms: row.get(17)?,
        retry_of: row.get(18)?,
        attempt: None,
    })
}

/// Reads an Attempt from the columns id, number, status, the three times, log artifact, handle and
/// how it ended (the last of them `descendants IS NOT NULL`), which start at `at`.
pub(super) fn read_attempt(row: &Row<'_>, at: usize) -> rusqlite::Result<Attempt> {
    Ok(Attempt {
        id: row.get(at)?,
        number: row.get(at + 1)?,
        state: row.get(at + 2)?,
        created_at_ms: row.get(at + 3)?,
        started_at_ms: row.get(at + 4)?,
        finished_at_ms: row.get(at + 5)?,
        log_artifact: row.get(at + 6)?,
        handle: row.get(at + 7)?,
        end: End {
            exit_code: row.get(at + 8)?,
            signal: row.get(at + 9)?,
            error_code: row.get(at + 10)?,
            error_summary: row.get(at + 11)?,
            log_complete: row.get(at + 12)?,
            leftovers: row.get(at + 13)?,
            unproven: row.get(at + 14)?,
        },
    })
}

fn attempt(tx: &Tx<'_>, run: RunId, number: Option<i64>) -> Result<Option<Attempt>, Fail> {
    let sql = "SELECT id, number, status, created_at_ms, started_at_ms, finished_at_ms,
            CASE WHEN log_retired_at_ms IS NULL THEN log_artifact END, handle, exit_code, signal, error_code, error_summary, log_complete, leftovers,
            descendants IS NOT NULL
        FROM attempts WHERE run = ?1 AND number = coalesce(?2, (SELECT max(number) FROM attempts WHERE run = ?1))";
    let mut query = tx.conn.prepare_cached(sql)?;
    Ok(query.query_row(params![run, number], |row| read_attempt(row, 0)).optional()?)
}

fn exists(tx: &Tx<'_>, project: &Name, run: RunId) -> Result<bool, Fail> {
    let sql = "SELECT 1 FROM runs WHERE id = ?1 AND project = ?2";
    Ok(tx.conn.prepare_cached(sql)?.exists(params![run, project])?)
}

/// Reads one Run with its latest Attempt, or with Attempt `number`. `None`: no such Run in the project.
pub struct GetRun {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
    /// Which Attempt; the latest when `None`.
    pub attempt_number: Option<i64>,
}

impl Operation for GetRun {
    type Out = Option<Run>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = format!("SELECT {RUN} FROM runs WHERE id = ?1 AND project = ?2");
        let mut query = tx.conn.prepare_cached(&sql)?;
        let found = query.query_row(params![self.run, self.project], read_run).optional()?;
        let Some(mut run) = found else { return Ok(None) };
        run.attempt = attempt(tx, self.run, self.attempt_number)?;
        Ok(Some(run))
    }
}

/// Where a page of Runs goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunCursor {
    /// The last Run's creation time.
    pub created_at_ms: i64,
    /// The last Run's id.
    pub run: RunId,
}

/// Reads one page of Runs, newest first. Attempts are not read.
pub struct ListRuns {
    /// The project.
    pub project: Name,
    /// Only this task's.
    pub task: Option<Name>,
    /// Only those in this state.
    pub state: Option<RunState>,
    /// Only older ones than this.
    pub after: Option<RunCursor>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListRuns {
    /// The page and whether there are more.
    type Out = (Vec<Run>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = self.limit.min(limits::PAGE_MAX);
        let sql = self.sql();
        // Without a cursor: later than anything that can be stored, and greater than every id.
        let (created_at_ms, id) =
            self.after.map_or((i64::MAX, [0xff; 16]), |after| (after.created_at_ms, *after.run.0.as_bytes()));
        let mut values = vec![Value::from(self.project.to_string()), created_at_ms.into(), id.to_vec().into()];
        values.extend(self.task.map(|task| task.to_string().into()));
        let mut query = tx.conn.prepare_cached(&sql)?;
        let rows = query.query_map(params_from_iter(values), read_run)?;
        let mut page = rows.take(limit + 1).collect::<Result<Vec<_>, _>>()?;
        let more = page.len() > limit;
        page.truncate(limit);
        Ok((page, more))
    }
}

impl ListRuns {
    /// One text for each combination of filters, each part held to the index that answers it in order.
    /// Where no state is asked for, the parts are merged as they are read, so a page costs a page.
    pub(super) fn sql(&self) -> String {
        let task = if self.task.is_some() { " AND task = ?4" } else { "" };
        let part = |state: &str, index: &str, over: &str| {
            format!(
                "SELECT {RUN} FROM runs INDEXED BY {index} WHERE project = ?1{task} AND finished_at_ms {over}{state}
                AND (created_at_ms, id) < (?2, ?3)"
            )
        };
        let ended = if self.task.is_some() { "runs_ended_by_task" } else { "runs_ended" };
        let of_state = |state: RunState| {
            let word = format!(" AND status = '{}'", state.word());
            if state.is_terminal() { part(&word, ended, "IS NOT NULL") } else { part(&word, "runs_open", "IS NULL") }
        };
        let parts = if let Some(state) = self.state {
            of_state(state)
        } else {
            let ended = RunState::ALL.iter().filter(|state| state.is_terminal()).map(|state| of_state(*state));
            ended.chain([part("", "runs_open", "IS NULL")]).collect::<Vec<_>>().join(" UNION ALL ")
        };
        // What is open is sorted by age: it is as small as the queue.
        format!("{parts} ORDER BY created_at_ms DESC, id DESC")
    }
}

/// Reads one page of a Run's events in order. `None`: no such Run in the project.
pub struct ListEvents {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
    /// Only sequences greater than this.
    pub after_sequence: i64,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListEvents {
    /// The page and whether there are more.
    type Out = Option<(Vec<Event>, bool)>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        if !exists(tx, &self.project, self.run)? {
            return Ok(None);
        }
        let limit = self.limit.min(limits::PAGE_MAX);
        let sql = "SELECT sequence, type, actor_type, created_at_ms FROM run_events
            WHERE run = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3";
        let mut query = tx.conn.prepare_cached(sql)?;
        let mut rows = query.query(params![self.run, self.after_sequence, limit + 1])?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            let kind = EventType::parse(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
            page.push(Event {
                sequence: row.get(0)?,
                kind: kind.ok_or(Fail::Word("record_damaged"))?,
                actor_type: row.get(2)?,
                created_at_ms: row.get(3)?,
            });
        }
        let more = page.len() > limit;
        page.truncate(limit);
        Ok(Some((page, more)))
    }
}

/// Finds an Attempt's log. `None`: no such Attempt of that Run in the project.
pub struct LocateLog {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
    /// Which Attempt.
    pub attempt: AttemptId,
}

impl Operation for LocateLog {
    type Out = Option<LogPlace>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        if !exists(tx, &self.project, self.run)? {
            return Ok(None);
        }
        let sql = "SELECT log_artifact, status, log_retired_at_ms, log_retired_bytes, log_retired_truncated
            FROM attempts WHERE run = ?1 AND id = ?2";
        let mut query = tx.conn.prepare_cached(sql)?;
        let found = query.query_row(params![self.run, self.attempt], |row| {
            if let Some(at_ms) = row.get(2)? {
                return Ok(LogPlace::Retired(LogRetired { at_ms, bytes: row.get(3)?, truncated: row.get(4)? }));
            }
            let state: AttemptState = row.get(1)?;
            Ok(match row.get(0)? {
                Some(artifact) => LogPlace::File { artifact, active: state.is_active() },
                None => LogPlace::Pending,
            })
        });
        Ok(found.optional()?)
    }
}

/// Counts Runs by state, for `status`: queued, dispatching or running, lost.
pub struct CountRuns;

/// How many Runs are where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunCounts {
    /// Waiting for a place.
    pub queued: usize,
    /// Waiting for another Attempt.
    pub retry_wait: usize,
    /// Dispatching or running.
    pub active: usize,
    /// Lost and not settled.
    pub lost: usize,
}

impl Operation for CountRuns {
    type Out = RunCounts;

    fn perform(self, tx: &mut Tx<'_>) -> Result<RunCounts, Fail> {
        let sql = "SELECT status, count(*) FROM runs INDEXED BY runs_open WHERE finished_at_ms IS NULL GROUP BY status";
        let mut query = tx.conn.prepare_cached(sql)?;
        let mut rows = query.query([])?;
        let mut counts = RunCounts::default();
        while let Some(row) = rows.next()? {
            let count: usize = row.get(1)?;
            match row.get(0)? {
                RunState::Queued => counts.queued += count,
                RunState::RetryWait => counts.retry_wait += count,
                RunState::Dispatching | RunState::Running => counts.active += count,
                RunState::Lost => counts.lost += count,
                _ => {}
            }
        }
        Ok(counts)
    }
}
