//! What is old and may go: logs, ended Runs with all that hangs on them, audit rows (design D11).
//!
//! Order is the order in which Runs ended, counted by the store itself, never a time: after the wall
//! clock has been wrong for a while, what ends next must not look like the oldest. The newest ended
//! Run is never removed, so that the count never begins again.
//!
//! Each operation is one bounded page. Files are the caller's business: a log's file goes before its
//! row says so, and both go before the Run (spec/execution section 9).

use super::fail::Fail;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::{EventId, RunId};
use crate::model::life::{AttemptState, RunState};
use crate::model::limits;
use crate::model::name::Name;
use crate::model::record::{ClockWatch, LogRetired};
use rusqlite::params;

/// The order of the Run that ended last; 0 before the first.
pub(super) fn newest_end(tx: &Tx<'_>) -> Result<i64, Fail> {
    let sql = "SELECT end_order FROM runs INDEXED BY runs_by_end WHERE end_order > 0 ORDER BY end_order DESC LIMIT 1";
    Ok(tx.find(sql, &[], |row| row.get(0))?.unwrap_or(0))
}

/// Reads what is known of the wall clock.
pub struct ReadClock;

/// What is known of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockKnown {
    /// The newest time that was ever stored for a Run or in the audit; 0 when there is none.
    pub newest_ms: i64,
    /// What was noted last.
    pub watch: Option<ClockWatch>,
}

impl Operation for ReadClock {
    type Out = ClockKnown;

    fn perform(self, tx: &mut Tx<'_>) -> Result<ClockKnown, Fail> {
        let sql = "SELECT finished_at_ms FROM runs INDEXED BY runs_by_end
            WHERE end_order > 0 ORDER BY end_order DESC LIMIT 1";
        let ended: Option<i64> = tx.find(sql, &[], |row| row.get(0))?;
        let mut newest_ms = ended.unwrap_or(0);
        for project in projects(tx)? {
            let sql = "SELECT at_ms FROM audit WHERE project = ?1 ORDER BY id DESC LIMIT 1";
            let audited: Option<i64> = tx.find(sql, params![&project], |row| row.get(0))?;
            newest_ms = newest_ms.max(audited.unwrap_or(0)).max(newest_admission(tx, &project)?);
        }
        let sql = "SELECT boot, anchor_ms, paused_until_ms FROM clock WHERE one = 1";
        let watch = tx.find(sql, &[], |row| {
            Ok(ClockWatch { boot: row.get(0)?, anchor_ms: row.get(1)?, paused_until_ms: row.get(2)? })
        })?;
        Ok(ClockKnown { newest_ms, watch })
    }
}

/// When the last Run was admitted, by the wall clock; 0 before the first.
fn newest_admission(tx: &Tx<'_>, project: &Name) -> Result<i64, Fail> {
    let sql = "SELECT max(created_at_ms) FROM runs INDEXED BY runs_open WHERE finished_at_ms IS NULL AND project = ?1";
    let mut newest: Option<i64> = tx.row(sql, params![project], |row| row.get(0))?;
    let sql = "SELECT max(created_at_ms) FROM runs INDEXED BY runs_ended
        WHERE finished_at_ms IS NOT NULL AND project = ?1 AND status = ?2";
    let mut query = tx.conn.prepare_cached(sql)?;
    for state in RunState::ALL.iter().filter(|state| state.is_terminal()) {
        newest = newest.max(query.query_row(params![project, state], |row| row.get(0))?);
    }
    Ok(newest.unwrap_or(0))
}

fn projects(tx: &Tx<'_>) -> Result<Vec<Name>, Fail> {
    let mut query = tx.conn.prepare_cached("SELECT id FROM projects ORDER BY id")?;
    let rows = query.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Notes how the wall clock stands. Written when a boot begins and when the clock stepped.
pub struct NoteClock(pub ClockWatch);

impl Operation for NoteClock {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let sql = "INSERT OR REPLACE INTO clock VALUES (1, ?1, ?2, ?3)";
        let ClockWatch { boot, anchor_ms, paused_until_ms } = self.0;
        tx.change(sql, params![boot, anchor_ms, paused_until_ms])?;
        Ok(())
    }
}

/// Reads the logs of Runs that have ended, oldest end first.
pub struct ListLogs {
    /// Only Runs that ended after this one, by its order.
    pub after: i64,
    /// The logs of at most so many Runs.
    pub limit: usize,
}

/// A log whose Run has ended and that was not removed by retention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptLog {
    /// Its Run's order.
    pub order: i64,
    /// Its Run.
    pub run: RunId,
    /// Which Attempt of it.
    pub number: i64,
    /// Its name.
    pub artifact: String,
    /// When the Attempt ended.
    pub finished_at_ms: i64,
    /// A receipt of the Attempt may still have to be dealt with: the log stays for now.
    pub held: bool,
    /// Nobody knows how the Attempt ended: the log stays as long as the Run does.
    pub lost: bool,
}

