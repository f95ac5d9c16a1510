//! Reads cron expressions. Every refusal says where, why, and what to write instead.

use super::cron::{Cron, CronError};
use crate::model::limits::CRON_BYTES_MAX;

/// One of the six fields.
struct Field {
    /// One value of it, for messages.
    one: &'static str,
    /// All values of it, for messages.
    all: &'static str,
    low: u32,
    high: u32,
    /// Names of values, from `first` on.
    names: &'static [&'static str],
    first: u32,
}

const SECOND: Field = Field { one: "a second", all: "seconds", low: 0, high: 59, names: &[], first: 0 };
const MINUTE: Field = Field { one: "a minute", all: "minutes", low: 0, high: 59, names: &[], first: 0 };
const HOUR: Field = Field { one: "an hour", all: "hours", low: 0, high: 23, names: &[], first: 0 };
const DAY: Field =
    Field { one: "a day of the month", all: "days of the month", low: 1, high: 31, names: &[], first: 0 };
const MONTH: Field = Field {
    one: "a month",
    all: "months",
    low: 1,
    high: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    first: 1,
};
/// 7 is Sunday as well as 0.
const WEEKDAY: Field = Field {
    one: "a day of the week",
    all: "days of the week",
    low: 0,
    high: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
    first: 0,
};

/// The short forms and what they stand for. They are taken where people write (the command line, a
/// crontab), through [`expand`]; what is stored are always fields.
const SHORT_FORMS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Writes a short form such as `@hourly` out, in any case; anything else stays as it is, `@reboot`
/// included, which is no time.
pub fn expand(text: &str) -> &str {
    long_form(text.trim_ascii()).unwrap_or(text)
}

fn long_form(short: &str) -> Option<&'static str> {
    let form = SHORT_FORMS.iter().find(|(known, _)| known.eq_ignore_ascii_case(short));
    form.map(|(_, fields)| *fields)
}

fn refuse<T>(at: usize, why: impl Into<String>) -> Result<T, CronError> {
    Err(CronError { at, why: why.into() })
}

/// Reads an expression.
pub fn parse(text: &str) -> Result<Cron, CronError> {
    if text.len() > CRON_BYTES_MAX {
        // Only as far as it is ASCII, or the place would be no column.
        return refuse(
            text.bytes().take(CRON_BYTES_MAX).take_while(u8::is_ascii).count(),
            format!("the expression has more than {CRON_BYTES_MAX} bytes; use ranges and steps"),
        );
    }
    let line = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    for (at, c) in line.char_indices() {
        if !(c.is_ascii_graphic() || c == ' ' || c == '\t') {
            let c = c.escape_debug();
            return refuse(
                at,
                format!("`{c}` does not belong here; an expression is one line of plain letters, digits and `*,-/`"),
            );
        }
    }
    let fields = split(line);
    if let Some((at, short)) = fields.first().filter(|(_, field)| field.starts_with('@')) {
        return refuse(*at, short_form(short));
    }
    let (seconds, rest) = match fields.as_slice() {
        [] => return refuse(0, "the expression is empty; write five fields, such as `0 3 * * *`"),
        rest @ [_, _, _, _, _] => (None, rest),
        [seconds, rest @ ..] if rest.len() == 5 => (Some(seconds), rest),
        [_, _, _, _, _, _, (at, extra), ..] => {
            let count = fields.len();
            return refuse(
                *at,
                format!(
                    "`{extra}` is one field too many of {count}; there are five, or six with leading seconds, and no years"
                ),
            );
        }
        few => {
            let count = few.len();
            let want = "five (minute, hour, day of month, month, day of week) are needed";
            return refuse(
                line.trim_end_matches([' ', '\t']).len(),
                format!("here the expression ends after {count} of its fields; {want}"),
            );
        }
    };
    let [minute, hour, day, month, weekday] = rest else { return refuse(0, "five fields are needed") };
    let (seconds, _) = seconds.map_or(Ok((1, false)), |field| read(&SECOND, field))?;
    let (minutes, _) = read(&MINUTE, minute)?;
    let (hours, any_hour) = read(&HOUR, hour)?;
    let (days, any_day) = read(&DAY, day)?;
    let (months, _) = read(&MONTH, month)?;
    let (weekdays, any_weekday) = read(&WEEKDAY, weekday)?;
    let words: Vec<&str> = fields.iter().map(|(_, field)| *field).collect();
    let cron = Cron {
        text: words.join(" "),
        seconds,
        minutes,
        hours,
        days,
        months,
        weekdays: (weekdays | weekdays >> 7) & 0x7f,
        both_days: any_day || any_weekday,
        fixed: !any_hour,
    };
    match cron.impossible() {
        None => Ok(cron),
        Some((first, longest)) => refuse(
            day.0,
            format!(
                "no month that is given has a day {first}, so it would never be due; write a day up to {longest}, or another month"
            ),
        ),
    }
}

