//! Memory for secrets: pages of its own, kept out of core dumps, wiped and given back when dropped.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Anonymous pages. A forked child has its own copy, which exec throws away.
pub(super) struct SecretMap {
    start: NonNull<u8>,
    length: usize,
}

impl SecretMap {
    /// `length` zero bytes; at least one.
    pub(super) fn new(length: usize) -> io::Result<Self> {
        let length = length.max(1);
        // SAFETY: a new anonymous mapping; no existing memory is touched.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: exactly the pages mapped above. Should it fail, the process is undumpable anyway.
        unsafe { libc::madvise(start, length, libc::MADV_DONTDUMP) };
        NonNull::new(start.cast()).map(|start| Self { start, length }).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Deref for SecretMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `length` readable bytes and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for SecretMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `length` writable bytes, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for SecretMap {
    fn drop(&mut self) {
        self.fill(0);
        std::hint::black_box(&**self);
        // SAFETY: exactly the pages mapped in `new`; nobody can refer to them any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
