//! pidfds: a process that stays the one that was meant, where the kernel has them (Linux 5.3).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

// The same numbers on every architecture we build for; not every libc version names them.
const SYS_PIDFD_SEND_SIGNAL: libc::c_long = 424;
const SYS_PIDFD_OPEN: libc::c_long = 434;

/// One process, whatever its number is reused for later. It becomes readable when the process ends.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Opens it; `None` where the kernel has none or the process is gone: verify another way.
    pub fn open(pid: i32) -> Option<Self> {
        if !can_send() {
            return None;
        }
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::syscall(SYS_PIDFD_OPEN, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the descriptor was just opened (close-on-exec by definition) and belongs to nobody else.
        Some(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Signals exactly this process.
    pub fn send(&self, signal: libc::c_int) -> io::Result<()> {
        let null = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo asks for the one kill(2) would send.
        let done = unsafe { libc::syscall(SYS_PIDFD_SEND_SIGNAL, self.0.as_raw_fd(), signal, null, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether the process has ended (a zombie has).
    pub fn has_ended(&self) -> bool {
        let mut look = [super::poll::readable(self.as_fd())];
        super::poll::wait(&mut look, Some(0)).is_ok_and(|ready| ready > 0)
    }
}

/// Whether signals can be sent through one. A filter of system calls may take that away and leave the opening.
fn can_send() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let null = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: there is no descriptor -1, so nothing is signalled.
        let done = unsafe { libc::syscall(SYS_PIDFD_SEND_SIGNAL, -1, 0, null, 0) };
        done < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
    })
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
