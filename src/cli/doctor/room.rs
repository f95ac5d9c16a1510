//! Whether a task would find process ids and memory now.

use super::finding::Finding;
use super::place::Place;
use crate::model::limits::{MEMORY_FREE_MIN, PIDS_FREE_MIN};
use crate::runtime::look;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    decide(look::pids_free(), look::memory_free())
}

/// `u64::MAX`: nothing limits it.
fn decide(pids: u64, memory_bytes: u64) -> Finding {
    let count = if pids == u64::MAX { "unlimited".to_owned() } else { pids.to_string() };
    let mib = memory_bytes >> 20;
    let memory = if memory_bytes == u64::MAX { "unlimited memory".to_owned() } else { format!("{mib} MiB of memory") };
    let text = format!("{count} process ids and {memory} free");
    if pids < PIDS_FREE_MIN {
        return Finding::warn(format!("{text}; runs wait"), "end something, or raise pids.max of this group");
    }
    if memory_bytes < MEMORY_FREE_MIN {
        return Finding::warn(format!("{text}; runs wait"), "free some memory");
    }
    Finding::ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_makes_runs_wait_is_a_warning() {
        assert_eq!(decide(u64::MAX, u64::MAX).level, Level::Ok);
        assert_eq!(decide(PIDS_FREE_MIN, MEMORY_FREE_MIN).level, Level::Ok);
        assert_eq!(decide(PIDS_FREE_MIN - 1, u64::MAX).level, Level::Warn);
        assert_eq!(decide(u64::MAX, MEMORY_FREE_MIN - 1).level, Level::Warn);
    }
}
