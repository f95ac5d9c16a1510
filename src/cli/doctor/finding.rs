//! What one look found: how bad it is, what it is, and what to do.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and something of it does not or is in danger.
    Warn,
    /// It cannot work like this.
    Fail,
}

impl Level {
    /// The word that is printed.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One line of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do; `None` = nothing.
    pub todo: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { level: Level::Ok, text: text.into(), todo: None }
    }

    /// Something to look at.
    pub fn warn(text: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Level::Warn, text: text.into(), todo: Some(todo.into()) }
    }

    /// It cannot work like this.
    pub fn fail(text: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { level: Level::Fail, text: text.into(), todo: Some(todo.into()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.todo.as_ref().map_or(Ok(()), |todo| write!(f, " -> {todo}"))
    }
}
