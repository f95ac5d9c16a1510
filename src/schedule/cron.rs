//! What a cron expression means: which local times match it, and which comes next.
//!
//! Local times are seconds as if the local clock were UTC. Nothing here knows a zone; `next` brings
//! both together. The rules are those of crontab(5) as Vixie cron keeps them:
//!
//! - five fields, or six with leading seconds; lists, ranges, steps, names; 0 and 7 are Sunday;
//! - day of month and day of week: either suffices, unless one of the fields begins with a star:
//!   then both must match;
//! - an expression is *fixed* when its hour field does not begin with a star. When clocks change, a
//!   fixed expression keeps its times of day, any other keeps its pace.

use super::civil::{DAY_SECONDS, Date, month_days, weekday};
use super::cron_parse;

pub use super::cron_parse::expand;

/// The last year anything is due in. A local time behind it is never reached by `next`.
pub const YEAR_MAX: i64 = 2199;

/// A parsed expression. Every one of them matches some date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    pub(super) text: String,
    /// Bit n is second n.
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    /// Bits 1 to 31.
    pub(super) days: u64,
    /// Bits 1 to 12.
    pub(super) months: u64,
    /// Bits 0 to 6; 0 is Sunday.
    pub(super) weekdays: u64,
    /// Whether both day fields must match, or either suffices.
    pub(super) both_days: bool,
    pub(super) fixed: bool,
}

/// Why an expression is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError {
    /// Where, in bytes from 0. What stands before it is ASCII, so it counts columns as well.
    pub at: usize,
    /// What is wrong there, and what to write instead.
    pub why: String,
}

impl std::fmt::Display for CronError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at character {}: {}", self.at + 1, self.why)
    }
}

impl std::error::Error for CronError {}

impl Cron {
    /// Reads an expression. Blanks and tabs between fields, around them, and a line break at the end
    /// are no part of it.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        cron_parse::parse(text)
    }

    /// The expression as it is stored: as written, fields one blank apart.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it names times of day: its hour field does not begin with a star.
    pub fn is_fixed(&self) -> bool {
        self.fixed
    }

    /// Whether a local time matches.
    pub fn matches(&self, local: i64) -> bool {
        let date = Date::of_days(local.div_euclid(DAY_SECONDS));
        let second = local.rem_euclid(DAY_SECONDS);
        has(self.months, date.month)
            && has(self.days_of(date.year, date.month), date.day)
            && self.time_from(second) == Some(second)
    }

    /// The first local time at or after this one that matches; `None` when that is after
    /// [`YEAR_MAX`]. It goes by matching months, of which there are at most twelve a year, never by
    /// days or minutes.
    pub fn first_from(&self, local: i64) -> Option<i64> {
        let today = local.div_euclid(DAY_SECONDS);
        let date = Date::of_days(today);
        let mut day = date.day;
        if date.year <= YEAR_MAX
            && has(self.months, date.month)
            && has(self.days_of(date.year, date.month), day)
            && let Some(second) = self.time_from(local.rem_euclid(DAY_SECONDS))
        {
            return Some(today * DAY_SECONDS + second);
        }
        day += 1;
        let mut month = date.month;
        for year in date.year..=YEAR_MAX {
            while let Some(next) = lowest_from(self.months, month) {
                // The day counts only in the month it began in.
                if next != month {
                    day = 1;
                }
                if let Some(day) = lowest_from(self.days_of(year, next), day) {
                    let days = Date { year, month: next, day }.days();
                    return Some(days * DAY_SECONDS + self.time_from(0)?);
                }
                (month, day) = (next + 1, 1);
            }
            (month, day) = (1, 1);
        }
        None
    }

    /// The matching days of a month as bits 1 to 31.
    fn days_of(&self, year: i64, month: u32) -> u64 {
        let existing = (2_u64 << month_days(year, month)) - 2;
        let first = weekday(Date { year, month, day: 1 }.days());
        // Bit d of the pattern is day d: the week's bits from the first's weekday on, over and over.
        let week = (self.weekdays >> first | self.weekdays << (7 - first)) & 0x7f;
        let by_weekday = (week | week << 7 | week << 14 | week << 21 | week << 28) << 1;
        let days = if self.both_days { self.days & by_weekday } else { self.days | by_weekday };
        days & existing
    }

    /// The first matching second of a day, from this one on.
    fn time_from(&self, second: i64) -> Option<i64> {
        let (hour, minute, second) = ((second / 3600) as u32, (second / 60 % 60) as u32, (second % 60) as u32);
        let first_second = lowest_from(self.seconds, 0)?;
        let first_minute = lowest_from(self.minutes, 0)?;
        let at = |hour, minute, second| Some(i64::from(hour * 3600 + minute * 60 + second));
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = lowest_from(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = lowest_from(self.minutes, minute + 1) {
                return at(hour, minute, first_second);
            }
        }
        at(lowest_from(self.hours, hour + 1)?, first_minute, first_second)
    }

    /// A day of month that none of the given months has, and the longest of these months, when no
    /// date can ever match. Where either day field suffices, a weekday always comes.
    pub(super) fn impossible(&self) -> Option<(u32, u32)> {
        let months = (1..=12).filter(|month| has(self.months, *month));
        // A leap year has every date there is, and within 400 years every date meets every weekday.
        let longest = months.map(|month| month_days(2000, month)).max()?;
        let first = lowest_from(self.days, 1)?;
        (self.both_days && first > longest).then_some((first, longest))
    }
}

