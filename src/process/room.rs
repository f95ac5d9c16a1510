//! How much room there is: PIDs, memory, space (design D17). Read anew each time; nothing is kept.
//!
//! Limits of cgroups count for the own group and every ancestor, in version 1 and 2, whichever is
//! mounted. What cannot be read limits nothing: a missing file must not stop every task of a router.

use super::cgroup::tree::Trees;
use super::text;
use std::ffi::{CString, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A limit that is none: version 1 of cgroups says "no limit" as the most pages there can be, in bytes.
const UNLIMITED: u64 = 1 << 62;

/// PIDs (threads count) that may still be made here; `u64::MAX` when nothing says.
pub fn pids_free() -> u64 {
    Room::here().pids_free()
}

/// Memory in bytes that may still be taken here; `u64::MAX` when nothing says.
pub fn memory_free() -> u64 {
    Room::here().memory_free(u64::MAX)
}

/// All memory in bytes that there is here, used or not; `u64::MAX` when nothing says.
pub fn memory_total() -> u64 {
    Room::here().memory_total()
}

/// Where to look, found once for all that is asked.
pub struct Room {
    root: PathBuf,
    groups: Trees,
}

impl Room {
    /// Of this process.
    pub fn here() -> Self {
        Self::below(Path::new("/"))
    }

    fn below(root: &Path) -> Self {
        Self { root: root.to_path_buf(), groups: Trees::of(root) }
    }

    /// PIDs (threads count) that may still be made; `u64::MAX` when nothing says.
    pub fn pids_free(&self) -> u64 {
        let in_groups = self.groups.levels("pids", |group| {
            let max = number_in(&group.join("pids.max"))?;
            Some(max.saturating_sub(number_in(&group.join("pids.current"))?))
        });
        let kernel = self.root.join("proc/sys/kernel");
        let max = ["threads-max", "pid_max"].iter().filter_map(|name| number_in(&kernel.join(name))).min();
        let in_kernel = max.zip(threads(&self.root)).map(|(max, now)| max.saturating_sub(now));
        in_groups.into_iter().chain(in_kernel).min().unwrap_or(u64::MAX)
    }

    /// Whether so much memory may still be taken.
    pub fn has_memory(&self, bytes: u64) -> bool {
        self.memory_free(bytes) >= bytes
    }

    /// Memory in bytes that may still be taken, exactly unless it is `enough`. A group's cache is only looked for
    /// below that: the kernel adds it up anew whenever it is asked, over every group of the tree.
    fn memory_free(&self, enough: u64) -> u64 {
        let in_groups = self.groups.levels("memory", |group| {
            let (max, used, cache) = if group.join("memory.max").exists() {
                ("memory.max", "memory.current", "inactive_file")
            } else {
                ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            };
            let max = number_in(&group.join(max)).filter(|max| *max < UNLIMITED)?;
            let used = number_in(&group.join(used))?;
            let free = max.saturating_sub(used);
            if free >= enough {
                return Some(free);
            }
            // Cache that nobody uses is given back under pressure, before anybody is killed.
            let cache = named_number(&group.join("memory.stat"), cache).unwrap_or(0);
            Some(max.saturating_sub(used.saturating_sub(cache)))
        });
        // In KiB, as "MemAvailable:   123 kB".
        let available = named_number(&self.root.join("proc/meminfo"), "MemAvailable:");
        let available = available.map(|kib| kib.saturating_mul(1024));
        in_groups.into_iter().chain(available).min().unwrap_or(u64::MAX)
    }

    fn memory_total(&self) -> u64 {
        let in_groups = self.groups.levels("memory", |group| {
            ["memory.max", "memory.limit_in_bytes"].iter().find_map(|name| number_in(&group.join(name)))
        });
        let all = named_number(&self.root.join("proc/meminfo"), "MemTotal:").map(|kib| kib.saturating_mul(1024));
        in_groups.into_iter().chain(all).min().unwrap_or(u64::MAX)
    }
}

/// The kernel's own count of threads: the number after the slash in /proc/loadavg.
fn threads(root: &Path) -> Option<u64> {
    let text = text::text(&root.join("proc/loadavg")).ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// A file with one number; `None` for "max", which limits nothing.
fn number_in(path: &Path) -> Option<u64> {
    text::text(path).ok()?.trim().parse().ok()
}

/// The number after a name, in a file of such lines.
fn named_number(path: &Path, name: &str) -> Option<u64> {
    let text = text::text(path).ok()?;
    let mut words = text.lines().map(str::split_ascii_whitespace);
    words.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten())
}

/// The space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    /// Bytes altogether.
    pub total_bytes: u64,
    /// Whether it lives in memory, so that what is written is taken from everybody.
    pub is_tmpfs: bool,
}

