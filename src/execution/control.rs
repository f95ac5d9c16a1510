//! Ending Runs that were asked to end, by somebody, by their timeout, or by a shutdown
//! (spec/execution section 8, design D8). The intent is committed first; only then is anything
//! signalled. A stop is (Attempt, step, due), advanced by turns; nothing here waits.
//!
//! How the Attempt ended still comes from its receipt; the committed intent decides its outcome.

use super::board::Doubt;
use super::engine::{Door, Engine};
use super::host::{Host, Inspection, Signalled, Stop};
use super::inbox::Message;
use super::place::{Halt, HaltStep, Phase, Place};
use crate::model::id::AttemptId;
use crate::model::life::{AttemptState, CancelReason};
use crate::model::limits::{RECOVERY_CANDIDATES_MAX, WAIT_RECHECK_MS};
use crate::store::StoreError;
use crate::store::cancel::{CancelRequested, Cancelling, EndAsked, Intend, ListCancelling};

impl<H: Host> Engine<H> {
    /// Asks the store which Runs were asked to end.
    pub(super) fn list_cancelling(&mut self) {
        if !self.cancels.wanted || self.cancels.reading {
            return;
        }
        self.cancels.wanted = false;
        self.cancels.reading = true;
        let inbox = self.inbox.clone();
        let page = ListCancelling { limit: RECOVERY_CANDIDATES_MAX };
        self.store.post(page, move |answer| inbox.send(Message::Cancelling(answer)));
    }

    /// Acts on every Run that was asked to end: one that holds a place is stopped, one that never
    /// started, is lost, or waits for another Attempt needs no stop.
    pub(super) fn cancelling(&mut self, page: Result<Vec<Cancelling>, StoreError>) {
        self.cancels.reading = false;
        let later = Some(self.later(WAIT_RECHECK_MS));
        let Ok(page) = page else {
            self.cancels.again_ms = later;
            return;
        };
        // Looked at again while there is any, so that nothing depends on one message.
        self.cancels.again_ms = later.filter(|_| !page.is_empty());
        for Cancelling { run, attempt, state } in page {
            if let Some(place) = self.places.get_mut(&attempt) {
                place.asked = true;
                self.halt(attempt);
            } else if !matches!(state, AttemptState::Starting | AttemptState::Running) {
                // An earlier daemon may have made its log and died before any row named it. With the
                // intent committed it is never started.
                if state == AttemptState::Claimed {
                    self.host.discard_log(run, attempt);
                }
                self.post_step(attempt, EndAsked { run, attempt, unproven: false });
            }
        }
    }

    /// Asks every active Attempt to end because the daemon does, and starts nothing any more. Those
    /// that were asked before keep their reason.
    pub fn shut_down(&mut self) {
        self.door = Door::ShutDown;
        let now_ms = self.host.now().boot_ms;
        for place in self.places.values_mut() {
            place.deadline_ms = Some(now_ms);
        }
    }

    /// Ends every grace now: what is being stopped is killed at the next turn.
    pub fn hurry(&mut self) {
        let now_ms = self.host.now().boot_ms;
        for place in self.places.values_mut() {
            place.grace_ms = 0;
            if let Some(halt) = place.halt.as_mut().filter(|halt| halt.next != HaltStep::Term) {
                halt.due_ms = now_ms;
            }
        }
    }

    /// Turns deadlines that have passed into intents.
    pub(super) fn time_out(&mut self, now_boot_ms: u64) {
        let over = |place: &Place| !place.asked && place.deadline_ms.is_some_and(|at| at <= now_boot_ms);
        let due: Vec<_> = self.places.iter().filter(|(_, place)| over(place)).map(|(a, p)| (*a, p.run)).collect();
        for (attempt, run) in due {
            if let Some(place) = self.places.get_mut(&attempt) {
                place.asked = true;
            }
            let inbox = self.inbox.clone();
            let reason = if self.door == Door::ShutDown { CancelReason::Shutdown } else { CancelReason::Timeout };
            let intend = Intend { run, reason };
            self.store.post(intend, move |answer| inbox.send(Message::Asked(attempt, answer)));
        }
    }

