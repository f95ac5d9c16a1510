//! The limits of this process, which a daemon started from here would inherit (proc(5), `limits`).

use super::finding::Finding;
use super::place::Place;
use crate::model::limits::{DESCRIPTORS_OWN, Limits, PIDS_FREE_MIN, Profile};
use crate::model::settings::Settings;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limits = place.settings.as_ref().map_or(*Profile::Edge.limits(), Settings::limits);
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    decide(soft(&text, "Max open files"), soft(&text, "Max processes"), &limits, is_root)
}

/// The soft limit on this line; `None`: unlimited, or not said.
fn soft(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()?.parse().ok()
}

fn decide(files: Option<u64>, processes: Option<u64>, limits: &Limits, is_root: bool) -> Finding {
    let shown = |most: Option<u64>| most.map_or("unlimited".to_owned(), |most| most.to_string());
    let text = format!("{} open files, {} processes", shown(files), shown(processes));
    let needed = DESCRIPTORS_OWN + limits.connections as u64;
    if files.is_some_and(|most| most < needed) {
        let todo = "run `ulimit -n 1024` before `serve` (procd: limits nofile; systemd: LimitNOFILE=1024)";
        return Finding::fail(format!("{text}; {needed} open files are needed"), todo);
    }
    // The daemon's own threads, and a shim and a program for each task; root is not held to it.
    let threads = 2 * limits.http_workers as u64 + 5;
    let wanted = threads + 2 * limits.active_attempts as u64 + PIDS_FREE_MIN;
    if !is_root && processes.is_some_and(|most| most < wanted) {
        return Finding::warn(
            format!("{text}; a full house needs {wanted} processes"),
            "raise it with `ulimit -u 1024`",
        );
    }
    Finding::ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_serve_would_refuse_fails_and_what_tasks_would_miss_warns() {
        let limits = Profile::Edge.limits();
        let level = |files, processes, root| decide(files, processes, limits, root).level;
        assert_eq!(level(Some(64), None, true), Level::Ok);
        assert_eq!(level(Some(63), None, true), Level::Fail);
        assert_eq!(level(None, Some(20), false), Level::Warn);
        assert_eq!(level(None, Some(20), true), Level::Ok);
        assert_eq!(level(None, Some(1024), false), Level::Ok);
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max processes             unlimited            unlimited            processes\n\
                    Max open files            1024                 1048576              files\n";
        assert_eq!((soft(text, "Max open files"), soft(text, "Max processes")), (Some(1024), None));
    }
}
