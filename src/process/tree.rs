//! Every process below one: found by parent in /proc, each signalled by its verified identity (design D6).
//!
//! The children files of /proc need a kernel option that router kernels lack, so the whole of /proc is
//! read; it is needed only to stop something.

use super::pidfd::PidFd;
use super::signals;
use super::stat::{self, Stat};
use crate::model::limits;
use std::io;

/// One process of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) start_ticks: u64,
    pub(super) has_ended: bool,
}

/// Everything below `root`, without it.
pub(super) fn below(root: i32) -> io::Result<Vec<Process>> {
    Ok(closure(&snapshot()?, root))
}

pub(super) fn snapshot() -> io::Result<Vec<Stat>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid =
            name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit())).and_then(|name| name.parse().ok());
        // What ends while we look is no longer there to be signalled.
        all.extend(pid.and_then(|pid| stat::read(pid).ok()));
    }
    Ok(all)
}

/// A thread group whose first thread has ended shows as a zombie and may still have threads and
/// children, so zombies are walked through as well.
fn closure(all: &[Stat], root: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for stat in all.iter().filter(|stat| stat.parent == parent) {
            if stat.pid != root && !found.iter().any(|known| known.pid == stat.pid) {
                found.push(Process { pid: stat.pid, start_ticks: stat.start_ticks, has_ended: stat.has_ended() });
                parents.push(stat.pid);
            }
        }
    }
    found
}

/// Signals exactly this process; `false` when it is gone or may not be signalled.
pub(super) fn signal(process: &Process, signal: libc::c_int) -> bool {
    // The pidfd comes first: what is verified after it is what will be signalled.
    let pidfd = PidFd::open(process.pid);
    if !stat::read(process.pid).is_ok_and(|stat| stat.start_ticks == process.start_ticks) {
        return false;
    }
    match pidfd {
        Some(pidfd) => pidfd.send(signal).is_ok(),
        None => signals::send(process.pid, signal).is_ok(),
    }
}

/// How many live below `root`.
pub(super) fn alive_below(root: i32) -> io::Result<usize> {
    Ok(below(root)?.iter().filter(|process| !process.has_ended).count())
}

/// Asks everything below `root` to end: TERM, then CONT for what was stopped. How many lived.
pub(super) fn terminate_below(root: i32) -> io::Result<usize> {
    let tree = below(root)?;
    for process in &tree {
        signal(process, libc::SIGTERM);
        signal(process, libc::SIGCONT);
    }
    Ok(tree.iter().filter(|process| !process.has_ended).count())
}

/// Ends everything below `root`: stops what is found until two looks find nothing new, so that nothing
/// forks away while it is killed, then kills. What a stopped process had already begun may still
/// appear, so the caller repeats this until the tree is proven empty. How many were killed.
///
/// `is_root` says whether `root` is still the process that is meant: asked after each look, because one
/// that was it afterwards was it all the time, and only then what was found is below it.
pub(super) fn kill_below(root: i32, is_root: impl Fn() -> bool) -> io::Result<usize> {
    let mut stopped: Vec<Process> = Vec::new();
    let mut quiet = 0;
    for _ in 0..limits::CLOSURE_PASSES_MAX {
        let known = stopped.len();
        let found = below(root)?;
        if !is_root() {
            break;
        }
        for process in found {
            if !stopped.iter().any(|p| p.pid == process.pid && p.start_ticks == process.start_ticks) {
                signal(&process, libc::SIGSTOP);
                stopped.push(process);
            }
        }
        quiet = if stopped.len() == known { quiet + 1 } else { 0 };
        if quiet == 2 {
            break;
        }
    }
    Ok(stopped.iter().filter(|process| !process.has_ended && signal(process, libc::SIGKILL)).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: i32, parent: i32, state: u8) -> Stat {
        Stat { pid, state, parent, group: pid, session: pid, start_ticks: pid as u64 }
    }

    #[test]
    fn the_closure_holds_all_generations_and_nothing_else() {
        let all = [
            stat(1, 0, b'S'),
            stat(50, 1, b'S'),
            stat(51, 50, b'Z'),
            stat(52, 51, b'S'),
            stat(53, 52, b'T'),
            stat(60, 1, b'S'),
        ];
        let mut pids: Vec<_> = closure(&all, 50).iter().map(|p| p.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [51, 52, 53]);
        assert!(closure(&all, 60).is_empty());
    }

    #[test]
    fn what_is_below_another_root_by_now_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id() as i32;
        assert_eq!(kill_below(own, || false).unwrap(), 0);
        assert_ne!(stat::read(child.id() as i32).unwrap().state, b'T', "not even stopped");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_reused_number_is_never_signalled() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut process =
            below(std::process::id() as i32).unwrap().into_iter().find(|p| p.pid == child.id() as i32).unwrap();
        process.start_ticks += 1;
        assert!(!signal(&process, libc::SIGKILL));
        assert_eq!(child.try_wait().unwrap(), None);
        process.start_ticks -= 1;
        assert!(signal(&process, libc::SIGKILL));
        child.wait().unwrap();
        assert!(!signal(&process, libc::SIGKILL));
    }
}
