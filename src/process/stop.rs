//! Stopping exactly the process a handle names (spec/execution section 6, design D5 and D6).

use super::handle::Handle;
use super::identity::{self, Inspection};
use super::pidfd::PidFd;
use super::{clock, poll, signals, tree};
use crate::model::limits;
use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

/// What came of a stop. Only the first two may end an Attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// It was signalled and seen gone.
    Stopped,
    /// It was proven gone before a signal was needed.
    AlreadyExited,
    /// Its identity could not be decided any more after a signal.
    Unknown,
    /// The system gives no evidence; nothing was signalled.
    Unavailable,
    /// The system refused the signal.
    SignalFailed,
    /// It is still there after KILL.
    Timeout,
    /// The handle names nothing of ours; nothing was signalled.
    InvalidHandle,
}

/// Without a pidfd the end is looked for this often.
const LOOK_MS: u64 = 20;

/// Stops the shim `handle` names: TERM, at most `wait`, the whole identity again, then everything below
/// it and only then the shim itself, so that nothing is orphaned. Blocks; for a held shim (whose user
/// code was never released) that is milliseconds.
pub fn stop_exact(handle: &Handle, wait: Duration) -> Stopped {
    let pidfd = PidFd::open(handle.pid);
    match identity::inspect(handle) {
        Inspection::Running => {}
        Inspection::NotRunning => return Stopped::AlreadyExited,
        Inspection::Invalid => return Stopped::InvalidHandle,
        Inspection::Unavailable => return Stopped::Unavailable,
    }
    let steps: [(&dyn Fn() -> io::Result<()>, u64); 3] = [
        (&|| send(handle, pidfd.as_ref(), libc::SIGTERM), wait.as_millis() as u64),
        (&|| kill_tree(handle).map(drop), limits::KILL_WAIT_MS),
        (&|| send(handle, pidfd.as_ref(), libc::SIGKILL), limits::KILL_WAIT_MS),
    ];
    for (act, wait_ms) in steps {
        match identity::inspect(handle) {
            Inspection::Running => {}
            Inspection::NotRunning => return Stopped::Stopped,
            Inspection::Invalid | Inspection::Unavailable => return Stopped::Unknown,
        }
        match act() {
            Err(e) if e.raw_os_error() != Some(libc::ESRCH) => return Stopped::SignalFailed,
            _ => {}
        }
        if is_gone(handle, pidfd.as_ref(), wait_ms) {
            return Stopped::Stopped;
        }
    }
    Stopped::Timeout
}

/// The shim alone lives in its group, so its pidfd and its group mean the same process; the pidfd
/// cannot mean another.
fn send(handle: &Handle, pidfd: Option<&PidFd>, signal: libc::c_int) -> io::Result<()> {
    match pidfd {
        Some(pidfd) => pidfd.send(signal),
        None => signals::send(-handle.pgid, signal),
    }
}

fn is_gone(handle: &Handle, pidfd: Option<&PidFd>, wait_ms: u64) -> bool {
    let end = clock::boottime_ms() + wait_ms as i64;
    loop {
        if identity::inspect(handle) == Inspection::NotRunning {
            return true;
        }
        let left = end - clock::boottime_ms();
        if left <= 0 {
            return false;
        }
        let waited = match pidfd {
            Some(pidfd) => poll::wait(&mut [poll::readable(pidfd.as_fd())], Some(left as u64)),
            None => poll::wait(&mut [], Some(LOOK_MS.min(left as u64))),
        };
        if waited.is_err() {
            return false;
        }
    }
}

/// What became of one signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signalled {
    /// The identity was verified and the signal is on its way.
    Sent,
    /// There was nothing left to signal.
    AlreadyExited,
    /// Not verified, or refused by the system; nothing was signalled.
    Unknown,
}

/// Verifies the whole identity, then sends one signal to exactly that process. Never waits, so that
/// the control loop can advance a stop by turns.
pub fn signal_exact(handle: &Handle, signal: libc::c_int) -> Signalled {
    let pidfd = PidFd::open(handle.pid);
    match identity::inspect(handle) {
        Inspection::Running => {}
        Inspection::NotRunning => return Signalled::AlreadyExited,
        Inspection::Invalid | Inspection::Unavailable => return Signalled::Unknown,
    }
    match send(handle, pidfd.as_ref(), signal) {
        Ok(()) => Signalled::Sent,
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => Signalled::AlreadyExited,
        Err(_) => Signalled::Unknown,
    }
}

/// Verifies the whole identity, then ends everything below that process, but not itself: how many
/// were ended, `None` when the identity is not proven or /proc gives nothing. Bounded, without a wait.
pub fn kill_descendants(handle: &Handle) -> Option<usize> {
    match identity::inspect(handle) {
        Inspection::Running => {
            let killed = kill_tree(handle).ok();
            // One that was stopped after its TERM could not free them, and would leave no receipt.
            let _ = signal_exact(handle, libc::SIGCONT);
            killed
        }
        _ => None,
    }
}

fn kill_tree(handle: &Handle) -> io::Result<usize> {
    tree::kill_below(handle.pid, || identity::inspect(handle) == Inspection::Running)
}
