//! The durable handle: a process named so that a reused number or a reboot cannot be mistaken for it
//! (design D5). Text form `ql3lp1.<bootId>.<pid>.<pgid>.<startTicks>`, canonical only.

use crate::model::id::Uuid;
use crate::model::limits;
use std::fmt;

const PREFIX: &str = "ql3lp1";

/// One process of one boot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    /// The boot it belongs to (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: Uuid,
    /// Its number.
    pub pid: i32,
    /// Its process group, which it leads.
    pub pgid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Handle {
    /// Reads the one canonical text. Anything else is `None`: no signal ever follows from it.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > limits::HANDLE_BYTES_MAX {
            return None;
        }
        let mut parts = text.split('.');
        if parts.next()? != PREFIX {
            return None;
        }
        let handle = Self {
            boot_id: Uuid::parse(parts.next()?)?,
            pid: parts.next()?.parse().ok()?,
            pgid: parts.next()?.parse().ok()?,
            start_ticks: parts.next()?.parse().ok()?,
        };
        // Process 1 is never ours, and 0 or a negative number would name groups.
        let sound = parts.next().is_none() && handle.pid > 1 && handle.pgid > 1;
        // `+7` and `007` are numbers too, but not the canonical text.
        (sound && handle.to_string() == text).then_some(handle)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}.{}.{}.{}.{}", self.boot_id, self.pid, self.pgid, self.start_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOOT: &str = "0b4c7a10-5a1c-4c1e-9a53-3f1d6f0e7a11";

    #[test]
    fn only_canonical_text_is_a_handle() {
        let text = format!("ql3lp1.{BOOT}.4242.4242.987654");
        assert_eq!(Handle::parse(&text).unwrap().to_string(), text);
        for wrong in [
            String::new(),
            format!("ql3lp2.{BOOT}.4242.4242.987654"),
            format!("ql3lp1.{}.4242.4242.987654", BOOT.to_uppercase()),
            format!("ql3lp1.{BOOT}.4242.4242"),
            format!("ql3lp1.{BOOT}.4242.4242.987654."),
            format!("ql3lp1.{BOOT}.4242.4242.987654.1"),
            format!("ql3lp1.{BOOT}.04242.4242.987654"),
            format!("ql3lp1.{BOOT}.+4242.4242.987654"),
            format!("ql3lp1.{BOOT}.-4242.4242.987654"),
            format!("ql3lp1.{BOOT}.4242.4242.-1"),
            format!("ql3lp1.{BOOT}.1.1.987654"),
            format!("ql3lp1.{BOOT}.0.4242.987654"),
            format!("ql3lp1.{BOOT}.4294967297.4242.987654"),
            format!("ql3lp1.{BOOT}.4242.4242.18446744073709551616"),
            format!(" ql3lp1.{BOOT}.4242.4242.987654"),
            format!("ql3lp1.{BOOT}.4242.4242.987654\n"),
            format!("ql3lp1.{BOOT}.4242.4242.{}1", "0".repeat(128)),
        ] {
            assert_eq!(Handle::parse(&wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_longest_handle_fits_its_bound() {
        let handle =
            Handle { boot_id: Uuid::parse(BOOT).unwrap(), pid: i32::MAX, pgid: i32::MAX, start_ticks: u64::MAX };
        assert!(handle.to_string().len() <= limits::HANDLE_BYTES_MAX);
        assert_eq!(Handle::parse(&handle.to_string()), Some(handle));
    }

    proptest! {
        #[test]
        fn whatever_parses_prints_the_same(text in "\\PC{0,140}|ql3lp1\\.[0-9a-f-]{36}\\.[0-9+]{1,6}\\.[0-9]{1,6}\\.[0-9]{1,21}") {
            if let Some(handle) = Handle::parse(&text) {
                prop_assert_eq!(handle.to_string(), text);
            }
        }
    }
}
