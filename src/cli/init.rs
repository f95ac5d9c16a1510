//! `init`: makes or migrates the state and its first owner. Works with no daemon running.

use super::args::Given;
use super::command::{Command, Flag};
use super::context::Context;
use super::failure::Failure;
use crate::model::word::Exit;

/// The command.
pub const COMMAND: Command = Command {
    words: "init",
    args: &[],
    rest: None,
    flags: &[Flag::switch("reissue-owner", "make a new owner token and end the older ones")],
    summary: "create or migrate the state folder; may be repeated",
    more: "The first time it also makes the owner and writes the owner's token to <state>/owner.token.\n\
           The daemon must not be running.",
    body: Some(init),
};

fn init(_: &Context, _: &Given) -> Result<Exit, Failure> {
    Err(Failure::unavailable("there is no store yet"))
}
