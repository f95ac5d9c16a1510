//! Small files that only their owner may read: written under a temporary name and synced, then
//! renamed; read only when they are exactly what was written.
//!
//! The caller holds the state lock, so nobody else of ours writes here; the checks are against
//! everybody else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// What a private file may be wrong about.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It is not there.
    Missing,
    /// It is there and not as it should be; the text says in what.
    Unsafe(&'static str),
    /// It could not be read or written.
    Io(io::Error),
}

impl From<io::Error> for Unfit {
    fn from(e: io::Error) -> Self {
        match (e.kind(), e.raw_os_error()) {
            (io::ErrorKind::NotFound, _) => Self::Missing,
            (_, Some(libc::ELOOP)) => Self::Unsafe("is a symbolic link"),
            _ => Self::Io(e),
        }
    }
}

/// Reads a file that must be regular, mode 0600, with one link, at most `max` bytes, and owned by
/// whoever owns the folder it is in (the state folder's own owner was checked when it was opened).
pub(super) fn read(path: &Path, max: usize) -> Result<Vec<u8>, Unfit> {
    let owner = fs::metadata(folder(path))?.uid();
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let facts = file.metadata()?;
    if !facts.file_type().is_file() {
        return Err(Unfit::Unsafe("is not a regular file"));
    }
    if facts.mode() & 0o7777 != 0o600 {
        return Err(Unfit::Unsafe("must have mode 0600"));
    }
    if facts.uid() != owner {
        return Err(Unfit::Unsafe("belongs to somebody else than the state folder"));
    }
    if facts.nlink() != 1 {
        return Err(Unfit::Unsafe("has a second name"));
    }
    let mut bytes = Vec::with_capacity(max + 1);
    file.take(max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Err(Unfit::Unsafe("is longer than it can be"));
    }
    Ok(bytes)
}

/// Writes a new file with mode 0600 and brings it and its name to the disk. One that is there
/// under this (temporary) name is a leftover and goes first.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    remove(path)?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_folder(path)
}

/// Gives a synced file its real name, and brings that to the disk.
pub(super) fn publish(temporary: &Path, real: &Path) -> io::Result<()> {
    fs::rename(temporary, real)?;
    sync_folder(real)
}

/// Removes a name, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
