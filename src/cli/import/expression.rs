//! The five fields of a line as an expression of ours that comes due when the cron it was written for
//! would have run it. What had to be written differently is told, and where the two crons disagree.

use super::busybox::{Sets, digits};
use crate::schedule::civil::{Date, weekday};
use crate::schedule::cron::Cron;

/// Whose reading of a crontab counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As crontab(5) says; Vixie's cron and those that came of it.
    Vixie,
    /// As busybox crond does.
    Busybox,
}

/// An expression of ours, and what is to be told about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Expression {
    /// The five fields.
    pub text: String,
    /// What was written differently.
    pub changes: Vec<String>,
    /// What busybox crond does with the line otherwise.
    pub notes: Vec<String>,
}

/// A longer expression is not repeated in front of what is wrong with it.
const SHOWN_BYTES_MAX: usize = 60;

/// The highest number of each field, for a step.
const MOST: [u32; 5] = [59, 23, 31, 12, 7];

impl Expression {
    /// Reads five fields. The error says where and why.
    pub fn of(fields: &[&str; 5], reading: Reading) -> Result<Self, String> {
        let sets = Sets::read(fields);
        let written = match (reading, sets) {
            (Reading::Vixie, _) => std::array::from_fn(|at| {
                fields[at].split(',').map(|item| short_step(item, at)).collect::<Vec<_>>().join(",")
            }),
            (Reading::Busybox, Some(sets)) => in_full(fields, sets),
            (Reading::Busybox, None) => fields.map(str::to_owned),
        };
        let text = written.join(" ");
        let cron = Cron::parse(&text).map_err(|e| match text.len() {
            0..=SHOWN_BYTES_MAX => format!("{text}: {e}"),
            _ => e.to_string(),
        })?;
        let mut changes = Vec::new();
        if written != *fields {
            changes.push(format!("{} is written {text}", fields.join(" ")));
        }
        let mut notes = Vec::new();
        if reading == Reading::Vixie && sets.is_some_and(|sets| differs(&cron, sets)) {
            notes.push("busybox crond runs this on other days; with --busybox they are taken".to_owned());
        }
        Ok(Self { text, changes, notes })
    }
}

/// A step beyond the field leaves the first number only, as every cron has it; ours is stricter. A star
/// stays one, because it decides how the days are combined.
fn short_step(item: &str, at: usize) -> String {
    let Some((range, step)) = item.split_once('/') else { return item.to_owned() };
    if digits(step).is_none_or(|step| step <= MOST[at]) {
        return item.to_owned();
    }
    match (range, range.split_once('-')) {
        ("*", _) if at < 2 => "0".into(),
        ("*", _) => format!("*/{}", MOST[at]),
        (_, Some((first, _))) => first.to_owned(),
        _ => item.to_owned(),
    }
}

/// Fields that ours reads the same stay as they are; the rest is written as what busybox makes of it.
fn in_full(fields: &[&str; 5], sets: Sets) -> [String; 5] {
    let all = [sets.minutes, sets.hours, sets.days & !1, sets.months, sets.weekdays];
    std::array::from_fn(|at| {
        let field = fields[at];
        let mut alone = ["*"; 5];
        alone[at] = field;
        let same = Cron::parse(&alone.join(" ")).is_ok();
        // A star there asks for both days, and busybox never does.
        let days = at == 2 || at == 4;
        match all[at] {
            0 if days => "*".into(),
            _ if same && (!days || field == "*" || !field.starts_with('*')) => field.to_owned(),
            set => list(set),
        }
    })
}

/// The numbers of a set as one step or as ranges.
fn list(set: u64) -> String {
    let numbers: Vec<u32> = (0..64).filter(|bit| set >> bit & 1 == 1).collect();
    if let [first, second, .., last] = numbers.as_slice()
        && second - first > 1
        && numbers.windows(2).all(|two| two[1] - two[0] == second - first)
    {
        return format!("{first}-{last}/{}", second - first);
    }
    let ranges = numbers.chunk_by(|one, next| one + 1 == *next);
    let range = |range: &[u32]| match range {
        [first, .., last] => format!("{first}-{last}"),
        one => one.first().map(u32::to_string).unwrap_or_default(),
    };
    ranges.map(range).collect::<Vec<_>>().join(",")
}

