//! What an operation works with: the connection inside its transaction, the clock, fresh ids.

use super::fail::Fail;
use crate::model::id::{IdSource, Uuid};
use crate::model::limits::{Limits, TIME_MS_MAX};
use rusqlite::{Connection, Error, Row, ToSql};

/// One operation's view of the transaction. It cannot end it; that is the thread's business.
pub struct Tx<'a> {
    pub(super) conn: &'a Connection,
    pub(super) limits: &'a mut Limits,
    pub(super) clock_ms: fn() -> i64,
    pub(super) ids: &'a mut IdSource,
}

impl Tx<'_> {
    /// The wall clock now, in epoch milliseconds, within what a record may hold.
    pub(super) fn now_ms(&self) -> i64 {
        (self.clock_ms)().clamp(0, TIME_MS_MAX)
    }

    /// A fresh UUIDv7, greater than every one made before.
    pub(super) fn id(&mut self, now_ms: i64) -> Result<Uuid, Fail> {
        let mut random = [0; 10];
        getrandom::fill(&mut random).map_err(|_| Fail::Word("random_unavailable"))?;
        Ok(self.ids.next(now_ms, random))
    }

    /// The first row that the statement finds, if it finds one.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Fail> {
        let mut found = None;
        self.each(sql, values, &mut |row| {
            found = Some(read(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// The first row, where there always is one.
    pub(super) fn row<T>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Fail> {
        self.find(sql, values, read)?.ok_or_else(|| Error::QueryReturnedNoRows.into())
    }

    /// Every row that the statement finds.
    pub(super) fn rows<T>(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Fail> {
        let mut found = Vec::new();
        self.each(sql, values, &mut |row| {
            found.push(read(row)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Walks the rows until `read` has seen enough. All that is no matter of a row's type is here, so that it
    /// is in the program once and not for every statement.
    fn each(
        &self,
        sql: &str,
        values: &[&dyn ToSql],
        read: &mut dyn FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> Result<(), Fail> {
        let mut query = self.conn.prepare_cached(sql)?;
        let mut rows = query.query(values)?;
        while let Some(row) = rows.next()? {
            if !read(row)? {
                break;
            }
        }
        Ok(())
    }

    /// Changes what the statement says: how many rows it was.
    pub(super) fn change(&self, sql: &str, values: &[&dyn ToSql]) -> Result<usize, Fail> {
        Ok(self.conn.prepare_cached(sql)?.execute(values)?)
    }
}
