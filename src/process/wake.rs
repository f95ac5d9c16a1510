//! An eventfd by which any thread wakes the control loop.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// Wakes whoever polls it. Rings that come together are one.
#[derive(Debug)]
pub struct Wake(File);

impl Wake {
    /// A silent one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Rings. Never blocks: a counter that is full is already a ring.
    pub fn ring(&self) {
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Silences it; returns whether it had rung.
    pub fn clear(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::poll;

    #[test]
    fn rings_that_come_together_are_one() {
        let wake = Wake::new().unwrap();
        let ready = || poll::wait(&mut [poll::readable(wake.as_fd())], Some(0)).unwrap();
        assert_eq!((ready(), wake.clear()), (0, false));
        wake.ring();
        wake.ring();
        assert_eq!((ready(), wake.clear(), wake.clear(), ready()), (1, true, false, 0));
    }
}
