//! An expression, on lines of their own a zone and an instant, and what is due from then on.

use qinglet::schedule::civil::{DAY_SECONDS, Date};
use qinglet::schedule::cron::{Cron, YEAR_MAX, expand};
use qinglet::schedule::next::{fires, next_after};
use qinglet::schedule::zone::Zone;
use std::path::Path;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.splitn(3, '\n');
    let written = lines.next().unwrap_or_default();
    let cron = match Cron::parse(expand(written)) {
        Ok(cron) => cron,
        Err(error) => {
            assert!(error.at <= written.len() && written.as_bytes()[..error.at].is_ascii(), "{error:?}");
            assert!(!error.why.is_empty());
            return;
        }
    };
    assert_eq!(Cron::parse(cron.text()).as_ref(), Ok(&cron), "what is stored means the same");
    let zone = lines.next().and_then(|zone| Zone::parse_with(zone, Path::new("/nonexistent")).ok());
    let zone = zone.unwrap_or_else(Zone::utc);
    let after = lines.next().and_then(|at| at.trim().parse().ok()).unwrap_or(1_700_000_000_000_i64);
    due(&cron, &zone, after);
}

fn due(cron: &Cron, zone: &Zone, after: i64) {
    let end = Date { year: YEAR_MAX + 1, month: 1, day: 1 }.days() * DAY_SECONDS * 1000;
    let due = fires(cron, zone, after, 24);
    let mut last = after;
    for at in &due {
        assert!(*at > last && *at % 1000 == 0 && (0..end).contains(at), "{at} after {last}");
        let local = at / 1000 + i64::from(zone.offset_at(at / 1000));
        // A fixed one is also due where the clock has jumped over its time.
        assert!(cron.is_fixed() || cron.matches(local), "{} is not due at {at}", cron.text());
        assert_eq!(next_after(cron, zone, at - 1), Some(*at), "asked later it is still the next");
        last = *at;
    }
    if zone == &Zone::utc() {
        let first = due.first().map_or(end / 1000, |at| at / 1000);
        let from = after.div_euclid(1000).saturating_add(1).max(0);
        let missed = (from..first.min(from.saturating_add(90))).find(|second| cron.matches(*second));
        assert_eq!(missed, None, "{} was due before {first}", cron.text());
        assert!(due.iter().all(|at| cron.matches(at / 1000)));
    }
}
