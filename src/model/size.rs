//! Amounts of memory as people write them: `64MiB`, `64M`, `65536`. A unit is always 1,024 of the next.

const UNITS: [(&str, i64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Reads an amount. `None`: it is none, or more than 2^63 bytes.
pub fn parse(text: &str) -> Option<i64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let bytes = match unit.trim_start() {
        "" | "B" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit || name.strip_suffix("iB") == Some(unit))?.1,
    };
    digits.parse::<i64>().ok()?.checked_mul(bytes)
}

/// Writes an amount in the largest unit that divides it: `8 MiB`, `1000 bytes`.
pub fn text(bytes: i64) -> String {
    match UNITS.iter().find(|(_, size)| bytes >= *size && bytes % size == 0) {
        Some((name, size)) => format!("{} {name}", bytes / size),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_and_nonsense_does_not() {
        for (given, bytes, written) in [
            ("8MiB", 8 << 20, "8 MiB"),
            ("8M", 8 << 20, "8 MiB"),
            ("8 MiB", 8 << 20, "8 MiB"),
            ("1024K", 1 << 20, "1 MiB"),
            ("3G", 3 << 30, "3 GiB"),
            ("1000", 1000, "1000 bytes"),
            ("0", 0, "0 bytes"),
        ] {
            assert_eq!((parse(given), text(bytes)), (Some(bytes), written.to_owned()), "{given}");
        }
        for given in ["", "M", "8m", "8MB", "-1", "1.5M", "8MiBx", "9223372036854775807K"] {
            assert_eq!(parse(given), None, "{given}");
        }
    }
}
