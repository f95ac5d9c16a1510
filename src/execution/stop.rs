//! Stopping exactly one process (T5): TERM, a bounded wait, KILL, a bounded wait, each signal after
//! its own full check of the identity. Advanced by turns; nothing here waits.

use super::engine::Engine;
use super::host::{Host, Inspection, Now, Signalled, Stop};
use super::place::{Phase, StopStep};
use crate::model::id::AttemptId;
use crate::model::limits::WAIT_RECHECK_MS;
use crate::model::word::OWNERSHIP_NOT_STORED;

impl<H: Host> Engine<H> {
    /// Does one step of a stop. Only a process that is proven gone makes the Attempt lost; what
    /// cannot be proven stays as it is and is looked at again (S70 section 4).
    pub(super) fn stop_step(&mut self, attempt: AttemptId, step: StopStep, now: Now) {
        let Some(place) = self.places.get(&attempt) else { return };
        let Some((handle, pid)) = place.handle.clone() else { return };
        let gone = place.exited
            || match step {
                StopStep::Term => self.host.signal(&handle, Stop::Term) == Signalled::AlreadyExited,
                StopStep::Kill => self.host.signal(&handle, Stop::Kill) == Signalled::AlreadyExited,
                StopStep::Look => self.host.inspect(&handle, pid) == Inspection::NotRunning,
            };
        if gone {
            self.set(attempt, Phase::Losing { error_code: OWNERSHIP_NOT_STORED }, None);
            return self.post_loss(attempt);
        }
        let (next, after_ms) = match step {
            StopStep::Term => (StopStep::Kill, Self::stop_wait_ms()),
            StopStep::Kill => (StopStep::Look, Self::stop_wait_ms()),
            StopStep::Look => (StopStep::Kill, WAIT_RECHECK_MS),
        };
        let due_ms = now.boot_ms + after_ms;
        self.set(attempt, Phase::Stopping { next }, Some(due_ms));
    }
}
