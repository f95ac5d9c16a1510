//! The three controllers that are used, and the files through which each is told.

use crate::model::capability::Capability;
use crate::model::confinement::Requires;
use crate::model::limits::CPU_PERIOD_US;
use std::borrow::Cow;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// A controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Controller {
    Memory,
    Pids,
    Cpu,
}

impl Controller {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Pids, Self::Cpu];

    /// The kernel's name for it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Cpu => "cpu",
        }
    }

    /// What a machine can do that has it.
    pub(super) const fn capability(self) -> Capability {
        match self {
            Self::Memory => Capability::MemoryLimit,
            Self::Pids => Capability::PidsLimit,
            Self::Cpu => Capability::CpuLimit,
        }
    }

    /// What is asked of it, if anything.
    pub(super) const fn wanted(self, requires: &Requires) -> Option<i64> {
        match self {
            Self::Memory => requires.memory_bytes,
            Self::Pids => requires.pids,
            Self::Cpu => requires.cpu_percent,
        }
    }

    /// A limit that any machine can take, for trying it out.
    pub(super) const fn sample(self) -> i64 {
        match self {
            Self::Memory => 8 << 20,
            Self::Pids => 8,
            Self::Cpu => 10,
        }
    }

    /// What to write into which file of a group, in this order. `has` tells which files there are.
    pub(super) fn settings(self, is_v2: bool, limit: i64, has: impl Fn(&str) -> bool) -> Vec<Setting> {
        let set = |file: &'static str, value: String| Setting { file: file.into(), value };
        let quota_us = limit.saturating_mul(CPU_PERIOD_US / 100);
        match (self, is_v2) {
            (Self::Memory, true) => {
                let mut settings = vec![set("memory.max", limit.to_string())];
                if has("memory.swap.max") {
                    settings.push(set("memory.swap.max", "0".into()));
                }
                settings
            }
            (Self::Memory, false) => {
                // The sum with swap may never be below the first, so it comes second. Where swap is not
                // counted, none is used.
                let swap = if has("memory.memsw.limit_in_bytes") {
                    set("memory.memsw.limit_in_bytes", limit.to_string())
                } else {
                    set("memory.swappiness", "0".into())
                };
                vec![set("memory.limit_in_bytes", limit.to_string()), swap]
            }
            (Self::Pids, _) => vec![set("pids.max", limit.to_string())],
            (Self::Cpu, true) => vec![set("cpu.max", format!("{quota_us} {CPU_PERIOD_US}"))],
            (Self::Cpu, false) => {
                vec![set("cpu.cfs_period_us", CPU_PERIOD_US.to_string()), set("cpu.cfs_quota_us", quota_us.to_string())]
            }
        }
    }
}

/// A value for a file of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    pub(in crate::process) file: Cow<'static, str>,
    pub(in crate::process) value: String,
}

/// How a group tells what the out-of-memory killer took of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum OomCount {
    /// It does not: it limits no memory.
    None = 0,
    /// `memory.oom_control`, and before Linux 4.13 only how often the limit was met.
    V1 = 1,
    /// `memory.events`.
    V2 = 2,
}

impl OomCount {
    /// Reads its number.
    pub(in crate::process) const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }
}

/// One group to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its folder; the one above it is ours too.
    pub(in crate::process) folder: PathBuf,
    /// What is written into it, in this order.
    pub(in crate::process) settings: Vec<Setting>,
    /// How it tells of what was killed.
    pub(in crate::process) oom: OomCount,
}

/// The same as it lies in the shim's memory.
pub(in crate::process) struct PlanView<'a> {
    pub(in crate::process) folder: &'a Path,
    pub(in crate::process) settings: Vec<(&'a CStr, &'a CStr)>,
    pub(in crate::process) oom: OomCount,
}

#[cfg(debug_assertions)]
impl PlanView<'_> {
    /// The plan it was made of; `None`: it holds what no plan does.
    pub(in crate::process) fn owned(&self) -> Option<Plan> {
        let text = |text: &CStr| text.to_str().map(str::to_owned).ok();
        let setting = |(file, value): &(&CStr, &CStr)| Some(Setting { file: text(file)?.into(), value: text(value)? });
        let settings = self.settings.iter().map(setting).collect::<Option<_>>()?;
        Some(Plan { folder: self.folder.into(), settings, oom: self.oom })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(controller: Controller, is_v2: bool, limit: i64, files: &[&str]) -> Vec<(Cow<'static, str>, String)> {
        let settings = controller.settings(is_v2, limit, |file| files.contains(&file));
        settings.into_iter().map(|setting| (setting.file, setting.value)).collect()
    }

    #[test]
    fn memory_counts_swap_wherever_the_kernel_does_and_else_uses_none() {
        let text = |file: &'static str, value: &str| (Cow::from(file), value.to_owned());
        let v2 = told(Controller::Memory, true, 4096, &["memory.swap.max"]);
        assert_eq!(v2, [text("memory.max", "4096"), text("memory.swap.max", "0")]);
        assert_eq!(told(Controller::Memory, true, 4096, &[]), [text("memory.max", "4096")]);
        let v1 = told(Controller::Memory, false, 4096, &["memory.memsw.limit_in_bytes"]);
        assert_eq!(v1, [text("memory.limit_in_bytes", "4096"), text("memory.memsw.limit_in_bytes", "4096")]);
        let uncounted = told(Controller::Memory, false, 4096, &[]);
        assert_eq!(uncounted, [text("memory.limit_in_bytes", "4096"), text("memory.swappiness", "0")]);
    }

    #[test]
    fn a_hundred_percent_are_one_core() {
        assert_eq!(told(Controller::Cpu, true, 100, &[]), [("cpu.max".into(), "100000 100000".to_owned())]);
        let v1 = [("cpu.cfs_period_us".into(), "100000".to_owned()), ("cpu.cfs_quota_us".into(), "250000".to_owned())];
        assert_eq!(told(Controller::Cpu, false, 250, &[]), v1);
        assert_eq!(told(Controller::Pids, true, 3, &[]), [("pids.max".into(), "3".to_owned())]);
    }
}
