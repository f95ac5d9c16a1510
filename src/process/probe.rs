//! Looks at what the kernel and a file system can do, by asking or trying; nothing is changed by it.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Bytes that a trial maps: a page on every machine that this runs on, or a part of one.
const MAP_BYTES: usize = 4096;

/// The number by which statfs(2) knows the file system of `path`.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // the field's width differs by target
pub fn file_system(path: &Path) -> io::Result<u32> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path is NUL-terminated and `about` is valid for the call to fill.
    if unsafe { libc::statfs(path.as_ptr(), about.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the call, and all-zero before it.
    Ok(unsafe { about.assume_init() }.f_type as u32)
}

/// Whether a file can be mapped shared and writable there, as SQLite's shared memory would be. The file
/// is there already; nothing is read from it or written to it.
pub fn can_map_shared(file: &Path) -> io::Result<bool> {
    // Opened for writing, because read-only shared mappings work where these do not (jffs2).
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(file)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice, of an open descriptor.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), MAP_BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    if map == libc::MAP_FAILED {
        return match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)) => Ok(false),
            error => Err(error),
        };
    }
    // SAFETY: exactly what was mapped above; nobody has a reference into it.
    unsafe { libc::munmap(map, MAP_BYTES) };
    Ok(true)
}

/// Whether processes can be named by descriptors; the error says why not (`pidfd_open(2)`).
pub fn pidfd() -> io::Result<()> {
    // SAFETY: takes two numbers; the process is our own.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the call above has just made and nobody else knows.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}

/// Whether the kernel gives random bytes without waiting.
pub fn has_entropy() -> io::Result<bool> {
    let mut byte = 0_u8;
    // SAFETY: `byte` is valid for the one byte asked for.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, &raw mut byte, 1_usize, libc::GRND_NONBLOCK) };
    if got == 1 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        error => Err(error),
    }
}

/// Whether this user may write there, as the kernel would decide it now.
pub fn is_writable(path: &Path) -> io::Result<bool> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is NUL-terminated; the call only looks.
    if unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EROFS)) => Ok(false),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_looked_at_and_nothing_changes() {
        let folder = crate::process::scratch::folder("probe");
        let file = folder.join("x");
        std::fs::write(&file, "").unwrap();
        assert!(can_map_shared(&file).is_ok());
        assert_eq!(std::fs::read(&file).unwrap(), b"", "looking has not made it longer");
        assert!(file_system(&folder).unwrap() != 0);
        assert!(is_writable(&folder).unwrap());
        assert!(has_entropy().unwrap());
        assert!(can_map_shared(&folder.join("none")).is_err());
        let _ = pidfd();
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
