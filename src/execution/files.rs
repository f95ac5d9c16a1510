//! The files of a state as `check` and `backup` look at them; handed to the HTTP side, which does not know
//! the process side. Only looks.

use crate::model::id::{AttemptId, RunId};
use std::io;

/// What lies in one part of the log folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogListing {
    /// The logs in it by name.
    pub artifacts: Vec<String>,
    /// What is none, by its path below the log folder.
    pub strangers: Vec<String>,
    /// There is more, which was not looked at.
    pub cut: bool,
}

/// What lies in the folder of receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiptListing {
    /// Whose receipts lie there.
    pub attempts: Vec<AttemptId>,
    /// What is none, by its path below the folder.
    pub strangers: Vec<String>,
    /// There is more, which was not looked at.
    pub cut: bool,
}

/// Looks at the files of one state.
pub trait Files: Send + Sync {
    /// Bytes that may still be written to the state's file system before runs begin to wait for space.
    /// `None`: it cannot be told.
    fn space_left(&self) -> Option<u64> {
        None
    }

    /// The logs in the 16 shards of a part, 0 to 15.
    fn logs(&self, _part: u8) -> io::Result<LogListing> {
        Ok(LogListing::default())
    }

    /// The name that an Attempt's log has.
    fn artifact(&self, _run: RunId, _attempt: AttemptId) -> String {
        String::new()
    }

    /// The receipts.
    fn receipts(&self) -> io::Result<ReceiptListing> {
        Ok(ReceiptListing::default())
    }

    /// What lies in the state folder itself and is not ours, and files of ours that others may read, as
    /// sentences.
    fn strangers(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}
