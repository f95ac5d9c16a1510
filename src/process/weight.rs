//! A process's weight for the out-of-memory killer, -1000..=1000 (`proc_pid_oom_score_adj(5)`).
//!
//! The file of a process that made itself undumpable is root's, so whoever is not root must open its own
//! before that. What a shim gives its task therefore goes through the shim: it takes the weight, forks, and
//! takes its own back.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

/// The own weight, open.
pub(super) struct OomWeight {
    file: File,
    own: i32,
}

impl OomWeight {
    /// Opens it; before the process makes itself undumpable.
    pub(super) fn open() -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).open("/proc/self/oom_score_adj")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let own = text.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(Self { file, own })
    }

    /// What it was when it was opened.
    pub(super) const fn own(&self) -> i32 {
        self.own
    }

    /// Takes another one; what is forked from now on has it too.
    pub(super) fn take(&self, adj: i32) -> io::Result<()> {
        self.file.write_at(adj.to_string().as_bytes(), 0).map(drop)
    }

    /// Takes back the one it had: that is always allowed.
    pub(super) fn take_back(&self) {
        let _ = self.take(self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_taken_back() {
        let weight = OomWeight::open().unwrap();
        let now = || OomWeight::open().unwrap().own();
        weight.take(weight.own() + 1).unwrap();
        assert_eq!(now(), weight.own() + 1);
        weight.take_back();
        assert_eq!(now(), weight.own());
    }
}
