//! Which controllers there are for limits of tasks, in which version, and whether they can be used. Only
//! looked at here; the daemon finds out by doing when it starts.

use super::finding::Finding;
use super::mounts::{self, Mount};
use super::place::Place;
use crate::runtime::look;
use std::fs;
use std::path::{Path, PathBuf};

/// What limits of tasks need.
const WANTED: [&str; 3] = ["memory", "pids", "cpu"];

/// One controller as it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Controller {
    name: &'static str,
    version: u8,
    writable: bool,
}

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let available = |group: &Path| fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
    let writable = |group: &Path| look::is_writable(group).unwrap_or(false);
    let mounts = mounts::read();
    let is_mounted = mounts.iter().any(|mount| mount.kind.starts_with("cgroup"));
    decide(is_mounted, &find(&mounts, &own, available, writable))
}

fn find(
    mounts: &[Mount],
    own: &str,
    available: impl Fn(&Path) -> String,
    writable: impl Fn(&Path) -> bool,
) -> Vec<Controller> {
    let mut found: Vec<Controller> = Vec::new();
    for name in WANTED {
        let places = mounts.iter().filter_map(|mount| {
            let (version, group) = match mount.kind.as_str() {
                "cgroup2" => (2, group(mount, own, "")?),
                "cgroup" if mount.has(name) => (1, group(mount, own, name)?),
                _ => return None,
            };
            let there = version == 1 || available(&group).split_whitespace().any(|known| known == name);
            there.then(|| Controller { name, version, writable: writable(&group) })
        });
        // One that can be used wins over one that only is there.
        found.extend(places.max_by_key(|controller| controller.writable));
    }
    found
}

/// The own group in the tree of a controller; of version 2 when it is empty (cgroups(7)).
fn group(mount: &Mount, own: &str, controller: &str) -> Option<PathBuf> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = if controller.is_empty() {
            id == "0" && names.is_empty()
        } else {
            names.split(',').any(|n| n == controller)
        };
        is_it.then(|| mount.below(path))
    })
}

fn decide(is_mounted: bool, found: &[Controller]) -> Finding {
    let shown: Vec<String> = found
        .iter()
        .map(|c| format!("{} (v{}{})", c.name, c.version, if c.writable { "" } else { ", read-only" }))
        .collect();
    let missing: Vec<&str> = WANTED
        .into_iter()
        .filter(|name| !found.iter().any(|controller| controller.name == *name && controller.writable))
        .collect();
    if missing.is_empty() {
        return Finding::ok(format!("{}: limits of tasks can be kept", shown.join(", ")));
    }
    let found = if shown.is_empty() { "no controller".to_owned() } else { shown.join(", ") };
    let text = format!("{found}; a task that needs a limit of {} is refused", missing.join(", "));
    let todo = if !is_mounted {
        "mount -t cgroup2 cgroup2 /sys/fs/cgroup, with a kernel that has CONFIG_CGROUPS"
    } else if shown.len() == WANTED.len() {
        "run the daemon as root, or give it a writable group of its own (systemd: Delegate=yes)"
    } else {
        "use a kernel and a container that have them, or tasks without such limits"
    };
    Finding::warn(text, todo)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn controllers(mounts: &str, own: &str, available: &str, read_only: &str) -> Vec<Controller> {
        let writable = |group: &Path| read_only.is_empty() || !group.starts_with(read_only);
        find(&mounts::parse(mounts), own, |_| available.to_owned(), writable)
    }

    #[test]
    fn version_1_beside_an_almost_empty_version_2() {
        let mounts = "39 31 0:36 / /cg/pids rw - cgroup cgroup rw,pids\n\
                      35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n\
                      36 31 0:33 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n";
        let own = "8:cpu,cpuacct:/\n9:pids:/a\n4:memory:/m\n0::/\n";
        let found = controllers(mounts, own, "hugetlb\n", "");
        assert_eq!(
            found.iter().map(|c| (c.name, c.version)).collect::<Vec<_>>(),
            [("memory", 1), ("pids", 1), ("cpu", 1)]
        );
        assert_eq!(decide(true, &found).level, Level::Ok);
        let found = controllers(mounts, own, "hugetlb\n", "/cg/memory");
        let finding = decide(true, &found);
        assert_eq!(finding.level, Level::Warn);
        assert!(finding.text.contains("memory (v1, read-only)") && finding.text.ends_with("of memory is refused"));
    }

    #[test]
    fn version_2_alone_and_nothing_at_all() {
        let mounts = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n";
        let found = controllers(mounts, "0::/a\n", "cpuset cpu io memory pids\n", "");
        assert_eq!(decide(true, &found).level, Level::Ok);
        let found = controllers(mounts, "0::/a\n", "cpu\n", "");
        assert!(decide(true, &found).text.starts_with("cpu (v2); a task that needs a limit of memory, pids"));
        let finding = decide(false, &[]);
        assert_eq!(finding.level, Level::Warn);
        assert!(finding.todo.unwrap().contains("mount -t cgroup2"));
    }
}
