//! The groups of one Attempt, in the shim that makes and removes them.

use super::controller::{OomCount, PlanView};
use crate::model::limits::{GROUP_REMOVE_PAUSE_MS, GROUP_REMOVE_TRIES};
use crate::process::fd;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the out-of-memory killer took of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::process) enum OomKills {
    /// So many processes.
    Counted(u64),
    /// This kernel does not count them; it says only how often the limit was met.
    LimitMet(u64),
}

/// Groups that are there. Dropped, they are removed, if nobody lives in them.
pub(in crate::process) struct Group {
    folders: Vec<PathBuf>,
    /// `cgroup.procs` of each, open: what is written into it is moved there.
    doors: Vec<File>,
    memory: Option<(PathBuf, OomCount)>,
}

impl Group {
    /// Makes groups and sets their limits: all of it, or none is left.
    pub(in crate::process) fn make(plans: &[PlanView<'_>]) -> io::Result<Self> {
        let mut group = Self { folders: Vec::new(), doors: Vec::new(), memory: None };
        for plan in plans {
            make_folder(plan.folder)?;
            group.folders.push(plan.folder.to_path_buf());
            for (file, value) in &plan.settings {
                set(plan.folder, &file.to_string_lossy(), value.to_bytes())?;
            }
            group.doors.push(OpenOptions::new().write(true).open(plan.folder.join("cgroup.procs"))?);
            if plan.oom != OomCount::None {
                group.memory = Some((plan.folder.to_path_buf(), plan.oom));
            }
        }
        Ok(group)
    }

    /// Moves the calling process into all of them; the errno when one refuses it. Async-signal-safe.
    pub(in crate::process) fn join(&self) -> Result<(), i32> {
        // 0 stands for whoever writes it, in every kernel and every process id namespace.
        self.doors.iter().try_for_each(|door| fd::write_all(door.as_raw_fd(), b"0"))
    }

    /// What the out-of-memory killer took; `None`: nothing, or nobody counts.
    pub(in crate::process) fn oom_kills(&self) -> Option<OomKills> {
        let (folder, how) = self.memory.as_ref()?;
        let kills = match how {
            OomCount::None => return None,
            OomCount::V2 => OomKills::Counted(field(&folder.join("memory.events"), "oom_kill")?),
            OomCount::V1 => match field(&folder.join("memory.oom_control"), "oom_kill") {
                Some(kills) => OomKills::Counted(kills),
                None => OomKills::LimitMet(met(folder)),
            },
        };
        Some(kills).filter(|kills| !matches!(kills, OomKills::Counted(0) | OomKills::LimitMet(0)))
    }

    /// Removes those nobody lives in any more.
    pub(in crate::process) fn remove(&mut self) {
        self.doors.clear();
        self.folders.retain(|folder| !remove(folder));
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Makes a group. One that is there is taken.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Writes one value in one piece, as the kernel wants it.
pub(super) fn set(folder: &Path, file: &str, value: &[u8]) -> io::Result<()> {
    let door = OpenOptions::new().write(true).open(folder.join(file))?;
    fd::write_all(door.as_raw_fd(), value).map_err(io::Error::from_raw_os_error)
}

/// How often the limit was met, with and without swap.
fn met(folder: &Path) -> u64 {
    let files = ["memory.failcnt", "memory.memsw.failcnt"];
    let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok();
    files.into_iter().filter_map(number).max().unwrap_or(0)
}

/// The number after a name.
fn field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let mut words = text.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten())
}

/// Whether it is gone. The last process may have left it a moment ago, so it is tried a few times.
fn remove(folder: &Path) -> bool {
    for _ in 0..GROUP_REMOVE_TRIES {
        match fs::remove_dir(folder) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
            other => return other.is_ok(),
        }
        std::thread::sleep(Duration::from_millis(GROUP_REMOVE_PAUSE_MS));
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::scratch;

    fn group(name: &str, how: OomCount, files: &[(&str, &str)]) -> Group {
        let folder = scratch::folder(name);
        for (file, text) in files {
            fs::write(folder.join(file), text).unwrap();
        }
        // Not to be removed: it is no real group.
        Group { folders: Vec::new(), doors: Vec::new(), memory: Some((folder, how)) }
    }

    #[test]
    fn what_was_killed_is_counted_in_every_version() {
        let v2 = [("memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n")];
        assert_eq!(group("oom-v2", OomCount::V2, &v2).oom_kills(), Some(OomKills::Counted(1)));
        let v1 = [("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")];
        assert_eq!(group("oom-v1", OomCount::V1, &v1).oom_kills(), Some(OomKills::Counted(3)));
        let none = [("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"), ("memory.failcnt", "9\n")];
        assert_eq!(group("oom-none", OomCount::V1, &none).oom_kills(), None);
        let old = [
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
            ("memory.failcnt", "0\n"),
            ("memory.memsw.failcnt", "7\n"),
        ];
        assert_eq!(group("oom-old", OomCount::V1, &old).oom_kills(), Some(OomKills::LimitMet(7)));
        assert_eq!(group("oom-gone", OomCount::V2, &[]).oom_kills(), None);
    }
}
