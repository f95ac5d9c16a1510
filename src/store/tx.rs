//! What an operation works with: the connection inside its transaction, the clock, fresh ids.

use super::fail::Fail;
use crate::model::id::{IdSource, Uuid};
use crate::model::limits::{Limits, TIME_MS_MAX};
use rusqlite::{Connection, ToSql};

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

    /// Changes what the statement says: how many rows it was.
    pub(super) fn change(&self, sql: &str, values: &[&dyn ToSql]) -> Result<usize, Fail> {
        Ok(self.conn.prepare_cached(sql)?.execute(values)?)
    }
}