/// The fields and where each begins.
fn split(line: &str) -> Vec<(usize, &str)> {
    let mut fields = Vec::new();
    let mut at = 0;
    for field in line.split([' ', '\t']) {
        if !field.is_empty() {
            fields.push((at, field));
        }
        at += field.len() + 1;
    }
    fields
}

fn short_form(short: &str) -> String {
    if short.eq_ignore_ascii_case("@reboot") {
        return "`@reboot` is no time; make a trigger on boot".into();
    }
    match long_form(short) {
        Some(fields) => format!("short forms are not stored; write `{fields}` for `{short}`"),
        None => format!("there is no short form `{short}`; write five fields, such as `0 3 * * *`"),
    }
}

/// Reads a field into its bits, and whether it begins with a star.
fn read(field: &Field, (at, text): &(usize, &str)) -> Result<(u64, bool), CronError> {
    let mut scan = Scan { field, text, at: 0, base: *at };
    let mut bits = scan.item()?;
    while scan.eat(b',') {
        bits |= scan.item()?;
    }
    if scan.peek().is_some() {
        return scan.stray();
    }
    Ok((bits, text.starts_with('*')))
}

/// A place in a field.
struct Scan<'a> {
    field: &'a Field,
    text: &'a str,
    at: usize,
    /// Where the field begins in the expression.
    base: usize,
}

