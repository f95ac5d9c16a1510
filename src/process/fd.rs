//! Descriptors: placing them for a child, closing the rest, and whole reads and writes on pipes.
//!
//! [`place`] and [`close_from`] run between fork and exec of a process that may have other threads:
//! they use system calls and the stack only.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

// The same number on every architecture we build for; not every libc version names it.
const SYS_CLOSE_RANGE: libc::c_long = 436;

/// Sources are first copied above this, so that no target overwrites one that is still needed.
const ABOVE: RawFd = 16;
/// The most descriptors a child is given.
const PLACES_MAX: usize = 8;

/// One descriptor for a child; its place in the list is its number there.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// What it is now.
    pub(super) from: RawFd,
    /// Whether exec closes it.
    pub(super) until_exec: bool,
}

/// Gives descriptor `n` the meaning of `places[n]`; at most [`PLACES_MAX`]. The errno on failure.
pub(super) fn place(places: &[Place]) -> Result<(), i32> {
    let mut copies = [-1; PLACES_MAX];
    if places.len() > copies.len() {
        return Err(libc::EINVAL);
    }
    for (copy, place) in copies.iter_mut().zip(places) {
        // SAFETY: no pointer is passed; a bad descriptor is refused by the kernel.
        *copy = unsafe { libc::fcntl(place.from, libc::F_DUPFD_CLOEXEC, ABOVE) };
        if *copy < 0 {
            return Err(errno());
        }
    }
    for (target, (copy, place)) in copies.iter().zip(places).enumerate() {
        let flags = if place.until_exec { libc::O_CLOEXEC } else { 0 };
        // SAFETY: no pointer is passed; what `target` was before is meant to be replaced.
        if unsafe { libc::dup3(*copy, target as RawFd, flags) } < 0 {
            return Err(errno());
        }
    }
    Ok(())
}

/// Closes every descriptor from `first` on.
pub(super) fn close_from(first: RawFd) {
    // SAFETY: no pointer is passed; nobody in this process uses those descriptors any more.
    let done = unsafe { libc::syscall(SYS_CLOSE_RANGE, first as libc::c_uint, libc::c_uint::MAX, 0) };
    if done != 0 && !close_listed(first) {
        close_counted(first);
    }
}

