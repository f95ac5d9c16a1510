//! What every command works with: the global options and the two output streams.

use super::args::Given;
use super::client::Client;
use super::failure::Failure;
use super::quote::quote;
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where the state lies when nothing else is said (design D19).
pub const STATE_DEFAULT: &str = "/var/lib/qinglet";

/// The global options.
pub struct Context {
    /// The state folder.
    pub state: PathBuf,
    /// Whether scripts read the output.
    pub json: bool,
    token_file: Option<PathBuf>,
}

impl Context {
    /// Takes the global options out of what was given.
    pub fn new(given: &Given) -> Self {
        Self {
            state: given.path("state").map_or_else(|| PathBuf::from(STATE_DEFAULT), PathBuf::from),
            json: given.has("json"),
            token_file: given.path("token-file").map(PathBuf::from),
        }
    }

    /// A client of the daemon that serves this state.
    pub fn client(&self) -> Client {
        Client::new(&self.state, self.token_file.as_deref())
    }

    /// What to type to come to this state again, with a space: empty for the default one.
    pub fn state_option(&self) -> String {
        state_option(&self.state)
    }
}

/// What to type to come to this state, with a space: empty for the default one.
pub fn state_option(state: &Path) -> String {
    if state == Path::new(STATE_DEFAULT) {
        return String::new();
    }
    format!("--state {} ", quote(&state.to_string_lossy()))
}

/// Writes text to the standard output as it is.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to the standard output as they are, at once.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON value and a newline.
pub fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Tells the person something that is not the command's result. A closed standard error is nobody's
/// failure.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
