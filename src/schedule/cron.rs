//! Cron expressions: read once, refused with the place and the reason (design D10, crontab(5)).
//!
//! Five fields (minute, hour, day of month, month, day of week), or six with a leading second. A field
//! is a list of `*`, numbers and ranges, each but a number with an optional step; months and weekdays
//! may be English three-letter names; 0 and 7 are both Sunday. Days go by Vixie's rule: when day of
//! month or day of week begins with a star both must match, else one is enough.
//!
//! The local date and time that matches next is found field by field, never minute by minute.

use crate::model::limits::CRON_BYTES_MAX;
use jiff::civil::{Date, DateTime, Time};
use std::fmt;

/// A checked expression. There is a date on which it comes due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Day of month or day of week begins with a star: both must match.
    both_days: bool,
    /// The hour does not begin with a star: such times are the clock's, not real time's.
    fixed_hours: bool,
}

/// Why an expression was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// The byte of the text where the fault is, from 0.
    pub at: usize,
    /// The rule that is broken, and what to write instead.
    pub why: String,
}

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.why)
    }
}

struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const SECOND: Field = Field { name: "the second", least: 0, most: 59, names: &[] };
const MINUTE: Field = Field { name: "the minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "the hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "the day of month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field {
    name: "the month",
    least: 1,
    most: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Field =
    Field { name: "the day of week", least: 0, most: 7, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Dates repeat after this many years; what does not come in them never comes.
const CYCLE_YEARS: i16 = 400;

/// The short forms of crontab(5) as fields. They are for people who type them; what is stored is
/// always fields.
const SHORT: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Writes a short form out; anything else stays as it is.
pub fn expand(text: &str) -> &str {
    SHORT.iter().find(|(short, _)| *short == text.trim()).map_or(text, |(_, fields)| fields)
}

fn wrong<T>(at: usize, why: impl Into<String>) -> Result<T, CronError> {
    Err(CronError { at, why: why.into() })
}

impl Cron {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.len() > CRON_BYTES_MAX {
            return wrong(CRON_BYTES_MAX, format!("longer than {CRON_BYTES_MAX} bytes"));
        }
        let words = words(text);
        if let Some((at, word)) = words.first()
            && word.starts_with('@')
        {
            return match expand(word) {
                fields if fields != *word => wrong(*at, format!("write it out: {fields}")),
                _ => wrong(*at, format!("{} is not known here", word.escape_debug())),
            };
        }
        let (seconds, rest) = match words.as_slice() {
            [_, _, _, _, _] => (None, &words[..]),
            [seconds, rest @ ..] if rest.len() == 5 => (Some(seconds), rest),
            _ => {
                let at = words.get(6).map_or(text.trim_end().len(), |(at, _)| *at);
                let count = words.len();
                let why = format!(
                    "there are {count} fields; there must be 5 (minute hour day month weekday) or 6 with a second first"
                );
                return wrong(at, why);
            }
        };
        let of = |at: usize, field: &Field| set(rest[at].0, rest[at].1, field);
        let (days_at, days) = (rest[2].0, rest[2].1);
        let cron = Self {
            seconds: seconds.map_or(Ok(1), |(at, word)| set(*at, word, &SECOND))?,
            minutes: of(0, &MINUTE)?,
            hours: of(1, &HOUR)?,
            days: of(2, &DAY)?,
            months: of(3, &MONTH)?,
            weekdays: of(4, &WEEKDAY)?,
            both_days: days.starts_with('*') || rest[4].1.starts_with('*'),
            fixed_hours: !rest[1].1.starts_with('*'),
        };
        let Ok(begin) = Date::new(2000, 1, 1) else { return wrong(0, "") };
        if cron.date_from(begin).is_none() {
            return wrong(days_at, "no such day comes in any of these months");
        }
        Ok(cron)
    }

    /// Whether its times are the clock's: what a clock change skips comes right after it, and what it
    /// repeats comes once. Otherwise real time counts.
    pub const fn is_fixed(&self) -> bool {
        self.fixed_hours
    }

    /// Whether it is due at this local time.
    pub fn matches(&self, at: DateTime) -> bool {
        at.subsec_nanosecond() == 0
            && has(self.seconds, at.second())
            && has(self.minutes, at.minute())
            && has(self.hours, at.hour())
            && self.is_on(at.date())
    }

    /// The first local date and time from this one on that matches, itself included, in whole seconds.
    pub fn local_from(&self, from: DateTime) -> Option<DateTime> {
        let mut date = self.date_from(from.date())?;
        let mut time = if date == from.date() { self.time_from(from.time()) } else { None };
        if time.is_none() && date == from.date() {
            date = self.date_from(date.tomorrow().ok()?)?;
        }
        if time.is_none() {
            time = self.time_from(Time::midnight());
        }
        Some(date.to_datetime(time?))
    }

    fn is_on(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        has(self.months, date.month()) && if self.both_days { day && weekday } else { day || weekday }
    }

    /// The first date from this one on that matches. Months that do not are passed over whole.
    fn date_from(&self, from: Date) -> Option<Date> {
        let mut date = from;
        while date.year() <= from.year().saturating_add(CYCLE_YEARS) {
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.is_on(date) {
                return Some(date);
            } else {
                date = date.tomorrow().ok()?;
            }
        }
        None
    }

    /// The first time of a day from this one on that matches.
    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        // Whole seconds only: what is later than this second begins with the next.
        let second = if from.subsec_nanosecond() > 0 { second + 1 } else { second };
        let at = |hour: i8, minute: i8, second: i8| Time::new(hour, minute, second, 0).ok();
        let (first_minute, first_second) = (next(self.minutes, 0)?, next(self.seconds, 0)?);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = next(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return at(hour, minute, first_second);
            }
        }
        at(next(self.hours, hour + 1)?, first_minute, first_second)
    }
}