/// For kernels before 5.9: closes what /proc/self/fd lists. `false` when it cannot be read.
fn close_listed(first: RawFd) -> bool {
    // Closing while reading may skip entries, so it is read again until a pass closes nothing.
    for _ in 0..64 {
        // SAFETY: the path is a NUL-terminated literal.
        let listing =
            unsafe { libc::open(c"/proc/self/fd".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        if listing < 0 {
            return false;
        }
        let closed = close_pass(listing, first);
        // SAFETY: `listing` was opened above and is used by nobody else.
        unsafe { libc::close(listing) };
        match closed {
            Some(0) => return true,
            Some(_) => {}
            None => return false,
        }
    }
    false
}

fn close_pass(listing: RawFd, first: RawFd) -> Option<usize> {
    // linux_dirent64 of getdents(2): ino 8, off 8, reclen 2, type 1, then the name.
    const NAME: usize = 19;
    let mut buffer = [0u8; 1024];
    let mut closed = 0;
    loop {
        // SAFETY: `buffer` is valid for its length.
        let got = unsafe { libc::syscall(libc::SYS_getdents64, listing, buffer.as_mut_ptr(), buffer.len()) };
        if got == 0 {
            return Some(closed);
        }
        let got = usize::try_from(got).ok()?;
        let mut at = 0;
        while at + NAME < got {
            let length = usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
            let name = buffer.get(at + NAME..at + length)?;
            let digits = name.iter().take_while(|b| b.is_ascii_digit());
            let number = digits.fold(0, |number: RawFd, b| number.wrapping_mul(10).wrapping_add(RawFd::from(b - b'0')));
            if name.first().is_some_and(u8::is_ascii_digit) && number >= first && number != listing {
                // SAFETY: nobody in this process uses this descriptor any more.
                unsafe { libc::close(number) };
                closed += 1;
            }
            at += length.max(1);
        }
    }
}

/// Without /proc: closes everything the limit allows to be open.
fn close_counted(first: RawFd) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    let end = if known { RawFd::try_from(limit.rlim_cur).unwrap_or(65_536) } else { 1024 };
    for fd in first..end.min(65_536) {
        // SAFETY: nobody in this process uses this descriptor any more.
        unsafe { libc::close(fd) };
    }
}

/// Makes reads or writes on this end answer at once.
pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: no pointer is passed.
    if flags < 0 || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Writes all of `bytes` to a raw descriptor. Async-signal-safe.
pub(super) fn write_all(fd: RawFd, mut bytes: &[u8]) -> Result<(), i32> {
    while !bytes.is_empty() {
        // SAFETY: `bytes` is valid for its length.
        let wrote = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(wrote) {
            Ok(wrote) => bytes = bytes.get(wrote..).unwrap_or_default(),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
    Ok(())
}

/// Reads until `bytes` is full or the other end is closed; how many bytes came. Async-signal-safe.
pub(super) fn read_full(fd: RawFd, bytes: &mut [u8]) -> Result<usize, i32> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is valid for its length.
        let got = unsafe { libc::read(fd, rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(got) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
    Ok(filled)
}

/// The calling thread's errno. Async-signal-safe.
pub(super) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::fork::{self, Fork};
    use crate::process::wait::{self, Ended, Waited};

    fn is_open(fd: RawFd) -> bool {
        // SAFETY: no pointer is passed.
        unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
    }

    /// The exit code of `act` in a forked child, which may only do what is async-signal-safe.
    fn in_child(act: impl FnOnce() -> i32) -> i32 {
        match fork::plain().unwrap() {
            Fork::Child => crate::process::own::exit_now(act()),
            Fork::Parent(pid) => loop {
                match wait::one(pid).unwrap() {
                    Waited::Gone(_, Ended::Exited(code)) => return code,
                    Waited::Alive => std::thread::sleep(std::time::Duration::from_millis(1)),
                    other => panic!("{other:?}"),
                }
            },
        }
    }

    #[test]
    fn every_way_to_close_the_rest_closes_all_of_it() {
        let null = std::fs::File::open("/dev/null").unwrap();
        for close in [close_from, |first| assert!(close_listed(first)), close_counted] {
            let code = in_child(|| {
                for target in (10..400).step_by(3) {
                    // SAFETY: no pointer is passed.
                    unsafe { libc::dup2(null.as_raw_fd(), target) };
                }
                close(7);
                (7..500).filter(|fd| is_open(*fd)).count() as i32 + i32::from(!is_open(2))
            });
            assert_eq!(code, 0);
        }
    }

    #[test]
    fn descriptors_that_cross_are_placed_right() {
        let (read, write) = io::pipe().unwrap();
        let code = in_child(|| {
            // SAFETY: no pointer is passed.
            unsafe { libc::dup2(read.as_raw_fd(), 9) };
            // SAFETY: no pointer is passed.
            unsafe { libc::dup2(write.as_raw_fd(), 8) };
            // Both are wanted where the other, or something else, is.
            let keep = |from| Place { from, until_exec: false };
            let places = [keep(9), keep(8), keep(8), Place { from: 9, until_exec: true }];
            if place(&places).is_err() {
                return 1;
            }
            close_from(4);
            let mut byte = [0];
            let passed = write_all(2, b"x").is_ok() && read_full(3, &mut byte) == Ok(1) && byte == *b"x";
            // SAFETY: no pointer is passed.
            let flags = unsafe { [libc::fcntl(0, libc::F_GETFD), libc::fcntl(3, libc::F_GETFD)] };
            if passed && flags == [0, libc::FD_CLOEXEC] { 0 } else { 2 }
        });
        assert_eq!(code, 0);
    }
}
