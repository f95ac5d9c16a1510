//! `qinglet secret ...`: a file for each verb, and what they share.

pub mod delete;
pub mod list;
pub mod rekey;
pub mod set;

use super::failure::Failure;
use crate::model::name::{NAME_RULE, Name};

/// Reads a secret's name from the command line.
pub fn secret_name(text: &str) -> Result<Name, Failure> {
    Name::parse(text).ok_or_else(|| {
        Failure::usage(format!("\"{}\" cannot be a secret's name; one is {NAME_RULE}", text.escape_debug()))
    })
}
