//! Signals as input: blocked, and read from a signalfd beside everything else that is polled.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the daemon and the shim listen to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGHUP.
    Hangup,
    /// SIGCHLD: one or more children changed. They merge, so look at all of them.
    Child,
}

const LISTENED: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD];

/// Faults of the process itself. Blocking them would only make the kernel kill it without a word.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP];

/// The signalfd. The signals stay blocked in the thread that made it and in every thread it starts
/// afterwards, so it must be made before the first one.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Blocks TERM, INT, HUP and CHLD in this thread and listens to them.
    pub fn block() -> io::Result<Self> {
        let listened = set_of(&LISTENED);
        mask(libc::SIG_BLOCK, &listened)?;
        Self::listen(&listened)
    }

    /// Blocks every signal but faults in this thread and listens to TERM, INT, HUP and CHLD: for the
    /// shim, which nothing but KILL may end before its task.
    pub fn block_all() -> io::Result<Self> {
        mask(libc::SIG_SETMASK, &all_but_faults())?;
        Self::listen(&set_of(&LISTENED))
    }

    fn listen(listened: &libc::sigset_t) -> io::Result<Self> {
        // SAFETY: `listened` is an initialised signal set.
        let fd = unsafe { libc::signalfd(-1, listened, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The next signal, if one waits.
    pub fn take(&self) -> io::Result<Option<Signal>> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        loop {
            match (&self.0).read(&mut info) {
                // ssi_signo is the record's first field.
                Ok(_) => {
                    let number = u32::from_ne_bytes([info[0], info[1], info[2], info[3]]);
                    match number as libc::c_int {
                        libc::SIGTERM => return Ok(Some(Signal::Terminate)),
                        libc::SIGINT => return Ok(Some(Signal::Interrupt)),
                        libc::SIGHUP => return Ok(Some(Signal::Hangup)),
                        libc::SIGCHLD => return Ok(Some(Signal::Child)),
                        _ => {}
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the whole set and cannot fail for a valid pointer.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = empty_set();
    for &signal in signals {
        // SAFETY: `set` is initialised; a bad number only yields an error.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    set
}

fn all_but_faults() -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: `set` is initialised; a bad number only yields an error.
    unsafe {
        libc::sigfillset(&raw mut set);
        for fault in FAULTS {
            libc::sigdelset(&raw mut set, fault);
        }
    }
    set
}

fn mask(how: libc::c_int, set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is an initialised signal set; the old one is not asked for.
    let error = unsafe { libc::pthread_sigmask(how, set, std::ptr::null_mut()) };
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// Blocks every signal in this thread and returns what was blocked before: around a fork, so that no
/// handler of the parent runs in the child.
pub(super) fn block_for_fork() -> libc::sigset_t {
    let mut old = empty_set();
    let all = all_but_faults();
    // SAFETY: both sets are initialised; pthread_sigmask with valid arguments cannot fail.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old) };
    old
}

/// Puts back what [`block_for_fork`] returned.
pub(super) fn unblock_after_fork(old: &libc::sigset_t) {
    let _ = mask(libc::SIG_SETMASK, old);
}

/// Signals of the kernel, and the size of its set of them, on every architecture we build for.
const SIGNALS_MAX: libc::c_int = 64;
/// See [`SIGNALS_MAX`].
const SIGSET_BYTES: usize = 8;

/// Default dispositions for every signal and an empty mask: what exec would otherwise pass on to a
/// program that never asked for it (an ignored SIGPIPE makes `yes | head` run for ever).
/// Async-signal-safe.
pub(super) fn restore_defaults() {
    // All zero is SIG_DFL in every layout of the kernel's sigaction. Asked directly, because libc keeps
    // numbers 32 to 34 for itself and would refuse them, while a careless parent may have ignored them.
    let default = [0u64; 8];
    for signal in 1..=SIGNALS_MAX {
        // SAFETY: `default` is at least as large as the kernel's struct; KILL and STOP are refused.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<libc::c_void>(),
                SIGSET_BYTES,
            );
        }
    }
    let none = empty_set();
    // SAFETY: `none` is initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// Sends a signal to one process, or with a negative number to a group.
pub(super) fn send(pid: i32, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    if unsafe { libc::kill(pid, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::poll;

    #[test]
    fn blocked_signals_arrive_as_input() {
        // In a thread of its own: the mask is a thread's, and a signal to a thread stays there.
        let listen = || {
            let signals = Signals::block().unwrap();
            assert_eq!(signals.take().unwrap(), None);
            for (number, signal) in [(libc::SIGHUP, Signal::Hangup), (libc::SIGTERM, Signal::Terminate)] {
                // SAFETY: the thread is this one, and the signal is blocked in it.
                unsafe { libc::pthread_kill(libc::pthread_self(), number) };
                assert_eq!(poll::wait(&mut [poll::readable(signals.as_fd())], Some(10_000)).unwrap(), 1);
                assert_eq!((signals.take().unwrap(), signals.take().unwrap()), (Some(signal), None));
            }
        };
        std::thread::spawn(listen).join().unwrap();
    }
}
