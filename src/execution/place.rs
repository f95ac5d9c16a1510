//! One place of the few that active Attempts may hold, and how far its Attempt has come.
//!
//! A place is progress, not authority: whether a step may happen is decided by the store's
//! compare-and-set, and after a crash the places are built again from what is stored.

use super::host::{Hold, Receipt};
use crate::model::id::RunId;
use crate::model::limits::GRACE_MS_DEFAULT;
use crate::model::record::Deadline;
use crate::store::start::Candidate;

/// How far an Attempt has come in this daemon's life.
pub(super) enum Phase {
    /// T2 is with the store. `again` counts answers of unknown outcome.
    Intending { candidate: Box<Candidate>, start: Start, again: u32 },
    /// The launcher is at work.
    Launching,
    /// T3 is with the store; the shim is held.
    Owning { hold: Box<dyn Hold>, again: u32 },
    /// User code was released, by this daemon or by an earlier one.
    Running,
    /// T4 is with the store, or will be again.
    Failing { why: Failure },
    /// Ownership could not be stored; the held shim is being stopped (T5).
    Stopping { next: StopStep },
    /// It was stopped and is gone without a receipt; its end is with the store, or will be again.
    Stopped,
    /// The Attempt's end without a receipt is with the store, or will be again.
    Losing { error_code: &'static str },
    /// T6 is with the store, or will be again.
    Completing { receipt: Box<Receipt> },
    /// Its process is gone or unclear and nothing can be said yet; looked at again when due.
    Unclear { looks: u32 },
}

/// What T2 stores and the launch needs again.
#[derive(Clone)]
pub(super) struct Start {
    /// The token in plain, for the launch.
    pub(super) token: [u8; 32],
    /// Where output goes.
    pub(super) log: super::host::LogGrant,
    /// When its time is up, if ever.
    pub(super) deadline: Option<Deadline>,
}

/// Why a start failed before ownership.
#[derive(Clone)]
pub(super) struct Failure {
    /// The machine word.
    pub(super) code: &'static str,
    /// Words for people.
    pub(super) summary: String,
}

/// What a stop does when it is due (design D8: advanced by turns, nothing sleeps).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StopStep {
    /// Verify and send TERM.
    Term,
    /// Verify again and send KILL.
    Kill,
    /// See whether it is gone.
    Look,
}

/// What a stop of a released program does when it is due (design D6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HaltStep {
    /// TERM to the shim, which passes it on to everything below it.
    Term,
    /// KILL to everything below the shim.
    Below,
    /// KILL to a shim that stays although nothing is below it.
    Shim,
}

/// A stop under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Halt {
    /// The next step.
    pub(super) next: HaltStep,
    /// When it is due, in boot milliseconds.
    pub(super) due_ms: u64,
}

/// How an Attempt's receipt is learned of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceiptBy {
    /// By the end of its shim.
    End,
    /// Its shim may stay (`leftovers: keep`), and the host tells of its receipt.
    Word,
    /// Its shim may stay, and nobody tells of its receipt.
    Looks,
}

/// A place.
pub(super) struct Place {
    /// The Run.
    pub(super) run: RunId,
    /// The durable handle's text and the pid, once captured.
    pub(super) handle: Option<(String, i32)>,
    /// The token's digest, once there is a token.
    pub(super) token_digest: Option<crate::model::digest::Digest>,
    /// When its time is up, in boot milliseconds.
    pub(super) deadline_ms: Option<u64>,
    /// Between TERM and KILL.
    pub(super) grace_ms: u64,
    /// There is an intent to end it, or one is being stored.
    pub(super) asked: bool,
    /// Its stop, once that has begun.
    pub(super) halt: Option<Halt>,
    /// Somebody tells of its shim's end although it is not our child.
    pub(super) told: bool,
    /// How its receipt is learned of.
    pub(super) receipt_by: ReceiptBy,
    /// The shim was reaped.
    pub(super) exited: bool,
    /// How far it has come.
    pub(super) phase: Phase,
    /// When to look at it again by itself, in boot milliseconds.
    pub(super) due_ms: Option<u64>,
}

impl Place {
    /// A place for an Attempt of which nothing is known yet.
    pub(super) fn new(run: RunId, phase: Phase) -> Self {
        Self {
            run,
            handle: None,
            token_digest: None,
            deadline_ms: None,
            grace_ms: GRACE_MS_DEFAULT.unsigned_abs(),
            asked: false,
            halt: None,
            told: false,
            receipt_by: ReceiptBy::End,
            exited: false,
            phase,
            due_ms: None,
        }
    }

    /// When it wants attention by itself, in boot milliseconds.
    pub(super) fn wants_ms(&self) -> Option<u64> {
        let deadline = self.deadline_ms.filter(|_| !self.asked);
        [self.due_ms, self.halt.map(|halt| halt.due_ms), deadline].into_iter().flatten().min()
    }
}
