//! When an expression comes due next in a zone: the one piece of code for what fires and for what is
//! previewed (design D10).
//!
//! Fixed hours are the clock's: a time that a change skips comes at the first instant after it, one
//! that comes twice is taken the first time. Hours that begin with a star are real time's: what the
//! clock skips does not come, what comes twice comes twice.

use super::cron::Cron;
use super::zone::{Instants, Zone};
use jiff::{SignedDuration, Timestamp};

/// Local times that a fixed expression may pass over in one search at most: every second of the longest
/// repeated stretch that a clock was ever set back by.
const PASSED_MAX: usize = 2 * 86_400;

/// Changes of a zone that one search looks beyond at most: twice as many as there can be in the longest
/// time between two dates.
const CHANGES_MAX: usize = 4_000;

/// The first instant strictly after this one, both in epoch milliseconds. `None`: there is none within
/// what a calendar holds.
pub fn next_after(cron: &Cron, zone: &Zone, after_ms: i64) -> Option<i64> {
    let after = Timestamp::from_millisecond(after_ms).ok()?;
    let found = if cron.is_fixed() { fixed(cron, zone, after) } else { real(cron, zone, after) };
    found.map(Timestamp::as_millisecond).filter(|found_ms| *found_ms > after_ms)
}

/// Real time: within a stretch without a change local times and instants go side by side.
fn real(cron: &Cron, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
    let mut from = Timestamp::from_second(after.as_millisecond().div_euclid(1000) + 1).ok()?;
    for _ in 0..CHANGES_MAX {
        let (local, offset) = zone.local(from);
        let found = offset.to_timestamp(cron.local_from(local)?).ok();
        match (found, zone.next_change(from)) {
            (Some(found), Some(change)) if found >= change => from = change,
            (None, Some(change)) => from = change,
            (found, _) => return found,
        }
    }
    None
}

/// The clock's time: later local times never come at earlier instants.
fn fixed(cron: &Cron, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
    let mut local = cron.local_from(zone.local(after).0)?;
    for _ in 0..PASSED_MAX {
        let (Instants::One(at) | Instants::Twice(at) | Instants::Never(at)) = zone.instants(local)?;
        if at > after {
            return Some(at);
        }
        local = cron.local_from(local.checked_add(SignedDuration::from_secs(1)).ok()?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    /// The next so many, as UTC.
    fn fires(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let (cron, zone) = (Cron::parse(cron).unwrap(), Zone::parse(zone).unwrap());
        let mut at = ms(after);
        let mut fires = Vec::new();
        for _ in 0..count {
            at = next_after(&cron, &zone, at).unwrap();
            fires.push(Timestamp::from_millisecond(at).unwrap().to_string());
        }
        fires
    }

    #[test]
    fn a_fixed_time_in_a_gap_comes_once_right_after_it() {
        // 2026-03-29 in Prague: 02:00 CET is 03:00 CEST, 01:00 UTC.
        for cron in ["30 2 * * *", "0 2 * * *", "*/10 2 * * *", "15,45 2 * * *"] {
            let got = fires(cron, "Europe/Prague", "2026-03-28T12:00:00Z", 2);
            assert_eq!(got[0], "2026-03-29T01:00:00Z", "{cron}");
            assert!(got[1].starts_with("2026-03-30T00:"), "{cron}: {got:?}");
        }
        let both = fires("0 2,3 * * *", "Europe/Prague", "2026-03-28T12:00:00Z", 2);
        assert_eq!(both, ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"], "two times at one instant are one");
    }

    #[test]
    fn a_fixed_time_that_comes_twice_is_taken_the_first_time() {
        // 2026-10-25 in Prague: 03:00 CEST is 02:00 CET, 01:00 UTC.
        let got = fires("30 2 * * *", "Europe/Prague", "2026-10-24T12:00:00Z", 2);
        assert_eq!(got, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
        let every = fires("*/30 2 * * *", "Europe/Prague", "2026-10-25T00:30:00Z", 1);
        assert_eq!(every, ["2026-10-26T01:00:00Z"], "asked within the second pass");
    }

    #[test]
    fn hours_with_a_star_follow_real_time() {
        let spring = fires("0 * * * *", "America/Los_Angeles", "2021-03-14T09:00:00Z", 3);
        assert_eq!(spring, ["2021-03-14T10:00:00Z", "2021-03-14T11:00:00Z", "2021-03-14T12:00:00Z"]);
        let autumn = fires("0 * * * *", "Europe/Prague", "2026-10-24T23:00:00Z", 3);
        assert_eq!(autumn, ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]);
        let minutes = fires("*/20 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", 4);
        // Set back by half an hour at 15:00 UTC: 02:00 becomes 01:30.
        assert_eq!(
            minutes,
            ["2026-04-04T14:40:00Z", "2026-04-04T15:10:00Z", "2026-04-04T15:30:00Z", "2026-04-04T15:50:00Z"]
        );
    }

    #[test]
    fn a_day_that_was_skipped_comes_at_its_end() {
        let got = fires("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", 3);
        // 30 December never came there: its noon is the change itself.
        assert_eq!(got, ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"]);
    }

    #[test]
    fn the_next_is_always_later_and_in_whole_seconds() {
        let (cron, zone) = (Cron::parse("* * * * * *").unwrap(), Zone::parse("UTC").unwrap());
        assert_eq!(next_after(&cron, &zone, 0), Some(1_000));
        assert_eq!(next_after(&cron, &zone, 1), Some(1_000));
        assert_eq!(next_after(&cron, &zone, -1), Some(0));
        assert_eq!(next_after(&cron, &zone, i64::MAX), None);
        assert_eq!(next_after(&cron, &zone, i64::MIN), None);
    }
}
