//! waitpid and waitid, as answers instead of status words.

use std::io;
use std::mem::MaybeUninit;

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

impl Ended {
    /// The exit code a shell would show: 128 + n for signal n.
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => 128 + signal,
        }
    }

    /// The signal, if one ended it.
    pub const fn signal(self) -> Option<i32> {
        match self {
            Self::Exited(_) => None,
            Self::Signalled(signal) => Some(signal),
        }
    }
}

/// What waiting found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// There are children, none of them has ended.
    Alive,
    /// This one ended and is gone now.
    Gone(i32, Ended),
    /// There are no children: the proof that the tree below is empty.
    Childless,
}

/// Frees one ended child, any one, without waiting.
pub fn any() -> io::Result<Waited> {
    wait(-1)
}

/// Frees this child if it has ended, without waiting.
pub fn one(pid: i32) -> io::Result<Waited> {
    wait(pid)
}

fn wait(pid: i32) -> io::Result<Waited> {
    loop {
        let mut status = 0;
        // SAFETY: `status` is valid for the call to fill.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 => return Ok(Waited::Alive),
            gone if gone > 0 && libc::WIFSIGNALED(status) => {
                return Ok(Waited::Gone(gone, Ended::Signalled(libc::WTERMSIG(status))));
            }
            gone if gone > 0 => return Ok(Waited::Gone(gone, Ended::Exited(libc::WEXITSTATUS(status)))),
            _ => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ECHILD) => return Ok(Waited::Childless),
                    _ => return Err(error),
                }
            }
        }
    }
}

/// Waits for this child's end and frees it. Blocks, so it is for one that was just killed.
pub fn until_gone(pid: i32) {
    // SAFETY: the status is not asked for.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } < 0 {
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// The number of some ended child, which stays as it is: nobody's status is taken.
pub fn peek() -> Option<i32> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` is valid for the call to fill, and all-zero is a valid siginfo_t.
    let pid = unsafe {
        if libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) != 0 {
            return None;
        }
        info.assume_init().si_pid()
    };
    (pid > 0).then_some(pid)
}

/// Whether this child has ended; it stays as it is.
pub fn peek_one(pid: i32) -> bool {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let id = pid as libc::id_t;
    // SAFETY: `info` is valid for the call to fill, and all-zero is a valid siginfo_t.
    unsafe {
        libc::waitid(libc::P_PID, id, info.as_mut_ptr(), libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) == 0
            && info.assume_init().si_pid() > 0
    }
}
