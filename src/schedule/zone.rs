//! Time zones: an IANA name (from the system's zone data, else the built-in table) or a POSIX string.
//!
//! A zone is a sequence of segments, each of one offset. The host's own zone has no part in it: no
//! environment variable is looked at, and names that lead to it are not taken.

use super::zone_posix::{self, Rule};
use super::{zone_file, zone_table};
use crate::model::limits::ZONE_BYTES_MAX;
use std::path::Path;

/// Where systems keep zone data.
const ZONEINFO: &str = "/usr/share/zoneinfo";

/// The widest offset that is believed, in seconds: RFC 8536 recommends less than 26 hours.
pub const OFFSET_MAX: i32 = 26 * 3600;

/// A time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    name: String,
    source: Source,
    first: i32,
    changes: Vec<(i64, i32)>,
    rule: Rule,
}

/// Where a zone's rules come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The system's zone data.
    System,
    /// The table in this program: today's rules, no history.
    BuiltIn,
    /// The POSIX string itself.
    Posix,
}

/// A stretch of time with one offset, in epoch seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The first second; `i64::MIN` when nothing came before.
    pub from: i64,
    /// The first second after it; `i64::MAX` when nothing follows.
    pub until: i64,
    /// Seconds east of Greenwich.
    pub offset: i32,
}

/// Why a zone is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneError {
    /// Where, in bytes from 0. What stands before it is ASCII, so it counts columns as well.
    pub at: usize,
    /// What is wrong there, and what to write instead.
    pub why: String,
}

impl std::fmt::Display for ZoneError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.why)
    }
}

impl std::error::Error for ZoneError {}

impl Zone {
    /// Reads a zone's name, in any case, or a POSIX string. Blanks and a line break around it are no
    /// part of it.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        Self::parse_with(text, Path::new(ZONEINFO))
    }

    /// The same with zone data in another folder; one that does not exist leaves the built-in table.
    pub fn parse_with(text: &str, zoneinfo: &Path) -> Result<Self, ZoneError> {
        let refuse = |at, why: String| Err(ZoneError { at, why });
        let begin = text.len() - text.trim_ascii_start().len();
        let name = text.trim_ascii();
        if name.is_empty() {
            return refuse(0, "the zone is empty; write a name, such as Europe/Prague, or UTC".into());
        }
        if name.len() > ZONE_BYTES_MAX {
            // Only as far as it is ASCII, or the place would be no column.
            let at = name.bytes().take(ZONE_BYTES_MAX).take_while(u8::is_ascii).count();
            return refuse(begin + at, format!("the zone has more than {ZONE_BYTES_MAX} bytes"));
        }
        if let Some((at, c)) = name.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
            let why = match c {
                ' ' => format!("no zone has a blank in it; the nearest is {}", zone_table::near(name)),
                _ => format!("`{}` is in no zone; they have plain letters, digits and signs", c.escape_debug()),
            };
            return refuse(begin + at, why);
        }
        let known = zone_table::find(name);
        let proper = known.as_ref().map_or(name, |(proper, _)| proper);
        // New zones are not in the table, but lie in a folder. Those that do not are aliases of the
        // host's own zone, which may change under a trigger.
        if (known.is_some() || is_below_a_folder(name))
            && let Some(file) = zone_file::read(&zoneinfo.join(proper))
        {
            let (name, source) = (proper.to_owned(), Source::System);
            return Ok(Self { name, source, first: file.first, changes: file.changes, rule: file.rule });
        }
        let of_rule =
            |name: &str, source, rule| Self { name: name.to_owned(), source, first: 0, changes: Vec::new(), rule };
        if let Some((proper, rule)) = known {
            return Ok(of_rule(proper, Source::BuiltIn, rule));
        }
        let looks_posix = name.starts_with('<') || name.bytes().any(|c| c.is_ascii_digit() || c == b',');
        if !looks_posix || is_below_a_folder(name) {
            let near = zone_table::near(name);
            return refuse(
                begin,
                format!(
                    "there is no zone {name}; the nearest is {near}, and a POSIX string such as CST-8 does as well"
                ),
            );
        }
        let rule = zone_posix::parse(name).map_err(|e| ZoneError { at: begin + e.at, why: e.why })?;
        Ok(of_rule(name, Source::Posix, rule))
    }

    /// The zone that the bytes of a zone file describe, for tests that feed any bytes in.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn of_file(bytes: &[u8]) -> Option<Self> {
        let file = zone_file::parse(bytes)?;
        let (name, source) = ("file".to_owned(), Source::System);
        Some(Self { name, source, first: file.first, changes: file.changes, rule: file.rule })
    }

    /// Greenwich.
    pub fn utc() -> Self {
        Self { name: "UTC".into(), source: Source::BuiltIn, first: 0, changes: Vec::new(), rule: Rule::Fixed(0) }
    }

    /// As it is stored: the name as the zone data write it, or the POSIX string as given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its rules come from.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The stretch of one offset that holds this instant, in epoch seconds.
    pub fn segment_at(&self, at: i64) -> Segment {
        let next = self.changes.partition_point(|(from, _)| *from <= at);
        let last = next.checked_sub(1).and_then(|last| self.changes.get(last));
        let Some((until, _)) = self.changes.get(next) else {
            // Behind the last change the rule holds, but not before it.
            let segment = self.rule.segment_at(at);
            let from = last.map_or(segment.from, |(from, _)| segment.from.max(*from));
            return Segment { from, ..segment };
        };
        let (from, offset) = last.copied().unwrap_or((i64::MIN, self.first));
        Segment { from, until: *until, offset }
    }

    /// Seconds east of Greenwich at an instant, in epoch seconds.
    pub fn offset_at(&self, at: i64) -> i32 {
        self.segment_at(at).offset
    }
}

