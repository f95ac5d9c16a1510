//! Times for people: RFC 3339 in UTC, and how long something took.

use crate::runtime::look;
use crate::schedule::civil::clock_text;

/// The wall clock in epoch milliseconds; 0 for a clock that stands before 1970.
pub fn now_ms() -> i64 {
    look::wall_ms()
}

/// `2026-11-30T23:51:46Z` for epoch milliseconds. UTC, because the host's zone is not always known
/// on a router and a time without its offset says nothing.
pub fn rfc3339(at_ms: i64) -> String {
    format!("{}Z", clock_text(at_ms.div_euclid(1000)).replace(' ', "T"))
}

/// The same with milliseconds, where neighbours are closer than a second.
pub fn rfc3339_ms(at_ms: i64) -> String {
    let text = rfc3339(at_ms);
    format!("{}.{:03}Z", text.trim_end_matches('Z'), at_ms.rem_euclid(1000))
}

/// `340ms`, `1.2s`, `3m04s`, `2h05m`, `3d04h`. A negative time (the clock was set back) is 0.
pub fn took(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{seconds}.{}s", ms % 1000 / 100),
        60_000..3_600_000 => format!("{minutes}m{:02}s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

/// Reads `500ms`, `90s`, `5m`, `2h` or `1d` into milliseconds. A bare number is refused, because
/// nobody can say what it counts.
pub fn parse_duration(text: &str) -> Option<i64> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_times_read_as_dates() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_796_082_706_999, "2026-11-30T23:51:46Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(ms), text, "{ms}");
        }
        assert_eq!(rfc3339_ms(1_796_082_706_042), "2026-11-30T23:51:46.042Z");
    }

    #[test]
    fn durations_are_short_and_read_back() {
        for (ms, text) in [
            (-5, "0ms"),
            (340, "340ms"),
            (1_250, "1.2s"),
            (184_000, "3m04s"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(took(ms), text);
        }
        assert_eq!(parse_duration("90s"), Some(90_000));
        assert_eq!(parse_duration("500ms"), Some(500));
        for bad in ["", "5", "s", "-5s", "5 s", "1.5s", "5sec", "99999999999999999d"] {
            assert_eq!(parse_duration(bad), None, "{bad:?}");
        }
    }
}
