//! Publishing a small file: written under a temporary name, then given its final one in a single step
//! that never replaces anything. Its room is taken when it is begun, so that a full disk shows then.

use super::private;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// A file that is begun and not yet published. Dropped, it is gone without a trace.
#[derive(Debug)]
pub(super) struct Draft {
    file: File,
    temp: PathBuf,
}

impl Draft {
    /// Begins `temp`, which must not exist, and fills it to `room` bytes.
    pub(super) fn begin(temp: PathBuf, room: usize) -> io::Result<Self> {
        let file = private::options().write(true).create_new(true).open(&temp)?;
        let draft = Self { file, temp };
        // Zeros would be compressed away on a router's flash, and the room with them.
        let mut state = 0x2545_F491_4F6C_DD1D_u64;
        let filler: Vec<u8> = (0..room)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        draft.file.write_all_at(&filler, 0)?;
        Ok(draft)
    }

    /// Gives it `bytes` and its final name, which must not exist. `durable` survives a power cut.
    pub(super) fn publish(self, name: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)?;
        self.file.set_len(bytes.len() as u64)?;
        if durable {
            self.file.sync_all()?;
        }
        rename_new(&self.temp, name)?;
        if durable && let Some(folder) = name.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After publishing there is nothing under this name any more.
        let _ = std::fs::remove_file(&self.temp);
    }
}

/// Renames without ever replacing: in one step where the kernel and the file system can, else by a
/// second name and the removal of the first. A crash between those two leaves both names; readers
/// finish that ([`finish`]).
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat2(from, to) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => link_new(from, to),
        done => done,
    }
}

fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// Ends a publication that was cut between its two steps: `temp` goes if it is the same file as `name`.
pub(super) fn finish(temp: &Path, name: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(a), Ok(b)) = (std::fs::symlink_metadata(temp), std::fs::symlink_metadata(name)) else { return Ok(false) };
    let same = a.dev() == b.dev() && a.ino() == b.ino();
    if same {
        std::fs::remove_file(temp)?;
    }
    Ok(same)
}

fn renameat2(from: &Path, to: &Path) -> io::Result<()> {
    const NOREPLACE: libc::c_uint = 1;
    rename_as(from, to, NOREPLACE)
}

/// Lets two names that are there change places in one step. Not every kernel and file system can:
/// `InvalidInput` or `Unsupported`, and nothing was done.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    const EXCHANGE: libc::c_uint = 2;
    rename_as(one, other, EXCHANGE)
}

fn rename_as(from: &Path, to: &Path, flags: libc::c_uint) -> io::Result<()> {
    let (from, to) = (CString::new(from.as_os_str().as_bytes())?, CString::new(to.as_os_str().as_bytes())?);
    // SAFETY: both paths are NUL-terminated and outlive the call.
    let done = unsafe {
        libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a folder's file system can publish at all: neither way works on some (vfat, some FUSE).
/// Leaves nothing behind. The error is the file system's own.
pub fn can_publish(folder: &Path) -> io::Result<()> {
    let (temp, name) = (folder.join(".publish-probe.tmp"), folder.join(".publish-probe"));
    for old in [&temp, &name] {
        match std::fs::remove_file(old) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Draft::begin(temp, 1)?.publish(&name, b"x", false)?;
    std::fs::remove_file(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn publishing_replaces_nothing_and_leaves_no_temporary_name() {
        let root = crate::process::scratch::folder("publish");
        let (temp, name) = (root.join(".t"), root.join("n"));
        Draft::begin(temp.clone(), 100).unwrap().publish(&name, b"first", true).unwrap();
        assert_eq!(std::fs::read(&name).unwrap(), b"first");
        assert!(!temp.exists());
        let again = Draft::begin(temp.clone(), 100).unwrap();
        assert_eq!(std::fs::metadata(&temp).unwrap().len(), 100);
        assert_eq!(again.publish(&name, b"second", false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&name).unwrap(), b"first");
        assert!(!temp.exists());
        drop(Draft::begin(temp.clone(), 1).unwrap());
        assert!(!temp.exists(), "an abandoned draft is gone");
        can_publish(&root).unwrap();
        for rename in [renameat2, link_new] {
            std::fs::write(&temp, "third").unwrap();
            assert_eq!(rename(&temp, &name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            rename(&temp, &root.join("other")).unwrap();
            assert_eq!(std::fs::read(root.join("other")).unwrap(), b"third");
            assert!(!temp.exists());
            std::fs::remove_file(root.join("other")).unwrap();
        }
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1);
    }

    #[test]
    fn a_publication_cut_between_link_and_unlink_is_finished_only_for_the_same_file() {
        let root = crate::process::scratch::folder("finish");
        let (temp, name) = (root.join(".t"), root.join("n"));
        std::fs::write(&temp, "x").unwrap();
        std::fs::write(&name, "x").unwrap();
        assert!(!finish(&temp, &name).unwrap());
        std::fs::remove_file(&name).unwrap();
        std::fs::hard_link(&temp, &name).unwrap();
        assert!(finish(&temp, &name).unwrap());
        assert!(!temp.exists() && name.exists());
    }
}
