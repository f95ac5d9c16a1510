//! What the kernel counts about a process.

use crate::Outcome;
use std::collections::BTreeMap;

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Default)]
pub struct Memory {
    /// Resident, shared pages too.
    pub resident: u64,
    /// Its share of them.
    pub proportional: u64,
    /// Written by it alone.
    pub private: u64,
}

/// Reads it.
pub fn memory(pid: u32) -> Outcome<Memory> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    Ok(Memory { resident: field("Rss:"), proportional: field("Pss:"), private: field("Private_Dirty:") })
}

/// Every process that came from it and lives, itself included: their ids and names.
pub fn family(pid: u32) -> Outcome<BTreeMap<u32, String>> {
    let mut all = BTreeMap::new();
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm")) else { continue };
        all.insert(pid, name.trim().to_owned());
        // A child stands with the thread that made it.
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let children = std::fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
            left.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    Ok(all)
}

/// How often its threads have gone to sleep.
pub fn switches(pid: u32) -> Outcome<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("status"))?;
        let count = text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

/// Its time on a processor in milliseconds, and with `children` theirs that it has waited for too.
pub fn cpu_ms(pid: u32, children: bool) -> Outcome<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = text.rsplit_once(") ").ok_or("an odd stat")?.1;
    let fields: Vec<u64> = after.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
    // utime, stime, cutime, cstime are fields 14 to 17 of proc(5), in hundredths of a second.
    let counted = if children { 11..15 } else { 11..13 };
    Ok(fields.get(counted).map_or(0, |ticks| ticks.iter().sum::<u64>() * 10))
}

/// Bytes that it made the kernel write, and those of its children that it has waited for.
pub fn written(pid: u32) -> Outcome<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    Ok(bytes.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0))
}
