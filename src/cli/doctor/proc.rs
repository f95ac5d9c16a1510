//! How /proc is mounted: with hidepid an ordinary user sees only part of it.

use super::finding::Finding;
use super::mounts::{self, Mount};
use super::place::Place;
use std::fs;

/// `CAP_SYS_PTRACE` (capabilities(7)): who has it sees every process, and root in a container may lack it.
const SEES_ALL: u64 = 1 << 19;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    let mounts = mounts::read();
    // What was mounted last covers what was there before.
    let mount = mounts.iter().rev().find(|mount| mount.point == "/proc" && mount.kind == "proc");
    decide(mount, fs::read_to_string("/proc/self/status").ok().map(|status| sees_all(&status)))
}

fn sees_all(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).is_some_and(|bits| bits & SEES_ALL != 0)
}

fn decide(mount: Option<&Mount>, sees_all: Option<bool>) -> Finding {
    let Some(sees_all) = sees_all else {
        return Finding::fail("/proc is not mounted", "mount it: mount -t proc proc /proc");
    };
    let Some(mount) = mount else { return Finding::ok("mounted, its options are out of sight") };
    if mount.value("subset") == Some("pid") {
        let todo = "mount it whole: mount -o remount,subset= /proc";
        return Finding::warn("mounted with subset=pid, so memory and pids that are free cannot be seen", todo);
    }
    match mount.value("hidepid") {
        None | Some("0" | "off") => Finding::ok("mounted, every process can be seen"),
        Some(how) if sees_all => Finding::ok(format!("mounted with hidepid={how}, which hides nothing from root")),
        Some(how) => Finding::warn(
            format!("mounted with hidepid={how}; supervisors of tasks stay readable for this user's other processes"),
            "run the daemon as root (with CAP_SYS_PTRACE), or mount -o remount,hidepid=0 /proc",
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
        let level = |options: &str, sees_all| decide(Some(&mount(options)), Some(sees_all)).level;
        assert_eq!(level("", false), Level::Ok);
        assert_eq!(level(",hidepid=0", false), Level::Ok);
        for how in ["1", "2", "noaccess", "invisible", "ptraceable"] {
            assert_eq!(level(&format!(",hidepid={how}"), false), Level::Warn, "{how}");
            assert_eq!(level(&format!(",hidepid={how}"), true), Level::Ok, "{how}");
        }
        assert_eq!(level(",subset=pid", true), Level::Warn);
        assert_eq!(decide(None, Some(true)).level, Level::Ok);
        assert_eq!(decide(None, None).level, Level::Fail);
        assert!(sees_all("Name:\tx\nCapEff:\t000001ffffffffff\n"));
        assert!(!sees_all("CapEff:\t000001fffff7ffff\n") && !sees_all("CapEff:\t0000000000000000\n") && !sees_all(""));
    }
}