/// Whether there is a day that only one of the two takes. Seven years have every day of the month on
/// every weekday in every month but the rarest.
fn differs(cron: &Cron, sets: Sets) -> bool {
    let first = |set: u64| i64::from(set.trailing_zeros());
    let time = first(sets.hours) * 3600 + first(sets.minutes) * 60;
    let begin = Date { year: 2001, month: 1, day: 1 }.days();
    (begin..begin + 7 * 365).any(|days| {
        let Date { month, day, .. } = Date::of_days(days);
        cron.matches(days * 86_400 + time) != sets.is_on(month, day, weekday(days))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, reading: Reading) -> Result<Expression, String> {
        let fields: Vec<&str> = text.split(' ').collect();
        Expression::of(&fields.try_into().unwrap(), reading)
    }

    #[test]
    fn busyboxs_days_are_written_so_that_ours_are_the_same() {
        for (text, want) in [
            ("*/5 * * * *", "*/5 * * * *"),
            ("0 3 * * 7", "0 3 * * 7"),
            ("0 0 */2 * *", "0 0 2-30/2 * *"),
            ("0 0 */2 * 1", "0 0 2-30/2 * 1"),
            ("0 0 1 * */2", "0 0 1 * 0-6/2"),
            ("0 0 1 * 0-6", "0 0 1 * *"),
            ("0 0 * * */3", "0 0 * * 0-6/3"),
            ("0 22-4 * * *", "0 0-4,22-23 * * *"),
            ("5/15 * * * *", "5 * * * *"),
            ("*/60 */24 * * *", "*/60 */24 * * *"),
            ("0 0 */10 * fri-mon", "0 0 10,20,30 * 0-1,5-6"),
        ] {
            let got = of(text, Reading::Busybox).unwrap();
            let want = want.replace("10,20,30", "10-30/10");
            assert_eq!((got.text.as_str(), got.changes.is_empty()), (want.as_str(), want == text), "{text}");
            let sets = Sets::read(&text.split(' ').collect::<Vec<_>>().try_into().unwrap()).unwrap();
            assert!(!differs(&Cron::parse(&got.text).unwrap(), sets), "{text}");
            assert!(got.notes.is_empty());
        }
    }

    #[test]
    fn as_crontab_says_only_steps_are_shortened_and_what_busybox_does_is_told() {
        for (text, want, told) in [
            ("*/5 * * * *", "*/5 * * * *", false),
            ("*/60 */24 * * *", "0 0 * * *", false),
            ("0 0 */40 * *", "0 0 */31 * *", true),
            ("10-20/90 0 * * *", "10 0 * * *", false),
            ("0 0 */2 * *", "0 0 */2 * *", true),
            ("0 0 */2 * 1", "0 0 */2 * 1", true),
            ("0 9 1-31 * 1", "0 9 1-31 * 1", false),
            ("0 9 1 * 0-6", "0 9 1 * 0-6", true),
            ("0 9 13 * 5", "0 9 13 * 5", false),
            ("0 9 * * 1-5", "0 9 * * 1-5", false),
        ] {
            let got = of(text, Reading::Vixie).unwrap();
            assert_eq!((got.text.as_str(), !got.notes.is_empty()), (want, told), "{text}");
        }
        for text in ["22-4 * * * *", "60 * * * *", "0 0 30 2 *", "5/15 * * * *", "* * * * 1#2"] {
            assert!(of(text, Reading::Vixie).unwrap_err().contains(": at character "), "{text}");
        }
        assert!(of("60 * * * *", Reading::Busybox).unwrap_err().contains("minute"));
    }
}
