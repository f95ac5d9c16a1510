//! Whether the wall clock can be believed enough to delete something for its age (design D9).
//!
//! Boards without a battery start in 1970 or at the time of some file, and a time server's mistake
//! makes everything 50 years old. Nothing here reads a clock; everything is pure.

use crate::model::id::Uuid;
use crate::model::limits::{CLOCK_PAUSE_MS, CLOCK_SETTLED_MS, CLOCK_STEP_MS_MAX, WRITTEN_AT_MS};
use crate::model::record::ClockWatch;

/// No right clock stands before this, in epoch milliseconds: when the binary was built, where the
/// build says so (`SOURCE_DATE_EPOCH`, in seconds), else when this was written.
pub const BUILT_AT_MS: i64 = match option_env!("SOURCE_DATE_EPOCH") {
    Some(seconds) => match i64::from_str_radix(seconds, 10) {
        Ok(seconds) if seconds > 0 && seconds < i64::MAX / 1000 => seconds * 1000,
        _ => WRITTEN_AT_MS,
    },
    None => WRITTEN_AT_MS,
};

/// The clocks at one instant, and what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// This boot.
    pub boot: Uuid,
    /// Epoch milliseconds.
    pub wall_ms: i64,
    /// Milliseconds since boot.
    pub boot_ms: u64,
    /// The kernel says that something keeps the wall clock right.
    pub synchronised: bool,
    /// The newest time that was ever stored; 0 when there is none.
    pub newest_ms: i64,
}

/// Whether the wall clock is trusted: not before the build or anything stored, and kept right by
/// something, or left alone for long enough after boot.
pub fn is_trusted(reading: &Reading) -> bool {
    reading.wall_ms >= BUILT_AT_MS.max(reading.newest_ms)
        && (reading.synchronised || reading.boot_ms > CLOCK_SETTLED_MS)
}

/// Compares the clocks with how they were noted last: what is to be noted from now on, and whether
/// age may decide now. After a wide step forward it may not for a day, by the boot clock.
///
/// In a new boot the newest stored time stands for what was noted: it is the last that is known of the
/// wall, and it keeps a board's way from 1970 to now from being a step. It is noted at the first look,
/// believed or not, because what is stored after a step would hide it.
pub fn judge(reading: &Reading, before: Option<ClockWatch>) -> (ClockWatch, bool) {
    let same_boot = before.filter(|watch| watch.boot == reading.boot);
    let watch = same_boot.unwrap_or_else(|| begin(reading, before));
    if !is_trusted(reading) {
        return (watch, false);
    }
    let offset_ms = reading.wall_ms.saturating_sub_unsigned(reading.boot_ms);
    let step_ms = offset_ms.saturating_sub(watch.anchor_ms);
    let pause = if step_ms > CLOCK_STEP_MS_MAX { reading.boot_ms.saturating_add(CLOCK_PAUSE_MS) } else { 0 };
    let watch = if same_boot.is_some() && step_ms.saturating_abs() <= CLOCK_STEP_MS_MAX {
        watch
    } else {
        ClockWatch { anchor_ms: offset_ms, paused_until_ms: watch.paused_until_ms.max(pause), ..watch }
    };
    (watch, reading.boot_ms >= watch.paused_until_ms)
}

