//! What this machine can limit, found by doing it: a group is made, limited, entered by a throw-away
//! process and removed (design D15). What is only announced, in /proc or by a file that is there,
//! proves nothing: containers show controllers that they do not hand out.

use super::controller::{Controller, OomCount, Plan};
use super::group::{make_folder, set};
use super::tree::{Place, Trees};
use crate::model::capability::Capability;
use crate::model::confinement::Requires;
use crate::model::id::AttemptId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where a daemon of version 2 goes, because a group with limited groups below it may hold no process.
const LEAF: &str = "qinglet-daemon";

/// Where the groups of one controller are made.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Root {
    controller: Controller,
    /// The group they are made in.
    folder: PathBuf,
    is_v2: bool,
    /// Whether swap is counted by a file of its own.
    counts_swap: bool,
}

/// Where groups can be made; empty where none can.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Groups {
    /// What the names of this daemon's groups begin with.
    instance: String,
    roots: Vec<Root>,
}

impl Groups {
    /// The groups that hold an Attempt to what its task requires.
    pub fn plan(&self, attempt: AttemptId, requires: &Requires) -> Vec<Plan> {
        let mut plans: Vec<Plan> = Vec::new();
        for root in &self.roots {
            let Some(limit) = root.controller.wanted(requires) else { continue };
            let folder = root.folder.join(format!("{}.{attempt}", self.instance));
            let settings = root.controller.settings(root.is_v2, limit, |_| root.counts_swap);
            let oom = match (root.controller, root.is_v2) {
                (Controller::Memory, true) => OomCount::V2,
                (Controller::Memory, false) => OomCount::V1,
                _ => OomCount::None,
            };
            match plans.iter_mut().find(|plan| plan.folder == folder) {
                Some(plan) => {
                    plan.settings.extend(settings);
                    if oom != OomCount::None {
                        plan.oom = oom;
                    }
                }
                None => plans.push(Plan { folder, settings, oom }),
            }
        }
        plans
    }

    /// Groups as they might be, for other tests.
    #[cfg(test)]
    pub(in crate::process) fn sample() -> Self {
        let (controller, folder) = (Controller::Memory, "/cg/memory".into());
        Self { instance: "qinglet-0".into(), roots: vec![Root { controller, folder, is_v2: false, counts_swap: true }] }
    }

