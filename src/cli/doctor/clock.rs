//! Whether the wall clock can be believed, so far as that can be told without the store: schedules wait
//! for it.

use super::super::time::rfc3339;
use super::finding::Finding;
use super::place::Place;
use crate::model::id::Uuid;
use crate::runtime::look;
use crate::schedule::trust::{BUILT_AT_MS, Reading, is_trusted};

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let reading = Reading {
        boot: Uuid::from_bytes([0; 16]),
        wall_ms: look::wall_ms(),
        boot_ms: look::boottime_ms().unsigned_abs(),
        synchronised: look::is_synchronised(),
        newest_ms: 0,
    };
    decide(&reading, place.settings.as_ref().is_some_and(|settings| settings.trust_clock.value))
}

fn decide(reading: &Reading, always: bool) -> Finding {
    let now = rfc3339(reading.wall_ms);
    if reading.wall_ms < BUILT_AT_MS {
        let text = format!("{now} cannot be: that was before this program was made");
        let todo = "start a time client (OpenWrt: service sysntpd start), or set the clock with `date -s`";
        return if always {
            Finding::fail(format!("{text}, and `clock` is `always`"), todo)
        } else {
            Finding::warn(format!("{text}; schedules wait"), todo)
        };
    }
    if always {
        return Finding::ok(format!("{now}, believed because `clock` is `always`"));
    }
    match (is_trusted(reading), reading.synchronised) {
        (true, true) => Finding::ok(format!("{now}, kept right by a time client")),
        (true, false) => Finding::warn(
            format!("{now}, believed although nothing keeps it right"),
            "start a time client, so that schedules do not drift",
        ),
        (false, _) => Finding::warn(
            format!("{now}, not believed yet: nothing has set it since boot; schedules wait, ten minutes at most"),
            "start a time client, or `serve --clock always` where the hardware keeps the time",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_clock_is_believed_as_schedules_believe_it() {
        let reading = |wall_ms, boot_ms, synchronised| Reading {
            boot: Uuid::from_bytes([0; 16]),
            wall_ms,
            boot_ms,
            synchronised,
            newest_ms: 0,
        };
        let level =
            |wall_ms, boot_ms, synchronised, always| decide(&reading(wall_ms, boot_ms, synchronised), always).level;
        let now = BUILT_AT_MS + 1;
        assert_eq!(level(now, 1, true, false), Level::Ok);
        assert_eq!(level(now, 1, false, true), Level::Ok);
        assert_eq!(level(now, 3_600_000, false, false), Level::Warn);
        assert!(decide(&reading(now, 1, false), false).text.contains("not believed yet"));
        assert_eq!(level(0, 1, false, false), Level::Warn);
        assert_eq!(level(0, 1, true, true), Level::Fail, "schedules would go by 1970");
    }
}
