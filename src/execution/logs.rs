//! Reading an Attempt's log by range.

/// One range of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSlice {
    /// The bytes, as they were written; not necessarily text.
    pub bytes: Vec<u8>,
    /// Where they start; the log's length when the asked offset is past its end.
    pub start: u64,
    /// The log's length at the time of reading.
    pub total: u64,
    /// Whether output was cut at the cap; `None` while nobody has said.
    pub truncated: Option<bool>,
    /// How many bytes were dropped; `None` while nobody has said.
    pub dropped_bytes: Option<u64>,
}

/// Why a log could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogReadError {
    /// There is no such file.
    Missing,
    /// It is not the private regular file it should be.
    Unsafe,
    /// Reading failed.
    Io,
}

/// Reads logs; handed to the HTTP side, which does not know the process side.
pub trait LogRead: Send + Sync {
    /// Reads at most `length` bytes from `offset`.
    fn read(&self, artifact: &str, offset: u64, length: u32) -> Result<LogSlice, LogReadError>;
}
