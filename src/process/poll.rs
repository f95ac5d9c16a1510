//! poll(2), with millisecond timeouts, and with EINTR told as "nothing yet".

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A descriptor to be looked at for input.
pub fn readable(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// A descriptor to be looked at for room.
pub fn writable(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 }
}

/// Waits until one of `fds` has something or `timeout_ms` has passed (`None` waits without end).
/// A negative `fd` in the list is skipped, as poll(2) does. A signal is "nothing yet", not an error.
pub fn wait(fds: &mut [libc::pollfd], timeout_ms: Option<u64>) -> io::Result<usize> {
    let timeout = timeout_ms.map_or(-1, |ms| i32::try_from(ms).unwrap_or(i32::MAX));
    let count = libc::nfds_t::try_from(fds.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `fds` is a valid slice of `count` pollfds for the whole call.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, timeout) };
    if ready >= 0 {
        return Ok(ready as usize);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted {
        for fd in fds {
            fd.revents = 0;
        }
        return Ok(0);
    }
    Err(error)
}
