//! The fields of a line as busybox crond reads them (miscutils/crond.c), which is not as crontab(5)
//! says: a star counts the days of a month from 0, so that `*/2` is the even ones; ranges go round
//! (`22-4`); a step of one number does nothing; and whenever both day fields say something, one of
//! them is enough.

/// What each field holds; bit 0 of the days is never a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// 0 to 59.
    pub minutes: u64,
    /// 0 to 23.
    pub hours: u64,
    /// 1 to 31; empty when the weekdays alone count.
    pub days: u64,
    /// 1 to 12.
    pub months: u64,
    /// 0 to 6; empty when the days alone count.
    pub weekdays: u64,
}

const DAYS: u64 = (1 << 32) - 1;
const WEEKDAYS: u64 = (1 << 7) - 1;

impl Sets {
    /// Reads five fields; `None` where busybox finds an error. 7 is taken as Sunday, which some of its
    /// versions do not know.
    pub fn read(fields: &[&str; 5]) -> Option<Self> {
        let (mut days, mut weekdays) = (set(fields[2], 32, &[])?, weekdays(fields[4])?);
        match (days == DAYS, weekdays == WEEKDAYS) {
            (true, false) => days = 0,
            (false, true) => weekdays = 0,
            _ => {}
        }
        let months = set(fields[3], 12, &MONTH_NAMES)?;
        Some(Self { minutes: set(fields[0], 60, &[])?, hours: set(fields[1], 24, &[])?, days, months, weekdays })
    }

    /// Whether a date is one of its.
    pub fn is_on(&self, month: u32, day: u32, weekday: u32) -> bool {
        let has = |set: u64, number: u32| set >> number & 1 == 1;
        has(self.months, month) && (has(self.days, day) || has(self.weekdays, weekday))
    }
}

const MONTH_NAMES: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAY_NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Seven is Sunday, alone and at the end of a range.
fn weekdays(field: &str) -> Option<u64> {
    let item = |item: &str| {
        let (range, step) =
            item.split_once('/').map_or((item, String::new()), |(range, step)| (range, format!("/{step}")));
        let range = match range {
            "7" | "7-7" => "0".to_owned(),
            "0-7" => "0-6".into(),
            range => match (range.strip_suffix("-7"), range.strip_prefix("7-")) {
                (Some(first), _) => format!("{first}-0"),
                (_, Some(last)) => format!("0-{last}"),
                _ => range.into(),
            },
        };
        range + &step
    };
    set(&field.split(',').map(item).collect::<Vec<_>>().join(","), 7, &WEEKDAY_NAMES)
}

/// One field. Months count from 1, all else from 0.
fn set(field: &str, count: u32, names: &[&str]) -> Option<u64> {
    let offset = u32::from(count == 12);
    let mut set = 0;
    for item in field.split(',') {
        let (range, step) = item.split_once('/').map_or((item, None), |(range, step)| (range, Some(step)));
        let (first, last) = if range == "*" {
            (0, count - 1)
        } else {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            (number(first, names, offset)?, number(last, names, offset)?)
        };
        if first >= count || last >= count {
            return None;
        }
        let step = step.map_or(Some(1), digits).filter(|step| *step > 0)?;
        let length = (last + count - first) % count;
        for at in (0..=length).step_by(usize::try_from(step).ok()?) {
            set |= 1 << ((first + at) % count + offset);
        }
    }
    Some(set)
}

fn number(text: &str, names: &[&str], offset: u32) -> Option<u32> {
    let place = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    place.and_then(|at| u32::try_from(at).ok()).or_else(|| digits(text)?.checked_sub(offset))
}

/// A decimal number, and nothing that only parses as one.
pub fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(field: usize, text: &str) -> Option<Vec<u32>> {
        let mut fields = ["*"; 5];
        fields[field] = text;
        let sets = Sets::read(&fields)?;
        let set = [sets.minutes, sets.hours, sets.days, sets.months, sets.weekdays][field];
        Some((0..64).filter(|bit| set >> bit & 1 == 1).collect())
    }

    #[test]
    fn fields_are_read_as_busybox_reads_them() {
        assert_eq!(of(0, "*/20"), Some(vec![0, 20, 40]));
        assert_eq!(of(0, "*/60"), Some(vec![0]));
        assert_eq!(of(0, "5/15"), Some(vec![5]));
        assert_eq!(of(0, "50-10/10"), Some(vec![0, 10, 50]));
        assert_eq!(of(1, "22-4"), Some(vec![0, 1, 2, 3, 4, 22, 23]));
        assert_eq!(of(2, "*/10"), Some(vec![0, 10, 20, 30]));
        assert_eq!(of(3, "*/5"), Some(vec![1, 6, 11]));
        assert_eq!(of(3, "nov-FEB"), Some(vec![1, 2, 11, 12]));
        assert_eq!(of(4, "mon,7"), Some(vec![0, 1]));
        assert_eq!(of(4, "5-7"), Some(vec![0, 5, 6]));
        assert_eq!(of(4, "1-7/2"), Some(vec![0, 1, 3, 5]));
        for (field, text) in
            [(0, "60"), (1, "24"), (3, "0"), (3, "13"), (4, "8"), (0, ""), (0, "+1"), (0, "*/0"), (0, "a")]
        {
            assert_eq!(of(field, text), None, "{text}");
        }
    }

    #[test]
    fn one_day_field_is_enough_when_both_say_something() {
        let sets = Sets::read(&["0", "0", "*/2", "*", "1"]).unwrap();
        assert!(sets.is_on(1, 2, 4) && sets.is_on(1, 13, 1) && !sets.is_on(1, 13, 2));
        let sets = Sets::read(&["0", "0", "*", "*", "1"]).unwrap();
        assert!(sets.is_on(1, 13, 1) && !sets.is_on(1, 13, 2));
        let sets = Sets::read(&["0", "0", "1", "*", "0-6"]).unwrap();
        assert!(sets.is_on(1, 1, 3) && !sets.is_on(1, 2, 3), "every weekday says nothing");
    }
}
