//! Process trees as /proc shows them, so that a test ends what it started and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One process, told apart from a later one with the same number by when it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its process id.
    pub pid: i32,
    /// Clock ticks after boot.
    pub start_ticks: u64,
}

/// Every process that descends from this one now.
pub fn below(pid: i32) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some((parent, start_ticks)) = stat(pid) else { continue };
        children.entry(parent).or_default().push(Process { pid, start_ticks });
    }
    let mut found: Vec<Process> = children.remove(&pid).unwrap_or_default();
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at].pid).unwrap_or_default());
        at += 1;
    }
    found
}

/// Every live process that was started with a Run's mark in its environment, wherever it hangs.
pub fn marked(run: &str) -> Vec<Process> {
    all_marked().into_iter().filter(|(_, of)| of == run).map(|(process, _)| process).collect()
}

/// Every live process that was started with any Run's mark in its environment, and which.
pub fn all_marked() -> Vec<(Process, String)> {
    let mark = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut entries = environment.split(|byte| *byte == 0);
        let run = entries.find_map(|entry| entry.strip_prefix(b"QINGLET_RUN_ID="))?;
        Some(String::from_utf8_lossy(run).into_owned())
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((find(pid)?, mark(pid)?))).filter(|(process, _)| is_alive(process)).collect()
}

/// Every other process that names a folder in its command line, works in it or has something open there.
/// Of another user's, or of an ordinary user's supervisors, only the command line can be seen.
pub fn at_work_in(root: &Path) -> Vec<Process> {
    let is_there = |link: &Path| fs::read_link(link).is_ok_and(|to| to.starts_with(root));
    let name = root.as_os_str().as_encoded_bytes();
    let is_at_work = |process: &Path| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let mut open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        line.windows(name.len()).any(|part| part == name)
            || is_there(&process.join("cwd"))
            || open.any(|fd| is_there(&fd.path()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != std::process::id() as i32 && is_at_work(Path::new(&format!("/proc/{pid}"))))
        .filter_map(find)
        .collect()
}

/// The process with this number now.
pub fn find(pid: i32) -> Option<Process> {
    Some(Process { pid, start_ticks: stat(pid)?.1 })
}

/// The process that has this number now.
pub fn process(pid: i32) -> Option<Process> {
    Some(Process { pid, start_ticks: stat(pid)?.1 })
}

/// The direct children of a process.
pub fn children(pid: i32) -> Vec<Process> {
    below(pid).into_iter().filter(|process| stat(process.pid).is_some_and(|(parent, _)| parent == pid)).collect()
}

/// A process's state letter, process group and session (proc(5)); `None` when it is gone.
pub fn place(pid: i32) -> Option<(char, i32, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let mut number = fields.skip(1).map(str::parse);
    Some((state, number.next()?.ok()?, number.next()?.ok()?))
}

/// Kills those of them that still live, and what descends from them.
pub fn end(processes: &[Process]) {
    for _ in 0..20 {
        let mut all: Vec<Process> = processes.iter().copied().filter(is_alive).collect();
        let more: Vec<Process> = all.iter().flat_map(|process| below(process.pid)).collect();
        all.extend(more);
        if all.is_empty() {
            return;
        }
        for process in all.iter().filter(|process| is_alive(process)) {
            signal(process.pid, libc::SIGKILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Whether it still runs; a zombie does not.
pub fn is_alive(process: &Process) -> bool {
    let Ok(text) = fs::read_to_string(format!("/proc/{}/stat", process.pid)) else { return false };
    let zombie = text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
    !zombie && stat(process.pid).is_some_and(|(_, ticks)| ticks == process.start_ticks)
}

/// How many threads a process has.
pub fn threads(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// How many descriptors a process has open.
pub fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Resident memory in KiB.
pub fn resident_kib(pid: i32) -> u64 {
    status(pid, "VmRSS:")
}

/// How often its main thread gave the processor away by itself, to sleep or to wait.
pub fn sleeps(pid: i32) -> u64 {
    status(pid, "voluntary_ctxt_switches:")
}

/// The most memory it ever had resident, in KiB.
pub fn peak_kib(pid: i32) -> u64 {
    status(pid, "VmHWM:")
}

/// How many bytes a process has caused to be written to storage; `None` when the system
/// does not say.
pub fn storage_writes(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

fn status(pid: i32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

/// Parent and start time. The name may hold anything, so everything is counted from the last `)`.
fn stat(pid: i32) -> Option<(i32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

/// Sends a signal to a process this test started.
pub fn signal(pid: i32, signal: i32) {
    assert!(pid > 1, "not a process of ours: {pid}");
    // SAFETY: kill takes two integers and touches no memory of ours.
    unsafe { libc::kill(pid, signal) };
}
