//! Receipts that are published while their shim stays (`leftovers: keep`): no end of a process tells of
//! them, so the folders they come into do (inotify(7)). It works alike for shims of an earlier daemon,
//! and a shim still needs no way to talk to a daemon.

use super::poll;
use super::receipt::ReceiptStore;
use crate::model::id::AttemptId;
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Enough for some events at once; what they say is not read, only that there were some.
const EVENTS_BYTES: usize = 4096;

/// The receipts that are waited for. Shared by the host and the control loop's poll.
pub struct Published {
    /// `None` where the kernel has no inotify or gives no more: receipts have to be looked for.
    inotify: Option<OwnedFd>,
    receipts: ReceiptStore,
    awaited: Mutex<Vec<(AttemptId, i32)>>,
}

impl Published {
    /// Waits for none yet.
    pub fn new(receipts: ReceiptStore) -> Self {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        let inotify = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
        Self { inotify, receipts, awaited: Mutex::default() }
    }

    fn awaited(&self) -> MutexGuard<'_, Vec<(AttemptId, i32)>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on tells of this Attempt's receipt; one that is there already has to be looked for after
    /// this. `false`: nobody will tell of it.
    pub fn watch(&self, attempt: AttemptId) -> bool {
        let mut awaited = self.awaited();
        if awaited.iter().any(|(known, _)| *known == attempt) {
            return true;
        }
        let watched = self.inotify.as_ref().zip(self.receipts.shard_dir(attempt).ok()).and_then(|(inotify, shard)| {
            let shard = CString::new(shard.as_os_str().as_bytes()).ok()?;
            // Published by a rename, or by a link where the file system cannot rename without replacing.
            let events = libc::IN_MOVED_TO | libc::IN_CREATE | libc::IN_ONLYDIR;
            // SAFETY: the path is NUL-terminated and outlives the call.
            let watch = unsafe { libc::inotify_add_watch(inotify.as_raw_fd(), shard.as_ptr(), events) };
            (watch >= 0).then_some(watch)
        });
        awaited.extend(watched.map(|watch| (attempt, watch)));
        watched.is_some()
    }

    /// Tells of this Attempt's receipt no more.
    pub fn forget(&self, attempt: AttemptId) {
        let mut awaited = self.awaited();
        let Some(at) = awaited.iter().position(|(known, _)| *known == attempt) else { return };
        let (_, watch) = awaited.swap_remove(at);
        // A folder that is watched twice has one number.
        if let Some(inotify) = self.inotify.as_ref().filter(|_| awaited.iter().all(|(_, other)| *other != watch)) {
            // SAFETY: no pointer is passed; a number that is not ours any more is refused.
            unsafe { libc::inotify_rm_watch(inotify.as_raw_fd(), watch) };
        }
    }

    /// Adds what must be polled for input, while anything is waited for.
    pub fn poll_with(&self, look: &mut Vec<libc::pollfd>) {
        if !self.awaited().is_empty() {
            look.extend(self.inotify.as_ref().map(|inotify| poll::readable(inotify.as_fd())));
        }
    }

    /// The Attempts that are waited for and whose receipts are there, when something has happened since
    /// this was asked last.
    pub fn published(&self) -> Vec<AttemptId> {
        let awaited = self.awaited();
        if awaited.is_empty() || !self.has_news() {
            return Vec::new();
        }
        awaited.iter().map(|(attempt, _)| *attempt).filter(|attempt| self.receipts.is_there(*attempt)).collect()
    }

    /// Takes all events out; whether there were any.
    fn has_news(&self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut news = false;
        let mut events = [0u8; EVENTS_BYTES];
        loop {
            // SAFETY: `events` is valid for its length.
            let got = unsafe { libc::read(inotify.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) };
            if got <= 0 {
                return news;
            }
            news = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::Uuid;
    use std::fs;

    fn attempt(first: u8, last: u8) -> AttemptId {
        let mut bytes = [7; 16];
        (bytes[0], bytes[15]) = (first, last);
        AttemptId(Uuid::from_bytes(bytes))
    }

    fn has_input(published: &Published) -> bool {
        let mut look = Vec::new();
        published.poll_with(&mut look);
        poll::wait(&mut look, Some(0)).unwrap() > 0
    }

    #[test]
    fn exactly_the_awaited_receipts_are_told_of_however_they_are_published() {
        let receipts = ReceiptStore::new(crate::process::scratch::folder("published"));
        let published = Published::new(receipts.clone());
        let (one, two, other) = (attempt(1, 1), attempt(2, 1), attempt(3, 1));
        let path = |attempt: AttemptId| receipts.shard_dir(attempt).unwrap().join(format!("{attempt}.json"));
        assert!(published.watch(one) && published.watch(two) && published.watch(two) && published.watch(attempt(4, 9)));
        assert!(!has_input(&published) && published.published().is_empty());

        fs::write(path(other).with_extension("new"), "").unwrap();
        assert_eq!(published.published(), [], "something else in the same folder");
        fs::rename(path(other).with_extension("new"), path(one)).unwrap();
        assert!(has_input(&published));
        assert_eq!((published.published(), has_input(&published)), (vec![one], false));
        assert_eq!(published.published(), [], "told of once");
        fs::hard_link(path(one), path(two)).unwrap();
        published.forget(one);
        assert_eq!(published.published(), [two], "the folder is still watched");
        published.forget(two);
        published.forget(attempt(4, 9));
        let mut look = Vec::new();
        published.poll_with(&mut look);
        assert!(look.is_empty(), "nothing is waited for");
    }
}
