//! poll(2) and one socket option: the system calls of the gate that the standard library lacks, and
//! the only unsafe code of `http`.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A descriptor in a call to [`wait`], with what is wanted of it and, afterwards, what it has.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Watched(libc::pollfd);

impl Watched {
    /// Watches a descriptor. One that wants neither is still watched for its peer's end.
    pub fn new(fd: &impl AsRawFd, read: bool, write: bool) -> Self {
        let mut events = 0;
        if read {
            events |= libc::POLLIN;
        }
        if write {
            events |= libc::POLLOUT;
        }
        Self(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 })
    }

    /// Whether anything at all was seen.
    pub fn any(&self) -> bool {
        self.0.revents != 0
    }

    /// Whether the peer has gone for good, or the connection failed.
    pub fn gone(&self) -> bool {
        self.0.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
    }
}

/// Waits until a descriptor has what is wanted, a signal arrives, or the time is over. `None` waits
/// for ever. A time is rounded up, so that a caller who waits for a moment does not wake before it.
pub fn wait(watched: &mut [Watched], timeout: Option<Duration>) -> io::Result<()> {
    let ms = timeout.map_or(-1, |time| i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: `Watched` is a transparent pollfd, the pointer and the count belong to one slice that
    // is borrowed mutably for the whole call, and poll(2) writes nothing but its `revents`.
    let seen = unsafe { libc::poll(watched.as_mut_ptr().cast(), watched.len() as libc::nfds_t, ms) };
    if seen >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    // What an interrupted call left in `revents` means nothing.
    for one in watched {
        one.0.revents = 0;
    }
    Ok(())
}

/// Bounds what the kernel buffers of answers on a listener's connections, which inherit the bound
/// (socket(7); the kernel doubles it). Without it TCP takes megabytes for a client that does not read,
/// and keeps them after the connection is closed here.
pub fn bound_send_buffer(listener: &impl AsRawFd, bytes: u16) -> io::Result<()> {
    let value = libc::c_int::from(bytes);
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: setsockopt(2) reads `size` bytes of `value`, which lives through the call.
    let done = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            std::ptr::from_ref(&value).cast(),
            size,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn poll_sees_bytes_the_end_and_the_time() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut watched = [Watched::new(&far, true, false)];
        wait(&mut watched, Some(Duration::from_micros(1))).unwrap();
        assert!(!watched[0].any());
        near.write_all(b"x").unwrap();
        wait(&mut watched, None).unwrap();
        assert!(watched[0].any() && !watched[0].gone());
        drop(near);
        let mut silent = [Watched::new(&far, false, false)];
        wait(&mut silent, None).unwrap();
        assert!(silent[0].gone());
    }
}