fn has(set: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| set >> number & 1 == 1)
}

/// The least member from this number on.
fn next(set: u64, from: i8) -> Option<i8> {
    let rest = set.checked_shr(u32::try_from(from).ok()?)?;
    if rest == 0 { None } else { i8::try_from(rest.trailing_zeros()).ok()?.checked_add(from) }
}

/// The words of a text and where each begins.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut rest = 0;
    for word in text.split_ascii_whitespace() {
        let at = text[rest..].find(word).map_or(rest, |found| rest + found);
        words.push((at, word));
        rest = at + word.len();
    }
    words
}

/// Reads one field into the set of its numbers.
fn set(at: usize, word: &str, field: &Field) -> Result<u64, CronError> {
    let mut set = 0;
    let mut place = at;
    for item in word.split(',') {
        set |= part(place, item, field)?;
        place += item.len() + 1;
    }
    // Both are Sunday.
    if field.most == 7 && set >> 7 & 1 == 1 {
        set = set & !(1 << 7) | 1;
    }
    Ok(set)
}

fn part(at: usize, item: &str, field: &Field) -> Result<u64, CronError> {
    let name = field.name;
    if item.is_empty() {
        return wrong(at, format!("{name} has an empty place in its list"));
    }
    if let Some(odd) = item.find(['?', '#', 'L', 'W']).filter(|odd| !item[*odd..].chars().all(char::is_alphabetic)) {
        return wrong(
            at + odd,
            format!("`{}` is not known here; {name} takes numbers, lists, ranges and steps", &item[odd..=odd]),
        );
    }
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (item, None),
    };
    let step_at = at + range.len() + 1;
    if range.is_empty() {
        return wrong(at, format!("{name} has a step of nothing; write */{}", step.unwrap_or_default()));
    }
    let (first, last) = if range == "*" {
        (field.least, if field.most == 7 { 6 } else { field.most })
    } else if let Some((first, last)) = range.split_once('-') {
        let low = number(at, first, field)?;
        let mut high = number(at + first.len() + 1, last, field)?;
        if field.most == 7 && high == 0 && low > 0 {
            high = 7;
        }
        if low > high {
            return wrong(at, format!("{name} has a range that ends before it begins; write two ranges"));
        }
        (low, high)
    } else {
        let only = number(at, range, field)?;
        if step.is_some() {
            let why =
                format!("{name} has a step of one number; write {only}-{}/{}", field.most, step.unwrap_or_default());
            return wrong(at, why);
        }
        (only, only)
    };
    let step = match step {
        None => 1,
        Some(text) => match text.parse::<u32>() {
            Ok(step) if (1..=field.most).contains(&step) && !text.starts_with('+') => step,
            _ => return wrong(step_at, format!("a step of {name} must be 1 to {}", field.most)),
        },
    };
    let numbers = (first..=last).step_by(usize::try_from(step).unwrap_or(1));
    Ok(numbers.fold(0, |set, number| set | 1 << number))
}

