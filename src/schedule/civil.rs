//! Days and dates of the Gregorian calendar, and RFC 3339. Pure; knows no zone.

/// Seconds in a day.
pub const DAY_SECONDS: i64 = 86_400;

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year, as written.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl Date {
    /// The date of a day count since 1970-01-01: Howard Hinnant's `civil_from_days`, which counts
    /// years from 1 March so that the leap day comes last.
    pub fn of_days(days: i64) -> Self {
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self { year: era * 400 + year_of_era + i64::from(month <= 2), month: month as u32, day: day as u32 }
    }

    /// Days since 1970-01-01, negative before: the inverse, `days_from_civil`.
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = i64::from((self.month + 9) % 12);
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }
}

/// Whether 29 February exists.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days in a month, 28 to 31.
pub fn month_days(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap(year)),
        _ => 31,
    }
}

/// The weekday of a day count since 1970-01-01 (a Thursday); 0 is Sunday.
pub fn weekday(days: i64) -> u32 {
    (days + 4).rem_euclid(7) as u32
}

/// `2026-11-30 23:51:46` for local seconds, counted as if the local clock were UTC.
pub fn clock_text(local: i64) -> String {
    let Date { year, month, day } = Date::of_days(local.div_euclid(DAY_SECONDS));
    let second = local.rem_euclid(DAY_SECONDS);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// `+01:00` for an offset in seconds east of Greenwich; seconds only where there are any, as in a few
/// zones before 1973.
pub fn offset_text(offset: i32) -> String {
    let (sign, away) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
    let (hours, minutes, seconds) = (away / 3600, away / 60 % 60, away % 60);
    if seconds == 0 {
        format!("{sign}{hours:02}:{minutes:02}")
    } else {
        format!("{sign}{hours:02}:{minutes:02}:{seconds:02}")
    }
}

/// Reads RFC 3339 (`2026-11-30T23:51:46Z`, with `+01:00` for `Z`, a space for `T`, a fraction of a
/// second) into epoch milliseconds. `None` for anything else, a date that does not exist included.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        if digits.bytes().all(|c| c.is_ascii_digit()) { digits.parse::<u32>().ok() } else { None }
    };
    let mark = |(at, allowed): (usize, &[u8])| text.as_bytes().get(at).is_some_and(|c| allowed.contains(c));
    if ![(4, &b"-"[..]), (7, b"-"), (10, b"Tt "), (13, b":"), (16, b":")].into_iter().all(mark) {
        return None;
    }
    let date = Date { year: i64::from(number(0, 4)?), month: number(5, 7)?, day: number(8, 10)? };
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let exists = (1..=12).contains(&date.month) && date.day >= 1 && date.day <= month_days(date.year, date.month);
    if !exists || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut millis = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let shown = fraction.get(..digits.min(3)).filter(|shown| !shown.is_empty())?;
        millis = shown.parse::<i64>().ok()? * 10_i64.pow(3 - shown.len() as u32);
        rest = fraction.get(digits..)?;
    }
    let offset = match rest.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let two = |tens: u8, ones: u8| {
                (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| i64::from((tens - b'0') * 10 + (ones - b'0')))
            };
            let (hours, minutes) = (two(*h1, *h2)?, two(*m1, *m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let local = date.days() * DAY_SECONDS + i64::from(hour * 3600 + minute * 60 + second);
    Some((local - offset) * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse_for_five_centuries() {
        let mut days = Date { year: 1800, month: 1, day: 1 }.days();
        for year in 1800..2300 {
            for month in 1..=12 {
                for day in 1..=month_days(year, month) {
                    let date = Date { year, month, day };
                    assert_eq!((date.days(), Date::of_days(days)), (days, date));
                    days += 1;
                }
            }
        }
        assert_eq!(weekday(Date { year: 2026, month: 12, day: 1 }.days()), 2);
        assert_eq!(weekday(-5), 6);
    }

    #[test]
    fn times_read_back_and_what_does_not_exist_is_refused() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-30T23:51:46Z", 1_796_082_706_000),
            ("2026-12-01 00:51:46.042999+01:00", 1_796_082_706_042),
            ("2026-11-30t20:51:46.5-03:00", 1_796_082_706_500),
            ("2104-02-29T00:00:00z", 4_233_686_400_000),
        ] {
            assert_eq!(parse_rfc3339(text), Some(ms), "{text}");
        }
        for bad in [
            "",
            "2026-11-30",
            "2026-11-30T23:51:46",
            "2100-02-29T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T23:51:46.Z",
            "2026-11-30T23:51:46+0100",
            "2026-11-30T23:51:46+24:00",
            "+026-11-30T23:51:46Z",
            "2026-11-30T23:51:46Zé",
            "２026-11-30T23:51:46Z",
        ] {
            assert_eq!(parse_rfc3339(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn offsets_show_seconds_only_where_there_are_any() {
        for (offset, text) in
            [(0, "+00:00"), (-1800, "-00:30"), (37_800, "+10:30"), (-2670, "-00:44:30"), (50_400, "+14:00")]
        {
            assert_eq!(offset_text(offset), text);
        }
        assert_eq!(clock_text(1_796_082_706), "2026-11-30 23:51:46");
    }
}
