//! What a machine can do for a task beyond running it (design D15), each under one stable word.

/// One thing a task may require.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Capability {
    /// Ending a task when its time is up.
    Timeout,
    /// Ending everything a task has started.
    ProcessGroupTermination,
    /// Starting it in a folder of its own.
    WorkingDirectory,
    /// Starting it with an environment of its own.
    IsolatedEnvironment,
    /// Holding it below an amount of memory.
    MemoryLimit,
    /// Holding it below a number of processes and threads.
    PidsLimit,
    /// Holding it below a share of the processor.
    CpuLimit,
    /// Running it as another user.
    RunAs,
    /// Giving it more of the processor than others (`nice` below 0).
    RaisedPriority,
    /// Keeping it from the out-of-memory killer (`oomScoreAdj` below 0).
    OomProtection,
    /// Hiding the file system from it; no machine has it yet.
    FilesystemIsolation,
    /// Hiding the network from it; no machine has it yet.
    NetworkIsolation,
}

impl Capability {
    /// Every one, in the order they are shown in.
    pub const ALL: [Self; 12] = [
        Self::Timeout,
        Self::ProcessGroupTermination,
        Self::WorkingDirectory,
        Self::IsolatedEnvironment,
        Self::MemoryLimit,
        Self::PidsLimit,
        Self::CpuLimit,
        Self::RunAs,
        Self::RaisedPriority,
        Self::OomProtection,
        Self::FilesystemIsolation,
        Self::NetworkIsolation,
    ];

    /// Those every machine has.
    pub const ALWAYS: [Self; 4] =
        [Self::Timeout, Self::ProcessGroupTermination, Self::WorkingDirectory, Self::IsolatedEnvironment];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::ProcessGroupTermination => "process-group-termination",
            Self::WorkingDirectory => "working-directory",
            Self::IsolatedEnvironment => "isolated-environment",
            Self::MemoryLimit => "memory-limit",
            Self::PidsLimit => "pids-limit",
            Self::CpuLimit => "cpu-limit",
            Self::RunAs => "run-as",
            Self::RaisedPriority => "raised-priority",
            Self::OomProtection => "oom-protection",
            Self::FilesystemIsolation => "filesystem-isolation",
            Self::NetworkIsolation => "network-isolation",
        }
    }

    /// Reads its word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.word() == word)
    }
}

/// What this machine can do, and of what it cannot, why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    missing: Vec<(Capability, String)>,
}

impl Capabilities {
    /// Notes that one is missing, and why, in words.
    pub fn lack(&mut self, capability: Capability, why: impl Into<String>) {
        self.missing.push((capability, why.into()));
    }

    /// Those there are.
    pub fn present(&self) -> impl Iterator<Item = Capability> {
        Capability::ALL.into_iter().filter(|one| self.why_missing(*one).is_none())
    }

    /// Those there are not, each with its reason.
    pub fn missing(&self) -> impl Iterator<Item = (Capability, &str)> {
        Capability::ALL.into_iter().filter_map(|one| Some((one, self.why_missing(one)?)))
    }

    /// Why there is none; `None`: there is.
    pub fn why_missing(&self, capability: Capability) -> Option<&str> {
        match capability {
            Capability::FilesystemIsolation | Capability::NetworkIsolation => Some("this version does not have it"),
            other => self.missing.iter().find(|(known, _)| *known == other).map(|(_, why)| why.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_word_of_its_own_and_is_there_or_says_why_not() {
        for one in Capability::ALL {
            assert_eq!(Capability::parse(one.word()), Some(one));
        }
        let mut here = Capabilities::default();
        here.lack(Capability::CpuLimit, "no cpu controller");
        assert_eq!(here.why_missing(Capability::CpuLimit), Some("no cpu controller"));
        assert_eq!((here.present().count(), here.missing().count()), (9, 3));
        assert!(Capability::ALWAYS.into_iter().all(|one| here.present().any(|there| there == one)));
    }
}
