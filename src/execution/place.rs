//! One place of the few that active Attempts may hold, and how far its Attempt has come.
//!
//! A place is progress, not authority: whether a step may happen is decided by the store's
//! compare-and-set, and after a crash the places are built again from what is stored.

use super::board::Doubt;
use super::host::{Hold, Receipt};
use crate::access::seal::Value;
use crate::model::id::RunId;
use crate::model::limits::{GRACE_MS_DEFAULT, KILL_PAUSE_MS_MAX, KILL_ROUNDS, KILL_WAIT_MS};
use crate::model::record::Deadline;
use crate::model::secret::SecretRef;
use crate::store::start::Candidate;

/// How far an Attempt has come in this daemon's life.
pub(super) enum Phase {
    /// The envelopes of its secrets are being read. `again` counts keys that were not there.
    Opening { candidate: Box<Candidate>, again: u32 },
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
    Stopped { unproven: bool },
    /// The Attempt's end without a receipt is with the store, or will be again.
    Losing { error_code: &'static str, unproven: bool },
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
    /// Its secrets, opened; wiped when the launch has them.
    pub(super) secrets: Vec<(SecretRef, Value)>,
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

/// How far recovery has come with an Attempt of an earlier daemon (spec/execution section 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Recovery {
    /// Its evidence is being looked at.
    Taken,
    /// It lives; that is being written down.
    Noting,
    /// That is written down, with the Run at this version; it is to be proven once more.
    Noted { version: i64 },
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
#[allow(clippy::struct_excessive_bools)] // facts of their own; none says anything about another
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
    /// How often something of it was killed and had to be looked at again.
    pub(super) kills: u32,
    /// Why nobody can say how it stands, and since when, in epoch milliseconds.
    pub(super) doubt: Option<(Doubt, i64)>,
    /// What lay in its receipt's place was put aside.
    pub(super) quarantined: bool,
    /// How far recovery has come with it; `None` once it is through, and for our own.
    pub(super) recovery: Option<Recovery>,
    /// How far it has come.
    pub(super) phase: Phase,
    /// When to look at it again by itself, in boot milliseconds.
    pub(super) due_ms: Option<u64>,
}

impl Place {
    /// Counts a KILL, or another look after one, and answers when to try again, in milliseconds: evenly
    /// for `rounds` times, then more and more rarely, with `true` for what must be taken as unkillable.
    pub(super) fn pause_after_kill(&mut self, rounds: u32, evenly_ms: u64) -> (u64, bool) {
        self.kills = self.kills.saturating_add(1);
        let over = self.kills.saturating_sub(rounds);
        if over == 0 {
            return (evenly_ms, false);
        }
        (KILL_WAIT_MS.saturating_mul(1 << over.min(16)).min(KILL_PAUSE_MS_MAX), true)
    }

    /// The same for KILLs that are given [`KILL_WAIT_MS`] each.
    pub(super) fn pause_after_kill_round(&mut self) -> (u64, bool) {
        self.pause_after_kill(KILL_ROUNDS, KILL_WAIT_MS)
    }

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
            kills: 0,
            doubt: None,
            quarantined: false,
            recovery: None,
            phase,
            due_ms: None,
        }
    }

    /// Whether this is why nobody can say how it stands.
    pub(super) fn is_in_doubt(&self, doubt: Doubt) -> bool {
        self.doubt.is_some_and(|(known, _)| known == doubt)
    }

    /// When it wants attention by itself, in boot milliseconds.
    pub(super) fn wants_ms(&self) -> Option<u64> {
        let deadline = self.deadline_ms.filter(|_| !self.asked);
        [self.due_ms, self.halt.map(|halt| halt.due_ms), deadline].into_iter().flatten().min()
    }
}
