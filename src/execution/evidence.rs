//! What speaks for and against a Run, laid side by side for people: the store, the receipt, the process.
//! Only looks; the judgement itself is the engine's (`finish`), or a person's.

use super::board::{Doubt, Undecided};
use super::host::Inspection;
use crate::model::life::RunState;
use crate::store::evidence::{ActiveAttempt, Stored};

/// What lies in a receipt's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptSeen {
    /// The Attempt's own.
    Found,
    /// Nothing.
    Absent,
    /// Something that is not to be believed.
    Invalid,
    /// It cannot be read now.
    Unavailable,
}

impl ReceiptSeen {
    /// The word that is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Absent => "absent",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
        }
    }
}

/// What was seen of one Attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its receipt.
    pub receipt: ReceiptSeen,
    /// The process behind its handle; `None`: it has no handle, so that nothing of it ran.
    pub process: Option<Inspection>,
}

impl Seen {
    /// The word that is shown for the process.
    pub const fn process_word(self) -> &'static str {
        match self.process {
            Some(Inspection::Running) => "running",
            Some(Inspection::NotRunning) => "gone",
            Some(Inspection::Invalid) => "invalid",
            Some(Inspection::Unavailable) => "unavailable",
            None => "none",
        }
    }
}

/// Looks at an Attempt's evidence outside the store. Handed to the HTTP side, which does not know the
/// process side.
pub trait Look: Send + Sync {
    /// Looks; never signals, never moves a file.
    fn look(&self, stored: &ActiveAttempt) -> Seen;
}

/// Everything about one Run.
pub struct Evidence {
    /// What is stored.
    pub stored: Stored,
    /// What was seen of each active Attempt, in the same order.
    pub seen: Vec<Seen>,
    /// The running daemon cannot decide it.
    pub undecided: Option<Undecided>,
    /// A daemon runs.
    pub is_served: bool,
}

impl Evidence {
    /// Looks at everything.
    pub fn gather(stored: Stored, look: &dyn Look, undecided: Option<Undecided>, is_served: bool) -> Self {
        let seen = stored.active.iter().map(|attempt| look.look(attempt)).collect();
        Self { stored, seen, undecided, is_served }
    }

    /// Why the Run may not be called lost by hand; `None`: it may.
    pub fn objection(&self) -> Option<Objection> {
        match self.stored.run.state {
            RunState::Dispatching | RunState::Running => {}
            RunState::Lost => return Some(Objection::Lost),
            state if state.is_terminal() => return Some(Objection::Ended),
            _ => return Some(Objection::Waiting),
        }
        if self.seen.iter().any(|seen| seen.process == Some(Inspection::Running)) {
            return Some(Objection::Alive);
        }
        if let [Seen { receipt: ReceiptSeen::Found, .. }] = self.seen[..] {
            return Some(Objection::EndKnown);
        }
        // A daemon that is at work on it, perhaps starting it just now, must not be cut short.
        (self.is_served && self.undecided.is_none()).then_some(Objection::NotUndecided)
    }

    /// What will happen with it by itself.
    pub fn next(&self) -> Next {
        match (self.stored.run.state, self.undecided) {
            (RunState::Dispatching | RunState::Running, _) if !self.is_served => Next::NextStart,
            (RunState::Dispatching | RunState::Running, Some(undecided)) => match undecided.doubt {
                Doubt::Unkillable => Next::KillAgain,
                Doubt::AttemptsAmbiguous => Next::Nothing,
                _ => Next::LookAgain,
            },
            (RunState::Dispatching | RunState::Running, None) => Next::Watched,
            (state, _) if state.is_terminal() || state == RunState::Lost => Next::Nothing,
            _ => Next::Starts,
        }
    }

    /// Whether nobody can decide it: what the daemon says, or without one what is seen.
    pub fn is_undecided(&self) -> bool {
        if self.is_served {
            return self.undecided.is_some();
        }
        let [seen] = self.seen[..] else { return true };
        let clear = matches!(seen.process, None | Some(Inspection::Running | Inspection::NotRunning));
        !clear && seen.receipt != ReceiptSeen::Found || seen.receipt == ReceiptSeen::Unavailable
    }
}

/// Why a Run may not be called lost by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objection {
    /// A process of it lives.
    Alive,
    /// Its receipt is there.
    EndKnown,
    /// The daemon is not in doubt about it.
    NotUndecided,
    /// It has not started.
    Waiting,
    /// It is lost already.
    Lost,
    /// It has ended.
    Ended,
}

impl Objection {
    /// The machine word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::EndKnown => "end_known",
            Self::NotUndecided => "not_undecided",
            Self::Waiting => "waiting",
            Self::Lost => "lost",
            Self::Ended => "ended",
        }
    }

    /// What it means and what to do instead.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Alive => "a process of it lives; stop it instead with `qinglet stop RUN`, or end that process",
            Self::EndKnown => "its receipt is there and says how it ended; a running daemon takes it in by itself",
            Self::NotUndecided => "nothing about it is in doubt; the daemon is at work on it",
            Self::Waiting => "it has not started; `qinglet stop RUN` takes it out of the queue",
            Self::Lost => "it is lost already",
            Self::Ended => "it has ended",
        }
    }
}

/// What will happen with a Run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Its process is watched; its end will be known.
    Watched,
    /// It is looked at again every few seconds.
    LookAgain,
    /// It is killed again, more and more rarely.
    KillAgain,
    /// The next daemon looks at it.
    NextStart,
    /// It starts when it is its turn.
    Starts,
    /// Nothing.
    Nothing,
}

impl Next {
    /// The machine word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::LookAgain => "look_again",
            Self::KillAgain => "kill_again",
            Self::NextStart => "next_start",
            Self::Starts => "starts",
            Self::Nothing => "nothing",
        }
    }
}
