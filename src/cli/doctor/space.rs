//! Free space where state and logs lie, against what a start needs.

use super::finding::Finding;
use super::place::Place;
use crate::model::limits::{
    LOG_SHARE_ATTEMPT, LOG_SHARE_FLOOR, Limits, Profile, STATE_FLOOR_BYTES, STATE_FLOOR_BYTES_MAX, STATE_FLOOR_SHARE,
};
use crate::model::settings::Settings;
use crate::runtime::look::{self, Space};

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let logs = place.settings.as_ref().map_or_else(|| place.state.join("logs"), |settings| settings.logs.value.clone());
    let limits = place.settings.as_ref().map_or(*Profile::Edge.limits(), Settings::limits);
    match (look::space(Place::nearest(&place.state)), look::space(Place::nearest(&logs))) {
        (Ok(state), Ok(logs)) => decide(state, logs, &limits),
        (Err(error), _) | (_, Err(error)) => {
            Finding::fail(format!("the free space cannot be told: {error}"), "look at the device")
        }
    }
}

fn decide(state: Space, logs: Space, limits: &Limits) -> Finding {
    let state_floor = (state.total_bytes / STATE_FLOOR_SHARE).clamp(STATE_FLOOR_BYTES, STATE_FLOOR_BYTES_MAX);
    let cap = limits.attempt_log_bytes.min(logs.total_bytes / LOG_SHARE_ATTEMPT);
    let log_floor = limits.log_floor_bytes.min(logs.total_bytes / LOG_SHARE_FLOOR) + cap;
    let text = format!("{} free for the state, {} for logs", size(state.free_bytes), size(logs.free_bytes));
    if state.free_bytes < state_floor {
        let need = size(state_floor);
        return Finding::fail(format!("{text}; below {need} for the state nothing starts"), "free some space there");
    }
    if logs.free_bytes < log_floor {
        let todo = "free some space there, or lower limits.logBytes and limits.attemptLogBytes";
        return Finding::fail(format!("{text}; below {} for logs nothing starts", size(log_floor)), todo);
    }
    // A store or a log that grows as it may would be there soon.
    if state.free_bytes < 2 * state_floor || logs.free_bytes < log_floor + cap {
        return Finding::warn(format!("{text}; little more than a start needs"), "free some space there");
    }
    Finding::ok(text)
}

fn size(bytes: u64) -> String {
    if bytes >> 20 > 0 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_would_keep_a_run_waiting_fails() {
        let space = |free_kib: u64, total_kib: u64| Space {
            free_bytes: free_kib << 10,
            total_bytes: total_kib << 10,
            is_tmpfs: false,
        };
        let limits = Profile::Edge.limits();
        let level = |state, logs| decide(state, logs, limits).level;
        let big = space(1 << 20, 1 << 21);
        assert_eq!(level(big, big), Level::Ok);
        let eight = 8 << 10;
        assert_eq!(level(space(511, eight), big), Level::Fail);
        assert_eq!(level(space(600, eight), big), Level::Warn);
        assert_eq!(level(space(2000, eight), big), Level::Ok, "a small flash is not short of space for being small");
        // A tenth for the floor and a twentieth for one log.
        assert_eq!(level(big, space(1228, eight)), Level::Fail);
        assert_eq!(level(big, space(1300, eight)), Level::Warn);
        assert_eq!(level(big, space(2000, eight)), Level::Ok);
    }
}
