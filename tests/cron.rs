//! What is due next: the golden table, and what must hold for any expression in any zone.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod support;

use proptest::prelude::*;
use qinglet::schedule::civil::{clock_text, offset_text, parse_rfc3339};
use qinglet::schedule::cron::Cron;
use qinglet::schedule::next::{fires, next_after};
use qinglet::schedule::zone::{Source, Zone};
use std::collections::BTreeSet;
use std::path::Path;

/// A folder without zone data.
const NOWHERE: &str = "/nonexistent";
/// From here on the built-in table's rules hold, and the golden table goes by them: what a machine's
/// zone data say about the future may be newer.
const TODAY: &str = "2027";

fn shown(zone: &Zone, at_ms: i64) -> String {
    let at = at_ms / 1000;
    let offset = zone.offset_at(at);
    clock_text(at + i64::from(offset)).replace(' ', "T") + &offset_text(offset)
}

#[test]
fn the_golden_table_holds() {
    let table = include_str!("data/cron_golden.txt");
    let (mut rows, mut unproven, mut wrong) = (0, 0, Vec::new());
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [expression, name, after, expected, _] = parts[..] else { panic!("{line}") };
        let folder = if after < TODAY { "/usr/share/zoneinfo" } else { NOWHERE };
        let zone = Zone::parse_with(name, Path::new(folder)).unwrap();
        if after < TODAY && zone.source() == Source::BuiltIn && name != "UTC" {
            unproven += 1;
            continue;
        }
        rows += 1;
        let due = fires(&Cron::parse(expression).unwrap(), &zone, parse_rfc3339(after).unwrap(), 5);
        let due: Vec<String> = due.into_iter().map(|at_ms| shown(&zone, at_ms)).collect();
        if due.join(" ") != expected {
            wrong.push(format!("{line}\n    got {}", due.join(" ")));
        }
    }
    if unproven > 0 {
        support::skip("the_golden_table_holds", &format!("{unproven} rows need history: no /usr/share/zoneinfo"));
    }
    assert!(rows + unproven >= 300, "{rows} rows");
    assert!(wrong.is_empty(), "{} of {rows}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_system_and_the_table_agree_where_the_rules_have_not_changed() {
    let at = parse_rfc3339("2030-01-01T00:00:00Z").unwrap();
    for name in ["Europe/Prague", "America/New_York", "Australia/Lord_Howe", "Asia/Shanghai", "Pacific/Auckland"] {
        let (zone, table) = (Zone::parse(name).unwrap(), Zone::parse_with(name, Path::new(NOWHERE)).unwrap());
        let cron = Cron::parse("17 * * * *").unwrap();
        assert_eq!(fires(&cron, &zone, at, 9000), fires(&cron, &table, at, 9000), "{name}");
    }
}

#[test]
fn the_longest_searches_end_and_the_years_do() {
    let (utc, prague) = (Zone::utc(), Zone::parse("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
    // Never: the hour is skipped every year.
    let skipped = Zone::parse("AAA0BBB,J60/0,J300/2").unwrap();
    let never = Cron::parse("0 */24 1 3 *").unwrap();
    let rare = Cron::parse("0 0 29 2 */7").unwrap();
    let last = parse_rfc3339("2199-12-31T23:59:59Z").unwrap();
    for _ in 0..100 {
        assert_eq!(next_after(&never, &skipped, 0), None);
        let due = fires(&rare, &prague, 0, 99);
        assert_eq!(due.len(), 8, "1976 to 2184");
    }
    assert_eq!(next_after(&Cron::parse("* * * * * *").unwrap(), &utc, last - 1), Some(last));
    for zone in [&utc, &prague, &Zone::parse("EST5").unwrap()] {
        for expression in ["* * * * * *", "0 0 1 1 *"] {
            let cron = Cron::parse(expression).unwrap();
            assert_eq!(next_after(&cron, zone, last), None);
            assert_eq!(next_after(&cron, zone, i64::MAX), None);
            assert!(next_after(&cron, zone, i64::MIN).is_some_and(|at| at >= 0));
        }
    }
    assert_eq!(next_after(&Cron::parse("* * * * * *").unwrap(), &utc, -1), Some(0));
    assert_eq!(next_after(&Cron::parse("* * * * * *").unwrap(), &utc, 999), Some(1000));
    assert_eq!(next_after(&Cron::parse("* * * * * *").unwrap(), &utc, 1000), Some(2000));
}

/// Only one file may ask the host for its zone; a trigger's own zone must not lead there.
#[test]
fn nothing_but_the_default_looks_at_the_hosts_zone() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schedule");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        for word in ["/etc/", "env::", "localtime"] {
            let asks = code.clone().any(|line| line.contains(word));
            assert!(!asks || path.ends_with("host_zone.rs"), "{} has {word}", path.display());
        }
    }
}

/// Zones with everything that offsets do: both hemispheres, half hours, negative summer time, turns
/// at midnight and on the day before, a day that was skipped, two turns within a day.
const ZONES: &[&str] = &[
    "UTC",
    "CST-8",
    "Europe/Prague",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "IST-1GMT0,M10.5.0,M3.5.0/1",
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
    "AAA3BBB-20,J60/0,J61/0",
    "AAA0BBB-1,100/0,100/5",
    "EST5EDT,0/0,J365/25",
];

