//! Reading the configuration again while serving (SIGHUP, design D19).

use super::ServeOptions;
use super::say::{say, set_level};
use crate::execution::Engine;
use crate::execution::linux::Linux;
use crate::model::settings::{InForce, Reload, Settings};
use crate::store::Store;
use crate::store::use_limits::UseLimits;

/// Reads the file again and puts into force what may change while serving. A file that is no use changes
/// nothing.
pub(super) fn reload(options: &ServeOptions, in_force: &InForce, engine: &mut Engine<Linux>, store: &Store) {
    let before = in_force.get();
    let Reload { settings, changed, needs_restart } = match again(options, &before) {
        Ok(reload) => reload,
        Err(sentence) => {
            say("error", "reload_refused", format_args!("{sentence}; the settings stay as they were"));
            return;
        }
    };
    let limits = settings.limits();
    engine.set_limits(&limits);
    engine.host_mut().limits = limits;
    // Every time, so that a store that was too busy to hear of it can be told again.
    store.post(UseLimits(limits), |done| {
        if done.is_err() {
            say("warn", "reload_delayed", "the store did not take the new limits; send SIGHUP again");
        }
    });
    let path = options.file.path.display();
    let list = |keys: Vec<String>| keys.join(", ");
    // Said by the more talkative of the two levels, so that the change of the level itself is seen.
    set_level(before.log_level.value.max(settings.log_level.value));
    if !needs_restart.is_empty() {
        let keys = list(needs_restart.iter().map(ToString::to_string).collect());
        say("warn", "restart_needed", format_args!("{path} has changed {keys}: this needs a restart"));
    }
    let keys = list(changed.iter().map(|(key, value, source)| format!("{key}={value} ({})", source.word())).collect());
    let keys = if keys.is_empty() { "nothing to be changed now" } else { &keys };
    say("info", "reloaded", format_args!("{path}: {keys}"));
    set_level(settings.log_level.value);
    in_force.put(settings);
}

fn again(options: &ServeOptions, before: &Settings) -> Result<Reload, String> {
    let file = options.file.read().map_err(|unusable| unusable.sentence)?.unwrap_or_default();
    before.reload(&options.flags, &file).map_err(|why| format!("{}: {why}", options.file.path.display()))
}
