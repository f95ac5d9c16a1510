//! Whether a file that lies somewhere is a whole store of ours. Only looks.

use super::fail::Fail;
use super::migrate::{MIGRATIONS, Standing};
use super::open;
use super::state::StateError;
use crate::model::limits::Limits;
use rusqlite::{Connection, OptionalExtension as _};
use std::path::Path;

/// What a sound one holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Its schema is older than this program's.
    pub is_older: bool,
    /// The keys that open its secrets, by id.
    pub key_ids: Vec<String>,
}

/// Reads the file through: that it is ours, its schema, every page, every reference. Nobody may write it
/// meanwhile.
pub fn verify(path: &Path, limits: &Limits) -> Result<Verified, StateError> {
    let conn = open::open_to_look(path, limits)?;
    let explained = |e: rusqlite::Error| open::explain(path, &e);
    if !open::is_ours(&conn).map_err(explained)? {
        return Err(StateError::new(format!("{} is not a store of qinglet", path.display())));
    }
    let standing = open::recognise(path, &conn, MIGRATIONS)?;
    if standing == Standing::Current {
        open::check_shape(path, &conn, MIGRATIONS)?;
    }
    if let Some(what) = damage(&conn).map_err(explained)? {
        return Err(StateError::new(format!("the store in {} is damaged ({what}): use another copy", path.display())));
    }
    let key_ids = used_keys(&conn).map_err(explained)?;
    Ok(Verified { is_older: matches!(standing, Standing::Older(_)), key_ids })
}

/// The first thing that is wrong with the pages or the references.
fn damage(conn: &Connection) -> rusqlite::Result<Option<String>> {
    let verdict: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Ok(Some(verdict));
    }
    let orphan = conn.query_row("PRAGMA foreign_key_check", [], |row| row.get::<_, String>(0)).optional()?;
    Ok(orphan.map(|table| format!("a row of {table} refers to nothing")))
}

fn used_keys(conn: &Connection) -> rusqlite::Result<Vec<String>> {
    let exists = "SELECT 1 FROM sqlite_schema WHERE name = 'secret_envelopes'";
    if !conn.prepare(exists)?.exists([])? {
        return Ok(Vec::new());
    }
    let mut query = conn.prepare("SELECT DISTINCT key_id FROM secret_envelopes ORDER BY key_id")?;
    query.query_map([], |row| row.get(0))?.collect()
}

/// What one table's pages and references say; at most so many lines.
pub(super) fn table(conn: &Connection, table: &str, at_most: usize) -> Result<Vec<String>, Fail> {
    let mut query = conn.prepare("SELECT * FROM pragma_integrity_check(?1)")?;
    let rows = query.query_map([table], |row| row.get::<_, String>(0))?;
    let mut lines: Vec<String> =
        rows.filter(|row| row.as_ref().map_or(true, |line| line != "ok")).take(at_most).collect::<Result<_, _>>()?;
    let mut query = conn.prepare("SELECT \"table\", parent FROM pragma_foreign_key_check(?1)")?;
    let rows = query.query_map([table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    let orphans = rows.take(at_most.saturating_sub(lines.len())).collect::<Result<Vec<_>, _>>()?;
    lines.extend(
        orphans.into_iter().map(|(table, parent)| format!("a row of {table} refers to a missing one of {parent}")),
    );
    Ok(lines)
}
