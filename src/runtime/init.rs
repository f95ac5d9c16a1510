//! `init`: the state folder, the store and the first owner, made or finished; no daemon may run.

use crate::access::bootstrap::{self, OwnerState};
use crate::access::keyring::{Keyring, KeyringError};
use crate::model::limits::EDGE;
use crate::process::{clock, publish};
use crate::store::Store;
use crate::store::open::{self, Initialised, Options};
use crate::store::secrets::ListUsedKeys;
use crate::store::state::StateDir;
use std::io;
use std::path::Path;

/// What `init` did.
#[derive(Debug)]
pub struct Report {
    /// What became of the store.
    pub store: Initialised,
    /// What became of the owner; `None`: the token was made anew on request.
    pub owner: Option<OwnerState>,
    /// How the keys of secrets stand.
    pub keyring: KeyringState,
}

/// How the keys of secrets stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyringState {
    /// They are there, or were made now.
    Ready,
    /// They are gone, and stored secrets need them; nothing was made in their place.
    Missing,
}

/// Makes or finishes the state. The error is a sentence that says what to do; what was done before
/// it stays, and the next `init` goes on from there.
pub fn init(path: &Path, reissue_owner: bool) -> Result<Report, String> {
    // A new token for a mistyped path must not leave a state behind.
    let state = if reissue_owner { StateDir::open(path) } else { StateDir::create(path) }.map_err(|e| e.to_string())?;
    let lock = state.lock("init").map_err(|e| e.to_string())?;
    publish::can_publish(&state.receipts_dir()).map_err(|e| cannot_publish(path, &e))?;
    // The profile's sizes do not change what is stored; serve applies its own.
    let options = || Options { limits: &EDGE, clock_ms: clock::wall_ms, vfs: None };
    let initialised = open::init(&state, &lock, &options()).map_err(|e| e.to_string())?;
    let store = Store::start(&state, &lock, options()).map_err(|e| e.to_string())?;
    let owner = owner(&state, &store, reissue_owner).map_err(|e| e.to_string());
    let keyring = owner.as_ref().ok().map(|_| keyring(&state, &store));
    store.close();
    let owner = owner?;
    Ok(Report { store: initialised, owner, keyring: keyring.transpose()?.unwrap_or(KeyringState::Ready) })
}

/// Makes the keyring where there is none. Not when a secret depends on another one: whoever restores
/// that must not find it replaced.
fn keyring(state: &StateDir, store: &Store) -> Result<KeyringState, String> {
    let path = state.keyring_path();
    match Keyring::load(&path) {
        Ok(_) => Ok(KeyringState::Ready),
        Err(KeyringError::Missing) => {
            let used =
                store.call(ListUsedKeys).map_err(|_| "the secrets could not be looked at; run it again".to_owned())?;
            if !used.is_empty() {
                return Ok(KeyringState::Missing);
            }
            Keyring::create(&path).map(|()| KeyringState::Ready).map_err(|e| e.to_string())
        }
        Err(other) => Err(other.to_string()),
    }
}

/// Space can be made; a file system that lacks what publishing needs has to be left.
fn cannot_publish(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("the file system of {path} is full: free some space and try again")
        }
        _ => format!(
            "the file system below {path} can neither rename without replacing nor link ({error}); put the state \
             elsewhere"
        ),
    }
}

#[cfg(debug_assertions)]
fn owner(state: &StateDir, store: &Store, reissue: bool) -> Result<Option<OwnerState>, bootstrap::BootstrapError> {
    let at: &dyn Fn(&'static str) = &|name| crate::process::crash::at(name);
    if reissue {
        return bootstrap::reissue_owner_at(state, store, at).map(|()| None);
    }
    bootstrap::init_owner_at(state, store, at).map(Some)
}

#[cfg(not(debug_assertions))]
fn owner(state: &StateDir, store: &Store, reissue: bool) -> Result<Option<OwnerState>, bootstrap::BootstrapError> {
    if reissue {
        return bootstrap::reissue_owner(state, store).map(|()| None);
    }
    bootstrap::init_owner(state, store).map(Some)
}
