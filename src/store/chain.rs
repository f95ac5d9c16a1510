//! Runs that the end of another starts: admitted in the very transaction that ends it, so that no notice
//! is lost and none is given twice (design D10).

use super::advance::Live;
use super::fail::Fail;
use super::fire::{self, Cause};
use super::trigger;
use super::tx::Tx;
use crate::model::id::RunId;
use crate::model::limits::CHAIN_DEPTH_MAX;
use crate::model::name::Name;
use crate::model::trigger::When;
use rusqlite::params;

/// Starts what waits for this end of the Run: it has just come to a terminal state, or is lost.
pub(super) fn follow(tx: &mut Tx<'_>, live: &Live) -> Result<(), Fail> {
    let Some((project, task, cause, depth)) = ended(tx, live.run)? else { return Ok(()) };
    let sql = "SELECT id FROM triggers INDEXED BY triggers_watching
        WHERE project = ?1 AND watched = ?2 AND deleted = 0 AND enabled = 1 ORDER BY id";
    let ids: Vec<Name> = tx.rows(sql, params![project, task], |row| row.get(0))?;
    for id in ids {
        // A damaged trigger must not keep a Run from ending.
        let Ok(Some(head)) = trigger::current(tx, &project, &id) else { continue };
        let When::RunFinished { outcomes, .. } = &head.trigger.when else { continue };
        if !outcomes.contains(&live.run_state) {
            continue;
        }
        let reason = if depth >= CHAIN_DEPTH_MAX {
            Some("chain_too_long")
        } else if in_chain(tx, &head.trigger.task, &task, cause)? {
            Some("chain_loop")
        } else {
            None
        };
        if let Some(reason) = reason {
            fire::skip(tx, &project, &id, live.now_ms, reason)?;
            continue;
        }
        let key = format!("ql3:after:v1:{id}:{}:{}", head.revision, live.run);
        let cause = Cause { scheduled_for_ms: None, at_ms: live.now_ms, run: Some(live.run), depth: Some(depth + 1) };
        fire::admit(tx, &project, &head, &key, &cause)?;
    }
    Ok(())
}

type Ended = (Name, Name, Option<RunId>, i64);

fn ended(tx: &Tx<'_>, run: RunId) -> Result<Option<Ended>, Fail> {
    let sql = "SELECT project, task, cause_run, coalesce(chain_depth, 0) FROM runs WHERE id = ?1";
    tx.find(sql, params![run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
}

/// Whether a task has run in this chain already: it is the one that ended, or one that led to it. A
/// Run that retention has removed cannot be asked; the chain's length is bounded all the same.
fn in_chain(tx: &Tx<'_>, task: &Name, ended_task: &Name, mut cause: Option<RunId>) -> Result<bool, Fail> {
    if task == ended_task {
        return Ok(true);
    }
    for _ in 0..CHAIN_DEPTH_MAX {
        let Some(run) = cause else { return Ok(false) };
        let Some((_, before, earlier, _)) = ended(tx, run)? else { return Ok(false) };
        if before == *task {
            return Ok(true);
        }
        cause = earlier;
    }
    Ok(false)
}
