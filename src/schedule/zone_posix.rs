//! POSIX zone strings (`CST-8`, `<+03>-3`, `CET-1CEST,M3.5.0,M10.5.0/3`): POSIX.1-2017, section 8.3,
//! with the hours -167 to 167 of RFC 8536. Footers of zone files are the same strings.
//!
//! The sign is as POSIX has it, hours *behind* Greenwich; everything here is seconds east of it.

use super::civil::{DAY_SECONDS, Date, is_leap, month_days, weekday};
use super::zone::{Segment, ZoneError};

/// The offset a zone has now and from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The same offset for ever.
    Fixed(i32),
    /// Two offsets that take turns every year.
    Turns {
        /// Outside summer time, seconds east.
        standard: i32,
        /// In summer time, seconds east.
        summer: i32,
        /// When summer time begins, by the standard clock.
        begin: Turn,
        /// When it ends, by the summer clock.
        end: Turn,
    },
}

/// A day of every year and a time on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    day: Day,
    /// Seconds after that day's midnight; may be negative or longer than a day.
    second: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Day {
    /// `Jn`: 1 to 365; 29 February is not counted.
    Julian(u32),
    /// `n`: 0 to 365; 29 February is counted.
    OfYear(u32),
    /// `Mm.w.d`: the w-th weekday d of month m; the fifth is the last.
    OfMonth { month: u32, week: u32, weekday: u32 },
}

impl Turn {
    /// The local second it falls on.
    fn local(self, year: i64) -> i64 {
        let first = Date { year, month: 1, day: 1 }.days();
        let days = match self.day {
            Day::Julian(day) => first + i64::from(day) - 1 + i64::from(is_leap(year) && day >= 60),
            Day::OfYear(day) => first + i64::from(day),
            Day::OfMonth { month, week, weekday: wanted } => {
                let begin = Date { year, month, day: 1 }.days();
                let to_first = (wanted + 7 - weekday(begin)) % 7;
                let day = to_first + (week - 1) * 7;
                // Only the fifth can be too far, and then it means the fourth.
                let day = if day < month_days(year, month) { day } else { day - 7 };
                begin + i64::from(day)
            }
        };
        days * DAY_SECONDS + self.second
    }
}

impl Rule {
    /// The stretch of one offset that holds this instant, in epoch seconds.
    pub fn segment_at(&self, at: i64) -> Segment {
        let (standard, summer, begin, end) = match *self {
            Self::Fixed(offset) => return Segment { from: i64::MIN, until: i64::MAX, offset },
            Self::Turns { standard, summer, begin, end } => (standard, summer, begin, end),
        };
        let year = Date::of_days(at.div_euclid(DAY_SECONDS)).year;
        // A time of 167 hours can carry a turn out of its year; two years on either side hold all.
        let mut turns = [(0, 0, 0); 10];
        for (slot, pair) in turns.chunks_exact_mut(2).enumerate() {
            let year = year - 2 + slot as i64;
            // Where both fall together, summer time goes on: so POSIX strings say "all year".
            pair[0] = (begin.local(year) - i64::from(standard), 1, summer);
            pair[1] = (end.local(year) - i64::from(summer), 0, standard);
        }
        turns.sort_unstable();
        let next = turns.partition_point(|(instant, ..)| *instant <= at);
        let last = next.checked_sub(1).and_then(|last| turns.get(last));
        Segment {
            from: last.map_or(i64::MIN, |(instant, ..)| *instant),
            until: turns.get(next).map_or(i64::MAX, |(instant, ..)| *instant),
            offset: last.map_or(standard, |(.., offset)| *offset),
        }
    }
}

