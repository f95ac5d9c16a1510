//! What the store knows of a Run that somebody wants to judge.

use super::fail::Fail;
use super::runs::GetRun;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::digest::Digest;
use crate::model::id::{AttemptId, RunId};
use crate::model::life::AttemptState;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::record::Run;

/// Reads a Run and its active Attempts. `None`: no such Run in the project.
pub struct ReadEvidence {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
}

/// What is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The Run with its latest Attempt.
    pub run: Run,
    /// Its active Attempts by number: one, unless the record is damaged or it is not under way.
    pub active: Vec<ActiveAttempt>,
}

/// An Attempt that has not ended.
#[derive(Clone, Debug)]
pub struct ActiveAttempt {
    /// Its id.
    pub id: AttemptId,
    /// 1, 2, ...
    pub number: i64,
    /// Where it is.
    pub state: AttemptState,
    /// When ownership was stored.
    pub started_at_ms: Option<i64>,
    /// The durable handle's text.
    pub handle: Option<String>,
    /// The pid stored beside it.
    pub pid: Option<i32>,
    /// What proves its receipt.
    pub token_digest: Option<Digest>,
    /// A receipt of it was put aside.
    pub quarantined: bool,
}

impl Operation for ReadEvidence {
    type Out = Option<Stored>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let run = GetRun { project: self.project, run: self.run, attempt_number: None }.perform(tx)?;
        let Some(run) = run else { return Ok(None) };
        let sql = "SELECT id, number, status, started_at_ms, handle, pid, token_digest,
                EXISTS (SELECT 1 FROM receipt_journal WHERE attempt = a.id AND status = 'quarantined')
            FROM attempts a WHERE run = ?1 AND status IN ('claimed', 'starting', 'running') ORDER BY number LIMIT ?2";
        let active = tx.rows(sql, rusqlite::params![self.run, limits::ATTEMPTS_MAX], |row| {
            Ok(ActiveAttempt {
                id: row.get(0)?,
                number: row.get(1)?,
                state: row.get(2)?,
                started_at_ms: row.get(3)?,
                handle: row.get(4)?,
                pid: row.get(5)?,
                token_digest: row.get(6)?,
                quarantined: row.get(7)?,
            })
        })?;
        Ok(Some(Stored { run, active }))
    }
}