/// Whether it is shaped as `Area/Place`, and so that it cannot leave the folder it is looked for in.
fn is_below_a_folder(name: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"_+-/".contains(&c);
    let begins = |part: &str| part.bytes().next().is_some_and(|c| c.is_ascii_alphabetic());
    name.contains('/') && name.bytes().all(plain) && name.split('/').all(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in(text: &str) -> Result<Zone, ZoneError> {
        Zone::parse_with(text, Path::new("/nonexistent"))
    }

    #[test]
    fn names_are_kept_properly_and_posix_strings_as_given() {
        for (text, name, source) in [
            ("europe/prague\n", "Europe/Prague", Source::BuiltIn),
            ("utc", "UTC", Source::BuiltIn),
            (" <+03>-3 ", "<+03>-3", Source::Posix),
            ("CST-8", "CST-8", Source::Posix),
            ("EST5EDT", "EST5EDT", Source::BuiltIn),
            ("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0", Source::Posix),
        ] {
            let zone = built_in(text).unwrap();
            assert_eq!((zone.name(), zone.source()), (name, source));
        }
    }

    #[test]
    fn a_refusal_says_where_why_and_what_instead() {
        for (text, at, why) in [
            ("", 0, "the zone is empty"),
            ("Europe/Prag", 0, "there is no zone Europe/Prag; the nearest is Europe/Prague"),
            ("New York", 3, "no zone has a blank in it; the nearest is America/New_York"),
            ("localtime", 0, "there is no zone localtime"),
            ("posixrules", 0, "there is no zone posixrules"),
            ("../../etc/passwd", 0, "there is no zone"),
            ("/etc/localtime", 0, "there is no zone"),
            ("Europe/Prág", 9, "`á` is in no zone"),
            ("CET-1CEST", 9, "when summer time begins and ends is missing"),
            ("CET-1CEST,M3.5.0", 16, "`,` and when summer time ends must follow"),
            ("CET-1CEST,M13.5.0,M10.5.0", 11, "a month must stand here, 1 to 12"),
            ("CET-25", 4, "the hours behind Greenwich (Shanghai: -8) must stand here, 0 to 24"),
            ("+08:00", 0, "three letters or more must stand here"),
            ("<+08-8", 6, "the name that begins with `<` must end with `>`"),
            ("CST-8 ,", 5, "no zone has a blank"),
        ] {
            let error = built_in(text).unwrap_err();
            assert!(error.at == at && error.why.starts_with(why), "{text:?}: {error:?}");
        }
        assert_eq!(built_in(&"A".repeat(200)).unwrap_err().at, ZONE_BYTES_MAX);
    }

    #[test]
    fn a_name_cannot_leave_the_zone_data() {
        for name in ["a/../b", "/a/b", "a//b", "a/.b", "a/b/", "a\\b"] {
            assert!(!is_below_a_folder(name), "{name}");
        }
        assert!(is_below_a_folder("America/Argentina/Buenos_Aires") && is_below_a_folder("Etc/GMT+5"));
    }
}
