//! Opening a file as a place and not for its contents (`O_PATH`, open(2)).

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Opens a path with `O_PATH | O_CLOEXEC` and more flags. Not by `OpenOptions`: it takes the bits of
/// `O_ACCMODE` out of what it is given, and in musl `O_PATH` is one of them.
pub fn open_path(path: &Path, flags: libc::c_int) -> io::Result<File> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `path` is a string that ends in NUL and outlives the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC | flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and belongs to nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_opened_is_a_place_and_cannot_be_read() {
        let mut place = open_path(Path::new("/proc/self/status"), libc::O_NOFOLLOW).unwrap();
        let error = place.read(&mut [0]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
