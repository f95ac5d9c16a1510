//! What this machine can do for a task, found at the daemon's start by doing it (design D15).

use super::cgroup::{self, Groups};
use super::{fork, own};
use crate::model::capability::{Capabilities, Capability};
use crate::model::limits::OWN_OOM_SCORE_ADJ;
use std::io;

/// What was found.
#[derive(Clone, Default, Debug)]
pub struct Machine {
    /// What it can do and what not.
    pub capabilities: Capabilities,
    /// Where groups can be made.
    pub groups: Groups,
}

/// Finds it out with a throw-away process. `instance` names the groups of this daemon's state.
pub fn look(instance: &str) -> Machine {
    let mut machine = Machine::default();
    let here = &mut machine.capabilities;
    let tried = fork::throwaway(|pid| {
        let nice = own::set_nice(pid, -1);
        // Below what the daemon itself may have been given.
        let oom = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "-1000");
        (cgroup::find(instance, pid), nice, oom)
    });
    match tried {
        Ok((((groups, missing), nice, oom), can_change_user)) => {
            machine.groups = groups;
            for (capability, why) in missing {
                here.lack(capability, why);
            }
            lack(here, Capability::RaisedPriority, nice);
            lack(here, Capability::OomProtection, oom);
            if !can_change_user {
                here.lack(Capability::RunAs, "no other user can be taken on; the daemon must run as root for that");
            }
        }
        Err(error) => {
            let all = [
                Capability::MemoryLimit,
                Capability::PidsLimit,
                Capability::CpuLimit,
                Capability::RunAs,
                Capability::RaisedPriority,
                Capability::OomProtection,
            ];
            for one in all {
                here.lack(one, format!("it could not be tried: {error}"));
            }
        }
    }
    machine
}

fn lack(here: &mut Capabilities, capability: Capability, tried: io::Result<()>) {
    if let Err(error) = tried {
        here.lack(capability, format!("the daemon may not do it: {error}"));
    }
}

/// Keeps this process, and the shims it makes, from being the first that the out-of-memory killer takes.
/// Without the right to (`CAP_SYS_RESOURCE`) it stays as it is, and so does what is further back already.
pub fn step_back_for_oom_killer() {
    let now = std::fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse::<i32>().ok());
    if now.is_some_and(|now| now > OWN_OOM_SCORE_ADJ) {
        let _ = own::set_oom_score_adj(OWN_OOM_SCORE_ADJ);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_is_there_or_says_why_not_and_no_group_stays() {
        let machine = look("qinglet-unit-test");
        assert!(Capability::ALWAYS.into_iter().all(|one| machine.capabilities.why_missing(one).is_none()));
        let root = own::ids().0 == 0;
        assert_eq!(machine.capabilities.why_missing(Capability::RunAs).is_none(), root);
        let limits = [Capability::MemoryLimit, Capability::PidsLimit, Capability::CpuLimit];
        let there = limits.into_iter().any(|one| machine.capabilities.why_missing(one).is_none());
        assert_eq!(machine.groups.is_empty(), !there);
    }
}
