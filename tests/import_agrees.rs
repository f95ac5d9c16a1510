//! What crond would have run at a time, and what the imported triggers run, agree: crontabs of routers,
//! read by the real binary, against a crond of the test's own that looks at every minute. It is written
//! from crontab(5), the main loop of Vixie's cron and busybox's miscutils/crond.c, and shares nothing
//! with the program but the zones.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use qinglet::schedule::civil::{Date, clock_text, parse_rfc3339, weekday as weekday_of};
use qinglet::schedule::cron::Cron;
use qinglet::schedule::next::next_after;
use qinglet::schedule::zone::Zone;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::Bench;

/// One line as a crond holds it.
struct Row {
    line: usize,
    fields: [Vec<bool>; 5],
    /// Vixie: day of month or day of week begins with a star.
    both_days: bool,
    /// Vixie: minute or hour begins with a star, so that real time counts.
    wild: bool,
    zone: Zone,
}

const LOW: [usize; 5] = [0, 0, 1, 1, 0];
const HIGH: [usize; 5] = [59, 23, 31, 12, 7];
const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
const WEEKDAYS: &str = "sunmontuewedthufrisat";

fn name(text: &str, names: &str) -> Option<usize> {
    let text = text.to_lowercase();
    (0..names.len() / 3).find(|at| names[at * 3..at * 3 + 3] == text)
}

/// `get_list` and `get_range` of Vixie's cron.
fn vixie_field(at: usize, text: &str) -> Vec<bool> {
    let number = |text: &str| -> usize {
        match at {
            3 => name(text, MONTHS).map(|month| month + 1),
            4 => name(text, WEEKDAYS),
            _ => None,
        }
        .unwrap_or_else(|| text.parse().unwrap())
    };
    let mut bits = vec![false; 64];
    for item in text.split(',') {
        let (range, step) = item.split_once('/').unwrap_or((item, "1"));
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (LOW[at], HIGH[at]),
            Some((first, last)) => (number(first), number(last)),
            None => (number(range), number(range)),
        };
        let mut next = first;
        while next <= last {
            bits[next] = true;
            next += step.parse::<usize>().unwrap();
        }
    }
    if at == 4 && (bits[0] || bits[7]) {
        bits[0] = true;
        bits[7] = true;
    }
    bits
}

/// `ParseField` of busybox, with its loop as it is. Its months count from 0.
fn busybox_field(at: usize, text: &str) -> Vec<bool> {
    let modulus = [60, 24, 32, 12, 7][at];
    // Its newest version knows 7 as little as its first; it is Sunday to everybody who writes it.
    let sunday = |item: &str| match item {
        "7" => "0".to_owned(),
        item => item.strip_suffix("-7").map_or(item.to_owned(), |first| format!("{first}-0")),
    };
    let text = if at == 4 { text.split(',').map(sunday).collect::<Vec<_>>().join(",") } else { text.to_owned() };
    let mut ary = vec![false; modulus];
    for item in text.split(',') {
        let (range, skip) = item.split_once('/').unwrap_or((item, "1"));
        let skip: i64 = skip.parse().unwrap();
        let number = |text: &str| -> i64 {
            let named = match at {
                3 => name(text, MONTHS),
                4 => name(text, WEEKDAYS),
                _ => None,
            };
            named.map_or_else(|| text.parse::<i64>().unwrap() - i64::from(at == 3), |named| named as i64)
        };
        let (mut n1, n2) = match range.split_once('-') {
            _ if range == "*" => (0, modulus as i64 - 1),
            Some((first, last)) => (number(first), number(last)),
            None => (number(range), number(range)),
        };
        let (mut s0, mut failsafe) = (1, 1024);
        n1 -= 1;
        loop {
            n1 = (n1 + 1) % modulus as i64;
            s0 -= 1;
            if s0 == 0 {
                ary[n1 as usize] = true;
                s0 = skip;
            }
            failsafe -= 1;
            assert!(failsafe > 0, "busybox cannot read {text}");
            if n1 == n2 {
                break;
            }
        }
    }
    ary
}

/// `FixDayDow` of busybox.
fn fix_day_dow(days: &mut Vec<bool>, dow: &mut Vec<bool>) {
    let (week_used, days_used) = (dow.contains(&false), days.contains(&false));
    if week_used != days_used {
        let fixed = if week_used { days } else { dow };
        *fixed = vec![false; fixed.len()];
    }
}

fn rows(text: &str, system: bool, busybox: bool, host: &str) -> Vec<Row> {
    let mut zone = Zone::parse(host).unwrap();
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words[0].starts_with('#') || words[0] == "@reboot" {
            continue;
        }
        if words[0].starts_with("CRON_TZ") {
            zone = Zone::parse(line.split_once('=').unwrap().1.trim().trim_matches('"')).unwrap();
        }
        if !words[0].starts_with('@') && !words[0].starts_with(|c: char| c.is_ascii_digit() || c == '*') {
            continue;
        }
        let fields = match words[0] {
            "@hourly" => ["0", "*", "*", "*", "*"],
            "@daily" | "@midnight" => ["0", "0", "*", "*", "*"],
            "@weekly" => ["0", "0", "*", "*", "0"],
            "@monthly" => ["0", "0", "1", "*", "*"],
            "@yearly" | "@annually" => ["0", "0", "1", "1", "*"],
            _ => [words[0], words[1], words[2], words[3], words[4]],
        };
        assert!(!system || words.len() > 6, "{line}");
        let mut sets =
            std::array::from_fn(|at| if busybox { busybox_field(at, fields[at]) } else { vixie_field(at, fields[at]) });
        if busybox {
            let [_, _, days, _, dow] = &mut sets;
            fix_day_dow(days, dow);
        }
        rows.push(Row {
            line: at + 1,
            fields: sets,
            both_days: fields[2].starts_with('*') || fields[4].starts_with('*'),
            wild: fields[0].starts_with('*') || fields[1].starts_with('*'),
            zone: zone.clone(),
        });
    }
    rows
}

