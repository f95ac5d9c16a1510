//! What may be started next, and what is under way.

use super::advance::read_deadline;
use super::definition;
use super::fail::Fail;
use super::runs::read_attempt;
use super::start::{Candidate, Cause, CountActive, InFlight, ListCandidates, ListInFlight};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::command::Leftovers;
use crate::model::id::RunId;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::task::TaskRef;
use rusqlite::params;

impl Operation for ListCandidates {
    type Out = Vec<Candidate>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = "SELECT r.id, a.id, a.number, r.project, r.task, r.task_revision, r.task_digest, r.trigger_id,
                r.scheduled_for_ms, r.cause_run
            FROM runs r INDEXED BY runs_open JOIN attempts a ON a.run = r.id
            WHERE r.finished_at_ms IS NULL AND r.status = 'queued' AND r.cancel_requested_at_ms IS NULL
                AND a.status = 'claimed' AND a.number = (SELECT max(number) FROM attempts WHERE run = r.id)
                AND (r.serial IS NULL OR NOT EXISTS (SELECT 1 FROM runs o INDEXED BY runs_open
                    WHERE o.finished_at_ms IS NULL AND o.status IN ('dispatching', 'running', 'retry_wait')
                        AND o.project = r.project AND o.trigger_id = r.trigger_id))
            ORDER BY r.priority DESC, r.created_at_ms, r.id";
        let mut query = tx.conn.prepare_cached(sql)?;
        let mut rows = query.query([])?;
        let mut page = Vec::new();
        let limit = self.limit.min(limits::PAGE_MAX);
        while page.len() < limit
            && let Some(row) = rows.next()?
        {
            let run = row.get(0)?;
            if self.except.contains(&run) {
                continue;
            }
            let cause = row.get::<_, Option<RunId>>(9)?.map(|run| cause(tx, run)).transpose()?.flatten();
            let (project, task) = (row.get(3)?, row.get(4)?);
            let task_ref = TaskRef { revision: row.get(5)?, digest: row.get(6)? };
            let command = definition::executable(tx, &project, &task, task_ref)?.ok().map(|found| found.command);
            page.push(Candidate {
                run,
                attempt: row.get(1)?,
                attempt_number: row.get(2)?,
                project,
                task,
                trigger: row.get(7)?,
                scheduled_for_ms: row.get(8)?,
                cause,
                command,
            });
        }
        Ok(page)
    }
}

/// The Run that started another by its end. Retention may have removed it meanwhile.
fn cause(tx: &Tx<'_>, run: RunId) -> Result<Option<Cause>, Fail> {
    let sql = "SELECT task, status,
            (SELECT exit_code FROM attempts WHERE run = runs.id ORDER BY number DESC LIMIT 1)
        FROM runs WHERE id = ?1";
    tx.find(sql, params![run], |row| Ok(Cause { run, task: row.get(0)?, outcome: row.get(1)?, exit_code: row.get(2)? }))
}

impl Operation for ListInFlight {
    type Out = (Vec<InFlight>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = self.limit.min(limits::RECOVERY_CANDIDATES_MAX);
        let sql = "SELECT r.id, r.status, r.version,
                (SELECT count(*) FROM attempts WHERE run = r.id AND status IN ('claimed', 'starting', 'running')),
                a.token_digest, a.id, a.number, a.status, a.created_at_ms, a.started_at_ms, a.finished_at_ms,
                a.log_artifact, a.handle, a.exit_code, a.signal, a.error_code, a.error_summary, a.log_complete,
                a.leftovers, a.descendants IS NOT NULL, a.deadline_at_ms, a.deadline_boot, a.deadline_boot_ms, r.project, r.task, r.task_revision,
                r.task_digest, a.pid
            FROM runs r INDEXED BY runs_open
                JOIN attempts a ON a.run = r.id AND a.number = (SELECT max(number) FROM attempts WHERE run = r.id)
            WHERE r.finished_at_ms IS NULL AND r.status IN ('dispatching', 'running') ORDER BY r.id LIMIT ?1";
        let mut query = tx.conn.prepare_cached(sql)?;
        let rows = query.query_map(params![limit + 1], |row| {
            let in_flight = InFlight {
                run: row.get(0)?,
                run_state: row.get(1)?,
                run_version: row.get(2)?,
                pid: row.get(27)?,
                active_attempts: row.get(3)?,
                token_digest: row.get(4)?,
                attempt: read_attempt(row, 5)?,
                deadline: read_deadline(row, 20)?,
                grace_ms: limits::GRACE_MS_DEFAULT,
                keeps: true,
            };
            let task_ref = TaskRef { revision: row.get(25)?, digest: row.get(26)? };
            Ok((in_flight, row.get::<_, Name>(23)?, row.get::<_, Name>(24)?, task_ref))
        })?;
        let mut page = Vec::new();
        for row in rows {
            let (mut in_flight, project, task, task_ref) = row?;
            // A damaged revision cannot say its grace; its process still has to be looked after.
            if let Ok(found) = definition::executable(tx, &project, &task, task_ref)? {
                in_flight.grace_ms = found.command.grace_ms;
                in_flight.keeps = found.command.leftovers == Leftovers::Keep;
            }
            page.push(in_flight);
        }
        let more = page.len() > limit;
        page.truncate(limit);
        Ok((page, more))
    }
}

impl Operation for CountActive {
    type Out = usize;

    fn perform(self, tx: &mut Tx<'_>) -> Result<usize, Fail> {
        // A starting or running Attempt's Run is dispatching or running, by the life tables.
        let sql = "SELECT count(*) FROM runs r INDEXED BY runs_open JOIN attempts a ON a.run = r.id
            WHERE r.finished_at_ms IS NULL AND r.status IN ('dispatching', 'running')
                AND a.status IN ('starting', 'running')";
        tx.row(sql, &[], |row| row.get(0))
    }
}
