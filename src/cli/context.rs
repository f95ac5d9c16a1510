//! What every command works with: the global options and the two output streams.

use super::args::Given;
use super::client::Client;
use super::failure::Failure;
use super::quote::quote;
use crate::model::config::Config;
use crate::model::settings::{STATE_DEFAULT, Settings};
use crate::runtime::{ConfigFile, Unusable};
use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The global options.
pub struct Context {
    /// The state folder.
    pub state: PathBuf,
    /// Whether scripts read the output.
    pub json: bool,
    /// The configuration file.
    pub file: ConfigFile,
    /// What it says.
    pub config: Result<Config, Failure>,
    token_file: Option<PathBuf>,
}

/// The state that needs no option to be reached, and what to type when it does: for [`state_option`].
static WAY: OnceLock<(PathBuf, String)> = OnceLock::new();

impl Context {
    /// Takes the global options out of what was given, and what they do not say out of the
    /// configuration file. A file that is no use is kept as the failure it is, for the command to meet.
    pub fn new(given: &Given) -> Self {
        let file = ConfigFile::find(given.path("config").map(Path::new));
        let config = match file.read() {
            Ok(config) => Ok(config.unwrap_or_default()),
            Err(Unusable { sentence, exit }) => Err(Failure { exit, message: sentence }),
        };
        let set = config.as_ref().ok().and_then(|config| config.state.clone());
        let usual = set.unwrap_or_else(|| PathBuf::from(STATE_DEFAULT));
        let state = given.path("state").map_or_else(|| usual.clone(), PathBuf::from);
        let option = given.path("config").map(|path| format!("--config {} ", quote(&path.to_string_lossy())));
        let _ = WAY.set((usual, option.unwrap_or_default()));
        Self { state, json: given.has("json"), file, config, token_file: given.path("token-file").map(PathBuf::from) }
    }

    /// A client of the daemon that serves this state.
    pub fn client(&self) -> Client {
        Client::new(&self.state, self.token_file.as_deref())
    }

    /// What these flags and the configuration file come to: the one way for `serve` and for whoever looks at what it
    /// has left.
    pub fn settings(&self, flags: &Config) -> Result<Settings, Failure> {
        let config = self.config.as_ref().map_err(Clone::clone)?;
        Settings::resolve(flags, config).map_err(|why| Failure::usage(format!("{}: {why}", self.file.path.display())))
    }

    /// Where `serve` with the same options puts logs.
    pub fn logs(&self, given: &Given) -> Result<PathBuf, Failure> {
        let flags = Config { state: given.folder("state")?, logs: given.folder("logs")?, ..Config::default() };
        Ok(self.settings(&flags)?.logs.value)
    }

    /// What to type to come to this state again, with a space: empty for the default one.
    pub fn state_option(&self) -> String {
        state_option(&self.state)
    }
}

/// What to type to come to this state, with a space: empty for the one that is found without.
pub fn state_option(state: &Path) -> String {
    match WAY.get() {
        Some((usual, option)) if state == usual => return option.clone(),
        None if state == Path::new(STATE_DEFAULT) => return String::new(),
        _ => {}
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
