//! What a command of the command line looks like: the one description that parsing and the help
//! text both come from, so that they cannot tell different stories.

use super::args::Given;
use super::context::Context;
use super::failure::Failure;
use crate::model::word::Exit;

/// What a command does when it is called.
pub type Body = fn(&Context, &Given) -> Result<Exit, Failure>;

/// One command.
pub struct Command {
    /// Its words, separated by one space: `task add`.
    pub words: &'static str,
    /// Its arguments in order, as the help text names them; one in brackets may be left out, at the end.
    pub args: &'static [&'static str],
    /// When something may follow after `--`: what, as the help text shows it.
    pub rest: Option<&'static str>,
    /// Its options.
    pub flags: &'static [Flag],
    /// One line for the list of commands.
    pub summary: &'static str,
    /// More for its own help text: lines, or empty.
    pub more: &'static str,
    /// What it does.
    pub body: Body,
}

/// One option.
pub struct Flag {
    /// Its long name, without dashes.
    pub long: &'static str,
    /// Its short name.
    pub short: Option<char>,
    /// What its value is called; `None` = it takes none.
    pub value: Option<&'static str>,
    /// What it does, in a line.
    pub help: &'static str,
    /// Whether it may be given more than once.
    pub repeats: bool,
}

impl Flag {
    /// An option without a value.
    pub const fn switch(long: &'static str, help: &'static str) -> Self {
        Self { long, short: None, value: None, help, repeats: false }
    }

    /// An option with a value.
    pub const fn value(long: &'static str, value: &'static str, help: &'static str) -> Self {
        Self { long, short: None, value: Some(value), help, repeats: false }
    }

    /// The same with a short name.
    pub const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// The same, allowed any number of times.
    pub const fn many(mut self) -> Self {
        self.repeats = true;
        self
    }
}

/// Where logs are, for those who serve a state or look at it themselves.
pub const LOGS: Flag = Flag::value("logs", "DIR", "the log folder; else the configuration's, else <state>/logs");

/// Options every command takes, before or after its words.
pub const GLOBAL: &[Flag] = &[
    Flag::value("state", "DIR", "the state folder; else the configuration's, else /var/lib/qinglet"),
    Flag::value("config", "FILE", "the configuration file; /etc/qinglet/config.json when not given and there"),
    Flag::switch("json", "print JSON as the API answers it; lists print one item a line"),
    Flag::value(
        "token-file",
        "FILE",
        "the file with the bearer token; else $QINGLET_TOKEN_FILE, else <state>/owner.token",
    ),
    Flag::switch("help", "explain the command").short('h'),
    Flag::switch("version", "print the version").short('V'),
];