/// The space of the file system that holds `path`.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast)] // the fields' widths differ by target
pub fn space(path: &Path) -> io::Result<Space> {
    // TMPFS_MAGIC and RAMFS_MAGIC of statfs(2).
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    let name: &OsStr = path.as_os_str();
    let path = CString::new(name.as_bytes())?;
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path is NUL-terminated and `about` is valid for the call to fill.
    if unsafe { libc::statfs(path.as_ptr(), about.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the call, and all-zero before it.
    let about = unsafe { about.assume_init() };
    let block = about.f_bsize as u64;
    Ok(Space {
        free_bytes: block.saturating_mul(about.f_bavail as u64),
        total_bytes: block.saturating_mul(about.f_blocks as u64),
        is_tmpfs: IN_MEMORY.contains(&u64::from(about.f_type as u32)),
    })
}

/// How many descriptors this process may have open (proc(5), `limits`). `None`: it is not said, or there
/// is no limit.
pub fn descriptors_max() -> Option<u64> {
    descriptors_in(&std::fs::read_to_string("/proc/self/limits").ok()?)
}

fn descriptors_in(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = crate::process::scratch::folder(name);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn free(root: &Path) -> (u64, u64) {
        let here = Room::below(root);
        (here.pids_free(), here.memory_free(u64::MAX))
    }

    const KERNEL: [(&str, &str); 4] = [
        ("proc/sys/kernel/threads-max", "1000\n"),
        ("proc/sys/kernel/pid_max", "32768\n"),
        ("proc/loadavg", "0.00 0.01 0.05 1/100 1234\n"),
        ("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n"),
    ];

    #[test]
    fn without_cgroups_the_kernel_decides() {
        let root = tree("room-plain", &KERNEL);
        assert_eq!(free(&root), (900, 1000 * 1024));
        assert_eq!(Room::below(&root).memory_total(), 2000 * 1024);
        let empty = tree("room-empty", &[]);
        assert_eq!(free(&empty), (u64::MAX, u64::MAX));
    }

    #[test]
    fn version_2_counts_every_ancestor() {
        let mut files = vec![
            ("proc/self/cgroup", "0::/a/b\n"),
            (
                "proc/self/mountinfo",
                "29 23 0:26 / /sys/fs/cg\\040roup rw,nosuid shared:4 - cgroup2 none rw,nsdelegate\n",
            ),
            ("sys/fs/cg roup/a/b/pids.max", "max\n"),
            ("sys/fs/cg roup/a/b/pids.current", "5\n"),
            ("sys/fs/cg roup/a/pids.max", "64\n"),
            ("sys/fs/cg roup/a/pids.current", "60\n"),
            ("sys/fs/cg roup/a/b/memory.max", "500000\n"),
            ("sys/fs/cg roup/a/b/memory.current", "450000\n"),
            ("sys/fs/cg roup/a/b/memory.stat", "anon 1\ninactive_file 100000\n"),
            ("sys/fs/cg roup/a/memory.max", "max\n"),
        ];
        files.extend(KERNEL);
        let root = tree("room-v2", &files);
        assert_eq!(free(&root), (4, 150_000));
        assert_eq!(Room::below(&root).memory_total(), 500_000);
        let here = Room::below(&root);
        assert_eq!([50_000, 150_000, 150_001].map(|bytes| here.has_memory(bytes)), [true, true, false]);
    }

    #[test]
    fn version_1_beside_an_almost_empty_version_2() {
        let mut files = vec![
            ("proc/self/cgroup", "9:name=systemd:/\n8:cpu,pids:/a\n4:memory:/outer/box/m\n0::/\n"),
            (
                "proc/self/mountinfo",
                "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 39 31 0:36 / /cg/pids rw,relatime - cgroup cgroup rw,cpu,pids\n\
                 35 31 0:32 /outer/box /cg/memory rw,relatime - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /cg/unified rw,relatime - cgroup2 cgroup2 rw\n",
            ),
            ("cg/pids/a/pids.max", "10\n"),
            ("cg/pids/a/pids.current", "12\n"),
            ("cg/unified/cgroup.procs", ""),
            ("cg/memory/m/memory.limit_in_bytes", "9223372036854771712\n"),
            ("cg/memory/m/memory.usage_in_bytes", "100\n"),
            ("cg/memory/memory.limit_in_bytes", "9000\n"),
            ("cg/memory/memory.usage_in_bytes", "5000\n"),
            ("cg/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n"),
        ];
        files.extend(KERNEL);
        let root = tree("room-v1", &files);
        assert_eq!(free(&root), (0, 5000), "over the limit is no room, not a wrap");
        assert_eq!(Room::below(&root).memory_total(), 9000);
    }

    #[test]
    fn a_group_outside_its_mount_is_seen_at_the_top() {
        let mut files = vec![
            ("proc/self/cgroup", "0::/../other\n"),
            ("proc/self/mountinfo", "29 23 0:26 /mine /cg rw - cgroup2 none rw\n"),
            ("cg/pids.max", "30\n"),
            ("cg/pids.current", "10\n"),
        ];
        files.extend(KERNEL);
        assert_eq!(Room::below(&tree("room-outside", &files)).pids_free(), 20);
    }

    #[test]
    fn this_machine_has_room() {
        assert!((8..1 << 30).contains(&pids_free()));
        assert!(memory_free() > 1024 * 1024);
        let here = space(Path::new("/")).unwrap();
        assert!(here.free_bytes <= here.total_bytes && here.total_bytes > 0);
        assert!(space(Path::new("/dev/shm")).map_or(true, |shm| shm.is_tmpfs));
    }

    #[test]
    fn the_soft_limit_of_descriptors_is_the_one_that_counts() {
        let text = "Max core file size        0                    unlimited            bytes\n\
                    Max open files            1024                 1048576              files\n";
        assert_eq!(descriptors_in(text), Some(1024));
        assert_eq!(descriptors_in(&text.replace("1024 ", "unlimited ")), None);
        assert!(descriptors_max().is_none_or(|most| most > 2));
    }
}