/// A page of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The logs. A Run may have none, or several.
    pub logs: Vec<KeptLog>,
    /// The order of the last Run that was looked at; the asked one when there was none.
    pub upto: i64,
    /// Whether there may be more Runs.
    pub more: bool,
}

impl Operation for ListLogs {
    type Out = LogPage;

    fn perform(self, tx: &mut Tx<'_>) -> Result<LogPage, Fail> {
        let limit = self.limit.min(limits::LOG_PAGE);
        let sql =
            "SELECT end_order, id FROM runs INDEXED BY runs_by_end WHERE end_order > ?1 ORDER BY end_order LIMIT ?2";
        let runs: Vec<(i64, RunId)> = tx.rows(sql, params![self.after, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut logs = Vec::new();
        let sql = "SELECT number, log_artifact, coalesce(finished_at_ms, created_at_ms), status,
                EXISTS (SELECT 1 FROM receipt_journal WHERE attempt = a.id)
            FROM attempts a WHERE run = ?1 AND log_artifact IS NOT NULL AND log_retired_at_ms IS NULL ORDER BY number";
        let mut query = tx.conn.prepare_cached(sql)?;
        for &(order, run) in &runs {
            let found = query.query_map([run], |row| {
                Ok(KeptLog {
                    order,
                    run,
                    number: row.get(0)?,
                    artifact: row.get(1)?,
                    finished_at_ms: row.get(2)?,
                    lost: row.get::<_, AttemptState>(3)? == AttemptState::Lost,
                    held: row.get(4)?,
                })
            })?;
            logs.extend(found.collect::<Result<Vec<_>, _>>()?);
        }
        let upto = runs.last().map_or(self.after, |(order, _)| *order);
        Ok(LogPage { logs, upto, more: runs.len() == limit })
    }
}

/// Says that logs were removed, after their files are gone. Each only if it still is as it was listed.
pub struct RetireLogs {
    /// Which, and what was there: Run, Attempt number, log.
    pub logs: Vec<(RunId, i64, LogRetired)>,
}

impl Operation for RetireLogs {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let sql = "UPDATE attempts SET log_retired_at_ms = ?3, log_retired_bytes = ?4, log_retired_truncated = ?5
            WHERE run = ?1 AND number = ?2 AND log_artifact IS NOT NULL AND log_retired_at_ms IS NULL
                AND status IN ('succeeded', 'failed', 'cancelled', 'timed_out')
                AND NOT EXISTS (SELECT 1 FROM receipt_journal WHERE attempt = attempts.id)";
        for (run, number, log) in self.logs {
            let bytes = i64::try_from(log.bytes).unwrap_or(i64::MAX);
            tx.change(sql, params![run, number, log.at_ms, bytes, log.truncated])?;
        }
        Ok(())
    }
}

/// Which ended Runs may go: those beyond the newest `keep`, and those that ended before an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunRule {
    /// So many are kept by count.
    pub keep: i64,
    /// The instants now and before which a Run is too old. `None`: age decides nothing, because the
    /// wall clock cannot be believed.
    pub age: Option<Age>,
}

/// What is too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// The wall clock now.
    pub now_ms: i64,
    /// What ended before this is too old.
    pub before_ms: i64,
}

impl Age {
    /// Whether something that ended at this time is too old, or, `None`, has no age, because it ended
    /// in what is now the future, or before there was this program: on a board whose clock began in
    /// 1970, minutes before it was set, and not half a century ago.
    pub fn is_over(self, finished_at_ms: i64) -> Option<bool> {
        let has_age = (limits::WRITTEN_AT_MS..=self.now_ms).contains(&finished_at_ms);
        has_age.then_some(finished_at_ms < self.before_ms)
    }
}

/// Reads which ended Runs may go, oldest end first. One with a receipt to be dealt with is left out.
pub struct ListOldRuns {
    /// The rule.
    pub rule: RunRule,
    /// Only Runs that ended after this one, by its order.
    pub after: i64,
    /// At most so many.
    pub limit: usize,
}

/// An ended Run that may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldRun {
    /// Its order.
    pub order: i64,
    /// The Run.
    pub run: RunId,
    /// Its logs that are still there; their files must go first.
    pub logs: Vec<String>,
}