impl<'a> Scan<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, c: u8) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    /// Takes what satisfies the test.
    fn take(&mut self, test: fn(&u8) -> bool) -> &'a str {
        let from = self.at;
        let rest = self.text.as_bytes().get(from..).unwrap_or_default();
        self.at += rest.iter().take_while(|c| test(c)).count();
        self.text.get(from..self.at).unwrap_or_default()
    }

    fn refuse<T>(&self, at: usize, why: impl Into<String>) -> Result<T, CronError> {
        refuse(self.base + at, why)
    }

    /// `*`, `n` or `n-m`, and `/step` behind a star or a range.
    fn item(&mut self) -> Result<u64, CronError> {
        let Field { all, low, high, .. } = *self.field;
        let begin = self.at;
        let (from, to, single) = if self.eat(b'*') {
            (low, high, false)
        } else {
            let from = self.value(false)?;
            if self.eat(b'-') {
                let to = self.value(from > 0)?;
                if from > to {
                    // The seventh weekday is there to be written, not to be counted twice.
                    let last = high.min(if low == 0 && high == 7 { 6 } else { high });
                    let (head, tail) = (span(from.min(last), last), span(low, to));
                    let instead = if from > last { tail } else { format!("{head},{tail}") };
                    return self.refuse(begin, format!("{from}-{to} runs backwards; write {instead}"));
                }
                (from, to, false)
            } else {
                (from, from, true)
            }
        };
        let slash = self.at;
        if !self.eat(b'/') {
            return Ok(bits(from, to, 1));
        }
        if single {
            let step = self.take(u8::is_ascii_digit);
            let step = if step.is_empty() { "2" } else { step };
            let why = format!("a step needs a range to go through; write {from}-{high}/{step} or */{step}");
            return self.refuse(slash, why);
        }
        let at = self.at;
        let step = self.take(u8::is_ascii_digit);
        match step.parse::<u32>() {
            Ok(0) => self.refuse(at, "a step of 0 goes nowhere; write 1 or more"),
            Ok(step) => Ok(bits(from, to, step)),
            Err(_) if step.is_empty() => {
                self.refuse(at, format!("after `/` comes how many {all} each step takes, as in */2"))
            }
            // A number of ten digits steps behind everything.
            Err(_) => Ok(bits(from, to, u32::MAX)),
        }
    }

    /// A number or a name. `ends` says that it ends a range that begins behind Sunday, where Sunday
    /// is the seventh day.
    fn value(&mut self, ends: bool) -> Result<u32, CronError> {
        let Field { one, all, low, high, names, first } = *self.field;
        let at = self.at;
        let digits = self.take(u8::is_ascii_digit);
        if !digits.is_empty() {
            let value = digits.parse().unwrap_or(u32::MAX);
            if (low..=high).contains(&value) {
                return Ok(value);
            }
            let shown = digits.get(..9).unwrap_or(digits).to_owned();
            return self.refuse(at, format!("{shown} is not {one}; {all} are {low} to {high}"));
        }
        let letters = self.take(u8::is_ascii_alphabetic).to_owned();
        let name = |text: &str| names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(place) = name(&letters) {
            let value = first + place as u32;
            return Ok(if ends && value == 0 && high == 7 { high } else { value });
        }
        self.at = at;
        if letters.len() < 2 || names.is_empty() {
            return self.stray();
        }
        let short = letters.get(..3).filter(|short| name(short).is_some()).map(str::to_ascii_uppercase);
        let (begin, end) = (names.first().unwrap_or(&""), names.last().unwrap_or(&""));
        let instead = short.unwrap_or_else(|| format!("{begin} to {end}, or {low} to {high}"));
        self.refuse(at, format!("`{letters}` is not {one}; write {instead}"))
    }

    /// The refusal of what stands here, or of the end.
    fn stray<T>(&self) -> Result<T, CronError> {
        let Field { all, low, high, .. } = *self.field;
        let begins = self.at == 0 || self.text.as_bytes().get(self.at - 1) == Some(&b',');
        let why = match self.peek() {
            None => format!("a value is missing at the end of the {all}; write {low} to {high}, or `*`"),
            Some(b'?') => "`?` is not known here; write `*`".into(),
            Some(b'/') if begins => {
                let step = self.text.get(self.at + 1..).filter(|step| step.bytes().all(|c| c.is_ascii_digit()));
                format!(
                    "a step needs something to go through; write */{}",
                    step.filter(|s| !s.is_empty()).unwrap_or("2")
                )
            }
            Some(b'#') => "`#` (the n-th weekday of a month) is not known here; use the days it can fall on, \
                           such as 8-14 for the second, and let the task look at the weekday"
                .into(),
            Some(b'L' | b'l') => "`L` (the last day) is not known here; use the days it can be, such as 28-31, \
                                  and let the task look at the date"
                .into(),
            Some(b'W' | b'w') => "`W` (the nearest working day) is not known here; write days, such as 1-5".into(),
            Some(b',' | b'-') if begins => {
                format!("a value is missing before this; {all} are {low} to {high}")
            }
            Some(b'%') => "`%` belongs into a command, not into its times".into(),
            Some(c) if c.is_ascii_alphabetic() && self.field.names.is_empty() => {
                format!("{all} have no names; write {low} to {high}, or `*`")
            }
            Some(c) => {
                format!("`{}` does not belong here; values are parted by commas and fields by blanks", char::from(c))
            }
        };
        self.refuse(self.at, why)
    }
}

/// A range as one writes it.
fn span(from: u32, to: u32) -> String {
    if from == to { from.to_string() } else { format!("{from}-{to}") }
}

