//! Reads that `check` looks the store through with, each short enough that nobody waits long behind it. They
//! tell what they find and change nothing.

use super::definition::{self, NotExecutable};
use super::fail::Fail;
use super::migrate::{self, MIGRATIONS, Standing};
use super::thread::Operation;
use super::tx::Tx;
use super::{open, verify};
use crate::model::digest::Digest;
use crate::model::id::{AttemptId, RunId};
use crate::model::limits;
use crate::model::name::Name;
use crate::model::trigger::Trigger;
use rusqlite::{OptionalExtension as _, params};

/// One page of findings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// How many were looked at.
    pub seen: u64,
    /// What is wrong, one sentence each.
    pub wrong: Vec<String>,
    /// Where the next page begins; `None`: that was all.
    pub next: Option<i64>,
}

/// Looks at whose the store is and at its shape.
pub struct CheckShape;

/// What the store's shape is.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    /// Steps that were applied.
    pub schema: usize,
    /// The store's bytes.
    pub bytes: u64,
    /// Its tables by name.
    pub tables: Vec<String>,
    /// What is wrong, one sentence each.
    pub wrong: Vec<String>,
}

impl Operation for CheckShape {
    type Out = Shape;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Shape, Fail> {
        let conn = tx.conn;
        let mut wrong = Vec::new();
        if !open::is_ours(conn)? {
            wrong.push("the database is not a store of qinglet".to_owned());
        }
        let mut schema = MIGRATIONS.len();
        match migrate::standing(conn, MIGRATIONS)? {
            Standing::Current => {
                if let Some(name) = migrate::drift(conn, MIGRATIONS)? {
                    wrong.push(format!("`{name}` is missing, changed or foreign"));
                }
            }
            Standing::Older(applied) => {
                schema = applied;
                wrong.push("the store is of an older version; `qinglet init` brings it up to date".to_owned());
            }
            Standing::Newer(id) => wrong.push(format!("the store was made by a newer version (schema {id})")),
            Standing::Changed(id) => wrong.push(format!("schema step {id} was made with another text")),
            Standing::None => wrong.push("the store has no schema history".to_owned()),
        }
        let number = |pragma: &str| conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
        let bytes = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?).max(0) as u64;
        let mut query = conn.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
        let tables = query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Shape { schema, bytes, tables, wrong })
    }
}

/// Reads a table's pages, its indexes' and its references through.
pub struct CheckTable {
    /// Its name.
    pub table: String,
}

impl Operation for CheckTable {
    /// What is wrong, one line each.
    type Out = Vec<String>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Vec<String>, Fail> {
        verify::table(tx.conn, &self.table, limits::CHECK_FINDINGS_MAX)
    }
}

/// Compares a page of task revisions, and what they are compiled to, with their digests.
pub struct CheckRevisions {
    /// Only rows after this.
    pub after: i64,
}

impl Operation for CheckRevisions {
    type Out = Page;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Page, Fail> {
        let sql = "SELECT rowid, project, task, revision FROM task_revisions WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        let mut query = tx.conn.prepare_cached(sql)?;
        let rows = query.query_map(params![self.after, limits::CHECK_PAGE], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Name>(1)?, row.get::<_, Name>(2)?, row.get::<_, i64>(3)?))
        })?;
        let mut page = Page::default();
        for row in rows {
            let (at, project, task, number) = row?;
            page.seen += 1;
            page.next = (page.seen as usize == limits::CHECK_PAGE).then_some(at);
            let wrong = match definition::revision(tx, &project, &task, number) {
                Err(Fail::Word(_)) => Some("is not what its digest says"),
                Err(other) => return Err(other),
                Ok(found) => match definition::executable(tx, &project, &task, found.task_ref)? {
                    Err(NotExecutable::Damaged) => Some("has a compiled form that is not what its digest says"),
                    _ => None,
                },
            };
            page.wrong.extend(wrong.map(|wrong| format!("revision {number} of task {task} {wrong}")));
        }
        Ok(page)
    }
}

/// Compares a page of trigger revisions with their digests.
pub struct CheckTriggers {
    /// Only rows after this.
    pub after: i64,
}