/// What is noted first in a boot. What was left of a pause goes on: a machine that starts again in the
/// wrong time must not take it for the right one.
fn begin(reading: &Reading, before: Option<ClockWatch>) -> ClockWatch {
    let left_ms = before.map_or(0, |watch| {
        let lived_ms = reading.newest_ms.saturating_sub(watch.anchor_ms).max(0).unsigned_abs();
        watch.paused_until_ms.saturating_sub(lived_ms).min(CLOCK_PAUSE_MS)
    });
    ClockWatch {
        boot: reading.boot,
        anchor_ms: reading.newest_ms.saturating_sub_unsigned(reading.boot_ms),
        paused_until_ms: if left_ms > 0 { reading.boot_ms.saturating_add(left_ms) } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;
    const YEAR_MS: i64 = 365 * 24 * HOUR_MS;
    const NOW_MS: i64 = 1_800_000_000_000;

    fn boot(number: u8) -> Uuid {
        Uuid::from_bytes([number; 16])
    }

    /// An hour after boot, one minute after the newest record, kept right by a time server.
    fn reading() -> Reading {
        let boot_ms = HOUR_MS as u64;
        Reading { boot: boot(1), wall_ms: NOW_MS, boot_ms, synchronised: true, newest_ms: NOW_MS - 60_000 }
    }

    /// A machine whose clocks a test turns.
    struct Machine {
        now: Reading,
        watch: Option<ClockWatch>,
    }

    impl Machine {
        fn new() -> Self {
            let mut machine = Self { now: reading(), watch: None };
            assert!(machine.may_age());
            machine
        }

        fn may_age(&mut self) -> bool {
            let (watch, may) = judge(&self.now, self.watch);
            self.watch = Some(watch);
            may
        }

        fn pass(&mut self, ms: i64) {
            self.now.wall_ms += ms;
            self.now.boot_ms += ms as u64;
        }
    }

    #[test]
    fn a_clock_before_the_build_or_a_record_or_that_nobody_vouches_for_is_not_believed() {
        assert!(is_trusted(&reading()));
        let with = |change: fn(&mut Reading)| {
            let mut changed = reading();
            change(&mut changed);
            is_trusted(&changed)
        };
        assert!(!with(|r| r.wall_ms = r.newest_ms - 1), "before the newest record");
        assert!(!with(|r| (r.wall_ms, r.newest_ms) = (BUILT_AT_MS - 1, 0)), "before the build");
        assert!(with(|r| (r.wall_ms, r.newest_ms) = (BUILT_AT_MS, 0)));
        assert!(with(|r| r.synchronised = false), "an hour after boot it has settled");
        assert!(!with(|r| (r.synchronised, r.boot_ms) = (false, CLOCK_SETTLED_MS)));
        assert!(with(|r| r.boot_ms = 1), "a time server has answered");
        assert!(!with(|r| r.wall_ms = 0), "1970");
    }

    #[test]
    fn fifty_years_forward_pause_everything_for_a_day_of_boot_time() {
        let mut machine = Machine::new();
        machine.now.wall_ms += 50 * YEAR_MS;
        assert!(!machine.may_age());
        for _ in 0..23 {
            machine.pass(HOUR_MS);
            assert!(!machine.may_age());
        }
        machine.pass(HOUR_MS - 1);
        assert!(!machine.may_age());
        machine.pass(1);
        assert!(machine.may_age(), "a day later somebody would have put it right");
    }

    #[test]
    fn a_correction_within_the_pause_does_not_end_it_early() {
        let mut machine = Machine::new();
        machine.now.wall_ms += 50 * YEAR_MS;
        assert!(!machine.may_age());
        machine.pass(HOUR_MS);
        machine.now.wall_ms -= 50 * YEAR_MS;
        assert!(!machine.may_age());
        machine.pass(23 * HOUR_MS);
        assert!(machine.may_age());
    }

    #[test]
    fn ten_years_back_age_decides_nothing_until_it_is_put_right() {
        let mut machine = Machine::new();
        machine.now.wall_ms -= 10 * YEAR_MS;
        assert!(!machine.may_age());
        machine.pass(48 * HOUR_MS);
        assert!(!machine.may_age(), "as long as it stands before a record");
        machine.now.wall_ms += 10 * YEAR_MS;
        assert!(machine.may_age());
    }

    #[test]
    fn a_board_without_a_battery_may_age_as_soon_as_it_knows_the_time() {
        let mut machine = Machine::new();
        let (right, boot_ms) = (machine.now.wall_ms + HOUR_MS, 1_000);
        (machine.now.boot, machine.now.boot_ms, machine.now.wall_ms) = (boot(2), boot_ms, 1_000);
        assert!(!machine.may_age());
        machine.now.wall_ms = right;
        assert!(machine.may_age());
    }

    #[test]
    fn a_step_that_is_seen_only_after_something_was_stored_in_the_new_time_is_seen() {
        let mut machine = Machine::new();
        machine.pass(HOUR_MS);
        (machine.now.boot, machine.now.boot_ms, machine.now.synchronised) = (boot(2), 5_000, false);
        assert!(!machine.may_age(), "nobody vouches for it yet");
        machine.now.wall_ms += 50 * YEAR_MS;
        (machine.now.synchronised, machine.now.newest_ms) = (true, machine.now.wall_ms);
        machine.pass(60_000);
        assert!(!machine.may_age(), "the first answer of a time server was wrong, and a Run has ended since");
    }

    #[test]
    fn a_reboot_does_not_end_a_pause() {
        let mut machine = Machine::new();
        machine.now.wall_ms += 50 * YEAR_MS;
        assert!(!machine.may_age());
        machine.pass(10 * HOUR_MS);
        machine.now.newest_ms = machine.now.wall_ms;
        machine.pass(60_000);
        (machine.now.boot, machine.now.boot_ms) = (boot(2), 5_000);
        assert!(!machine.may_age(), "it starts again in the wrong time");
        machine.pass(13 * HOUR_MS);
        assert!(!machine.may_age());
        machine.pass(HOUR_MS);
        assert!(machine.may_age(), "what was left of the day is over");
        machine.now.newest_ms = machine.now.wall_ms;
        (machine.now.boot, machine.now.boot_ms) = (boot(3), 5_000);
        assert!(machine.may_age(), "and does not begin again");
    }

    #[test]
    fn a_day_and_a_zone_are_no_step_but_two_of_them_are() {
        let mut machine = Machine::new();
        machine.now.wall_ms += 25 * HOUR_MS;
        assert!(machine.may_age());
        machine.now.wall_ms += HOUR_MS;
        assert!(!machine.may_age(), "measured against where it stood, not against the last look");
    }

    #[test]
    fn a_restart_in_the_same_boot_keeps_the_pause_although_records_of_the_wrong_time_are_there() {
        let mut machine = Machine::new();
        machine.now.wall_ms += 50 * YEAR_MS;
        assert!(!machine.may_age());
        machine.now.newest_ms = machine.now.wall_ms;
        machine.pass(HOUR_MS);
        // What was noted came from the store.
        assert!(!machine.may_age());
    }

    #[test]
    fn a_new_boot_is_judged_by_the_newest_record() {
        let mut machine = Machine::new();
        machine.pass(HOUR_MS);
        (machine.now.boot, machine.now.boot_ms) = (boot(2), 5_000);
        assert!(machine.may_age(), "a short outage");
        machine.now.wall_ms += 26 * HOUR_MS;
        (machine.now.boot, machine.now.boot_ms) = (boot(3), 5_000);
        assert!(!machine.may_age(), "a long one, or a wrong clock");
        machine.pass(24 * HOUR_MS);
        assert!(machine.may_age());
    }

    #[test]
    fn extreme_clocks_do_not_overflow() {
        for wall_ms in [0, i64::MAX] {
            for newest_ms in [0, i64::MAX] {
                let reading = Reading { wall_ms, newest_ms, boot_ms: u64::MAX, ..reading() };
                let noted = ClockWatch { boot: boot(1), anchor_ms: i64::MIN, paused_until_ms: 0 };
                judge(&reading, Some(noted));
                judge(&reading, None);
            }
        }
    }
}
