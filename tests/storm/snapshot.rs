//! The store as a dead daemon has left it.

use qinglet::model::id::Uuid;
use rusqlite::{Connection, Row};
use std::collections::BTreeMap;

/// One Attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    pub number: i64,
    pub id: String,
    pub status: String,
    pub callback_sequence: i64,
    pub is_authorised: bool,
    pub artifact: Option<String>,
    pub is_log_retired: bool,
    pub has_started: bool,
    pub exit_code: Option<i64>,
    pub signal: Option<i64>,
    pub error_code: Option<String>,
    /// What its row in the receipt journal says.
    pub journal: Option<String>,
}

/// One Run with all that hangs on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub id: String,
    pub task: String,
    pub status: String,
    pub version: i64,
    pub event_sequence: i64,
    pub cancel_reason: Option<String>,
    pub attempts: Vec<Attempt>,
    /// Sequence, type, Attempt number.
    pub events: Vec<(i64, String, Option<i64>)>,
}

/// All Runs, and what the database says about itself.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub runs: BTreeMap<String, Run>,
    /// Journal rows that are nobody's.
    pub stray_journal: usize,
    /// What `integrity_check` and `foreign_key_check` have found.
    pub damage: Vec<String>,
}

impl Run {
    /// Nothing can happen to it any more; a lost one may still be cancelled.
    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed" | "cancelled" | "timed_out")
    }
}

impl Attempt {
    /// Claimed, starting or running.
    pub fn is_active(&self) -> bool {
        matches!(self.status.as_str(), "claimed" | "starting" | "running")
    }
}

fn text(bytes: [u8; 16]) -> String {
    Uuid::from_bytes(bytes).to_string()
}

impl Snapshot {
    /// Reads everything.
    pub fn read(database: &Connection) -> Self {
        let mut this = Self { damage: damage(database), ..Self::default() };
        let sql = "SELECT id, task, status, version, event_sequence, cancel_reason FROM runs";
        each(database, sql, |row| {
            let run = Run {
                id: text(row.get(0)?),
                task: row.get(1)?,
                status: row.get(2)?,
                version: row.get(3)?,
                event_sequence: row.get(4)?,
                cancel_reason: row.get(5)?,
                attempts: Vec::new(),
                events: Vec::new(),
            };
            this.runs.insert(run.id.clone(), run);
            Ok(())
        });
        let sql = "SELECT run, number, id, status, callback_sequence, token_digest IS NOT NULL, log_artifact,
                log_retired_at_ms IS NOT NULL, started_at_ms IS NOT NULL, exit_code, signal, error_code,
                (SELECT status FROM receipt_journal WHERE attempt = attempts.id)
            FROM attempts ORDER BY run, number";
        each(database, sql, |row| {
            let attempt = Attempt {
                number: row.get(1)?,
                id: text(row.get(2)?),
                status: row.get(3)?,
                callback_sequence: row.get(4)?,
                is_authorised: row.get(5)?,
                artifact: row.get(6)?,
                is_log_retired: row.get(7)?,
                has_started: row.get(8)?,
                exit_code: row.get(9)?,
                signal: row.get(10)?,
                error_code: row.get(11)?,
                journal: row.get(12)?,
            };
            this.runs.get_mut(&text(row.get(0)?)).expect("an attempt's run").attempts.push(attempt);
            Ok(())
        });
        let sql = "SELECT run, sequence, type, attempt_number FROM run_events ORDER BY run, sequence";
        each(database, sql, |row| {
            let event = (row.get(1)?, row.get(2)?, row.get(3)?);
            this.runs.get_mut(&text(row.get(0)?)).expect("an event's run").events.push(event);
            Ok(())
        });
        let sql = "SELECT count(*) FROM receipt_journal WHERE attempt NOT IN (SELECT id FROM attempts)";
        this.stray_journal = database.query_one(sql, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
        this
    }

    /// Every Attempt with its Run.
    pub fn attempts(&self) -> impl Iterator<Item = (&Run, &Attempt)> {
        self.runs.values().flat_map(|run| run.attempts.iter().map(move |attempt| (run, attempt)))
    }
}

fn each(database: &Connection, sql: &str, mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>) {
    let mut query = database.prepare(sql).unwrap();
    let mut rows = query.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        take(row).unwrap();
    }
}

fn damage(database: &Connection) -> Vec<String> {
    let mut found = Vec::new();
    each(database, "PRAGMA integrity_check", |row| {
        found.extend(Some(row.get::<_, String>(0)?).filter(|said| said != "ok"));
        Ok(())
    });
    each(database, "PRAGMA foreign_key_check", |row| {
        found.push(format!("a row of {} points to nothing", row.get::<_, String>(0)?));
        Ok(())
    });
    found
}
