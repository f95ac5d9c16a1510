//! Attempts whose leftovers stay (`leftovers: keep`): over with their receipt, although their shim lives on
//! (design D6).

use super::engine::Engine;
use super::host::{Host, Inspection};
use super::place::{Halt, HaltStep, Phase, ReceiptBy};
use crate::model::id::AttemptId;
use crate::model::life::RunState;
use crate::store::start::Completed;

impl<H: Host> Engine<H> {
    /// Begins to listen for the receipt of such an Attempt: before its release, or before the look that
    /// follows an adoption, so that none comes unheard.
    pub(super) fn listen(&self, attempt: AttemptId) -> ReceiptBy {
        if self.host.watch_receipt(attempt) { ReceiptBy::Word } else { ReceiptBy::Looks }
    }

    /// The receipt of this Attempt has come while its shim stays.
    pub(super) fn published(&mut self, attempt: AttemptId) {
        if self.places.get(&attempt).is_some_and(|p| matches!(p.phase, Phase::Running | Phase::Unclear { .. })) {
            self.host.crash_point("finish.seen");
            self.look(attempt);
        }
    }

    /// Whether something was kept of a Run that turned out to have been asked to end, a moment before its
    /// receipt was stored: a stop spares nothing, so it is stopped as if the Run went on.
    pub(super) fn ends_what_was_kept(&mut self, attempt: AttemptId, done: Completed) -> bool {
        let now_ms = self.host.now().boot_ms;
        let Some(place) = self.places.get_mut(&attempt) else { return false };
        let asked = match done {
            Completed::Applied(RunState::Cancelled | RunState::TimedOut) => true,
            // These two do not say why it ended.
            Completed::Applied(RunState::RetryWait) | Completed::AlreadyTerminal => place.asked,
            _ => false,
        };
        let Some((handle, pid)) = place.handle.as_ref().filter(|_| asked && !place.exited) else { return false };
        if place.receipt_by == ReceiptBy::End || self.host.inspect(handle, *pid) != Inspection::Running {
            return false;
        }
        place.asked = true;
        // Done by a turn that may signal, which the one that takes this answer may not.
        place.halt = place.halt.or(Some(Halt { next: HaltStep::Term, due_ms: now_ms }));
        self.set(attempt, Phase::Running, None);
        self.look(attempt);
        true
    }
}