fn number(at: usize, text: &str, field: &Field) -> Result<u32, CronError> {
    let Field { name, least, most, names } = field;
    let named = names.iter().position(|known| known.eq_ignore_ascii_case(text));
    if let Some(place) = named.and_then(|place| u32::try_from(place).ok()) {
        return Ok(place + least);
    }
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    match number {
        Some(number) if (*least..=*most).contains(&number) => Ok(number),
        Some(_) => wrong(at, format!("{name} must be {least} to {most}")),
        None if names.is_empty() => {
            wrong(at, format!("{name} must be {least} to {most}, * or a list, range or step of them"))
        }
        None => {
            let (first, last) = (names.first().unwrap_or(&""), names.last().unwrap_or(&""));
            wrong(at, format!("{name} must be {least} to {most} or {first} to {last}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, String) {
        let error = Cron::parse(text).map(drop).unwrap_err();
        (error.at, error.why)
    }

    fn from(cron: &str, date: (i16, i8, i8), time: (i8, i8, i8)) -> String {
        let at = Date::new(date.0, date.1, date.2).unwrap().at(time.0, time.1, time.2, 0);
        Cron::parse(cron).unwrap().local_from(at).unwrap().to_string()
    }

    #[test]
    fn what_is_refused_is_refused_at_its_place_with_what_to_write() {
        for (text, at, why) in [
            ("/6 * * * *", 0, "write */6"),
            ("* * ? * *", 4, "`?` is not known here"),
            ("60 * * * *", 0, "the minute must be 0 to 59"),
            ("0 24 * * *", 2, "the hour must be 0 to 23"),
            ("0 0 0 * *", 4, "the day of month must be 1 to 31"),
            ("0 0 * 13 *", 6, "the month must be 1 to 12"),
            ("0 0 * * 8", 8, "the day of week must be 0 to 7"),
            ("0 0 0 * * 7#2", 11, "`#` is not known here"),
            ("0 0 L * *", 4, "the day of month must be"),
            ("* *", 3, "there are 2 fields"),
            ("* * * * * * *", 12, "there are 7 fields"),
            ("", 0, "there are 0 fields"),
            ("@daily", 0, "write it out: 0 0 * * *"),
            ("@reboot", 0, "is not known here"),
            ("0,,5 * * * *", 2, "an empty place"),
            ("*/0 * * * *", 2, "a step of the minute must be 1 to 59"),
            ("*/60 * * * *", 2, "a step of the minute must be 1 to 59"),
            ("5/15 * * * *", 0, "write 5-59/15"),
            ("50-10 * * * *", 0, "ends before it begins"),
            ("0 0 30 2 *", 4, "no such day comes"),
            ("0 0 31 4,6,9,11 *", 4, "no such day comes"),
            ("0 0 31 2 */2", 4, "no such day comes"),
            ("0 0 * foo *", 6, "1 to 12 or jan to dec"),
            ("0 0 * * mon-fry", 12, "0 to 7 or sun to sat"),
            ("+1 * * * *", 0, "the minute must be"),
            ("\u{661} * * * *", 0, "the minute must be"),
        ] {
            let (place, words) = refused(text);
            assert!(words.contains(why), "{text}: {words}");
            assert_eq!(place, at, "{text}: {words}");
        }
        assert!(refused(&format!("{} * * * *", "0,".repeat(200))).1.contains("longer than"));
    }

    #[test]
    fn tabs_newlines_names_and_both_sundays_are_taken() {
        assert_eq!(Cron::parse("0\t3 * * *\n"), Cron::parse("0 3 * * *"));
        assert_eq!(Cron::parse("0 3 * JAN sun"), Cron::parse("0 3 * 1 7"));
        assert_eq!(Cron::parse("0 3 * * 0"), Cron::parse("0 3 * * 7"));
        assert_eq!(Cron::parse("0 3 * * 5-7"), Cron::parse("0 3 * * 0,5,6"));
        assert_eq!(Cron::parse("0 3 * * fri-sun"), Cron::parse("0 3 * * 5-7"));
        assert_eq!(Cron::parse("0 0 3 * * *"), Cron::parse("0 3 * * *"), "a leading second of 0");
        assert_eq!(expand(" @weekly "), "0 0 * * 0");
        assert_eq!(expand("0 0 * * 0"), "0 0 * * 0");
    }

    #[test]
    fn days_go_by_vixies_rule() {
        // Both restricted: one is enough.
        assert_eq!(from("0 0 13 * 5", (2026, 1, 1), (0, 0, 0)), "2026-01-02T00:00:00");
        // One begins with a star: both must match, the stepped star too.
        assert_eq!(from("0 0 */2 * 1", (2025, 1, 1), (0, 0, 0)), "2025-01-13T00:00:00");
        assert_eq!(from("0 9 1-31 * 1", (2025, 1, 1), (0, 0, 0)), "2025-01-01T09:00:00");
        assert_eq!(from("0 9 * * 1", (2025, 1, 1), (0, 0, 0)), "2025-01-06T09:00:00");
    }

    #[test]
    fn leap_days_are_found_across_a_century() {
        assert_eq!(from("0 0 29 2 *", (2096, 3, 1), (0, 0, 0)), "2104-02-29T00:00:00");
        // On a Sunday too: up to 40 years away across a century that has none.
        assert_eq!(from("0 0 29 2 */7", (2072, 1, 1), (0, 0, 0)), "2088-02-29T00:00:00");
        assert_eq!(from("0 0 29 2 */7", (2088, 3, 1), (0, 0, 0)), "2128-02-29T00:00:00");
    }

    #[test]
    fn the_time_is_found_field_by_field() {
        assert_eq!(from("30 3 * * *", (2026, 1, 1), (3, 30, 0)), "2026-01-01T03:30:00", "itself included");
        assert_eq!(from("30 3 * * *", (2026, 1, 1), (3, 30, 1)), "2026-01-02T03:30:00");
        assert_eq!(from("*/7 * * * *", (2026, 1, 1), (0, 56, 1)), "2026-01-01T01:00:00");
        assert_eq!(from("15 */6 * * *", (2026, 12, 31), (18, 16, 0)), "2027-01-01T00:15:00");
        assert_eq!(from("10,50 59 23 31 12 *", (2026, 12, 31), (23, 59, 11)), "2026-12-31T23:59:50");
    }
}
