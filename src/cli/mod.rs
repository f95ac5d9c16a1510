//! The command line: one file for each command, and the client they talk to the daemon with.
//!
//! Output for people goes through [`table`]; `--json` prints what the wire said. Every failure is a
//! sentence on the standard error and an exit code (design D18). Nothing here touches the store of
//! a running daemon.

mod access;
mod args;
mod audit;
mod cell;
mod check;
mod client;
mod command;
mod context;
mod doctor;
mod events;
mod failure;
mod follow;
mod help;
mod import;
mod init;
mod logs;
mod mutation;
mod outcome;
mod quote;
mod reply;
mod retry;
mod run;
mod runs;
mod secret;
mod serve;
mod show;
mod status;
mod stop;
mod table;
mod task;
mod time;
mod token;
mod trigger;

#[cfg(debug_assertions)]
#[doc(hidden)]
pub use import::seam::planned;

use crate::model::nearest;
use crate::model::word::Exit;
use args::{Asked, Given};
use command::Command;
use context::{Context, note, print};
use failure::Failure;
use std::ffi::OsString;

/// Every command there is, in the order of the help text.
const COMMANDS: &[Command] = &[
    init::COMMAND,
    serve::COMMAND,
    status::COMMAND,
    task::add::COMMAND,
    task::apply::COMMAND,
    task::list::COMMAND,
    task::show::COMMAND,
    task::switch::ENABLE,
    task::switch::DISABLE,
    task::delete::COMMAND,
    trigger::set::COMMAND,
    trigger::list::COMMAND,
    trigger::show::COMMAND,
    trigger::switch::ENABLE,
    trigger::switch::DISABLE,
    trigger::delete::COMMAND,
    trigger::preview::COMMAND,
    import::crontab::COMMAND,
    run::COMMAND,
    runs::COMMAND,
    show::COMMAND,
    events::COMMAND,
    logs::COMMAND,
    stop::COMMAND,
    retry::COMMAND,
    secret::set::COMMAND,
    secret::list::COMMAND,
    secret::delete::COMMAND,
    secret::rekey::COMMAND,
    access::grant::COMMAND,
    access::revoke::COMMAND,
    access::list::COMMAND,
    access::token_new::COMMAND,
    access::token_revoke::COMMAND,
    audit::COMMAND,
    check::COMMAND,
    doctor::COMMAND,
    Command::later("backup", "copy the state"),
    Command::later("restore", "take a copy back"),
];

/// Does what the arguments (without the program's own name) ask for.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match dispatch(arguments) {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.message.is_empty() {
                note(&format!("qinglet: {}", failure.message));
            }
            failure.exit
        }
    }
}

/// Commands that take the configuration as they find it: one looks at it, the others need none.
const WITHOUT_CONFIG: &[&str] = &["doctor", "trigger preview"];

/// A configuration that is no use stops every command that goes by it.
fn check_config(command: &Command, given: &Given, context: &Context) -> Result<(), Failure> {
    let told = given.has("state") && !given.has("config") && command.words != serve::COMMAND.words;
    match &context.config {
        Err(failure) if !told && !WITHOUT_CONFIG.contains(&command.words) => Err(failure.clone()),
        _ => Ok(()),
    }
}

fn dispatch(arguments: impl IntoIterator<Item = OsString>) -> Result<Exit, Failure> {
    match args::read(COMMANDS, arguments)? {
        Asked::Version => print(concat!("qinglet ", env!("CARGO_PKG_VERSION"), "\n"))?,
        Asked::Help(words) => print(&help::text(COMMANDS, &words)?)?,
        Asked::Do(command, given) => {
            let Some(body) = command.body else { return Err(args::not_here(command.words)) };
            let context = Context::new(&given);
            check_config(command, &given, &context)?;
            return body(&context, &given);
        }
    }
    Ok(Exit::Done)
}
