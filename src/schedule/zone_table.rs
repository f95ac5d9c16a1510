//! The built-in table: today's rule of every IANA zone, for machines without zone data. It knows
//! the present and the future as far as anybody does, and nothing of the past. Text and search cost
//! 11 KiB; whole zone files would take 130.

use super::zone_posix::{self, Rule};
use crate::model::nearest::nearest;

/// Lines `RULE NAME...`.
const ZONES: &str = include_str!("zones.txt");

fn lines() -> impl Iterator<Item = (&'static str, std::str::Split<'static, char>)> {
    let lines = ZONES.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(rule, names)| (rule, names.split(' ')))
}

/// The name as it is written properly, and its rule; the case of letters does not matter.
pub fn find(name: &str) -> Option<(&'static str, Rule)> {
    let (rule, name) =
        lines().find_map(|(rule, mut names)| Some((rule, names.find(|known| known.eq_ignore_ascii_case(name))?)))?;
    Some((name, zone_posix::parse(rule).ok()?))
}

/// The name this one was probably meant to be.
pub fn near(name: &str) -> &'static str {
    let typed = name.to_ascii_lowercase();
    let all = || lines().flat_map(|(_, names)| names);
    // A city alone, or below the wrong continent, is nearer to itself than to any other name.
    let city = |name: &'static str| name.rsplit('/').next().unwrap_or(name);
    let meant = typed.rsplit('/').next().unwrap_or(&typed).replace(' ', "_");
    if let Some(found) = all().find(|name| city(name).eq_ignore_ascii_case(&meant)) {
        return found;
    }
    nearest(name, all()).unwrap_or("UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_rule_that_can_be_read_and_no_name_stands_twice() {
        let mut all = Vec::new();
        for (rule, names) in lines() {
            assert!(zone_posix::parse(rule).is_ok(), "{rule}");
            all.extend(names);
        }
        assert_eq!(all.len(), 597);
        assert!(all.iter().all(|name| !name.is_empty()));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 597);
    }

    #[test]
    fn names_are_found_in_any_case_and_mistyped_ones_have_a_neighbour() {
        assert_eq!(find("europe/prague").map(|(name, _)| name), Some("Europe/Prague"));
        assert_eq!(find("EST5EDT").map(|(name, _)| name), Some("EST5EDT"));
        assert_eq!(find("Factory"), None);
        for (typed, meant) in [
            ("Europe/Prag", "Europe/Prague"),
            ("shanghai", "Asia/Shanghai"),
            ("America/Lord_Howe", "Australia/Lord_Howe"),
            ("Asia/Sanghai", "Asia/Shanghai"),
        ] {
            assert_eq!(near(typed), meant);
        }
    }
}
