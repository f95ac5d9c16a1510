//! Stopping exactly one process (T5): TERM, a bounded wait, KILL, a bounded wait, each signal after
//! its own full check of the identity. Advanced by turns; nothing here waits.

use super::board::Doubt;
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
            // Held all the time, so that nothing of it ran and nothing can have got away.
            self.set(attempt, Phase::Losing { error_code: OWNERSHIP_NOT_STORED, unproven: false }, None);
            return self.post_loss(attempt);
        }
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let (next, after_ms, stays) = match step {
            StopStep::Term => (StopStep::Kill, Self::stop_wait_ms(), false),
            StopStep::Kill => (StopStep::Look, Self::stop_wait_ms(), false),
            StopStep::Look => {
                let (after_ms, stays) = place.pause_after_kill_round();
                (StopStep::Kill, after_ms.max(WAIT_RECHECK_MS), stays)
            }
        };
        if stays {
            let lives = self.host.inspect(&handle, pid) == Inspection::Running;
            self.doubt(attempt, if lives { Doubt::Unkillable } else { Doubt::ProcessUnknown });
        }
        let due_ms = now.boot_ms + after_ms;
        self.set(attempt, Phase::Stopping { next }, Some(due_ms));
    }
}