    /// Whether none can be made.
    pub const fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The folders that groups are made in, each once.
    pub(super) fn folders(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = self.roots.iter().map(|root| root.folder.as_path()).collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// Whose group has this name; `None`: it is none of this daemon's.
    pub(super) fn attempt_of(&self, name: &str) -> Option<AttemptId> {
        AttemptId::parse(name.strip_prefix(&self.instance)?.strip_prefix('.')?)
    }
}

/// Tries each controller with this throw-away process. `instance` tells the groups of one daemon's
/// state from those of another's in the same place. Answers where groups can be made, and what is
/// missing, each with its reason.
pub(in crate::process) fn find(instance: &str, throwaway: i32) -> (Groups, Vec<(Capability, String)>) {
    let trees = Trees::of(Path::new("/"));
    let mut groups = Groups { instance: instance.to_owned(), roots: Vec::new() };
    let mut missing = Vec::new();
    for controller in Controller::ALL {
        let mut why = format!("no cgroup tree with the {} controller is mounted", controller.name());
        let mut places = trees.places(controller.name());
        // Version 1 has a controller for itself alone, so it is there when its tree is.
        places.sort_by_key(|place| place.is_v2);
        let found = places.iter().find_map(|place| match try_out(controller, place, instance, throwaway) {
            Ok(root) => Some(root),
            Err(Absent) => None,
            Err(Refused(what, error)) => {
                why = format!("{what}: {error}");
                None
            }
        });
        match found {
            Some(root) => groups.roots.push(root),
            None => missing.push((controller.capability(), why)),
        }
    }
    (groups, missing)
}

/// Why a place cannot be used.
enum Trouble {
    /// The tree does not have the controller.
    Absent,
    /// Something was refused: what, and how.
    Refused(&'static str, io::Error),
}
use Trouble::{Absent, Refused};

fn try_out(controller: Controller, place: &Place, instance: &str, throwaway: i32) -> Result<Root, Trouble> {
    if !place.is_seen {
        return Err(Absent);
    }
    let base = if place.is_v2 && place.own.ends_with(LEAF) { place.own.parent() } else { Some(place.own.as_path()) };
    let base = base.unwrap_or(&place.own);
    if place.is_v2 {
        let controllers = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
        if !controllers.split_ascii_whitespace().any(|name| name == controller.name()) {
            return Err(Absent);
        }
        hand_out(controller, base, throwaway)?;
    }
    let probe = base.join(format!("{instance}.probe"));
    let tried = make_folder(&probe)
        .map_err(|e| Refused("no group can be made below the daemon's own cgroup", e))
        .and_then(|()| limit(controller, place.is_v2, &probe, throwaway));
    // The throw-away process goes back, to where the daemon is by now, before its group can go.
    let leaf = base.join(LEAF);
    let home = if place.is_v2 && leaf.exists() { &leaf } else { &place.own };
    let _ = set(home, "cgroup.procs", throwaway.to_string().as_bytes());
    let _ = fs::remove_dir(&probe);
    let counts_swap = tried?;
    Ok(Root { controller, folder: base.to_path_buf(), is_v2: place.is_v2, counts_swap })
}

/// Limits a group and lets a process in. Answers whether swap has a file of its own.
fn limit(controller: Controller, is_v2: bool, group: &Path, throwaway: i32) -> Result<bool, Trouble> {
    let has = |file: &str| group.join(file).exists();
    for setting in controller.settings(is_v2, controller.sample(), has) {
        set(group, &setting.file, setting.value.as_bytes()).map_err(|e| Refused("a group takes no limit", e))?;
    }
    set(group, "cgroup.procs", throwaway.to_string().as_bytes())
        .map_err(|e| Refused("no process can be moved into a group", e))?;
    Ok(controller == Controller::Memory && (has("memory.memsw.limit_in_bytes") || has("memory.swap.max")))
}

fn enable(controller: Controller, group: &Path) -> io::Result<()> {
    set(group, "cgroup.subtree_control", format!("+{}", controller.name()).as_bytes())
}

/// Version 2: lets the groups below `base` have the controller. All but the root of a tree may then hold
/// no process, so this one goes into a leaf, and comes back when that was not enough.
fn hand_out(controller: Controller, base: &Path, throwaway: i32) -> Result<(), Trouble> {
    match enable(controller, base) {
        Ok(()) => return Ok(()),
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
        Err(e) => return Err(Refused("the daemon's cgroup cannot hand its controllers on", e)),
    }
    let leaf = base.join(LEAF);
    let move_to = |group: &Path| {
        let both = [std::process::id().to_string(), throwaway.to_string()];
        both.iter().try_for_each(|pid| set(group, "cgroup.procs", pid.as_bytes()))
    };
    let moved = make_folder(&leaf).and_then(|()| move_to(&leaf));
    moved.map_err(|e| Refused("the daemon cannot go into a cgroup of its own", e))?;
    enable(controller, base).map_err(|e| {
        let _ = move_to(base);
        let _ = fs::remove_dir(&leaf);
        Refused("other processes are in the daemon's cgroup; start it in one of its own (systemd: Delegate=yes)", e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shares_a_tree_shares_a_group() {
        let root =
            |controller, folder: &str, is_v2| Root { controller, folder: folder.into(), is_v2, counts_swap: true };
        let attempt = AttemptId::parse("0197d2a4-1b2c-7def-8123-456789abcdee").unwrap();
        let requires =
            Requires { memory_bytes: Some(1 << 20), pids: Some(5), cpu_percent: None, capabilities: Vec::new() };
        let v2 = Controller::ALL.map(|controller| root(controller, "/cg", true));
        let [plan] = &Groups { instance: "q".into(), roots: v2.into() }.plan(attempt, &requires)[..] else {
            panic!("one")
        };
        assert_eq!((plan.folder.clone(), plan.oom), (Path::new("/cg").join(format!("q.{attempt}")), OomCount::V2));
        assert_eq!(plan.settings.len(), 3);
        let v1 = Controller::ALL.map(|controller| root(controller, controller.name(), false));
        let groups = Groups { instance: "q".into(), roots: v1.into() };
        let plans = groups.plan(attempt, &requires);
        assert_eq!(plans.iter().map(|plan| plan.oom).collect::<Vec<_>>(), [OomCount::V1, OomCount::None]);
        assert!(groups.plan(attempt, &Requires::default()).is_empty());
        assert_eq!(groups.folders().len(), 3);
        assert_eq!(groups.attempt_of(&format!("q.{attempt}")), Some(attempt));
        for other in ["q.probe".to_owned(), attempt.to_string(), format!("qq.{attempt}"), format!("q{attempt}")] {
            assert_eq!(groups.attempt_of(&other), None, "{other}");
        }
    }
}
