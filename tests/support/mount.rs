//! Small file systems of a test's own, mounted by root, gone when dropped.

use super::{is_root, skip};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A small tmpfs.
pub struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts a private one of `kib` KiB; the folder is made when it is missing. `None`: this machine
    /// does not let us, and the skip has been said.
    pub fn new(test: &str, path: &Path, kib: u64) -> Option<Self> {
        if !is_root() {
            skip(test, "only root may mount a small file system");
            return None;
        }
        fs::create_dir_all(path).unwrap();
        let options = format!("size={kib}k,mode=0700");
        let done = mount(&["-t", "tmpfs", "-o", &options, "qinglet-test"], path);
        if !done.status.success() {
            skip(test, "the kernel does not let this root mount a file system");
            return None;
        }
        Some(Self { path: path.to_owned() })
    }

    /// Changes its options, for instance to `ro` or to another size.
    pub fn remount(&self, options: &str) {
        let done = mount(&["-o", &format!("remount,{options}")], &self.path);
        assert!(done.status.success(), "{done:?}");
    }

    /// Fills it to the last byte; the file that does so.
    pub fn fill(&self) -> PathBuf {
        let path = self.path.join("ballast");
        let mut file = File::create(&path).unwrap();
        let block = [0; 4096];
        loop {
            match file.write(&block) {
                Ok(0) => break,
                Err(e) if e.kind() == io::ErrorKind::StorageFull => break,
                written => drop(written.unwrap()),
            }
        }
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily, because a daemon of this test may still have files open in it.
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

fn mount(args: &[&str], path: &Path) -> Output {
    Command::new("mount").args(args).arg(path).output().unwrap()
}
