//! The supervisors of running tasks, found through what they supervise.

use super::support::tree::{self, Process};
use std::collections::BTreeSet;
use std::fs;

/// The supervisors there are now, each with the Run whose task it looks after. A task's processes
/// bear the Run's mark and are in the session that its supervisor leads.
pub fn find(is_ours: impl Fn(&str) -> bool) -> Vec<(Process, String)> {
    let marked: Vec<(Process, String)> = tree::all_marked().into_iter().filter(|(_, run)| is_ours(run)).collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (process, run) in &marked {
        let Some((_, _, session)) = tree::place(process.pid) else { continue };
        let is_supervisor = session > 1
            && fs::read(format!("/proc/{session}/cmdline")).is_ok_and(|line| line == b"qinglet\0shim\0")
            && seen.insert(session);
        if let Some(shim) = tree::find(session).filter(|_| is_supervisor) {
            found.push((shim, run.clone()));
        }
    }
    // In an order that does not depend on /proc's.
    found.sort_by(|a, b| a.1.cmp(&b.1));
    found
}

/// Kills one of them, counted through those there are; whose it was.
pub fn kill(nth: usize, is_ours: impl Fn(&str) -> bool) -> Option<String> {
    let found = find(is_ours);
    let (shim, run) = found.get(nth % found.len().max(1))?;
    // Between the look and the signal nobody else can have got the number: there would have to be a
    // whole round of them.
    if tree::is_alive(shim) {
        tree::signal(shim.pid, libc::SIGKILL);
    }
    Some(run.clone())
}
