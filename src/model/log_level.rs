//! How much the daemon says of itself.

/// From the least to the most; each says what those before it say too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum LogLevel {
    /// Only what ends the daemon or keeps it from its work.
    Error,
    /// What somebody should look at.
    Warn,
    /// Beginnings and ends.
    Info,
    /// What else may help to find a mistake.
    Debug,
}

impl LogLevel {
    /// Every level.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Reads the word used on the command line, in the configuration and in the messages themselves.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.word() == text)
    }

    /// That word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}
