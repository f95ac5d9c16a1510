//! Private files and folders: what we made ourselves, and nothing that somebody put in its place.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What made a file unfit. The words go into messages, so they name no path.
pub(super) const NOT_REGULAR: &str = "it is not a regular file";
/// See [`NOT_REGULAR`].
pub(super) const NOT_OURS: &str = "it belongs to another user";
/// See [`NOT_REGULAR`].
pub(super) const LINKED: &str = "it has more than one name";

/// How to open without following a link, without passing it to a child, and without hanging on a FIFO.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    options
}

/// Why a file is not the private regular file it should be, looked up on the open file itself.
pub(super) fn fault(meta: &Metadata) -> Option<&'static str> {
    if !meta.is_file() {
        Some(NOT_REGULAR)
    } else if meta.uid() != own_uid() {
        Some(NOT_OURS)
    } else if meta.nlink() != 1 {
        Some(LINKED)
    } else {
        None
    }
}

/// Refuses an open file that is not private.
pub(super) fn check(file: &File) -> io::Result<Metadata> {
    let meta = file.metadata()?;
    match fault(&meta) {
        None => Ok(meta),
        Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
    }
}

/// Whether an open failed because the last component was a symlink or a socket: unsafe, not merely broken.
pub(super) fn is_unsafe(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENXIO))
}

/// A folder that only we can enter: made if it is missing, refused if it is a link, another's or open to others.
pub(super) fn folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            // The new name must survive a power cut as surely as what is put inside.
            if let Some(parent) = path.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(e),
    }
    let meta = std::fs::symlink_metadata(path)?;
    if meta.is_dir() && meta.uid() == own_uid() && is_closed(&meta) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "a folder of the state is not private: it must be a directory of mode 0700 that belongs to this user",
    ))
}

fn is_closed(meta: &Metadata) -> bool {
    const GROUP_AND_OTHERS: u32 = 0o077;
    meta.mode() & GROUP_AND_OTHERS == 0
}

fn own_uid() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn links_and_open_folders_are_refused() {
        let root = crate::process::scratch::folder("private");
        folder(&root.join("a")).unwrap();
        folder(&root.join("a")).unwrap();
        symlink(root.join("a"), root.join("b")).unwrap();
        assert!(folder(&root.join("b")).is_err());
        std::fs::set_permissions(root.join("a"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(folder(&root.join("a")).is_err());

        std::fs::write(root.join("f"), "x").unwrap();
        check(&options().read(true).open(root.join("f")).unwrap()).unwrap();
        symlink(root.join("f"), root.join("s")).unwrap();
        assert!(is_unsafe(&options().read(true).open(root.join("s")).unwrap_err()));
        std::fs::hard_link(root.join("f"), root.join("g")).unwrap();
        assert!(check(&options().read(true).open(root.join("f")).unwrap()).is_err());
    }
}
