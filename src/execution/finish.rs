//! How an Attempt's end becomes known (design D7): an exit only names the Attempt; the receipt is
//! the proof; no receipt and a process that is proven gone means lost, never a guess.

use super::board::Doubt;
use super::engine::Engine;
use super::host::{Host, Inspection, Receipt, ReceiptRead, Swept};
use super::inbox::Message;
use super::place::{Phase, ReceiptBy, StopStep};
use super::token;
use crate::model::id::AttemptId;
use crate::model::life::RunState;
use crate::model::limits::{SWEEP_ROUNDS, UNPROVEN_ROUNDS, WAIT_RECHECK_MS};
use crate::model::record::Completion;
use crate::model::word::EXITED_WITHOUT_RECEIPT;
use crate::store::StoreError;
use crate::store::start::{Complete, Completed, Lose, QuarantineReceipt};

/// How often a process without a receipt is looked at again before it is called lost: the shim may
/// have been seen gone a moment before its receipt is visible.
const LOOKS_MAX: u32 = 2;

/// Between two such looks (spec/execution section 7: the short grace).
const LOOK_AGAIN_MS: u64 = 50;

/// How often is looked while nobody tells of the end of an adopted process, or of a receipt whose
/// shim stays.
pub(super) const LOOK_MS: u64 = 1_000;

impl<H: Host> Engine<H> {
    /// The shim of this Attempt was reaped.
    pub(super) fn exited(&mut self, attempt: AttemptId) {
        let now = self.host.now();
        let Some(place) = self.places.get_mut(&attempt) else { return };
        place.exited = true;
        match place.phase {
            Phase::Running | Phase::Unclear { .. } => {
                self.host.crash_point("finish.seen");
                self.look(attempt);
            }
            Phase::Stopping { .. } => self.stop_step(attempt, StopStep::Look, now),
            // The launcher or the store answers first; both look at `exited` afterwards.
            _ => {}
        }
    }

    /// Looks at the evidence in its fixed order: the receipt, then the process. Of several active
    /// Attempts none is chosen, so there is nothing to look at.
    pub(super) fn look(&mut self, attempt: AttemptId) {
        if self.places.get(&attempt).is_none_or(|place| place.is_in_doubt(Doubt::AttemptsAmbiguous)) {
            return;
        }
        let receipt = self.host.read_receipt(attempt);
        let Some(place) = self.places.get(&attempt) else { return };
        match receipt {
            ReceiptRead::Found(receipt) if receipt.run == place.run && receipt.attempt == attempt => {
                self.set(attempt, Phase::Completing { receipt: Box::new(receipt) }, None);
                self.post_completion(attempt);
            }
            ReceiptRead::Found(_) | ReceiptRead::Invalid(_) => {
                self.quarantine(attempt);
            }
            ReceiptRead::Unavailable => self.leave_undecided(attempt, Doubt::ReceiptUnreadable),
            ReceiptRead::Absent => self.without_receipt(attempt),
        }
    }

    fn without_receipt(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get(&attempt) else { return };
        let quarantined = place.quarantined;
        let looks = if let Phase::Unclear { looks } = place.phase { looks } else { 0 };
        let state = match &place.handle {
            _ if place.exited => Inspection::NotRunning,
            Some((handle, pid)) => self.host.inspect(handle, *pid),
            None => Inspection::NotRunning,
        };
        match state {
            Inspection::Running => {
                let handle = place.handle.as_ref().filter(|_| !place.told);
                let told = handle.map_or(place.told, |(handle, _)| self.host.watch(attempt, handle));
                let unheard = !told || place.receipt_by == ReceiptBy::Looks;
                let due = unheard.then(|| self.later(LOOK_MS));
                self.set(attempt, Phase::Running, due);
                if let Some(place) = self.places.get_mut(&attempt) {
                    place.told = told;
                    // Looking shows that it lives, which is just what is wrong with the unkillable.
                    if !place.is_in_doubt(Doubt::Unkillable) {
                        place.doubt = None;
                    }
                }
                self.note_survivor(attempt);
            }
            Inspection::NotRunning if looks >= LOOKS_MAX => self.lose_when_swept(attempt, looks),
            Inspection::NotRunning => {
                let due = Some(self.later(LOOK_AGAIN_MS));
                self.set(attempt, Phase::Unclear { looks: looks + 1 }, due);
                // That much is known by now.
                if let Some(place) = self.places.get_mut(&attempt) {
                    place.doubt = None;
                }
            }
            Inspection::Invalid | Inspection::Unavailable if quarantined => {
                self.leave_undecided(attempt, Doubt::ReceiptQuarantined);
            }
            Inspection::Invalid => self.leave_undecided(attempt, Doubt::HandleInvalid),
            Inspection::Unavailable => self.leave_undecided(attempt, Doubt::ProcessUnknown),
        }
    }

    /// Leaves an Attempt as it is, in its place, shows why, and looks at it again later.
    fn leave_undecided(&mut self, attempt: AttemptId, doubt: Doubt) {
        let due = Some(self.later(WAIT_RECHECK_MS));
        self.set(attempt, Phase::Unclear { looks: 0 }, due);
        self.doubt(attempt, doubt);
    }