/// Expressions whose days come often, so that a span of days shows something.
fn expression() -> impl Strategy<Value = String> {
    let one_of = |words: &'static [&'static str]| proptest::sample::select(words);
    (
        one_of(&["", "", "", "0 ", "30 ", "*/20 "]),
        one_of(&["*", "*/7", "0", "30", "0,15,59", "10-50/20", "45"]),
        one_of(&["*", "*/5", "0", "1", "2", "1-3", "0-23", "23,0,2", "22-23"]),
        one_of(&["*", "*", "*/2", "1-31", "30,31", "1-15"]),
        one_of(&["*", "*", "MAR,OCT,DEC", "1-12/3"]),
        one_of(&["*", "*", "0", "6-7", "1-5", "*/2"]),
    )
        .prop_map(|(second, minute, hour, day, month, week)| format!("{second}{minute} {hour} {day} {month} {week}"))
}

/// The next change of offset after an instant, or the instant itself.
fn change(zone: &Zone, at: i64) -> i64 {
    let until = zone.segment_at(at).until;
    if until == i64::MAX { at } else { until }
}

/// What the rules say, one second or minute after the other: the instants in (`after`, `until`] at
/// which the expression is due.
fn step_by_step(cron: &Cron, zone: &Zone, after: i64, until: i64, step: i64) -> BTreeSet<i64> {
    let mut segment = zone.segment_at(after - 3 * 86_400);
    let mut local = |at: i64| {
        if at >= segment.until {
            segment = zone.segment_at(at);
        }
        at + i64::from(segment.offset)
    };
    let mut due = BTreeSet::new();
    let mut reached = i64::MIN;
    for at in ((after - 3 * 86_400)..=until).step_by(step as usize) {
        let now = local(at);
        if at > after {
            let is_due = if cron.is_fixed() {
                (reached + step..=now).step_by(step as usize).any(|passed| cron.matches(passed))
            } else {
                cron.matches(now)
            };
            if is_due {
                due.insert(at);
            }
        }
        reached = reached.max(now);
    }
    due
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_instant_is_skipped_and_none_is_invented(
        expression in expression(),
        zone in proptest::sample::select(ZONES),
        at in 0_i64..7_200_000_000,
        before in -2 * 3600_i64..7 * 3600,
    ) {
        let (cron, zone) = (Cron::parse(&expression).unwrap(), Zone::parse(zone).unwrap());
        let after = (change(&zone, at) - before).max(4 * 86_400) / 60 * 60;
        // Seconds are walked through only where there are some to find.
        let odd = zone.offset_at(after) % 60 != 0 || zone.offset_at(after + 86_400) % 60 != 0;
        let (step, hours) = if odd || expression.split(' ').count() == 6 { (1, 8) } else { (60, 60) };
        let until = after + hours * 3600;
        let expected = step_by_step(&cron, &zone, after, until, step);
        let mut due = BTreeSet::new();
        let mut last = after * 1000;
        while let Some(next) = next_after(&cron, &zone, last).filter(|next| *next <= until * 1000) {
            due.insert(next / 1000);
            last = next;
        }
        prop_assert_eq!(due, expected, "{} in {} after {}", expression, zone.name(), after);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn next_is_later_and_every_fire_matches_or_ends_a_gap(
        expression in expression(),
        zone in proptest::sample::select(ZONES),
        after in -1000_i64..7_200_000_000_000,
    ) {
        let (cron, zone) = (Cron::parse(&expression).unwrap(), Zone::parse(zone).unwrap());
        let mut last = after;
        for next in fires(&cron, &zone, after, 20) {
            prop_assert!(next > last && next >= 0 && next % 1000 == 0, "{expression}: {last} {next}");
            // From anywhere in between the same is next.
            prop_assert_eq!(next_after(&cron, &zone, last + (next - last) / 2), Some(next));
            prop_assert_eq!(next_after(&cron, &zone, next - 1), Some(next));
            let at = next / 1000;
            let (before, now) = (zone.offset_at(at - 1), zone.offset_at(at));
            let ends_a_gap = cron.is_fixed() && now > before;
            prop_assert!(cron.matches(at + i64::from(now)) || ends_a_gap, "{expression} at {at}");
            last = next;
        }
    }

    #[test]
    fn no_text_brings_the_parsers_down(
        text in prop_oneof![
            ".{0,40}",
            "[0-9*,/ -]{0,30}",
            "[*?0-9,/#LW@JANMONjan \t\n-]{0,40}",
            "(\\*|[0-9]{1,2}|[0-9]-[0-9]|\\*/[0-9])( (\\*|[0-9]{1,2}|[0-9]-[0-9]|\\*/[0-9])){4,5}",
            "[A-Za-z<>+0-9:,./ MJ-]{0,40}",
            "[A-Z]{3}-?[0-9]{1,2}[A-Z]{3},[MJ]?[0-9.]{1,6}(/-?[0-9]{1,3})?,[MJ]?[0-9.]{1,6}",
            "(Europe|Etc|/)/[A-Za-z._/-]{0,12}",
        ],
        at in any::<i64>(),
    ) {
        match Cron::parse(&text) {
            Ok(cron) => prop_assert_eq!(Cron::parse(cron.text()), Ok(cron)),
            Err(error) => prop_assert!(error.at <= text.len() && !error.why.is_empty()),
        }
        match Zone::parse(&text) {
            Ok(zone) => {
                let again = Zone::parse(zone.name());
                prop_assert_eq!(again.as_ref(), Ok(&zone));
                next_after(&Cron::parse("0 3 * * *").unwrap(), &zone, at);
            }
            Err(error) => prop_assert!(error.at <= text.len() && !error.why.is_empty()),
        }
    }
}
