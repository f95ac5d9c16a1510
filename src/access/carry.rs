//! The files of keys as they travel in a backup: read as the bytes they are, written whole or not at all,
//! wiped from memory afterwards.

use super::keyring::{Keyring, KeyringError};
use super::pepper::{Pepper, PepperError};
use super::private_file::{self, Unfit};
use crate::model::limits::KEYRING_BYTES_MAX;
use std::io;
use std::path::Path;
use zeroize::Zeroizing;

/// A pepper's length.
pub const PEPPER_BYTES: usize = 32;

/// The pepper's file, checked.
pub fn read_pepper(path: &Path) -> Result<Zeroizing<Vec<u8>>, PepperError> {
    drop(Pepper::load(path)?);
    Ok(Zeroizing::new(private_file::read(path, PEPPER_BYTES)?))
}

/// The keyring's file, checked.
pub fn read_keyring(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyringError> {
    drop(Keyring::load(path)?);
    match private_file::read(path, KEYRING_BYTES_MAX) {
        Ok(bytes) => Ok(Zeroizing::new(bytes)),
        Err(Unfit::Missing) => Err(KeyringError::Missing),
        Err(Unfit::Unsafe(what)) => Err(KeyringError::Unsafe(what)),
        Err(Unfit::Io(e)) => Err(KeyringError::Io(e)),
    }
}

/// Writes a file of keys that is not there yet.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    private_file::write_new(&temporary, bytes).and_then(|()| private_file::publish(&temporary, path))
}
