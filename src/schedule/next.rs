//! What is due next: the one piece of code behind every fire and every preview.
//!
//! Clocks that go forward skip local times, clocks that go back repeat some. A *fixed* expression
//! ([`Cron::is_fixed`]) is due when the local clock first reaches or passes a time it names: what was
//! skipped is due once, at the first instant after the gap, however long that was; what is repeated
//! is due the first time only. Any other expression is due at every instant whose local time
//! matches, so that it keeps its pace: nothing in a gap, both times in a repeated hour.

use super::civil::{DAY_SECONDS, Date};
use super::cron::{Cron, YEAR_MAX};
use super::zone::{OFFSET_MAX, Segment, Zone};
use crate::model::limits::ZONE_LOOK_BACK;

/// The first instant strictly after `after_ms` at which the expression is due in the zone, in epoch
/// milliseconds; always a whole second, from 1970 to 2199. `None` when there is none in these years.
/// It takes a step for each change of offset and each year that is passed: hundreds at most.
pub fn next_after(cron: &Cron, zone: &Zone, after_ms: i64) -> Option<i64> {
    let end = Date { year: YEAR_MAX + 1, month: 1, day: 1 }.days() * DAY_SECONDS;
    let mut at = after_ms.div_euclid(1000).saturating_add(1).max(0);
    let mut search = Search { cron, known: None };
    while at < end {
        let segment = zone.segment_at(at);
        let offset = i64::from(segment.offset);
        let here = at + offset;
        let mut from = here;
        if cron.is_fixed() {
            let reached = reached_before(zone, segment);
            from = if at == segment.from { reached } else { reached.max(here) };
        }
        let local = search.first_from(from)?;
        if local < here {
            // The local clock has just jumped over it.
            return Some(at * 1000);
        }
        if local < segment.until.saturating_add(offset) {
            return Some((local - offset) * 1000).filter(|at_ms| *at_ms < end * 1000);
        }
        at = segment.until;
    }
    None
}

/// The next `count` instants after `after_ms`, fewer when the years end.
pub fn fires(cron: &Cron, zone: &Zone, after_ms: i64, count: usize) -> Vec<i64> {
    let next = |after: &i64| next_after(cron, zone, *after);
    std::iter::successors(next_after(cron, zone, after_ms), next).take(count).collect()
}

/// The local time that the clock had reached before a segment began.
fn reached_before(zone: &Zone, segment: Segment) -> i64 {
    let mut reached = i64::MIN;
    let mut from = segment.from;
    for _ in 0..ZONE_LOOK_BACK {
        // Further back no offset can have shown a time as late as this segment's first.
        if from == i64::MIN || from < segment.from.saturating_sub(2 * i64::from(OFFSET_MAX)) {
            break;
        }
        let before = zone.segment_at(from - 1);
        // A damaged file of zone data can name the first instant there is.
        reached = reached.max(from.saturating_add(i64::from(before.offset)));
        from = before.from;
    }
    reached
}

/// A search that is not repeated while its answer still lies ahead: years without a match would else
/// be searched again from every change of offset in them.
struct Search<'a> {
    cron: &'a Cron,
    /// Where it was begun, and what came of it.
    known: Option<(i64, i64)>,
}

impl Search<'_> {
    fn first_from(&mut self, local: i64) -> Option<i64> {
        if let Some((from, found)) = self.known
            && (from..=found).contains(&local)
        {
            return Some(found);
        }
        let found = self.cron.first_from(local)?;
        self.known = Some((local, found));
        Some(found)
    }
}
