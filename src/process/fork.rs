//! fork and exec.
//!
//! Between fork and exec of the daemon (which has other threads) only async-signal-safe calls are
//! made: no allocation, no lock, no panic. That is [`become_shim`] and [`probe_child`], and what they
//! call: `fd::{place, close_from, write_all, read_full}`, `signals::restore_defaults`, `own`, `step::report`.

use super::fd::{self, Place};
use super::step::{self, LaunchFailure, LaunchStep};
use super::{own, signals, stat, wait};
use crate::model::limits;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::fs::FileTypeExt as _;

/// Where the shim finds its orders, and later the release.
const ORDERS_FD: RawFd = 3;
/// Where the shim reports.
const STATUS_FD: RawFd = 4;
/// The binary to execute, until exec.
const EXE_FD: RawFd = 5;

/// Executes `exe` as a shim in a new process and returns its number. A failure on the way is reported
/// through `status`.
///
/// The child borrows this process's memory and this thread waits until it has executed (clone(2), VFORK):
/// a fork would copy the page tables, and have every page that the daemon writes next copied too.
pub(super) fn shim(
    exe: BorrowedFd<'_>,
    null: BorrowedFd<'_>,
    orders: BorrowedFd<'_>,
    status: BorrowedFd<'_>,
) -> io::Result<i32> {
    let mut ways =
        Ways { exe: exe.as_raw_fd(), null: null.as_raw_fd(), orders: orders.as_raw_fd(), status: status.as_raw_fd() };
    let mut stack = Stack([MaybeUninit::uninit(); limits::SHIM_STACK_BYTES]);
    let old = signals::block_for_fork();
    // SAFETY: until the child has executed or ended this thread waits, so `stack` and `ways` outlive it and
    // are nobody else's; the child makes async-signal-safe calls only, see the head of this file, and
    // changes nothing in the memory that it shares but its stack and this thread's errno.
    let pid = unsafe {
        let top = (&raw mut stack).add(1).cast();
        libc::clone(shim_main, top, libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD, (&raw mut ways).cast())
    };
    let error = io::Error::last_os_error();
    signals::unblock_after_fork(&old);
    if pid < 0 { Err(error) } else { Ok(pid) }
}

/// What the child needs until it executes.
struct Ways {
    exe: RawFd,
    null: RawFd,
    orders: RawFd,
    status: RawFd,
}

/// The child's stack, aligned as every architecture wants it.
#[repr(C, align(64))]
struct Stack([MaybeUninit<u8>; limits::SHIM_STACK_BYTES]);

extern "C" fn shim_main(ways: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `shim` passes its own `Ways` and waits.
    let ways = unsafe { &*ways.cast::<Ways>() };
    become_shim(ways.exe, ways.null, ways.orders, ways.status)
}

fn become_shim(exe: RawFd, null: RawFd, orders: RawFd, status: RawFd) -> ! {
    let keep = |from| Place { from, until_exec: false };
    let places =
        [keep(null), keep(null), keep(null), keep(orders), keep(status), Place { from: exe, until_exec: true }];
    let (at, failure) = if let Err(errno) = fd::place(&places) {
        (status, LaunchFailure { step: LaunchStep::Descriptors, errno })
    } else {
        fd::close_from(EXE_FD + 1);
        signals::restore_defaults();
        (STATUS_FD, LaunchFailure { step: LaunchStep::ExecShim, errno: exec_shim() })
    };
    let _ = fd::write_all(at, &step::report(Err(failure)));
    own::exit_now(127)
}

/// Only returns when it failed. The empty environment is part of the promise that no secret of the
/// daemon's, and none of its tuning, reaches a shim.
fn exec_shim() -> i32 {
    let argv = [c"qinglet".as_ptr(), c"shim".as_ptr(), std::ptr::null()];
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: all strings are NUL-terminated literals and both lists end in null.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            EXE_FD,
            c"".as_ptr(),
            argv.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        );
        // Where that call is missing or filtered the same file has a name in /proc.
        if matches!(fd::errno(), libc::ENOSYS | libc::EPERM | libc::EINVAL) {
            libc::execve(c"/proc/self/fd/5".as_ptr(), argv.as_ptr(), environment.as_ptr());
        }
    }
    fd::errno()
}

