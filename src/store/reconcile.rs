//! What recovery writes about a Run whose process it has proven to live (spec/execution section 7).

use super::advance::Live;
use super::fail::Fail;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{AttemptId, RunId};

/// Writes `run.reconciled`; a Run or Attempt that has a handle and is not yet running becomes it, because
/// user code is released only after that was to be stored. With nothing to change and the same event
/// already the newest, nothing is written: a daemon that dies again and again wears out no flash.
pub struct Reconcile {
    /// The Run.
    pub run: RunId,
    /// Its one active Attempt.
    pub attempt: AttemptId,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reconciled {
    /// It is written down; the Run is at this version now.
    Noted {
        /// The Run's version.
        version: i64,
    },
    /// The Run or Attempt has moved on; nothing was written.
    Raced,
}

impl Operation for Reconcile {
    type Out = Reconciled;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Reconciled, Fail> {
        let Some(mut live) = Live::load(tx, self.run, self.attempt)? else { return Ok(Reconciled::Raced) };
        if !live.survives() {
            return Ok(Reconciled::Raced);
        }
        let promoted = live.promote(tx, &Actor::Reconciler)?;
        if promoted || !live.is_reconciled(tx)? {
            live.note_reconciled(tx)?;
            let version = live.version();
            live.save(tx)?;
            return Ok(Reconciled::Noted { version });
        }
        Ok(Reconciled::Noted { version: live.version() })
    }
}
