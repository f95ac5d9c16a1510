//! What an earlier daemon left under way, taken up before anything new is admitted (design D21,
//! spec/execution section 7): only looks, never signals. Evidence in its fixed order: the store,
//! the receipt, the process.

use super::engine::{Door, Engine};
use super::host::Host;
use super::place::{Phase, Place};
use crate::model::life::AttemptState;
use crate::model::limits::RECOVERY_CANDIDATES_MAX;
use crate::model::word::EXITED_WITHOUT_RECEIPT;
use crate::store::StoreError;
use crate::store::start::{InFlight, ListInFlight};
use std::fmt;

/// Why recovery stops the start.
#[derive(Debug)]
pub enum RecoveryError {
    /// More Runs are under way than can be looked at.
    TooMany,
    /// The store could not be read.
    Store(StoreError),
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "more than {RECOVERY_CANDIDATES_MAX} runs are under way; nothing was changed"),
            Self::Store(error) => write!(f, "the store could not be read ({error:?}); nothing was changed"),
        }
    }
}

impl<H: Host> Engine<H> {
    /// Takes up every Run that has authority or ownership. Answers how many. Their places then advance
    /// by turns that only look, until [`open`](Self::open). Receipts that a crash left behind after
    /// their commit are cleared away by the first round of housekeeping.
    pub fn recover(&mut self) -> Result<usize, RecoveryError> {
        self.door = Door::NotYetOpen;
        let page = ListInFlight { limit: RECOVERY_CANDIDATES_MAX };
        let (runs, more) = self.store.call(page).map_err(RecoveryError::Store)?;
        if more {
            return Err(RecoveryError::TooMany);
        }
        let count = runs.len();
        for run in runs {
            self.take_up(&run);
        }
        Ok(count)
    }

    /// Ends the time of only looking: from now on runs are started, timed out and stopped.
    pub fn open(&mut self) {
        if self.door == Door::NotYetOpen {
            self.door = Door::Open;
            self.begin_schedules();
        }
    }

    fn take_up(&mut self, run: &InFlight) {
        let attempt = run.attempt.id;
        let mut place = Place::new(run.run, Phase::Unclear { looks: 0 });
        place.handle = run.attempt.handle.clone().zip(run.attempt.handle.as_deref().and_then(pid_of));
        place.token_digest = run.token_digest;
        place.grace_ms = run.grace_ms.unsigned_abs();
        // A deadline of another boot decides nothing: that boot's processes are gone.
        let here = self.host.boot();
        let deadline = run.deadline.filter(|deadline| Some(deadline.boot) == here);
        place.deadline_ms = deadline.map(|deadline| deadline.boot_ms.unsigned_abs());
        // More than one active Attempt, or none: nobody chooses one; it keeps its place and shows.
        if run.active_attempts != 1 {
            self.places.insert(attempt, place);
            return;
        }
        // Without a handle the hold was never released: nothing of it ran (design D3).
        if run.attempt.state != AttemptState::Running && place.handle.is_none() {
            place.phase = Phase::Losing { error_code: EXITED_WITHOUT_RECEIPT };
            self.places.insert(attempt, place);
            return self.post_loss(attempt);
        }
        // Before the look, so that no receipt comes between the two.
        if run.keeps {
            place.receipt_by = self.listen(attempt);
        }
        self.places.insert(attempt, place);
        self.look(attempt);
    }
}

/// The pid in a handle's text; the handle itself is parsed by whoever looks at the process.
fn pid_of(handle: &str) -> Option<i32> {
    handle.split('.').nth(2)?.parse().ok()
}