    /// The answer to an intent of our own.
    pub(super) fn asked(&mut self, attempt: AttemptId, answer: Result<CancelRequested, StoreError>) {
        let again = self.later(WAIT_RECHECK_MS);
        let Some(place) = self.places.get_mut(&attempt) else { return };
        if answer.is_err() {
            place.asked = false;
            // Not at once again: a store that fails must not be asked in a loop.
            place.deadline_ms = place.deadline_ms.map(|at| at.max(again));
            return;
        }
        self.halt(attempt);
    }

    /// Begins to stop an Attempt whose program was released. One that is still being started is
    /// stopped when its start has settled; see `owned`.
    pub(super) fn halt(&mut self, attempt: AttemptId) {
        let now_ms = self.host.now().boot_ms;
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let released = matches!(place.phase, Phase::Running | Phase::Unclear { .. });
        let clear = !place.is_in_doubt(Doubt::AttemptsAmbiguous);
        if released && clear && place.halt.is_none() && place.handle.is_some() {
            self.host.crash_point("cancel.intent");
            place.halt = Some(Halt { next: HaltStep::Term, due_ms: now_ms });
            self.halt_step(attempt);
        }
    }

    /// Does the step of a stop that is due: TERM, after the grace everything below the shim, and only
    /// a shim that stays afterwards itself (design D6). Each signal is preceded by its own full check.
    /// What KILL does not end is shown as unkillable and tried again more and more rarely; its end is
    /// told as every other's.
    pub(super) fn halt_step(&mut self, attempt: AttemptId) {
        let now_ms = self.host.now().boot_ms;
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let (Some(halt), Some((handle, pid))) = (place.halt, place.handle.clone()) else { return };
        let mut doubt = None;
        let (next, after_ms) = match halt.next {
            HaltStep::Term => match self.host.signal(&handle, Stop::Term) {
                Signalled::Sent => (HaltStep::Below, place.grace_ms),
                // Nothing could be signalled: not verified, so it is looked at again, not hurried.
                Signalled::Unknown => {
                    doubt = Some(Doubt::ProcessUnknown);
                    (HaltStep::Term, WAIT_RECHECK_MS)
                }
                Signalled::AlreadyExited => (HaltStep::Term, WAIT_RECHECK_MS),
            },
            HaltStep::Below | HaltStep::Shim => {
                let next = if halt.next == HaltStep::Shim {
                    self.host.signal(&handle, Stop::Kill);
                    HaltStep::Below
                } else if self.host.kill_descendants(&handle) == Some(0) {
                    // Nothing below it, and yet it is there: the shim itself does not end.
                    HaltStep::Shim
                } else {
                    HaltStep::Below
                };
                let (after_ms, stays) = place.pause_after_kill_round();
                if stays {
                    doubt = match self.host.inspect(&handle, pid) {
                        Inspection::Running => Some(Doubt::Unkillable),
                        Inspection::NotRunning => None,
                        Inspection::Invalid => Some(Doubt::HandleInvalid),
                        Inspection::Unavailable => Some(Doubt::ProcessUnknown),
                    };
                }
                (next, after_ms)
            }
        };
        place.halt = Some(Halt { next, due_ms: now_ms + after_ms });
        if let Some(doubt) = doubt {
            self.doubt(attempt, doubt);
        }
        let crash_point = match halt.next {
            HaltStep::Term => "cancel.termed",
            HaltStep::Below | HaltStep::Shim => "cancel.killed",
        };
        self.host.crash_point(crash_point);
    }

    /// Posts the end of an Attempt that was stopped and is gone without a receipt.
    pub(super) fn post_asked_end(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get(&attempt) else { return };
        let Phase::Stopped { unproven } = place.phase else { return };
        self.post_step(attempt, EndAsked { run: place.run, attempt, unproven });
    }
}
