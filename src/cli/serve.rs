//! `serve`: the daemon, in the foreground.

use super::args::Given;
use super::command::{Command, Flag};
use super::context::Context;
use super::failure::Failure;
use crate::model::limits::Profile;
use crate::model::word::Exit;
use crate::runtime::{self, OnStop, ServeOptions};

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
        Flag::value("api", "on|off", "off: no API at all, not even for this command line"),
    ],
    summary: "run the daemon in the foreground",
    more: "Without --listen only the socket <state>/run/api.sock is served, which this command line uses.\n\n\
           SIGTERM stops it: nothing new is accepted or started. With `--on-stop leave` tasks run on and\n\
           the next `serve` adopts them; with `drain` they are waited for, at most 60 s; with `stop` each\n\
           is ended. A second SIGTERM makes `drain` leave the rest and `stop` kill it at once.\n\
           What ended runs have left behind (`task add --leftovers keep`) is left alone in each case.",
    body: Some(serve),
};

fn serve(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let listen = given.text("listen")?.map(|text| {
        text.parse().map_err(|_| {
            let shown = text.escape_debug();
            Failure::usage(format!("--listen {shown}: must be an address and a port, like 127.0.0.1:7370 or [::1]:0"))
        })
    });
    let profile = given.text("profile")?.map_or(Ok(Profile::Edge), |text| {
        Profile::parse(text).ok_or_else(|| Failure::usage("--profile must be edge or standalone"))
    })?;
    let on_stop = given.text("on-stop")?.map_or(Ok(OnStop::Leave), |text| {
        OnStop::parse(text).ok_or_else(|| Failure::usage("--on-stop must be leave, drain or stop"))
    })?;
    let api = match given.text("api")? {
        None | Some("on") => true,
        Some("off") => false,
        Some(_) => return Err(Failure::usage("--api must be on or off")),
    };
    let trust_clock = match given.text("clock")? {
        None | Some("auto") => false,
        Some("always") => true,
        Some(_) => return Err(Failure::usage("--clock must be auto or always")),
    };
    let listen = listen.transpose()?;
    if listen.is_some() && !api {
        return Err(Failure::usage("--listen needs the API; leave --api off out"));
    }
    Ok(runtime::serve(&ServeOptions { state: context.state.clone(), listen, profile, api, on_stop, trust_clock }))
}
