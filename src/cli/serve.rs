//! `serve`: the daemon, in the foreground.

use super::args::Given;
use super::command::{Command, Flag, LOGS};
use super::context::Context;
use super::failure::Failure;
use crate::model::config::{self, Config};
use crate::model::limits::Profile;
use crate::model::log_level::LogLevel;
use crate::model::on_stop::OnStop;
use crate::model::word::Exit;
use crate::runtime::{self, ServeOptions};

/// The command.
pub const COMMAND: Command = Command {
    words: "serve",
    args: &[],
    rest: None,
    flags: &[
        Flag::value("listen", "ADDR:PORT", "also serve the API on TCP; port 0 picks one, see <state>/run/address"),
        Flag::value("profile", "edge|standalone", "for a router (the default) or a small server"),
        Flag::value("on-stop", "leave|drain|stop", "when it is told to stop: tasks run on (the default), or see below"),
        Flag::value("clock", "auto|always", "always: schedules go by the clock whatever speaks against it"),
        Flag::value("log-level", "LEVEL", "how much it says: error, warn, info (the default) or debug"),
        LOGS,
        Flag::value("runtime", "DIR", "the folder for the socket and the address; <state>/run when not given"),
        Flag::value("api", "on|off", "off: no API at all, not even for this command line"),
    ],
    summary: "run the daemon in the foreground",
    more: "Without --listen only the socket <state>/run/api.sock is served, which this command line uses.\n\n\
           SIGTERM stops it: nothing new is accepted or started. With `--on-stop leave` tasks run on and\n\
           the next `serve` adopts them; with `drain` they are waited for, at most 60 s; with `stop` each\n\
           is ended. A second SIGTERM makes `drain` leave the rest and `stop` kill it at once.\n\
           SIGHUP reads the configuration file again; what needs a restart is named.\n\
           What ended runs have left behind (`task add --leftovers keep`) is left alone in each case.",
    body: serve,
};

fn serve(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let flags = flags(given)?;
    if flags.listen.is_some() && flags.api == Some(false) {
        return Err(Failure::usage("--listen needs the API; leave --api off out"));
    }
    let settings = context.settings(&flags)?;
    Ok(runtime::serve(&ServeOptions { settings, flags, file: context.file.clone() }))
}

/// The flags, in the configuration's own terms.
fn flags(given: &Given) -> Result<Config, Failure> {
    let listen = |text: &str| {
        text.parse().map_err(|_| {
            let shown = text.escape_debug();
            Failure::usage(format!("--listen {shown}: must be an address and a port, like 127.0.0.1:7370 or [::1]:0"))
        })
    };
    Ok(Config {
        state: given.folder("state")?,
        logs: given.folder("logs")?,
        runtime: given.folder("runtime")?,
        profile: word(given, "profile", "edge or standalone", Profile::parse)?,
        api: word(given, "api", "on or off", config::api)?,
        listen: given.text("listen")?.map(listen).transpose()?,
        trust_clock: word(given, "clock", "auto or always", config::trust_clock)?,
        on_stop: word(given, "on-stop", "leave, drain or stop", OnStop::parse)?,
        log_level: word(given, "log-level", "error, warn, info or debug", LogLevel::parse)?,
        ..Config::default()
    })
}

fn word<T>(given: &Given, flag: &str, all: &str, read: fn(&str) -> Option<T>) -> Result<Option<T>, Failure> {
    let read = |text| read(text).ok_or_else(|| Failure::usage(format!("--{flag} must be {all}")));
    given.text(flag)?.map(read).transpose()
}
