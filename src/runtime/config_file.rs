//! The configuration file on disk: which one, and reading it within bounds.

use crate::model::config::{Config, parse};
use crate::model::limits::CONFIG_BYTES_MAX;
use crate::model::word::Exit;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where it lies when nobody names one (design D19).
pub const DEFAULT: &str = "/etc/qinglet/config.json";

/// A configuration file that is to be read, perhaps again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Where it is; absolute, because the daemon leaves the folder it was started in.
    pub path: PathBuf,
    /// Whether somebody has named it, so that it must be there.
    pub named: bool,
}

/// Why it could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// A sentence with the file in it.
    pub sentence: String,
    /// The exit code it means.
    pub exit: Exit,
}

impl ConfigFile {
    /// The file somebody has named, or the default one.
    pub fn find(named: Option<&Path>) -> Self {
        match named {
            Some(path) => Self { path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()), named: true },
            None => Self { path: default_path(), named: false },
        }
    }

    /// Reads it. `None`: it is the default one and not there, which is fine.
    pub fn read(&self) -> Result<Option<Config>, Unusable> {
        let shown = self.path.to_string_lossy().escape_debug().to_string();
        let unusable = |exit, why: String| Unusable { sentence: format!("{shown}: {why}"), exit };
        match self.bytes() {
            Err(error) if !self.named && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(Exit::Unavailable, format!("the configuration cannot be read: {error}"))),
            Ok(bytes) => parse(&bytes).map(Some).map_err(|error| unusable(Exit::Usage, error.to_string())),
        }
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        // Without waiting for a writer, should it be a FIFO.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut bytes = Vec::new();
        // One more than it may have, so that the parser sees it is too long.
        file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Debug builds take another place from the environment, so that a test meets no real machine's file.
fn default_path() -> PathBuf {
    #[cfg(debug_assertions)]
    if let Some(path) = std::env::var_os("QINGLET_DEFAULT_CONFIG") {
        return path.into();
    }
    PathBuf::from(DEFAULT)
}
