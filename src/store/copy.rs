//! Copying the store while it is used: the store's thread copies a few pages, does what is queued, copies
//! on. What is written meanwhile goes through the same connection, so `SQLite` brings pages that were
//! copied already up to date by itself, and the copy is the store as it is at the copy's end.

use super::thread::StoreError;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A finished copy: a database of its own in one file, which wants no journal beside it. One that has no
/// name is gone with the last clone of this, and with the process.
#[derive(Clone, Debug)]
pub struct Snapshot {
    file: Arc<File>,
    bytes: u64,
}

impl Snapshot {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// At most `length` bytes from `offset`; fewer at its end.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.bytes.saturating_sub(offset).min(length as u64);
        let mut piece = vec![0; left as usize];
        self.file.read_exact_at(&mut piece, offset)?;
        Ok(piece)
    }
}

/// How far a copy is.
#[derive(Clone, Debug)]
pub enum CopyState {
    /// So many bytes of so many, as far as is known now.
    Copying {
        /// Copied.
        done: u64,
        /// In all; may grow.
        total: u64,
    },
    /// It is there.
    Ready(Snapshot),
    /// It was given up, and nothing is left of it; the word says why.
    Failed(&'static str),
}

struct Shared {
    state: Mutex<CopyState>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, CopyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy that was asked for. Once every clone of this is dropped, nobody wants it and it is given up.
#[derive(Clone)]
pub struct Copying(Arc<Shared>);

impl Copying {
    /// How far it is now.
    pub fn state(&self) -> CopyState {
        self.0.lock().clone()
    }

    /// The same, after it has changed or this time is over.
    pub fn wait(&self, at_most: Duration) -> CopyState {
        let state = self.0.lock();
        if !matches!(*state, CopyState::Copying { .. }) {
            return state.clone();
        }
        self.0.changed.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

/// A copy that is to be made, on the thread's side.
pub(super) struct CopyJob {
    shared: Arc<Shared>,
    /// Where to; `None`: to a file without a name in the state folder.
    pub(super) into: Option<PathBuf>,
}

impl CopyJob {
    pub(super) fn new(into: Option<PathBuf>) -> (Self, Copying) {
        let state = Mutex::new(CopyState::Copying { done: 0, total: 0 });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        (Self { shared: shared.clone(), into }, Copying(shared))
    }

    /// Whether somebody still waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    pub(super) fn progress(&self, done: u64, total: u64) {
        self.set(CopyState::Copying { done, total });
    }

    pub(super) fn end(&self, end: Result<Snapshot, &'static str>) {
        self.set(end.map_or_else(CopyState::Failed, CopyState::Ready));
    }

    fn set(&self, state: CopyState) {
        *self.shared.lock() = state;
        self.shared.changed.notify_all();
    }
}

impl Drop for CopyJob {
    /// Lost on the way (the store was closed, or its thread panicked): whoever waits must hear something.
    fn drop(&mut self) {
        if matches!(*self.shared.lock(), CopyState::Copying { .. }) {
            self.end(Err(word(StoreError::Closed)));
        }
    }
}

/// The word for why a copy could not be asked for.
pub fn word(error: StoreError) -> &'static str {
    match error {
        StoreError::Busy => "store_busy",
        StoreError::Closed => "store_closed",
        StoreError::Unavailable(word) => word,
    }
}