/// In the shim: its orders and where it reports; `None` when somebody typed the command. Once only.
pub(super) fn inherited_pipes() -> Option<(File, OwnedFd)> {
    let take = |number: RawFd| {
        let meta = std::fs::metadata(format!("/proc/self/fd/{number}")).ok()?;
        // SAFETY: the descriptor is open, a pipe, and by the protocol belongs to the caller alone.
        meta.file_type().is_fifo().then(|| unsafe { OwnedFd::from_raw_fd(number) })
    };
    Some((File::from(take(ORDERS_FD)?), take(STATUS_FD)?))
}

/// Who returns from a [`plain`] fork.
pub(super) enum Fork {
    /// The new process.
    Child,
    /// The old one, and the new one's number.
    Parent(i32),
}

/// Forks a process that has no other threads (the shim), where everything stays usable.
pub(super) fn plain() -> io::Result<Fork> {
    // SAFETY: the caller is single-threaded, so no lock is held by a thread that the child lacks.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        pid if pid > 0 => Ok(Fork::Parent(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Becomes another program; only returns, with the errno, when that failed.
pub(super) fn exec(program: &CStr, argv: &[&CStr], environment: &[&CStr]) -> i32 {
    let list = |texts: &[&CStr]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, environment) = (list(argv), list(environment));
    // SAFETY: all strings are NUL-terminated and both lists end in null.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
    fd::errno()
}

/// Whether this process can read /proc/<pid>/stat of a child that made itself undumpable: not so for
/// a user other than root under hidepid=2, where shims must stay dumpable to be recognised.
pub(super) fn can_see_undumpable_children() -> io::Result<bool> {
    throwaway(|pid| stat::read(pid).is_ok_and(|stat| stat.pid == pid)).map(|(seen, _)| seen)
}

/// Forks an undumpable child that does nothing while `look` looks at it, and then tries to become
/// another user. Answers what was seen, and whether it could.
pub(super) fn throwaway<T>(look: impl FnOnce(i32) -> T) -> io::Result<(T, bool)> {
    let (mut ready, ready_child) = io::pipe()?;
    let (hold_child, hold) = io::pipe()?;
    let old = signals::block_for_fork();
    // SAFETY: the child makes async-signal-safe calls only, see the head of this file.
    let pid = unsafe { libc::fork() };
    let error = io::Error::last_os_error();
    if pid == 0 {
        probe_child(ready_child.as_raw_fd(), hold_child.as_raw_fd());
    }
    signals::unblock_after_fork(&old);
    if pid < 0 {
        return Err(error);
    }
    drop(ready_child);
    let told = io::Read::read_exact(&mut ready, &mut [0]);
    let seen = look(pid);
    drop(hold);
    loop {
        match wait::one(pid) {
            Ok(wait::Waited::Alive) => {}
            Ok(wait::Waited::Gone(_, ended)) => return told.map(|()| (seen, ended.exit_code() == 0)),
            _ => return told.map(|()| (seen, false)),
        }
        // The child ends as soon as it sees the closed pipe; its own end of `ready` closes with it.
        let mut look = [super::poll::readable(ready.as_fd())];
        super::poll::wait(&mut look, Some(1))?;
    }
}

fn probe_child(ready: RawFd, hold: RawFd) -> ! {
    /// Any user but root and ourselves; it is there in every user namespace that can change users.
    const OTHER: u32 = 1;
    let _ = own::become_undumpable();
    let keep = |from| Place { from, until_exec: false };
    // Its copies of the parent's ends go with the rest, or it would wait for itself; so would two that
    // are made at once, each for the other.
    if fd::place(&[keep(ready), keep(hold)]).is_ok() {
        fd::close_from(2);
        let _ = fd::write_all(0, &[1]);
        let _ = fd::read_full(1, &mut [0]);
    }
    own::exit_now(i32::from(own::become_user(OTHER, OTHER, &[OTHER]).is_err()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_undumpable_child_is_seen_here() {
        assert!(super::can_see_undumpable_children().unwrap());
    }

    #[test]
    fn probes_at_the_same_time_do_not_wait_for_each_other() {
        let probe = || (0..50).for_each(|_| assert!(super::can_see_undumpable_children().unwrap()));
        let all: Vec<_> = (0..4).map(|_| std::thread::spawn(probe)).collect();
        for probe in all {
            probe.join().unwrap();
        }
    }
}
