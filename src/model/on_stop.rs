//! What becomes of running tasks when the daemon is told to stop (design D20).

/// What becomes of running tasks when the daemon is told to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnStop {
    /// They run on, and the next daemon adopts them: an upgrade ends nothing.
    Leave,
    /// They are waited for; those that take longer run on.
    Drain,
    /// They are ended, with the reason `shutdown`.
    Stop,
}

impl OnStop {
    /// Reads the word used on the command line and in the configuration.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Leave, Self::Drain, Self::Stop].into_iter().find(|known| known.word() == text)
    }

    /// The word used on the command line and in the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Drain => "drain",
            Self::Stop => "stop",
        }
    }
}
