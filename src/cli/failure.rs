//! Why a command ends without having done its job: an exit code and one sentence for the person.

use crate::model::word::Exit;
use std::io;

/// A failed command. The message says what could not be done, why, and what to do; it holds no
/// token and no environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The sentence, without the program's name; empty = say nothing.
    pub message: String,
}

impl Failure {
    /// Wrong usage or invalid input.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }

    /// Refused: not allowed, not found, changed meanwhile, not in this version.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { exit: Exit::Refused, message: message.into() }
    }

    /// Unavailable: no daemon, no store, no space.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unavailable, message: message.into() }
    }
}

/// Only writing the output yields a bare [`io::Error`]. A reader that went away (`| head`) has what
/// it wanted, so that is no failure and gets no sentence.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { exit: Exit::Done, message: String::new() };
        }
        Self::unavailable(format!("cannot write the output: {error}"))
    }
}
