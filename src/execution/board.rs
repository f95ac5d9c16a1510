//! What the engine shows of itself to readers on other threads: facts of this moment, in memory
//! only, never an authority for anything.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

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

/// The board. The engine writes it, everybody reads it.
#[derive(Debug, Default)]
pub struct Board {
    active: AtomicUsize,
    wait: AtomicU8,
    clock_untrusted: AtomicBool,
}

impl Board {
    /// Attempts that hold a place now.
    pub fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// Why queued Runs wait, if they do.
    pub fn wait_reason(&self) -> Option<WaitReason> {
        match self.wait.load(Ordering::Relaxed) {
            1 => Some(WaitReason::Capacity),
            2 => Some(WaitReason::Pids),
            3 => Some(WaitReason::Memory),
            4 => Some(WaitReason::Disk),
            _ => None,
        }
    }

    /// Whether schedules wait because the wall clock is not believed.
    pub fn clock_is_untrusted(&self) -> bool {
        self.clock_untrusted.load(Ordering::Relaxed)
    }

    /// Shows whether the wall clock is believed.
    pub(super) fn show_clock(&self, believed: bool) {
        self.clock_untrusted.store(!believed, Ordering::Relaxed);
    }

    /// Shows how things stand.
    pub(super) fn show(&self, active: usize, wait: Option<WaitReason>) {
        self.active.store(active, Ordering::Relaxed);
        self.wait.store(wait.map_or(0, |reason| reason as u8), Ordering::Relaxed);
    }
}
