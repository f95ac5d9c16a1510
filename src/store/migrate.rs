//! The shape of the database as a list of frozen texts, each with a checksum that stands in the
//! database too. Only `init` applies them; a start only compares.

use super::fail::Fail;
use crate::model::digest::Digest;
use rusqlite::{Connection, OptionalExtension as _, params};

/// One step from an older shape to a newer one.
pub struct Migration {
    /// 1, 2, ... without holes.
    pub id: i64,
    /// What it is about.
    pub name: &'static str,
    /// The frozen text.
    pub sql: &'static str,
}

/// Every step there is, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { id: 1, name: "first", sql: include_str!("schema/0001-first.sql") },
    Migration { id: 2, name: "again", sql: include_str!("schema/0002-again.sql") },
    Migration { id: 3, name: "triggers", sql: include_str!("schema/0003-triggers.sql") },
    Migration { id: 4, name: "secrets", sql: include_str!("schema/0004-secrets.sql") },
    Migration { id: 5, name: "tokens", sql: include_str!("schema/0005-tokens.sql") },
    Migration { id: 6, name: "lists", sql: include_str!("schema/0006-lists.sql") },
    Migration { id: 7, name: "digests", sql: include_str!("schema/0007-digests.sql") },
];

const HISTORY: &str = "CREATE TABLE schema_migrations (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  checksum BLOB NOT NULL,
  applied_at_ms INTEGER NOT NULL
) STRICT";

impl Migration {
    /// SHA-256 of the frozen text.
    pub fn checksum(&self) -> Digest {
        Digest::of("qinglet.store-migration.v1", self.sql.as_bytes())
    }
}

/// How a database's history compares with the list.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has every step, each with its checksum.
    Current,
    /// It has this many and they match; the rest is to be applied.
    Older(usize),
    /// It has a step that this program does not know.
    Newer(i64),
    /// This step was applied with another text, or a step before it is missing.
    Changed(i64),
    /// It has no history at all.
    None,
}

/// Compares without writing.
pub fn standing(conn: &Connection, list: &[Migration]) -> rusqlite::Result<Standing> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'";
    if conn.query_row(exists, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Standing::None);
    }
    let mut query = conn.prepare("SELECT id, checksum FROM schema_migrations ORDER BY id")?;
    let mut rows = query.query([])?;
    let mut known = list.iter();
    let mut applied = 0;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let Some(step) = known.next() else { return Ok(Standing::Newer(id)) };
        if step.id != id || row.get_ref(1)?.as_blob().ok() != Some(step.checksum().as_bytes()) {
            return Ok(Standing::Changed(step.id));
        }
        applied += 1;
    }
    Ok(match applied {
        0 => Standing::None,
        n if n == list.len() => Standing::Current,
        n => Standing::Older(n),
    })
}

/// Applies every step that is missing. The caller holds the transaction.
pub fn apply(conn: &Connection, list: &[Migration], now_ms: i64) -> rusqlite::Result<()> {
    let applied = match standing(conn, list)? {
        Standing::Older(applied) => applied,
        Standing::None => {
            conn.execute_batch(HISTORY)?;
            0
        }
        _ => return Ok(()),
    };
    for step in &list[applied..] {
        conn.execute_batch(step.sql)?;
        conn.execute(
            "INSERT INTO schema_migrations VALUES (?1, ?2, ?3, ?4)",
            params![step.id, step.name, step.checksum(), now_ms],
        )?;
    }
    Ok(())
}

/// The first table or index that is not as the steps make it, or the first trigger or view: there
/// are none of ours. Tables and indexes of others are left alone.
pub fn drift(conn: &Connection, list: &[Migration]) -> Result<Option<String>, Fail> {
    let foreign = "SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') LIMIT 1";
    if let Some(name) = conn.query_row(foreign, [], |row| row.get(0)).optional()? {
        return Ok(Some(name));
    }
    let model = Connection::open_in_memory()?;
    apply(&model, list, 0)?;
    let mut query = model.prepare("SELECT name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let mut rows = query.query([])?;
    let same = "SELECT 1 FROM sqlite_schema WHERE name = ?1 AND tbl_name = ?2 AND sql = ?3";
    let mut same = conn.prepare(same)?;
    while let Some(row) = rows.next()? {
        let (name, table, sql): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if !same.exists(params![name, table, sql])? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}