fn has(bits: u64, at: u32) -> bool {
    bits >> at & 1 == 1
}

/// The lowest set bit that is not below this one.
fn lowest_from(bits: u64, at: u32) -> Option<u32> {
    let rest = bits & u64::MAX.checked_shl(at)?;
    (rest != 0).then(|| rest.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::civil::{clock_text, parse_rfc3339};

    fn local(text: &str) -> i64 {
        parse_rfc3339(&format!("{text}Z")).unwrap() / 1000
    }

    fn after(expression: &str, from: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression).unwrap();
        let mut at = local(from);
        let next = |_| {
            at = cron.first_from(at + 1)?;
            Some(clock_text(at))
        };
        (0..count).map_while(next).collect()
    }

    #[test]
    fn either_day_field_suffices_unless_one_begins_with_a_star() {
        // 2025-01-01 is a Wednesday.
        let from = "2025-01-01T12:00:00";
        assert_eq!(after("0 0 */2 * 1", from, 2), ["2025-01-13 00:00:00", "2025-01-27 00:00:00"]);
        assert_eq!(after("0 9 1-31 * 1", from, 2), ["2025-01-02 09:00:00", "2025-01-03 09:00:00"]);
        assert_eq!(after("0 0 13 * 5", from, 2), ["2025-01-03 00:00:00", "2025-01-10 00:00:00"]);
        assert_eq!(after("0 0 13 * */5", from, 1), ["2025-04-13 00:00:00"]);
    }

    #[test]
    fn a_leap_day_and_a_weekday_are_found_across_a_century_year() {
        assert_eq!(after("0 0 29 2 *", "2096-03-01T00:00:00", 1), ["2104-02-29 00:00:00"]);
        // 29 February on a Sunday; 2100 has none.
        assert_eq!(after("0 0 29 2 */7", "2088-03-01T00:00:00", 1), ["2128-02-29 00:00:00"]);
    }

    #[test]
    fn nothing_is_due_after_the_last_year() {
        assert_eq!(after("0 0 1 1 *", "2197-06-01T00:00:00", 9).len(), 2);
        assert_eq!(after("* * * * * *", "2199-12-31T23:59:57", 9).len(), 2);
        assert_eq!(after("0 0 * * *", "2250-01-01T00:00:00", 9).len(), 0);
    }
}
