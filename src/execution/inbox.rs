//! How other threads reach the engine: short messages and a waker.
//!
//! The queue is bounded by construction: an Attempt has at most one message under way, a page of
//! candidates at most one, and pokes fold into a flag; an Attempt is settled by hand once.

use super::host::{Hold, LaunchFailure};
use super::housekeeping::Kept;
use crate::model::id::AttemptId;
use crate::model::name::Name;
use crate::model::secret::Envelope;
use crate::store::StoreError;
use crate::store::cancel::{CancelRequested, Cancelling};
use crate::store::fire::{Due, Fired};
use crate::store::reconcile::Reconciled;
use crate::store::retry::Waiting;
use crate::store::start::{Candidate, Completed, Step};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// What the engine is told.
pub(super) enum Message {
    /// A page of candidates was read.
    Candidates(Result<Vec<Candidate>, StoreError>),
    /// The envelopes of a start's secrets were read.
    SecretsRead(AttemptId, Result<Vec<Option<Envelope>>, StoreError>),
    /// The launcher has answered.
    Launched(AttemptId, Result<Box<dyn Hold>, LaunchFailure>),
    /// The store has answered the transaction that the Attempt's phase waits for.
    Stepped(AttemptId, Result<Step, StoreError>),
    /// The store has answered a completion.
    Completed(AttemptId, Result<Completed, StoreError>),
    /// The journal has this Attempt's receipt put aside.
    Quarantined(AttemptId),
    /// The Runs that were asked to end were read.
    Cancelling(Result<Vec<Cancelling>, StoreError>),
    /// The store has answered an intent of our own.
    Asked(AttemptId, Result<CancelRequested, StoreError>),
    /// The store has written down that an Attempt of an earlier daemon lives, or not.
    Survivor(AttemptId, Result<Reconciled, StoreError>),
    /// Somebody has settled this Attempt.
    Settled(AttemptId),
    /// The Runs that wait for another Attempt were read.
    Retries(Result<Vec<Waiting>, StoreError>),
    /// A Run's next Attempt was made, or not.
    Retried(Result<Step, StoreError>),
    /// The newest stored time was read.
    ClockRead(Result<i64, StoreError>),
    /// Schedules that a clock ahead has computed are to be computed anew, or not.
    Recomputed(bool),
    /// A page of schedules that are due was read.
    Due(Result<(Vec<Due>, Option<i64>), StoreError>),
    /// An occurrence was decided, or not.
    Fired(Result<Fired, StoreError>),
    /// A page of triggers at boot was looked at.
    FiredAtBoot(Result<(Option<(Name, Name)>, usize), StoreError>),
    /// The store has answered a step of housekeeping.
    Kept(Kept),
    /// The store has resolved these journal rows, or not.
    Resolved(Vec<AttemptId>, bool),
}

impl Message {
    /// Whether the store has done what it was asked for; `None`: it was not asked, or was only busy.
    pub(super) fn store_answered(&self) -> Option<bool> {
        fn done<T>(answer: &Result<T, StoreError>) -> Option<bool> {
            match answer {
                Ok(_) => Some(true),
                Err(StoreError::Unavailable(_)) => Some(false),
                Err(StoreError::Busy | StoreError::Closed) => None,
            }
        }
        match self {
            // Reads do not tell: they go on working when nothing can be written.
            Self::Stepped(_, answer) | Self::Retried(answer) => done(answer),
            Self::Completed(_, answer) => done(answer),
            Self::Asked(_, answer) => done(answer),
            Self::Fired(answer) => done(answer),
            _ => None,
        }
    }
}

/// The sending side; cheap to clone.
#[derive(Clone)]
pub struct Inbox {
    messages: Sender<Message>,
    poked: Arc<AtomicBool>,
    triggers_poked: Arc<AtomicBool>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Inbox {
    /// An inbox and its receiving side. `wake` makes the engine's thread take a turn; it must be
    /// callable from every thread and must not block.
    pub(super) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> (Self, Receiver<Message>) {
        let (messages, receiver) = channel();
        (Self { messages, poked: Arc::default(), triggers_poked: Arc::default(), wake }, receiver)
    }

    /// Says that there may be something to start or to stop.
    pub fn poke(&self) {
        self.poked.store(true, Ordering::Release);
        (self.wake)();
    }

    /// Says that a trigger has changed.
    pub fn poke_triggers(&self) {
        self.triggers_poked.store(true, Ordering::Release);
        self.poke();
    }

    /// Takes the poke about triggers, if there was one.
    pub(super) fn take_trigger_poke(&self) -> bool {
        self.triggers_poked.swap(false, Ordering::AcqRel)
    }

    /// Says that somebody has settled this Attempt, so that its place is free.
    pub fn settled(&self, attempt: AttemptId) {
        self.send(Message::Settled(attempt));
    }

    /// Takes the poke, if there was one.
    pub(super) fn take_poke(&self) -> bool {
        self.poked.swap(false, Ordering::AcqRel)
    }

    /// Delivers a message. When the engine is gone there is nobody to tell, which is fine.
    pub(super) fn send(&self, message: Message) {
        let _ = self.messages.send(message);
        (self.wake)();
    }
}
