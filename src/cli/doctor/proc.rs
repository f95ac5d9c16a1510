//! How /proc is mounted: with hidepid an ordinary user sees only part of it.

use super::finding::Finding;
use super::mounts::{self, Mount};
use super::place::Place;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    let mounts = mounts::read();
    // What was mounted last covers what was there before.
    let mount = mounts.iter().rev().find(|mount| mount.point == "/proc" && mount.kind == "proc");
    decide(mount, fs::metadata("/proc/self").ok().map(|own| own.uid()))
}

fn decide(mount: Option<&Mount>, uid: Option<u32>) -> Finding {
    let Some(uid) = uid else {
        return Finding::fail("/proc is not mounted", "mount it: mount -t proc proc /proc");
    };
    let Some(mount) = mount else { return Finding::ok("mounted, its options are out of sight") };
    if mount.value("subset") == Some("pid") {
        let todo = "mount it whole: mount -o remount,subset= /proc";
        return Finding::warn("mounted with subset=pid, so memory and pids that are free cannot be seen", todo);
    }
    match mount.value("hidepid") {
        None | Some("0" | "off") => Finding::ok("mounted, every process can be seen"),
        Some(how) if uid == 0 => Finding::ok(format!("mounted with hidepid={how}, which hides nothing from root")),
        Some(how) => Finding::warn(
            format!("mounted with hidepid={how}; supervisors of tasks stay readable for this user's other processes"),
            "run the daemon as root, or mount -o remount,hidepid=0 /proc",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_hides_processes_from_this_user_is_a_warning() {
        let mount = |options: &str| {
            mounts::parse(&format!("22 28 0:21 / /proc rw - proc proc rw{options}\n")).into_iter().next().unwrap()
        };
        let level = |options: &str, uid| decide(Some(&mount(options)), Some(uid)).level;
        assert_eq!(level("", 1000), Level::Ok);
        assert_eq!(level(",hidepid=0", 1000), Level::Ok);
        for how in ["1", "2", "noaccess", "invisible", "ptraceable"] {
            assert_eq!(level(&format!(",hidepid={how}"), 1000), Level::Warn, "{how}");
            assert_eq!(level(&format!(",hidepid={how}"), 0), Level::Ok, "{how}");
        }
        assert_eq!(level(",subset=pid", 0), Level::Warn);
        assert_eq!(decide(None, Some(0)).level, Level::Ok);
        assert_eq!(decide(None, None).level, Level::Fail);
    }
}
