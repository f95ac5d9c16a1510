//! What a change of the clocks does to a line. Ours runs a fixed time once whatever the clocks do, as
//! Vixie's cron does; busybox crond looks at the host's clock each minute, so it skips or doubles it.

use crate::model::limits::CRONTAB_CHANGE_MS_MAX;
use crate::schedule::cron::Cron;
use crate::schedule::next::next_after;
use crate::schedule::zone::Zone;

const MINUTE_MS: i64 = 60_000;
/// Clocks are set by less than this.
const AROUND_MS: i64 = 3 * 60 * MINUTE_MS;

/// Whether a look at the clock each minute would come out otherwise at one of the coming changes.
pub fn matter(cron: &Cron, zone: &Zone, from_ms: i64) -> bool {
    let next = |at: &i64| Some(zone.segment_at(*at).until).filter(|until| *until < i64::MAX / 2000);
    let changes = std::iter::successors(next(&from_ms.div_euclid(1000)), next).map(|at| at * 1000);
    let changes = changes.take_while(|at| at - from_ms < CRONTAB_CHANGE_MS_MAX);
    // Two a year; a few more in zones that go by the moon.
    changes.take(6).any(|at| differs(cron, zone, at - at.rem_euclid(MINUTE_MS)))
}

fn differs(cron: &Cron, zone: &Zone, change_ms: i64) -> bool {
    let (begin, end) = (change_ms - AROUND_MS, change_ms + AROUND_MS);
    let mut due = next_after(cron, zone, begin - 1);
    for at_ms in (begin..end).step_by(60_000) {
        let at = at_ms.div_euclid(1000);
        if (due == Some(at_ms)) != cron.matches(at + i64::from(zone.offset_at(at))) {
            return true;
        }
        if due == Some(at_ms) {
            due = next_after(cron, zone, at_ms);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::civil::parse_rfc3339;

    #[test]
    fn only_fixed_times_within_a_change_are_affected() {
        let from_ms = parse_rfc3339("2026-06-01T00:00:00Z").unwrap();
        for (cron, zone, want) in [
            ("30 2 * * *", "Europe/Prague", true),
            ("30 3 * * *", "Europe/Prague", false),
            ("0 * * * *", "Europe/Prague", false),
            ("30 2 * * *", "CST-8", false),
            ("30 2 * 6 *", "Europe/Prague", false),
        ] {
            let (parsed, known) = (Cron::parse(cron).unwrap(), Zone::parse(zone).unwrap());
            assert_eq!(matter(&parsed, &known, from_ms), want, "{cron} {zone}");
        }
    }
}
