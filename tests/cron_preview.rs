//! `trigger preview`: when an expression is due, without a daemon and without a state.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod support;

use qinglet::schedule::cron::Cron;
use qinglet::schedule::next::fires;
use qinglet::schedule::zone::Zone;
use serde_json::json;
use support::Bench;

fn preview(bench: &Bench, more: &[&str]) -> support::Output {
    let mut line = vec!["trigger", "preview"];
    line.extend(more);
    bench.cli(&line)
}

fn refused(more: &[&str]) -> String {
    let output = preview(&Bench::new(), more);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{output:?}");
    output.stderr.trim_end().trim_start_matches("qinglet: ").to_owned()
}

#[test]
fn scripts_get_what_the_scheduler_computes_and_no_state_is_made() {
    let bench = Bench::new();
    for (expression, zone, from, from_ms) in [
        ("30 2 * * *", "Europe/Prague", "2026-03-28T00:00:00Z", 1_774_656_000_000),
        ("0 */6 * * MON", "CST-8", "2026-12-01T08:00:00+08:00", 1_796_083_200_000),
        ("*/10 * * * * *", "UTC", "2026-12-01T00:00:00.500Z", 1_796_083_200_500),
    ] {
        let line = ["trigger", "preview", expression, "--zone", zone, "--from", from, "--count", "7"];
        let due = fires(&Cron::parse(expression).unwrap(), &Zone::parse(zone).unwrap(), from_ms, 7);
        assert_eq!(bench.json(&line), json!({ "fires": due }), "{expression}");
    }
    let short = bench.json(&["trigger", "preview", "@daily", "--zone", "CST-8", "--from", "1970-01-01T00:00:00Z"]);
    let day = 86_400_000_i64;
    let first = 16 * 3_600_000;
    assert_eq!(short, json!({ "fires": (0..5).map(|n| first + n * day).collect::<Vec<_>>() }));
    assert!(!bench.state().exists());
}

#[test]
fn people_get_local_time_offset_and_weekday_and_what_the_clocks_did() {
    let bench = Bench::new();
    let line = ["30 2 * * *", "--zone", "europe/prague", "--from", "2026-03-28T00:00:00Z", "--count", "3"];
    let output = preview(&bench, &line);
    assert_eq!(
        output.stdout,
        "30 2 * * * in Europe/Prague:\n\
         Sat  2026-03-28 02:30:00  +01:00\n\
         Sun  2026-03-29 03:00:00  +02:00  the clocks have skipped its time\n\
         Mon  2026-03-30 02:30:00  +02:00\n",
    );
    let output = preview(&bench, &["0 0 29 2 *", "--zone", "UTC", "--from", "2199-01-01T00:00:00Z"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "0 0 29 2 * in UTC:\n"));
    assert_eq!(output.stderr, "It is not due again before the year 2200.\n");
}

#[test]
fn a_refusal_points_gives_the_reason_and_the_way_out() {
    assert_eq!(
        refused(&["60 * * * *"]),
        "the expression \"60 * * * *\" is refused at character 1: 60 is not a minute; minutes are 0 to 59"
    );
    let never = refused(&["0 0 30 2 *", "--zone", "UTC"]);
    assert!(never.contains("is refused at character 5: no month that is given has a day 30"), "{never}");
    assert!(refused(&["@reboot"]).contains("character 1: `@reboot` is no time; make a trigger on boot"));
    assert_eq!(
        refused(&["* * * * *", "--zone", "Europe/Prag"]),
        "the zone \"Europe/Prag\" is refused at character 1: there is no zone Europe/Prag; the nearest is Europe/Prague, \
         and a POSIX string such as CST-8 does as well"
    );
    assert!(refused(&["* * * * *", "--zone", "CET-1CEST"]).contains("at character 10: when summer time begins"));
    assert!(
        refused(&["* * * * *", "--from", "tomorrow"]).starts_with("--from \"tomorrow\" is not a time; write it as")
    );
    for count in ["0", "1001", "x", "-1"] {
        let option = format!("--count={count}");
        assert!(refused(&["* * * * *", &option]).ends_with("a number from 1 to 1000 is needed"), "{count}");
    }
}

#[test]
fn the_hosts_zone_is_the_default_is_shown_and_is_no_ones_else_business() {
    let mut bench = Bench::new();
    let from = ["--from", "2022-10-29T12:00:00Z"];
    let default = preview(&bench, &[&["0 0 * * *"], &from[..]].concat()).stdout;
    assert!(default.lines().next().unwrap().contains(", the host's zone ("), "{default}");
    let own = |bench: &Bench| preview(bench, &[&["30 01 * * *", "--zone", "UTC"], &from[..]].concat()).stdout;
    let other = |bench: &Bench| preview(bench, &[&["30 01 * * *", "--zone", "Asia/Tokyo"], &from[..]].concat()).stdout;
    let before = (own(&bench), other(&bench));
    for tz in ["Europe/London", "CET-1CEST,M3.5.0,M10.5.0/3", ":nonsense", ""] {
        bench.env("TZ", tz).env("TZDIR", "/nonexistent");
        assert_eq!((own(&bench), other(&bench)), before, "{tz:?}");
        assert_eq!(preview(&bench, &[&["0 0 * * *"], &from[..]].concat()).stdout, default, "{tz:?}");
    }
}
