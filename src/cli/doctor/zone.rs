//! The host's time zone, which new triggers take when none is given.

use super::finding::Finding;
use super::place::Place;
use crate::schedule::host_zone;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    let (zone, whence) = host_zone::zone();
    decide(zone.name(), &whence)
}

fn decide(zone: &str, whence: &str) -> Finding {
    if whence.ends_with(": UTC") {
        return Finding::warn(whence, "write the zone into /etc/TZ (like CET-1CEST,M3.5.0,M10.5.0/3), or use --zone");
    }
    Finding::ok(format!("{zone}, from {whence}"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_zone_that_was_not_found_is_a_warning() {
        assert_eq!(decide("UTC", "/etc/TZ").level, Level::Ok);
        assert_eq!(decide("UTC", "/etc/TZ is empty: UTC").level, Level::Warn);
        assert_eq!(decide("UTC", "/etc/TZ names no zone, but Mars/Olympus: UTC").level, Level::Warn);
    }
}
