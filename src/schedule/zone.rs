//! Time zones as triggers name them: an IANA name, read from the system's zoneinfo or, where a machine
//! has none, from a built-in table of today's rules; or a POSIX string. The host's own zone never
//! matters here (design D10, reports 3, 15 and 16).

use crate::model::limits::ZONE_BYTES_MAX;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, civil::DateTime};
use std::fmt;
use std::io::Read as _;
use std::path::Path;

/// Where systems keep zones.
const ZONEINFO: &str = "/usr/share/zoneinfo";

/// One line for each set of rules: the rules as a POSIX string, then the names that go by them. Made of
/// the last line of each file of the time zone database, which is what its zones do today and until
/// somebody decides otherwise; what they did in the past is not in it.
const BUILT_IN: &str = include_str!("zones.txt");

/// The longest zone file that is read; real ones are a twentieth of it.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A zone whose rules are known.
#[derive(Clone, Debug)]
pub struct Zone {
    rules: TimeZone,
}

/// Why a zone was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneError {
    /// The rule that is broken, and what to write instead.
    pub why: String,
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// How a local time stands to real time.
pub enum Instants {
    /// It comes once.
    One(Timestamp),
    /// It comes twice; this is the first time.
    Twice(Timestamp),
    /// It never comes: the clock goes over it at this instant.
    Never(Timestamp),
}

impl Zone {
    /// Finds a zone.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        Self::parse_in(text, Path::new(ZONEINFO))
    }

    fn parse_in(text: &str, zoneinfo: &Path) -> Result<Self, ZoneError> {
        let refuse = |why: String| Err(ZoneError { why });
        if text.is_empty() || text.len() > ZONE_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse(format!("a zone is 1 to {ZONE_BYTES_MAX} visible characters, like Europe/Prague or CST-8"));
        }
        if let Some(rules) = from_file(text, zoneinfo).or_else(|| built_in(text)) {
            return Ok(Self { rules });
        }
        match posix(text) {
            Some(rules) => Ok(Self { rules }),
            None => refuse(format!(
                "{text} is no zone that is known here; write an IANA name like Europe/Prague, or the rules like \
                 CET-1CEST,M3.5.0,M10.5.0/3"
            )),
        }
    }

    /// The local time at an instant, and its distance from UTC.
    pub fn local(&self, at: Timestamp) -> (DateTime, Offset) {
        let offset = self.rules.to_offset(at);
        (offset.to_datetime(at), offset)
    }

    /// The next instant after this one at which the distance from UTC, or its name, changes.
    pub fn next_change(&self, after: Timestamp) -> Option<Timestamp> {
        self.rules.following(after).next().map(|change| change.timestamp())
    }

    /// The instants of a local time.
    pub fn instants(&self, local: DateTime) -> Option<Instants> {
        let at = |offset: Offset| offset.to_timestamp(local).ok();
        Some(match self.rules.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => Instants::One(at(offset)?),
            AmbiguousOffset::Fold { before, .. } => Instants::Twice(at(before)?),
            AmbiguousOffset::Gap { before, .. } => {
                // By the rules before it this instant is the change or later.
                let just_after = at(before)?.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
                Instants::Never(self.rules.preceding(just_after).next()?.timestamp())
            }
        })
    }
}

/// Whether this can be a zone's name: no way out of the folder, nothing hidden.
fn is_name(text: &str) -> bool {
    let plain = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+'))
    };
    text.split('/').all(plain) && !text.starts_with("right/") && !text.starts_with("posix/")
}

fn from_file(name: &str, zoneinfo: &Path) -> Option<TimeZone> {
    if !is_name(name) {
        return None;
    }
    let path = zoneinfo.join(name);
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif(name, &bytes).ok()
}

fn built_in(name: &str) -> Option<TimeZone> {
    let mut lines = BUILT_IN.lines().map(|line| line.split(' '));
    let rules = lines.find_map(|mut words| {
        let rules = words.next()?;
        words.any(|known| known == name).then_some(rules)
    })?;
    posix(rules)
}

/// Reads POSIX rules. A name alone is none, though the standard would take it for one at UTC.
fn posix(text: &str) -> Option<TimeZone> {
    let has_distance = text.bytes().any(|byte| byte.is_ascii_digit());
    has_distance.then(|| TimeZone::posix(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    const NOWHERE: &str = "/nonexistent";

    fn hours(zone: &Zone, at: DateTime) -> f64 {
        let Some(Instants::One(instant)) = zone.instants(at) else { panic!("{at}") };
        f64::from(zone.local(instant).1.seconds()) / 3600.0
    }

    #[test]
    fn names_and_rules_are_found_with_and_without_the_systems_files() {
        for (text, january, july) in [
            ("Europe/Prague", 1.0, 2.0),
            ("America/St_Johns", -3.5, -2.5),
            ("Australia/Lord_Howe", 11.0, 10.5),
            ("Asia/Kathmandu", 5.75, 5.75),
            ("Europe/Dublin", 0.0, 1.0),
            ("UTC", 0.0, 0.0),
            ("Etc/GMT+5", -5.0, -5.0),
            ("EST5EDT", -5.0, -4.0),
            ("CST-8", 8.0, 8.0),
            ("<+03>-3", 3.0, 3.0),
            ("CET-1CEST,M3.5.0,M10.5.0/3", 1.0, 2.0),
            ("NZST-12NZDT,M9.5.0,M4.1.0/3", 13.0, 12.0),
            ("<-0330>3:30", -3.5, -3.5),
        ] {
            for folder in [ZONEINFO, NOWHERE] {
                let zone = Zone::parse_in(text, Path::new(folder)).unwrap_or_else(|e| panic!("{text}: {e}"));
                let at = |month| hours(&zone, date(2031, month, 15).at(12, 0, 0, 0));
                assert!((at(1) - january).abs() < 0.01 && (at(7) - july).abs() < 0.01, "{text} from {folder}");
            }
        }
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        for text in [
            "",
            "Europe/Nowhere",
            "../etc/passwd",
            "/etc/localtime",
            "Europe/../UTC",
            "right/UTC",
            "posix/UTC",
            "local",
            "CST",
            "Europe",
            "zone.tab",
            "CET-1CEST,M13.5.0,M10.5.0/3",
            "CST-8\n",
            "a b",
            "CST-999",
            ":UTC",
        ] {
            for folder in [ZONEINFO, NOWHERE] {
                assert!(Zone::parse_in(text, Path::new(folder)).is_err(), "{text:?}");
            }
        }
        assert!(Zone::parse_in(&"A".repeat(65), Path::new(NOWHERE)).is_err());
    }

    #[test]
    fn every_line_of_the_built_in_table_can_be_read() {
        let mut names = 0;
        for line in BUILT_IN.lines() {
            let mut words = line.split(' ');
            let rules = words.next().unwrap();
            assert!(posix(rules).is_some(), "{rules}");
            names += words.filter(|name| assert_name(name)).count();
        }
        assert!(names > 500, "{names}");
    }

    fn assert_name(name: &str) -> bool {
        assert!(is_name(name), "{name}");
        true
    }
}
