//! Whether the task ran out of memory, by what its group tells after the end.

use super::watch::Watched;
use crate::process::cgroup::{OomKills, PlanView};
use crate::process::receipt::OutOfMemory;

/// What the task may have, in bytes, by the orders.
pub(super) fn limit(groups: &[PlanView<'_>]) -> Option<i64> {
    let mut settings = groups.iter().flat_map(|group| &group.settings);
    let is_limit = |file: &[u8]| matches!(file, b"memory.max" | b"memory.limit_in_bytes");
    let (_, value) = settings.find(|(file, _)| is_limit(file.to_bytes()))?;
    value.to_str().ok()?.parse().ok()
}

/// What the receipt says.
pub(super) fn judge(kills: Option<OomKills>, watched: &Watched, limit_bytes: Option<i64>) -> Option<OutOfMemory> {
    let kills = match kills? {
        OomKills::Counted(kills) => u32::try_from(kills).unwrap_or(u32::MAX),
        // A kernel that does not count: a KILL that nobody ordered, in a group that has met its limit.
        OomKills::LimitMet(_) if watched.main.exit_code() == KILLED && !watched.ordered => 1,
        OomKills::LimitMet(_) => return None,
    };
    Some(OutOfMemory { kills, limit_bytes: limit_bytes? })
}

/// What a shell makes of a child that was killed is the same as what we make of it ourselves.
const KILLED: i32 = 128 + libc::SIGKILL;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::wait::Ended;

    #[test]
    fn a_kernel_that_does_not_count_is_believed_only_about_a_kill_nobody_ordered() {
        let judged = |kills, main, ordered| {
            let at = super::super::finish::Moment::now();
            judge(Some(kills), &Watched { main, at, leftovers: 0, kept: false, ordered }, Some(8)).map(|oom| oom.kills)
        };
        let killed = Ended::Signalled(libc::SIGKILL);
        assert_eq!(judged(OomKills::LimitMet(5), killed, false), Some(1));
        assert_eq!(judged(OomKills::LimitMet(5), Ended::Exited(137), false), Some(1));
        assert_eq!(judged(OomKills::LimitMet(5), killed, true), None);
        assert_eq!(judged(OomKills::LimitMet(5), Ended::Exited(1), false), None);
        assert_eq!(judged(OomKills::Counted(3), Ended::Exited(0), true), Some(3));
    }
}
