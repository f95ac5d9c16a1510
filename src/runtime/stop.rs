//! The daemon's end (design D20). Nothing is admitted or started any more when this begins; what is
//! decided here is only what becomes of the tasks that run. The store closes afterwards, always.

use super::ears::Ears;
use super::say;
use crate::execution::Engine;
use crate::execution::linux::Linux;
use crate::model::limits::{KILL_WAIT_MS, LAUNCH_MS_MAX, STOP_MS_MAX};
use crate::process::clock;

/// What becomes of running tasks when the daemon is told to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnStop {
    /// They run on, and the next daemon adopts them: an upgrade ends nothing.
    Leave,
    /// They are waited for; those that take longer run on.
    Drain,
    /// They are ended, with the reason `shutdown`.
    Stop,
}

impl OnStop {
    /// Reads the word used on the command line.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "leave" => Some(Self::Leave),
            "drain" => Some(Self::Drain),
            "stop" => Some(Self::Stop),
            _ => None,
        }
    }
}

/// Brings an engine that starts nothing any more to its end. Bounded; another signal shortens it: a
/// drain leaves the rest, a stop kills at once what was still given its grace.
pub(super) fn end(engine: &mut Engine<Linux>, ears: &Ears<'_>, on_stop: OnStop) {
    match on_stop {
        OnStop::Leave => {}
        OnStop::Drain => {
            say("info", "draining", format_args!("waiting for {} running tasks", engine.active()));
            turns(engine, ears, STOP_MS_MAX, |engine| engine.active() == 0);
        }
        OnStop::Stop => {
            say("info", "stopping", format_args!("ending {} running tasks", engine.active()));
            engine.shut_down();
            if !turns(engine, ears, STOP_MS_MAX, |engine| engine.active() == 0) {
                engine.hurry();
                turns(engine, ears, 2 * KILL_WAIT_MS, |engine| engine.active() == 0);
            }
        }
    }
    // Starts that are half done come to their hold or their end.
    let heard = ears.stops();
    while !turns(engine, ears, LAUNCH_MS_MAX, Engine::settled) && ears.stops() > heard {}
    engine.resolve_now();
    say("info", "stopped", format_args!("{} running tasks go on without the daemon", engine.active()));
}

/// Takes turns until `is_done`, which it answers; at most so long, or until another signal.
fn turns(engine: &mut Engine<Linux>, ears: &Ears<'_>, most_ms: u64, is_done: impl Fn(&Engine<Linux>) -> bool) -> bool {
    let (until_ms, heard) = (clock::boottime_ms() + most_ms as i64, ears.stops());
    loop {
        let next_ms = engine.turn();
        if is_done(engine) {
            return true;
        }
        if clock::boottime_ms() >= until_ms || ears.stops() > heard {
            return false;
        }
        ears.wait(Some(next_ms.map_or(until_ms, |ms| clock::boottime_ms() + ms as i64).min(until_ms)));
    }
}