impl Operation for ListOldRuns {
    /// The page; full means that there may be more.
    type Out = Vec<OldRun>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Vec<OldRun>, Fail> {
        let newest = newest_end(tx)?;
        let limit = self.limit.min(limits::PAGE_MAX);
        let sql = "SELECT end_order, id, finished_at_ms FROM runs INDEXED BY runs_by_end
            WHERE end_order > ?1 AND end_order < ?2 ORDER BY end_order";
        let mut query = tx.conn.prepare_cached(sql)?;
        let mut rows = query.query(params![self.after, newest])?;
        let mut page = Vec::new();
        while page.len() < limit
            && let Some(row) = rows.next()?
        {
            let (order, run): (i64, RunId) = (row.get(0)?, row.get(1)?);
            if order > newest - self.rule.keep {
                match self.rule.age.map(|age| Ok::<_, Fail>(age.is_over(row.get(2)?))).transpose()? {
                    Some(Some(true)) => {}
                    // Passed over, at most `keep` of them: ended when the clock was far off.
                    Some(None) => continue,
                    Some(Some(false)) | None => break,
                }
            }
            if let Some(logs) = free_logs(tx, run)? {
                page.push(OldRun { order, run, logs });
            }
        }
        Ok(page)
    }
}

/// The logs of a Run that are still there; `None` while a receipt of it has to be dealt with.
fn free_logs(tx: &Tx<'_>, run: RunId) -> Result<Option<Vec<String>>, Fail> {
    let sql = "SELECT CASE WHEN log_retired_at_ms IS NULL THEN log_artifact END,
            EXISTS (SELECT 1 FROM receipt_journal WHERE attempt = a.id)
        FROM attempts a WHERE run = ?1 ORDER BY number";
    let mut query = tx.conn.prepare_cached(sql)?;
    let mut rows = query.query([run])?;
    let mut logs = Vec::new();
    while let Some(row) = rows.next()? {
        if row.get(1)? {
            return Ok(None);
        }
        logs.extend(row.get::<_, Option<String>>(0)?);
    }
    Ok(Some(logs))
}

/// Removes ended Runs with their Attempts and events, in one transaction, each only if the rule still
/// says so. Their idempotency keys go with them: a start that is repeated after so long, by its
/// mutation id or for an instant of a schedule, would be a new Run.
pub struct DeleteRuns {
    /// The rule.
    pub rule: RunRule,
    /// Which.
    pub runs: Vec<RunId>,
}

impl Operation for DeleteRuns {
    /// How many were removed.
    type Out = usize;

    fn perform(self, tx: &mut Tx<'_>) -> Result<usize, Fail> {
        let newest = newest_end(tx)?;
        let mut removed = 0;
        for run in self.runs {
            let sql = "SELECT end_order, finished_at_ms FROM runs WHERE id = ?1 AND end_order IS NOT NULL";
            let ended = tx.find(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((order, finished_at_ms)): Option<(i64, i64)> = ended else { continue };
            let old = self.rule.age.is_some_and(|age| age.is_over(finished_at_ms) == Some(true));
            if order >= newest || !(old || order <= newest - self.rule.keep) || free_logs(tx, run)?.is_none() {
                continue;
            }
            for sql in [
                "DELETE FROM run_events WHERE run = ?1",
                "DELETE FROM attempts WHERE run = ?1",
                "DELETE FROM runs WHERE id = ?1",
            ] {
                tx.change(sql, params![run])?;
            }
            removed += 1;
        }
        Ok(removed)
    }
}

/// Removes a page of the oldest audit rows beyond the newest `keep` of a project.
pub struct TrimAudit {
    /// So many are kept for each project.
    pub keep: usize,
    /// At most so many are removed.
    pub limit: usize,
    /// Where the page before this one stopped; `None` for the first.
    pub on: Option<AuditEdge>,
}

/// The newest row of a project's audit that is to be removed; counted out once, then used for every
/// page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEdge {
    /// The project.
    pub project: Name,
    /// The row.
    pub row: EventId,
}

impl Operation for TrimAudit {
    /// What is left to be done, if anything is.
    type Out = Option<AuditEdge>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Option<AuditEdge>, Fail> {
        let edge = match self.on {
            Some(edge) => Some(edge),
            None => edge(tx, self.keep)?,
        };
        let Some(edge) = edge else { return Ok(None) };
        let sql = "DELETE FROM audit WHERE project = ?1 AND id IN
            (SELECT id FROM audit WHERE project = ?1 AND id <= ?2 ORDER BY id LIMIT ?3)";
        let removed = tx.change(sql, params![edge.project, edge.row, self.limit])?;
        Ok((removed == self.limit).then_some(edge))
    }
}

/// The first project with too many rows. Counting walks the rows that are kept and no more.
fn edge(tx: &Tx<'_>, keep: usize) -> Result<Option<AuditEdge>, Fail> {
    for project in projects(tx)? {
        let sql = "SELECT id FROM audit WHERE project = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2";
        let row = tx.find(sql, params![project, keep], |row| row.get(0))?;
        if let Some(row) = row {
            return Ok(Some(AuditEdge { project, row }));
        }
    }
    Ok(None)
}
