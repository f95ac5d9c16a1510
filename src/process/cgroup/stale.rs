//! Groups whose Attempt is over and whose shim could not remove them any more.

use super::found::Groups;
use crate::model::id::AttemptId;
use crate::model::limits::STALE_GROUPS_PAGE;
use std::fs;

impl Groups {
    /// Removes groups of this instance whose Attempt nobody knows, at most a page of them in each tree.
    /// The kernel keeps every group that something lives in. Answers how many are gone.
    pub fn remove_stale(&self, is_known: &dyn Fn(AttemptId) -> bool) -> usize {
        let mut removed = 0;
        for folder in self.folders() {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            let stale = entries.flatten().filter(|entry| {
                let attempt = entry.file_name().to_str().and_then(|name| self.attempt_of(name));
                attempt.is_some_and(|attempt| !is_known(attempt))
            });
            removed += stale.take(STALE_GROUPS_PAGE).filter(|entry| fs::remove_dir(entry.path()).is_ok()).count();
        }
        removed
    }
}
