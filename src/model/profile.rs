//! Where the runtime lives: which of the two sets of numbers counts.

use super::limits::{EDGE, Limits, STANDALONE};

/// Where the runtime lives. The safety rules are the same; only sizes and counts differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// A router: 128 MiB and 64 PIDs for the daemon and all its tasks.
    Edge,
    /// A small server.
    Standalone,
}

impl Profile {
    /// The profile's numbers.
    pub const fn limits(self) -> &'static Limits {
        match self {
            Self::Edge => &EDGE,
            Self::Standalone => &STANDALONE,
        }
    }

    /// Reads the word used on the command line and in answers.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "edge" => Some(Self::Edge),
            "standalone" => Some(Self::Standalone),
            _ => None,
        }
    }

    /// The word used on the command line and in answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Standalone => "standalone",
        }
    }
}
