//! One place of the few that active Attempts may hold, and how far its Attempt has come.
//!
//! A place is progress, not authority: whether a step may happen is decided by the store's
//! compare-and-set, and after a crash the places are built again from what is stored.

use super::host::{Hold, Receipt};
use crate::model::id::RunId;
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

/// A place.
pub(super) struct Place {
    /// The Run.
    pub(super) run: RunId,
    /// The durable handle's text and the pid, once captured.
    pub(super) handle: Option<(String, i32)>,
    /// The token's digest, once there is a token.
    pub(super) token_digest: Option<crate::model::digest::Digest>,
    /// The shim was reaped.
    pub(super) exited: bool,
    /// How far it has come.
    pub(super) phase: Phase,
    /// When to look at it again by itself, in boot milliseconds.
    pub(super) due_ms: Option<u64>,
}