impl Row {
    /// Whether it is one of the line's minutes; a clock's minutes are counted as if it stood at UTC.
    fn matches(&self, clock: i64, busybox: bool) -> bool {
        let (date, minute_of_day) = (clock.div_euclid(1440), clock.rem_euclid(1440));
        let (at, hour, minute) = (Date::of_days(date), minute_of_day / 60, minute_of_day % 60);
        let [minutes, hours, days, months, dow] = &self.fields;
        let (day, weekday) = (days[at.day as usize], dow[weekday_of(date) as usize]);
        let on = if !busybox && self.both_days { day && weekday } else { day || weekday };
        minutes[minute as usize] && hours[hour as usize] && months[at.month as usize - usize::from(busybox)] && on
    }

    fn clock(&self, minute: i64) -> i64 {
        let offset = self.zone.offset_at(minute * 60);
        minute + i64::from(offset) / 60
    }

    /// The minutes at which crond starts it.
    fn fires(&self, from: i64, to: i64, busybox: bool) -> BTreeSet<i64> {
        let mut fires = BTreeSet::new();
        let mut virtual_time = self.clock(from - 1);
        for minute in from..to {
            let clock = self.clock(minute);
            if busybox || self.wild {
                if self.matches(clock, busybox) {
                    fires.insert(minute);
                }
                continue;
            }
            // Fixed times: what the clock went over is made up for at once, what it repeats is over.
            while virtual_time < clock {
                virtual_time += 1;
                if self.matches(virtual_time, busybox) {
                    fires.insert(minute);
                }
            }
        }
        fires
    }
}

fn minute(text: &str) -> i64 {
    parse_rfc3339(&format!("{text}T00:00:00Z")).unwrap() / 60_000
}

/// Days, among them both changes of the clocks in Prague, Los Angeles and on Lord Howe.
const WINDOWS: [(&str, i64); 8] = [
    ("2026-01-30", 5),
    ("2026-03-07", 3),
    ("2026-03-28", 3),
    ("2026-04-04", 2),
    ("2026-10-03", 3),
    ("2026-10-24", 3),
    ("2027-12-30", 9),
    ("2028-02-27", 4),
];

fn agree(name: &str) {
    let bench = Bench::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/crontabs").join(name);
    let me = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let text = fs::read_to_string(path).unwrap();
    // Whoever runs the tests imports his own lines; his name stands where root's does.
    let text = text.replace(" root ", &format!(" {} ", me.trim())).replace("\troot\t", &format!("\t{}\t", me.trim()));
    let file = bench.root().join(name);
    fs::write(&file, &text).unwrap();
    let options: Vec<&str> =
        text.lines().next().unwrap().strip_prefix("# import:").unwrap().split_whitespace().collect();
    let given = [&["import", "crontab", file.to_str().unwrap(), "--dry-run"][..], &options].concat();
    let taken: Vec<Value> =
        bench.json_lines(&given).into_iter().filter(|row| row["trigger"]["config"]["expression"].is_string()).collect();
    let host = qinglet::schedule::host_zone::read().zone;
    let busybox = options.contains(&"--busybox");
    let rows = rows(&text, options.contains(&"--system"), busybox, &host);
    assert_eq!(rows.len(), taken.len(), "{name}: as many lines");
    let mut count = 0;
    for (row, ours) in rows.iter().zip(&taken) {
        assert_eq!(ours["line"], row.line, "{name}");
        let config = &ours["trigger"]["config"];
        let cron = Cron::parse(config["expression"].as_str().unwrap()).unwrap();
        let zone = Zone::parse(config["timezone"].as_str().unwrap()).unwrap();
        for (day, days) in WINDOWS {
            let (from, to) = (minute(day), minute(day) + days * 1440);
            let changes = zone.segment_at(from * 60).until / 60 < to;
            // There ours is otherwise on purpose; what the output says of it is another test.
            let told = ours["notes"].to_string().contains("skips or doubles it");
            if changes && (busybox || told && row.wild) {
                continue;
            }
            let later = |at: &i64| next_after(&cron, &zone, *at).filter(|at| *at < to * 60_000);
            let got: BTreeSet<i64> =
                std::iter::successors(later(&(from * 60_000 - 1)), later).map(|ms| ms / 60_000).collect();
            let want = row.fires(from, to, busybox);
            let odd: Vec<String> = got.symmetric_difference(&want).take(5).map(|m| clock_text(m * 60)).collect();
            assert!(odd.is_empty(), "{name} line {}, {}: only one of both at {odd:?}", row.line, config["expression"]);
            count += got.len();
        }
    }
    assert!(count > 0, "{name}: nothing ever ran");
}

#[test]
fn crontabs_of_busybox_routers_run_when_busybox_would_run_them() {
    ["openwrt.txt", "asuswrt-merlin.txt"].into_iter().for_each(agree);
}

#[test]
fn crontabs_with_a_user_column_run_when_cron_would_run_them() {
    ["pihole.txt", "certbot.txt", "debian.txt"].into_iter().for_each(agree);
}

#[test]
fn crontabs_of_a_user_run_when_cron_would_run_them_through_changes_of_the_clocks_too() {
    ["entware.txt", "traffic.txt", "zones.txt"].into_iter().for_each(agree);
}

#[test]
fn every_crontab_of_the_table_is_compared() {
    let source = include_str!("import_agrees.rs");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/crontabs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "{name}");
    }
}