/// Reads a POSIX string.
pub fn parse(text: &str) -> Result<Rule, ZoneError> {
    let mut scan = Scan { text: text.as_bytes(), at: 0 };
    scan.name()?;
    let standard = -scan.offset(24)?;
    if scan.peek().is_none() {
        return Ok(Rule::Fixed(standard));
    }
    scan.name()?;
    let summer = match scan.peek() {
        None | Some(b',') => standard + 3600,
        Some(_) => -scan.offset(24)?,
    };
    if scan.peek().is_none() {
        return scan
            .refuse("when summer time begins and ends is missing; add it, such as `,M3.5.0,M10.5.0/3` for Europe");
    }
    scan.need(b',', "`,` and when summer time begins")?;
    let begin = scan.turn()?;
    scan.need(b',', "`,` and when summer time ends")?;
    let end = scan.turn()?;
    match scan.peek() {
        None => Ok(Rule::Turns { standard, summer, begin, end }),
        Some(_) => scan.refuse("nothing may follow here"),
    }
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, c: u8) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    fn refuse<T>(&self, why: &str) -> Result<T, ZoneError> {
        Err(ZoneError { at: self.at, why: why.to_owned() })
    }

    fn need(&mut self, c: u8, what: &str) -> Result<(), ZoneError> {
        if self.eat(c) { Ok(()) } else { self.refuse(&format!("{what} must follow here")) }
    }

    /// Three letters or more, or letters, digits and signs in angle brackets. Nothing needs it.
    fn name(&mut self) -> Result<(), ZoneError> {
        let begin = self.at;
        let quoted = self.eat(b'<');
        let from = self.at;
        let part = |c: u8| c.is_ascii_alphabetic() || quoted && (c.is_ascii_digit() || c == b'+' || c == b'-');
        while self.peek().is_some_and(part) {
            self.at += 1;
        }
        let letters = self.at - from;
        if quoted && !self.eat(b'>') {
            return self.refuse("the name that begins with `<` must end with `>`");
        }
        if letters < 3 {
            self.at = begin;
            return self
                .refuse("three letters or more must stand here, or a name in angle brackets, such as `<+03>-3`");
        }
        Ok(())
    }

    /// A number of at most three digits, within bounds.
    fn number(&mut self, low: u32, high: u32, what: &str) -> Result<u32, ZoneError> {
        let begin = self.at;
        let mut value = 0;
        while let Some(digit) = self.peek().filter(|c| c.is_ascii_digit() && self.at - begin < 3) {
            value = value * 10 + u32::from(digit - b'0');
            self.at += 1;
        }
        if self.at > begin && (low..=high).contains(&value) {
            return Ok(value);
        }
        self.at = begin;
        self.refuse(&format!("{what} must stand here, {low} to {high}"))
    }

    /// `[+-]hh[:mm[:ss]]` in seconds, as POSIX signs it.
    fn offset(&mut self, hours_max: u32) -> Result<i32, ZoneError> {
        let negative = self.eat(b'-');
        if !negative {
            self.eat(b'+');
        }
        let hours = self.number(0, hours_max, "the hours behind Greenwich (Shanghai: -8)")?;
        let mut seconds = hours * 3600;
        if self.eat(b':') {
            seconds += self.number(0, 59, "minutes")? * 60;
            if self.eat(b':') {
                seconds += self.number(0, 59, "seconds")?;
            }
        }
        Ok(seconds as i32 * if negative { -1 } else { 1 })
    }

    /// A day and, behind `/`, a time; 02:00 when there is none.
    fn turn(&mut self) -> Result<Turn, ZoneError> {
        let day = if self.eat(b'J') {
            Day::Julian(self.number(1, 365, "a day of the year")?)
        } else if self.eat(b'M') {
            let month = self.number(1, 12, "a month")?;
            self.need(b'.', "`.` and a week")?;
            let week = self.number(1, 5, "a week of the month")?;
            self.need(b'.', "`.` and a weekday")?;
            Day::OfMonth { month, week, weekday: self.number(0, 6, "a weekday")? }
        } else {
            Day::OfYear(self.number(0, 365, "a day, as in `M3.5.0` for the last Sunday of March, or its number,")?)
        };
        let second = if self.eat(b'/') { i64::from(self.offset(167)?) } else { 2 * 3600 };
        Ok(Turn { day, second })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::civil::parse_rfc3339;

    fn offset(zone: &str, at: &str) -> i32 {
        parse(zone).unwrap().segment_at(parse_rfc3339(at).unwrap() / 1000).offset
    }

    #[test]
    fn the_sign_is_hours_behind_greenwich() {
        for (zone, hours) in [("CST-8", 8), ("MSK-3", 3), ("<+03>-3", 3), ("EST5", -5), ("UTC0", 0), ("<GMT+1>1", -1)] {
            assert_eq!(parse(zone), Ok(Rule::Fixed(hours * 3600)), "{zone}");
        }
        assert_eq!(parse("<+0545>-5:45"), Ok(Rule::Fixed(20_700)));
        assert_eq!(parse("LMT+0:44:30"), Ok(Rule::Fixed(-2670)));
    }

    #[test]
    fn turns_fall_where_the_rule_says() {
        let prague = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(offset(prague, "2026-03-29T00:59:59Z"), 3600);
        assert_eq!(offset(prague, "2026-03-29T01:00:00Z"), 7200);
        assert_eq!(offset(prague, "2026-10-25T00:59:59Z"), 7200);
        assert_eq!(offset(prague, "2026-10-25T01:00:00Z"), 3600);
        let sydney = "AEST-10AEDT,M10.1.0,M4.1.0/3";
        assert_eq!(offset(sydney, "2026-01-01T00:00:00Z"), 39_600);
        assert_eq!(offset(sydney, "2026-07-01T00:00:00Z"), 36_000);
        // Ireland's winter time is the other way round.
        let dublin = "IST-1GMT0,M10.5.0,M3.5.0/1";
        assert_eq!((offset(dublin, "2026-01-01T00:00:00Z"), offset(dublin, "2026-07-01T00:00:00Z")), (0, 3600));
        // Greenland's turn is on the Saturday before, and a string can say summer all year.
        let nuuk = "<-02>2<-01>,M3.5.0/-1,M10.5.0/0";
        assert_eq!(offset(nuuk, "2026-03-29T00:59:59Z"), -7200);
        assert_eq!(offset(nuuk, "2026-03-29T01:00:00Z"), -3600);
        let always = "EST5EDT,0/0,J365/25";
        for at in ["2026-01-01T04:59:59Z", "2026-01-01T05:00:00Z", "2026-07-01T00:00:00Z", "2027-01-01T05:00:00Z"] {
            assert_eq!(offset(always, at), -14_400, "{at}");
        }
        // J60 is 1 March in every year, 59 is 29 February in a leap year.
        assert_eq!(offset("AAA0BBB,J60/0,J61/0", "2028-03-01T12:00:00Z"), 3600);
        assert_eq!(offset("AAA0BBB,59/0,60/0", "2028-02-29T12:00:00Z"), 3600);
    }
}
