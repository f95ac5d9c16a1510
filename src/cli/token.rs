//! Finding and reading the bearer token.

use super::failure::Failure;
use crate::http::message::Bearer;
use crate::model::limits::CLI_TOKEN_BYTES_MAX;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The environment variable that names the token's file.
pub const VARIABLE: &str = "QINGLET_TOKEN_FILE";

/// Where the token is: the option, the environment, the state folder.
pub fn place(option: Option<&Path>, state: &Path) -> PathBuf {
    if let Some(path) = option {
        return path.to_owned();
    }
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => path.into(),
        None => state.join("owner.token"),
    }
}

/// Reads the token. Its text is never part of an error.
pub fn read(file: &Path) -> Result<Bearer, Failure> {
    let shown = file.display();
    let way_out = format!("name a token file with --token-file or ${VARIABLE}");
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(CLI_TOKEN_BYTES_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::refused(format!("there is no token at {shown}; {way_out}")));
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => text.clear(),
        Err(error) => return Err(Failure::refused(format!("cannot read the token at {shown}: {error}; {way_out}"))),
    }
    let token = text.trim_ascii();
    if token.is_empty() || !token.bytes().all(|c| c.is_ascii_graphic()) {
        return Err(Failure::refused(format!("{shown} does not hold a token; {way_out}")));
    }
    Ok(Bearer::new(token.to_owned()))
}
