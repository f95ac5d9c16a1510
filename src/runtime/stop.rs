//! The daemon's end (design D20). Nothing is admitted or started any more when this begins; what is
//! decided here is only what becomes of the tasks that run. The store closes afterwards, always.

use super::ears::Ears;
use super::say;
use crate::execution::Engine;
use crate::execution::linux::Linux;
use crate::model::limits::{KILL_WAIT_MS, LAUNCH_MS_MAX, STOP_MS_MAX};
use crate::model::on_stop::OnStop;
use crate::process::clock;

/// Brings an engine that starts nothing any more to its end. Bounded; another signal shortens it: a
/// drain leaves the rest, a stop kills at once what was still given its grace.
pub(super) fn end(engine: &mut Engine<Linux>, ears: &Ears<'_>, on_stop: OnStop) {
    let heard = ears.stops();
    let is_over = |engine: &Engine<Linux>| engine.active() == 0 || ears.stops() > heard;
    match on_stop {
        OnStop::Leave => {}
        OnStop::Drain => {
            say("info", "draining", format_args!("waiting for {} running tasks", engine.active()));
            turns(engine, ears, STOP_MS_MAX, is_over);
        }
        OnStop::Stop => {
            say("info", "stopping", format_args!("ending {} running tasks", engine.active()));
            engine.shut_down();
            turns(engine, ears, STOP_MS_MAX, is_over);
            engine.hurry();
            turns(engine, ears, 2 * KILL_WAIT_MS, |engine| engine.active() == 0);
        }
    }
    // Starts that are half done come to their hold or their end.
    turns(engine, ears, LAUNCH_MS_MAX, Engine::settled);
    engine.resolve_now();
    say("info", "stopped", format_args!("{} running tasks go on without the daemon", engine.active()));
}

/// Takes turns until `is_done`, at most so long.
fn turns(engine: &mut Engine<Linux>, ears: &Ears<'_>, most_ms: u64, is_done: impl Fn(&Engine<Linux>) -> bool) {
    let until_ms = clock::boottime_ms() + most_ms as i64;
    loop {
        let next_ms = engine.turn();
        if is_done(engine) || clock::boottime_ms() >= until_ms {
            return;
        }
        ears.wait(Some(next_ms.map_or(until_ms, |ms| clock::boottime_ms() + ms as i64).min(until_ms)));
    }
}
