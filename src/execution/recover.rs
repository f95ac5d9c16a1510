//! What an earlier daemon left under way, taken up before anything new is admitted (design D21,
//! spec/execution section 7): only looks, never signals. Evidence in its fixed order: the store,
//! the receipt, the process. What lives is written down as such, and then proven a second time.

use super::board::Doubt;
use super::engine::{Door, Engine};
use super::host::{Host, Inspection, ReceiptRead};
use super::inbox::Message;
use super::place::{Phase, Place, Recovery};
use crate::model::id::AttemptId;
use crate::model::life::AttemptState;
use crate::model::limits::{RECOVERY_CANDIDATES_MAX, WAIT_RECHECK_MS};
use crate::model::word::EXITED_WITHOUT_RECEIPT;
use crate::store::StoreError;
use crate::store::reconcile::{Reconcile, Reconciled};
use crate::store::start::{InFlight, ListCandidates, ListInFlight};
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
        self.clear_begun_logs()?;
        let runs = self.in_flight()?;
        let count = runs.len();
        for run in runs {
            self.take_up(&run);
        }
        Ok(count)
    }

    /// Removes the logs of Runs at the head of the queue: a daemon that died between making a log and
    /// storing whose it is has left it, and it would stay for good if its Run never started.
    fn clear_begun_logs(&self) -> Result<(), RecoveryError> {
        let heads = ListCandidates { limit: self.limits.active_attempts, except: Vec::new() };
        for candidate in self.store.call(heads).map_err(RecoveryError::Store)? {
            self.host.discard_log(candidate.run, candidate.attempt);
        }
        Ok(())
    }

    fn in_flight(&self) -> Result<Vec<InFlight>, RecoveryError> {
        let page = ListInFlight { limit: RECOVERY_CANDIDATES_MAX };
        let (runs, more) = self.store.call(page).map_err(RecoveryError::Store)?;
        if more { Err(RecoveryError::TooMany) } else { Ok(runs) }
    }

    /// The second proof, after the first looks and before [`open`](Self::open): the store is asked anew,
    /// and each Run that is to go on must be at the version that was remembered, without a receipt, its
    /// process running. What does not pass is looked at again, in the order of the evidence; what is not
    /// decided yet shows as it is and is looked at by turns.
    pub fn prove(&mut self) -> Result<(), RecoveryError> {
        let runs = self.in_flight()?;
        for run in &runs {
            let attempt = run.attempt.id;
            match self.places.get(&attempt) {
                None => self.take_up(run),
                Some(place) if !matches!(place.phase, Phase::Running) => {}
                Some(_) if self.is_proven(run) => {
                    if let Some(place) = self.places.get_mut(&attempt) {
                        place.recovery = None;
                    }
                }
                Some(_) => {
                    if let Some(place) = self.places.get_mut(&attempt) {
                        place.recovery = Some(Recovery::Taken);
                    }
                    self.look(attempt);
                }
            }
        }
        // Settled meanwhile by nobody knows whom: the store decides.
        let gone = |(attempt, place): (&AttemptId, &Place)| {
            let there = runs.iter().any(|run| run.attempt.id == *attempt);
            // One that is being stopped for what it kept has ended, and its stop goes on.
            (matches!(place.phase, Phase::Running) && place.halt.is_none() && !there).then_some(*attempt)
        };
        let gone: Vec<AttemptId> = self.places.iter().filter_map(gone).collect();
        for attempt in gone {
            self.leave(attempt);
        }
        Ok(())
    }

    fn is_proven(&self, run: &InFlight) -> bool {
        let Some(place) = self.places.get(&run.attempt.id) else { return false };
        let Some((handle, pid)) = &place.handle else { return false };
        place.recovery == Some(Recovery::Noted { version: run.run_version })
            && run.active_attempts == 1
            && matches!(self.host.read_receipt(run.attempt.id), ReceiptRead::Absent)
            && self.host.inspect(handle, *pid) == Inspection::Running
    }

    /// Ends the time of only looking: from now on runs are started, timed out and stopped.
    pub fn open(&mut self) {
        if self.door == Door::NotYetOpen {
            self.door = Door::Open;
            self.begin_schedules();
        }
    }

    /// Writes down that an Attempt of an earlier daemon lives, once; one whose start had come to its
    /// handle and not to `running` is that from now on.
    pub(super) fn note_survivor(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get_mut(&attempt) else { return };
        if place.recovery != Some(Recovery::Taken) {
            return;
        }
        place.recovery = Some(Recovery::Noting);
        let inbox = self.inbox.clone();
        let note = Reconcile { run: place.run, attempt };
        self.store.post(note, move |answer| inbox.send(Message::Survivor(attempt, answer)));
    }

    /// The store's answer to that.
    pub(super) fn survivor(&mut self, attempt: AttemptId, answer: Result<Reconciled, StoreError>) {
        let later = Some(self.later(WAIT_RECHECK_MS));
        let Some(place) = self.places.get_mut(&attempt) else { return };
        place.recovery = match answer {
            Ok(Reconciled::Noted { version }) => Some(Recovery::Noted { version }),
            // The facts have moved on; they are looked at again.
            Ok(Reconciled::Raced) => None,
            Err(_) => Some(Recovery::Taken),
        };
        if place.recovery == Some(Recovery::Taken) && place.due_ms.is_none() {
            place.due_ms = later;
        }
        if answer.is_ok() {
            self.host.crash_point("recover.reconciled");
        }
    }

    /// Somebody has settled this Attempt, and the store has it so: its place is free at once.
    pub(super) fn settled_by_hand(&mut self, attempt: AttemptId) {
        if self.places.contains_key(&attempt) {
            self.leave(attempt);
        }
        // An intent that was there is closed now.
        self.cancels.wanted = true;
    }

    fn take_up(&mut self, run: &InFlight) {
        let attempt = run.attempt.id;
        let mut place = Place::new(run.run, Phase::Unclear { looks: 0 });
        // Without a handle, or with another pid beside it than it names, a running one has an invalid one.
        let starting = run.attempt.state != AttemptState::Running;
        place.handle = match (&run.attempt.handle, run.pid) {
            (None, _) if starting => None,
            (handle, pid) => Some((handle.clone().unwrap_or_default(), pid.unwrap_or_default())),
        };
        place.recovery = Some(Recovery::Taken);
        place.token_digest = run.token_digest;
        place.grace_ms = run.grace_ms.unsigned_abs();
        // A deadline of another boot decides nothing: that boot's processes are gone.
        let here = self.host.boot();
        let deadline = run.deadline.filter(|deadline| Some(deadline.boot) == here);
        place.deadline_ms = deadline.map(|deadline| deadline.boot_ms.unsigned_abs());
        // More than one active Attempt, or none: nobody chooses one; it keeps its place and shows.
        if run.active_attempts != 1 {
            place.doubt = Some((Doubt::AttemptsAmbiguous, self.host.now().wall_ms));
            self.places.insert(attempt, place);
            return;
        }
        // Without a handle the hold was never released: nothing of it ran (design D3).
        if starting && place.handle.is_none() {
            place.phase = Phase::Losing { error_code: EXITED_WITHOUT_RECEIPT, unproven: false };
            self.places.insert(attempt, place);
            return self.post_loss(attempt);
        }
        // Before the look, so that no receipt comes between the two.
        if run.keeps {
            place.receipt_by = self.listen(attempt);
        }
        self.places.insert(attempt, place);
        self.look(attempt);
        self.host.crash_point("recover.taken");
    }
}