    /// Shows why nobody can say how an Attempt stands. Since when stays as it was.
    pub(super) fn doubt(&mut self, attempt: AttemptId, doubt: Doubt) {
        let now_ms = self.host.now().wall_ms;
        if let Some(place) = self.places.get_mut(&attempt) {
            place.doubt = Some((doubt, place.doubt.map_or(now_ms, |(_, since_ms)| since_ms)));
        }
    }

    /// A shim that is gone without a receipt was killed, and may have left its task behind. Only a
    /// sweep that finds nothing to kill makes the Attempt lost (design D6).
    fn lose_when_swept(&mut self, attempt: AttemptId, looks: u32) {
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let swept = place.handle.as_ref().map_or(Swept::Empty, |(handle, _)| self.host.sweep(handle, place.run));
        let (after_ms, doubt) = match swept {
            Swept::Empty => return self.gone(attempt, false),
            Swept::Unproven if looks >= LOOKS_MAX + UNPROVEN_ROUNDS => return self.gone(attempt, true),
            Swept::Unproven => (LOOK_AGAIN_MS, None),
            Swept::Found => match place.pause_after_kill(SWEEP_ROUNDS, LOOK_AGAIN_MS) {
                (after_ms, false) => (after_ms, None),
                (after_ms, true) => (after_ms, Some(Doubt::Unkillable)),
            },
            Swept::Unknown => (WAIT_RECHECK_MS, Some(Doubt::SweepImpossible)),
        };
        let looks = if swept == Swept::Unproven { looks + 1 } else { LOOKS_MAX };
        let due = Some(self.later(after_ms));
        self.set(attempt, Phase::Unclear { looks }, due);
        if let Some(doubt) = doubt {
            self.doubt(attempt, doubt);
        }
    }

    /// Nothing of it is left that could be found: its end without a receipt goes to the store.
    fn gone(&mut self, attempt: AttemptId, unproven: bool) {
        if self.places.get(&attempt).is_some_and(|place| place.halt.is_some()) {
            self.set(attempt, Phase::Stopped { unproven }, None);
            return self.post_asked_end(attempt);
        }
        self.set(attempt, Phase::Losing { error_code: EXITED_WITHOUT_RECEIPT, unproven }, None);
        self.post_loss(attempt);
    }

    /// Posts T6, the first time or again: an Attempt that has ended is not ended twice.
    pub(super) fn post_completion(&mut self, attempt: AttemptId) {
        let resolved = self.take_resolved();
        let Some(place) = self.places.get(&attempt) else { return };
        let Phase::Completing { receipt } = &place.phase else { return };
        let operation = Complete { completion: completion(receipt), resolved };
        let inbox = self.inbox.clone();
        self.store.post(operation, move |answer| inbox.send(Message::Completed(attempt, answer)));
    }

    /// T6's answer: after the commit the receipt goes, then its journal row with a later commit.
    pub(super) fn completed(&mut self, attempt: AttemptId, answer: Result<Completed, StoreError>) {
        let due = Some(self.later(WAIT_RECHECK_MS));
        match answer {
            Ok(done @ (Completed::Applied(_) | Completed::AlreadyTerminal)) => {
                self.host.crash_point("finish.committed");
                if done == Completed::Applied(RunState::RetryWait) {
                    self.host.crash_point("retry.waiting");
                    self.retries.wanted = true;
                }
                if self.host.delete_receipt(attempt) {
                    self.host.crash_point("finish.deleted");
                    self.resolved.push(attempt);
                }
                if !self.ends_what_was_kept(attempt, done) {
                    self.leave(attempt);
                }
                self.look_at_space();
            }
            Ok(Completed::Invalid(_)) => self.quarantine(attempt),
            Err(_) => {
                if let Some(place) = self.places.get_mut(&attempt) {
                    place.due_ms = due;
                }
            }
        }
    }

    /// Puts what lies in the receipt's place aside: first in the journal, then on disk, so that a
    /// crash between the two is found again (spec/execution section 4). The process decides next.
    fn quarantine(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get(&attempt) else { return };
        let inbox = self.inbox.clone();
        let operation = QuarantineReceipt { run: place.run, attempt };
        self.store.post(operation, move |answer| {
            if answer.is_ok() {
                inbox.send(Message::Quarantined(attempt));
            }
        });
        // Shown until both are done; a store or a disk that fails may keep it so.
        self.leave_undecided(attempt, Doubt::ReceiptUnreadable);
    }

    /// The journal says so: the file may be moved, and the process is looked at.
    pub(super) fn quarantined(&mut self, attempt: AttemptId) {
        if self.host.quarantine_receipt(attempt) {
            if let Some(place) = self.places.get_mut(&attempt) {
                place.quarantined = true;
            }
            self.look(attempt);
        }
    }

    /// Posts the loss of an Attempt whose process is proven gone.
    pub(super) fn post_loss(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get(&attempt) else { return };
        let Phase::Losing { error_code, unproven } = place.phase else { return };
        self.post_step(attempt, Lose { run: place.run, attempt, error_code, unproven });
    }
}

fn completion(receipt: &Receipt) -> Completion {
    Completion {
        run: receipt.run,
        attempt: receipt.attempt,
        token_digest: token::digest(&receipt.token),
        sequence: receipt.sequence,
        started_at_ms: receipt.started_at_ms,
        finished_at_ms: receipt.finished_at_ms,
        end: receipt.end.clone(),
    }
}
