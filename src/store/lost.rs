//! Lost Runs that nobody settles: too many or too old, they are closed as failed, so that they age like
//! every ended Run (design D11). Their events and logs stay until the Run itself goes.

use super::advance::Live;
use super::event::Fact;
use super::fail::Fail;
use super::retention::Age;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{AttemptId, RunId};
use crate::model::life::RunMove;
use crate::model::limits::PAGE_MAX;
use crate::model::word::LOST_RETRY_DISABLED;

/// Closes a page of lost Runs, oldest admission first by their ids, which rise whatever the clock does
/// within the life of a daemon: those beyond the newest `keep`, and those lost before an instant. One
/// that was asked to end is left to be closed as cancelled.
pub struct CloseLost {
    /// So many are kept by count.
    pub keep: usize,
    /// The instants now and before which one is too old; `None`: age decides nothing, because the wall
    /// clock cannot be believed.
    pub age: Option<Age>,
    /// At most so many are closed.
    pub limit: usize,
}

impl Operation for CloseLost {
    /// How many were closed; as many as the limit means that there may be more.
    type Out = usize;

    fn perform(self, tx: &mut Tx<'_>) -> Result<usize, Fail> {
        let limit = self.limit.min(PAGE_MAX);
        let sql = "SELECT r.id, a.id, coalesce(a.finished_at_ms, a.created_at_ms), r.cancel_requested_at_ms IS NULL
            FROM runs r INDEXED BY runs_open
                JOIN attempts a ON a.run = r.id AND a.number = (SELECT max(number) FROM attempts WHERE run = r.id)
            WHERE r.finished_at_ms IS NULL AND r.status = 'lost' ORDER BY r.id DESC";
        let mut old: Vec<(RunId, AttemptId)> = Vec::new();
        {
            let mut query = tx.conn.prepare_cached(sql)?;
            let mut rows = query.query([])?;
            let mut kept = 0;
            while let Some(row) = rows.next()? {
                kept += 1;
                let is_over = self.age.is_some_and(|age| row.get(2).ok().and_then(|at| age.is_over(at)) == Some(true));
                if row.get(3)? && (kept > self.keep || is_over) {
                    old.push((row.get(0)?, row.get(1)?));
                }
            }
        }
        // The oldest are at the end.
        let page = old.split_off(old.len().saturating_sub(limit));
        let count = page.len();
        for (run, attempt) in page.into_iter().rev() {
            close(tx, run, attempt)?;
        }
        Ok(count)
    }
}

fn close(tx: &mut Tx<'_>, run: RunId, attempt: AttemptId) -> Result<(), Fail> {
    let conflict = || Fail::Word("version_conflict");
    let mut live = Live::load(tx, run, attempt)?.ok_or_else(conflict)?;
    live.run_error = Some(LOST_RETRY_DISABLED.into());
    if !live.move_run(tx, RunMove::Fail, &Actor::System, &[Fact::ErrorCode(LOST_RETRY_DISABLED)])? {
        return Err(conflict());
    }
    live.save(tx)
}
