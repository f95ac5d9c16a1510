//! What the engine shows of itself to readers on other threads: facts of this moment, in memory
//! only, never an authority for anything.

use crate::model::id::{AttemptId, RunId};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why a queued Run is not being started (design D17).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WaitReason {
    /// Every place for an active Attempt is taken.
    Capacity = 1,
    /// Too few PIDs are free.
    Pids = 2,
    /// Too little memory is free.
    Memory = 3,
    /// Too little space is free for a log or for the state.
    Disk = 4,
}

impl WaitReason {
    /// The word that is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Pids => "pids",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// Why nobody can say how an active Attempt stands (design D21). It stays as it is, keeps its place, and
/// is looked at again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// Its handle cannot be read, or names another pid than the one stored beside it.
    HandleInvalid,
    /// The system does not say whether its process lives.
    ProcessUnknown,
    /// Its receipt cannot be read, or not be put aside, for now.
    ReceiptUnreadable,
    /// Its receipt was not to be believed and was put aside, and the process does not say more.
    ReceiptQuarantined,
    /// Its Run has another active Attempt beside it, or is under way without any.
    AttemptsAmbiguous,
    /// Its shim is gone, and what that may have left cannot be looked for.
    SweepImpossible,
    /// It stays alive after KILL. Tried again more and more rarely.
    Unkillable,
}

impl Doubt {
    /// Every doubt.
    pub const ALL: [Self; 7] = [
        Self::HandleInvalid,
        Self::ProcessUnknown,
        Self::ReceiptUnreadable,
        Self::ReceiptQuarantined,
        Self::AttemptsAmbiguous,
        Self::SweepImpossible,
        Self::Unkillable,
    ];

    /// The word that is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::HandleInvalid => "handle_invalid",
            Self::ProcessUnknown => "process_unknown",
            Self::ReceiptUnreadable => "receipt_unreadable",
            Self::ReceiptQuarantined => "receipt_quarantined",
            Self::AttemptsAmbiguous => "attempts_ambiguous",
            Self::SweepImpossible => "sweep_impossible",
            Self::Unkillable => "unkillable",
        }
    }
}

/// A Run that nobody can decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undecided {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
    /// Why.
    pub doubt: Doubt,
    /// Since when it has been in doubt, for whatever reason, in epoch milliseconds.
    pub since_ms: i64,
}

/// The board. The engine writes it, everybody reads it.
#[derive(Debug, Default)]
pub struct Board {
    active: AtomicUsize,
    wait: AtomicU8,
    clock_untrusted: AtomicBool,
    age_decides: AtomicBool,
    store_failing: AtomicBool,
    /// At most as many as there are places.
    undecided: Mutex<Vec<Undecided>>,
}

impl Board {
    /// Attempts that hold a place now.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Why queued Runs wait, if they do.
    pub fn wait_reason(&self) -> Option<WaitReason> {
        // Starts and ends whose commits find no space hold their places: whatever else there is to wait for
        // comes of that.
        if self.store_is_failing() {
            return Some(WaitReason::Disk);
        }
        match self.wait.load(Ordering::Relaxed) {
            1 => Some(WaitReason::Capacity),
            2 => Some(WaitReason::Pids),
            3 => Some(WaitReason::Memory),
            4 => Some(WaitReason::Disk),
            _ => None,
        }
    }

    /// Whether the store could not do the last thing that the engine asked it for: most often no space.
    pub fn store_is_failing(&self) -> bool {
        self.store_failing.load(Ordering::Relaxed)
    }

    /// Shows whether the store does what it is asked for. Answers whether that is news.
    pub(super) fn show_store(&self, failing: bool) -> bool {
        self.store_failing.swap(failing, Ordering::Relaxed) != failing
    }

    /// Whether schedules wait because the wall clock is not believed.
    pub fn clock_is_untrusted(&self) -> bool {
        self.clock_untrusted.load(Ordering::Relaxed)
    }

    /// Shows whether the wall clock is believed.
    pub(super) fn show_clock(&self, believed: bool) {
        self.clock_untrusted.store(!believed, Ordering::Relaxed);
    }

    /// Whether something may end for its age (design D9): less often true than that schedules go by the
    /// clock, and never before it was looked at.
    pub fn age_decides(&self) -> bool {
        self.age_decides.load(Ordering::Relaxed)
    }

    /// Shows whether something may end for its age; the engine's to say.
    pub fn show_age(&self, decides: bool) {
        self.age_decides.store(decides, Ordering::Relaxed);
    }

    /// How many Runs nobody can decide.
    pub fn undecided_count(&self) -> usize {
        self.list().len()
    }

    /// The Runs that nobody can decide, by Attempt, at most so many.
    pub fn undecided(&self, limit: usize) -> Vec<Undecided> {
        self.list().iter().take(limit).copied().collect()
    }

    /// Whether nobody can decide this Run, and why.
    pub fn undecided_run(&self, run: RunId) -> Option<Undecided> {
        self.list().iter().find(|undecided| undecided.run == run).copied()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Undecided>> {
        // Nothing that could panic runs under this lock.
        self.undecided.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows how things stand.
    pub(super) fn show(&self, active: usize, wait: Option<WaitReason>) {
        self.active.store(active, Ordering::Relaxed);
        self.wait.store(wait.map_or(0, |reason| reason as u8), Ordering::Relaxed);
    }

    /// Shows which Runs nobody can decide; the engine's to say.
    pub fn show_undecided(&self, now: impl Iterator<Item = Undecided>) {
        let mut list = self.list();
        list.clear();
        list.extend(now);
    }
}