fn bits(from: u32, to: u32, step: u32) -> u64 {
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    (from..=to).step_by(step).fold(0, |bits, at| bits | 1 << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where, and how the reason begins.
    fn refused(expression: &str) -> (usize, String) {
        let error = parse(expression).unwrap_err();
        (error.at, error.why)
    }

    #[test]
    fn numbers_names_lists_ranges_and_steps_name_their_values() {
        let same = |one: &str, other: &str| {
            let bits = |text: &str| {
                let cron = parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
                (cron.seconds, cron.minutes, cron.hours, cron.days, cron.months, cron.weekdays)
            };
            assert_eq!(bits(one), bits(other), "{one} and {other}");
        };
        same("*/15 0 1 1 0", "0,15,30,45 0 1 1 7");
        same("5-59/20 0 1 1 0", "5,25,45 0 1 1 SUN");
        same("0 0 1 jan,Mar-MAY mon-FRI", "0 0 1 1,3-5 1-5");
        same("0 0 1 * 5-7", "0 0 1 * 0,5,6");
        same("0 0 1 * 6-7", "0 0 1 * SAT-SUN");
        same("0 0 1 * 0-5", "0 0 1 * SUN-FRI");
        same("0 0 1 * 0-7", "0 0 1 * *");
        same("0 0 1 * */2", "0 0 1 * 0,2,4,6");
        same("0 0 1 * */7", "0 0 1 * 0");
        same("0 0 1 * 1-7/2", "0 0 1 * 1,3,5,7");
        same("0 0 1 * FRI-SUN", "0 0 1 * 5-7");
        same("0 */24 1 */12 0", "0 0 1 1 0");
        same("*/99999999999 0 1 1 0", "0 0 1 1 0");
        same("0 05 007 1 0", "0 5 7 1 0");
        same("0 0 3 * * *", "0 3 * * *");
        same("*,5 0 1 1 0", "* 0 1 1 0");
    }

    #[test]
    fn blanks_tabs_and_a_last_line_break_are_no_part_of_it() {
        for text in ["0 3 * * 1", " 0\t3  * *\t1\n", "0 3 * * 1\r\n", "\t0 3 * * 1 "] {
            assert_eq!(parse(text).map(|cron| cron.text), Ok("0 3 * * 1".into()), "{text:?}");
        }
        assert_eq!(refused("0 3 * * 1\n\n"), (9, refused("0 3\n* * 1").1));
    }

    #[test]
    fn an_expression_is_fixed_when_its_hour_does_not_begin_with_a_star() {
        for (text, fixed) in [
            ("30 2 * * *", true),
            ("0 0-23 * * *", true),
            ("0,30 1-5/2 * * *", true),
            ("0 30 2 * * *", true),
            ("30 * * * *", false),
            ("*/30 2 * * *", true),
            ("0 */2 * * *", false),
            ("* 30 2 * * *", true),
        ] {
            assert_eq!(parse(text).unwrap().is_fixed(), fixed, "{text}");
        }
    }

    #[test]
    fn a_refusal_says_where_why_and_what_instead() {
        for (text, at, why) in [
            ("", 0, "the expression is empty; write five fields"),
            (" \t\n", 0, "the expression is empty"),
            ("0 3", 3, "here the expression ends after 2 of its fields; five"),
            ("*", 1, "here the expression ends after 1 of its fields"),
            ("0 0 3 * * * 2030", 12, "`2030` is one field too many of 7; there are five, or six"),
            ("0 0 0 0 0 0 0 0", 12, "`0` is one field too many of 8"),
            ("60 * * * *", 0, "60 is not a minute; minutes are 0 to 59"),
            ("0 24 * * *", 2, "24 is not an hour; hours are 0 to 23"),
            ("0 0 0 * *", 4, "0 is not a day of the month; days of the month are 1 to 31"),
            ("0 0 1 13 *", 6, "13 is not a month; months are 1 to 12"),
            ("0 0 1 1 8", 8, "8 is not a day of the week; days of the week are 0 to 7"),
            ("0 60 0 * * *", 2, "60 is not a minute"),
            ("60 0 0 * * *", 0, "60 is not a second; seconds are 0 to 59"),
            ("99999999999999999999 0 * * *", 0, "999999999 is not a minute"),
            ("/6 * * * *", 0, "a step needs something to go through; write */6"),
            ("0 / * * *", 2, "a step needs something to go through; write */2"),
            ("5/15 * * * *", 1, "a step needs a range to go through; write 5-59/15 or */15"),
            ("0 0 ? * *", 4, "`?` is not known here; write `*`"),
            ("0 0 0 * * 7#2", 11, "`#` (the n-th weekday of a month) is not known here"),
            ("0 0 L * *", 4, "`L` (the last day) is not known here"),
            ("0 0 LW * *", 4, "`L` (the last day) is not known here"),
            ("0 0 15W * *", 6, "`W` (the nearest working day) is not known here"),
            ("0 0 * * 5L", 9, "`L` (the last day)"),
            ("*/0 * * * *", 2, "a step of 0 goes nowhere; write 1 or more"),
            ("*/ * * * *", 2, "after `/` comes how many minutes each step takes"),
            ("*/5/5 * * * *", 3, "`/` does not belong here"),
            ("1-2-3 * * * *", 3, "`-` does not belong here"),
            ("** * * * *", 1, "`*` does not belong here"),
            ("1, * * * *", 2, "a value is missing at the end of the minutes"),
            (",1 * * * *", 0, "a value is missing before this"),
            ("1,,2 * * * *", 2, "a value is missing before this"),
            ("-5 * * * *", 0, "a value is missing before this"),
            ("5- * * * *", 2, "a value is missing at the end of the minutes"),
            ("0 22-2 * * *", 2, "22-2 runs backwards; write 22-23,0-2"),
            ("0 0 1 * FRI-MON", 8, "5-1 runs backwards; write 5-6,0-1"),
            ("0 0 1 * 7-1", 8, "7-1 runs backwards; write 0-1"),
            ("0 0 1 11-2 *", 6, "11-2 runs backwards; write 11-12,1-2"),
            ("0 0 1 * MONDAY", 8, "`MONDAY` is not a day of the week; write MON"),
            ("0 0 1 FOO *", 6, "`FOO` is not a month; write JAN to DEC, or 1 to 12"),
            ("0 MON * * *", 2, "hours have no names; write 0 to 23, or `*`"),
            ("@daily", 0, "short forms are not stored; write `0 0 * * *` for `@daily`"),
            ("@reboot", 0, "`@reboot` is no time; make a trigger on boot"),
            ("@often", 0, "there is no short form `@often`; write five fields"),
            ("0 3\n* * *", 3, "`\\n` does not belong here"),
            ("0 3 * * –", 8, "`–` does not belong here"),
            ("0\u{a0}3 * * *", 1, "`\\u{a0}` does not belong here"),
            ("% 3 * * *", 0, "`%` belongs into a command"),
            ("TZ=UTC 3 * * *", 0, "minutes have no names"),
        ] {
            let (found, reason) = refused(text);
            assert!(found == at && reason.starts_with(why), "{text:?}: {found} {reason}");
        }
        assert_eq!(refused(&"1,".repeat(200)).0, CRON_BYTES_MAX);
        assert_eq!(
            parse("60 * * * *").unwrap_err().to_string(),
            "at character 1: 60 is not a minute; minutes are 0 to 59"
        );
    }

    #[test]
    fn a_date_that_never_comes_is_refused_at_its_day() {
        for (text, at) in [
            ("0 0 30 2 *", 4),
            ("0 0 31 4 *", 4),
            ("0 0 31 2,4,6 *", 4),
            ("0 0 0 31 APR,SEP *", 6),
            ("0 0 30-31 2 */2", 4),
        ] {
            let (found, reason) = refused(text);
            assert!(found == at && reason.contains("so it would never be due; write a day up to"), "{text}: {reason}");
        }
        for text in ["0 0 29 2 *", "0 0 31 2,5 *", "0 0 30 2 1", "0 0 */31 2 1"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn short_forms_are_known_in_any_case() {
        assert_eq!(expand("@Hourly\n"), "0 * * * *");
        assert_eq!((expand("@reboot"), expand("hourly"), expand("")), ("@reboot", "hourly", ""));
        for (_, fields) in SHORT_FORMS {
            assert_eq!(parse(fields).unwrap().text, *fields);
        }
    }
}
