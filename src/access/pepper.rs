//! The pepper: 32 random bytes in a file of their own, so that a stolen database alone proves
//! nothing about any token.

use super::private_file::{self, Unfit};
use std::fmt;
use std::path::Path;

/// The pepper. It has no `Debug` that shows it, and is wiped when dropped.
pub struct Pepper([u8; 32]);

/// Why there is no pepper to work with.
#[derive(Debug)]
pub enum PepperError {
    /// The file is not there.
    Missing,
    /// The file is not the private file that was written; the text says in what.
    Unsafe(&'static str),
    /// Reading, writing or the kernel's random bytes failed.
    Io(std::io::Error),
}

impl fmt::Display for PepperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str(
                "the file `pepper` is missing from the state folder, and no token can be checked without it; \
                 restore it from a backup, or run `qinglet init --reissue-owner` to begin with new tokens",
            ),
            Self::Unsafe(what) => write!(
                f,
                "the file `pepper` in the state folder {what}; it must be a plain file of 32 bytes with mode 0600 \
                 that belongs to the folder's owner",
            ),
            Self::Io(e) => write!(
                f,
                "the file `pepper` in the state folder could not be used: {e}; remove the cause and try again"
            ),
        }
    }
}

impl std::error::Error for PepperError {}

impl From<Unfit> for PepperError {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Missing => Self::Missing,
            Unfit::Unsafe(what) => Self::Unsafe(what),
            Unfit::Io(e) => Self::Io(e),
        }
    }
}

impl Pepper {
    /// Reads the file: 32 bytes, mode 0600, no link, the state folder's owner.
    pub fn load(path: &Path) -> Result<Self, PepperError> {
        let mut bytes = private_file::read(path, 32)?;
        let pepper = bytes.as_slice().try_into().map(Self);
        bytes.fill(0);
        std::hint::black_box(&bytes);
        pepper.map_err(|_| PepperError::Unsafe("is not 32 bytes long"))
    }

    /// Makes the file, whole or not at all. Only under the state lock and only when there is none:
    /// a new pepper ends every token that was made under the old one.
    pub(super) fn create(path: &Path) -> Result<Self, PepperError> {
        let mut pepper = Self([0; 32]);
        getrandom::fill(&mut pepper.0).map_err(|e| PepperError::Io(std::io::Error::other(e.to_string())))?;
        let temporary = path.with_extension("new");
        let written = private_file::write_new(&temporary, &pepper.0);
        written.and_then(|()| private_file::publish(&temporary, path)).map_err(PepperError::Io)?;
        Ok(pepper)
    }

    /// The bytes, for the digest only.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A pepper that is known, for the frozen vectors.
    #[cfg(test)]
    pub(super) fn known(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Pepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pepper(..)")
    }
}

impl Drop for Pepper {
    fn drop(&mut self) {
        self.0.fill(0);
        std::hint::black_box(&self.0);
    }
}