impl Operation for CheckTriggers {
    type Out = Page;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Page, Fail> {
        let sql = "SELECT rowid, trigger_id, revision, digest, definition FROM trigger_revisions
            WHERE rowid > ?1 ORDER BY rowid LIMIT ?2";
        let mut query = tx.conn.prepare_cached(sql)?;
        let rows = query.query_map(params![self.after, limits::CHECK_PAGE], |row| {
            let (digest, text): (Digest, Option<String>) = (row.get(3)?, row.get(4)?);
            let sound = text.is_none_or(|text| Trigger::digest(&text) == digest);
            Ok((row.get::<_, i64>(0)?, row.get::<_, Name>(1)?, row.get::<_, i64>(2)?, sound))
        })?;
        let mut page = Page::default();
        for row in rows {
            let (at, trigger, revision, sound) = row?;
            page.seen += 1;
            page.next = (page.seen as usize == limits::CHECK_PAGE).then_some(at);
            if !sound {
                page.wrong.push(format!("revision {revision} of trigger {trigger} is not what its digest says"));
            }
        }
        Ok(page)
    }
}

/// A log that a row names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedLog {
    /// Whose.
    pub run: RunId,
    /// Which Attempt's.
    pub number: i64,
    /// Its name.
    pub artifact: String,
    /// It was removed, and the row says so.
    pub retired: bool,
}

/// Reads a page of the logs that rows name.
pub struct ListNamedLogs {
    /// Only rows after this.
    pub after: Option<(RunId, i64)>,
}

impl Operation for ListNamedLogs {
    /// The page and whether there are more.
    type Out = (Vec<NamedLog>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = "SELECT run, number, log_artifact, log_retired_at_ms FROM attempts
            WHERE (run, number) > (coalesce(?1, x''), coalesce(?2, 0)) AND log_artifact IS NOT NULL
            ORDER BY run, number LIMIT ?3";
        let mut query = tx.conn.prepare_cached(sql)?;
        let (run, number) = self.after.unzip();
        let rows = query.query_map(params![run, number, limits::CHECK_LOGS_PAGE], |row| {
            let retired = row.get::<_, Option<i64>>(3)?.is_some();
            Ok(NamedLog { run: row.get(0)?, number: row.get(1)?, artifact: row.get(2)?, retired })
        })?;
        let page = rows.collect::<Result<Vec<_>, _>>()?;
        let more = page.len() == limits::CHECK_LOGS_PAGE;
        Ok((page, more))
    }
}

/// Looks again whether a log is still to be there. `None`: its row is gone, or says that it was removed.
pub struct LookAtLog(pub NamedLog);

impl Operation for LookAtLog {
    type Out = Option<NamedLog>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = "SELECT 1 FROM attempts WHERE run = ?1 AND number = ?2 AND log_retired_at_ms IS NULL";
        let there = tx.conn.prepare_cached(sql)?.exists(params![self.0.run, self.0.number])?;
        Ok(there.then_some(self.0))
    }
}

/// Reads which Attempts may have a log that no row names yet.
pub struct ListUnnamedLogs;

impl Operation for ListUnnamedLogs {
    type Out = Vec<(RunId, AttemptId)>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = "SELECT a.run, a.id FROM runs r JOIN attempts a ON a.run = r.id
            WHERE r.finished_at_ms IS NULL AND r.status IN ('queued', 'dispatching', 'running', 'retry_wait', 'lost')
            AND a.log_artifact IS NULL LIMIT ?1";
        tx.rows(sql, params![limits::CHECK_FILES_MAX], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

/// Of these Attempts, those whose receipts the store does not expect.
pub struct FindUnexpected(pub Vec<AttemptId>);

impl Operation for FindUnexpected {
    type Out = Vec<AttemptId>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let mut query = tx.conn.prepare_cached("SELECT 1 FROM receipt_journal WHERE attempt = ?1")?;
        let mut unexpected = Vec::new();
        for attempt in self.0 {
            if query.query_row([attempt], |_| Ok(())).optional()?.is_none() {
                unexpected.push(attempt);
            }
        }
        Ok(unexpected)
    }
}
