//! `backup`: the state's database and, with it, keys, into one file; through a daemon's pieces or, where none
//! runs, by itself.

use super::backup_file::{Draft, Keys, Label, NotWritten};
use crate::access::carry;
use crate::access::keyring::Keyring;
use crate::model::limits::{BACKUP_PIECE_BYTES, CLI_POLL_MS_MAX, EDGE};
use crate::process::clock;
use crate::store::Store;
use crate::store::backup::{BackupBegun, BeginBackup};
use crate::store::copy::{self, CopyState, Snapshot};
use crate::store::open::Options;
use crate::store::state::{StateDir, StateLock};
use crate::store::verify::{self, Verified};
use std::path::Path;
use std::time::Duration;

/// Where the database's bytes come from, in order.
pub trait Pieces {
    /// The next ones; none: that was all.
    fn next(&mut self) -> Result<Vec<u8>, NotWritten>;
    /// How many there are in all.
    fn total_bytes(&self) -> u64;
    /// The digest of all that were given, where the other side knows it.
    fn sha256(&self) -> Option<String> {
        None
    }
}

/// What was made.
#[derive(Debug)]
pub struct Made {
    /// The file's length.
    pub bytes: u64,
    /// The digest of all but its last line.
    pub sha256: String,
    /// The keys that open its secrets, by id.
    pub key_ids: Vec<String>,
    /// Whether those are in it.
    pub with_keyring: bool,
}

/// Told how far it is: bytes done, of how many.
pub type Progress<'a> = &'a dyn Fn(u64, u64);

/// Writes a backup's file: what comes in pieces, checked, then the keys from the state folder, checked against
/// it, then its name.
pub fn write(
    state: &Path,
    mut draft: Draft,
    replace: bool,
    with_keyring: bool,
    pieces: &mut dyn Pieces,
    progress: Progress<'_>,
) -> Result<Made, NotWritten> {
    let failed = |e: &dyn std::fmt::Display| NotWritten::Failed(e.to_string());
    let state = StateDir::open(state).map_err(|e| failed(&e))?;
    let mut done = 0;
    loop {
        let piece = pieces.next()?;
        if piece.is_empty() {
            break;
        }
        draft.add(&piece)?;
        done += piece.len() as u64;
        progress(done, pieces.total_bytes());
    }
    if pieces.sha256().is_some_and(|sha| sha != draft.sha256()) {
        return Err(NotWritten::Failed("what arrived is not what was sent: try again".into()));
    }
    draft.sync()?;
    let Verified { key_ids, .. } = verify::verify(draft.path(), &EDGE).map_err(|e| failed(&e))?;
    let keys = Keys {
        pepper: carry::read_pepper(&state.pepper_path()).map_err(|e| failed(&e))?,
        keyring: if with_keyring {
            let bytes = carry::read_keyring(&state.keyring_path()).map_err(|e| failed(&e))?;
            let known = Keyring::parse(&bytes).is_ok_and(|ring| key_ids.iter().all(|id| ring.has(id)));
            if !known {
                let why =
                    "the keys of secrets were exchanged meanwhile (`secret rekey`), or are not all there: try again";
                return Err(NotWritten::Failed(why.into()));
            }
            Some(bytes)
        } else {
            None
        },
    };
    let label = Label {
        database_bytes: 0,
        key_ids: key_ids.clone(),
        keyring_bytes: 0,
        made_at_ms: clock::wall_ms(),
        pepper_bytes: 0,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let (bytes, sha256) = draft.publish(&keys, label, replace)?;
    Ok(Made { bytes, sha256, key_ids, with_keyring })
}

/// A state that no daemon serves, as pieces. Held until dropped, so that none begins to meanwhile.
pub struct Unserved {
    store: Store,
    snapshot: Snapshot,
    offset: u64,
    _lock: StateLock,
}

impl Unserved {
    /// Takes the state's lock, writes the audit row, and copies the store into a file without a name beside
    /// the target: the state's own file system may be full.
    pub fn copy(path: &Path, draft: &Draft, progress: Progress<'_>) -> Result<Self, NotWritten> {
        let failed = |e: &dyn std::fmt::Display| NotWritten::Failed(e.to_string());
        let state = StateDir::open(path).map_err(|e| failed(&e))?;
        let lock = state.lock("backup").map_err(|e| failed(&e))?;
        let options = Options { limits: &EDGE, clock_ms: clock::wall_ms, vfs: None };
        let store = Store::start(&state, &lock, options).map_err(|e| failed(&e))?;
        let made = Self::snapshot(&store, draft, progress);
        match made {
            Ok(snapshot) => Ok(Self { store, snapshot, offset: 0, _lock: lock }),
            Err(why) => {
                store.close();
                Err(why)
            }
        }
    }

    fn snapshot(store: &Store, draft: &Draft, progress: Progress<'_>) -> Result<Snapshot, NotWritten> {
        let begun = store.call(BeginBackup { by: None }).map_err(|e| not_copied(copy::word(e)))?;
        if !matches!(begun, BackupBegun::Begun { .. }) {
            return Err(not_copied("refused"));
        }
        let mut beside = draft.path().as_os_str().to_owned();
        beside.push(".db");
        let beside = std::path::PathBuf::from(beside);
        let _ = std::fs::remove_file(&beside);
        let copying = store.copy(Some(beside.clone())).map_err(|e| not_copied(copy::word(e)))?;
        loop {
            match copying.wait(Duration::from_millis(CLI_POLL_MS_MAX)) {
                CopyState::Copying { done, total } => progress(done, total),
                CopyState::Ready(snapshot) => {
                    let _ = std::fs::remove_file(&beside);
                    return Ok(snapshot);
                }
                CopyState::Failed(why) => return Err(not_copied(why)),
            }
        }
    }
}

impl Pieces for Unserved {
    fn next(&mut self) -> Result<Vec<u8>, NotWritten> {
        let piece = self.snapshot.read(self.offset, BACKUP_PIECE_BYTES);
        let piece = piece.map_err(|e| NotWritten::Failed(format!("cannot read the copy back: {e}")))?;
        self.offset += piece.len() as u64;
        Ok(piece)
    }

    fn total_bytes(&self) -> u64 {
        self.snapshot.bytes()
    }
}

impl Drop for Unserved {
    fn drop(&mut self) {
        self.store.close();
    }
}

/// The sentence for a copy that the store did not make.
pub fn not_copied(word: &str) -> NotWritten {
    let why = match word {
        "storage_full" => "the file system is full: free some space and try again",
        "store_corrupt" => "the store is damaged: `qinglet check` says where",
        "store_closed" => "the daemon is stopping: try again when it is back",
        "storage_io" => "reading or writing failed: look at the kernel's log for faults of the storage",
        _ => "the store could not do it: try again",
    };
    NotWritten::Failed(format!("cannot copy the state: {why} ({word})"))
}
