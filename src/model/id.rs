//! Identities: UUIDv7 for what the store makes, canonical UUIDs for what a client names.
//!
//! An id is opaque and never an ordering source; order inside a Run is its event sequence
//! (spec/execution section 0). The time in front only keeps neighbours together in an index.

use std::fmt;

/// A UUID in its 16 raw bytes. Text form is lower-case canonical, 36 characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

impl Uuid {
    /// The id with these raw bytes, as the store keeps it.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The raw bytes, as the store keeps them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads the one canonical text form: lower-case hex with dashes at 8, 13, 18 and 23.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return None;
        }
        let mut bytes = [0; 16];
        let mut digits = 0;
        for (at, &c) in text.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return None;
                }
                continue;
            }
            let digit = match c {
                b'0'..=b'9' => c - b'0',
                b'a'..=b'f' => c - b'a' + 10,
                _ => return None,
            };
            bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
            digits += 1;
        }
        Some(Self(bytes))
    }

    /// Whether version and variant bits say UUIDv7 (RFC 9562 section 5.7).
    pub const fn is_v7(&self) -> bool {
        self.0[6] >> 4 == 7 && self.0[8] >> 6 == 2
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Reads canonical text; anything that is not a UUIDv7 is refused.
            pub fn parse(text: &str) -> Option<Self> {
                Uuid::parse(text).filter(Uuid::is_v7).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// One user-visible run of a task.
    RunId,
    /// One real execution try of a Run.
    AttemptId,
    /// One appended fact of a Run, or one audit row.
    EventId,
}

/// A client's name for one mutation, so that it can be said twice and done once.
/// Any canonical lower-case UUID (spec/control section 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MutationId(pub Uuid);

impl MutationId {
    /// Reads canonical lower-case text.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::parse(text).map(Self)
    }
}

impl fmt::Display for MutationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Makes UUIDv7s that strictly rise within one process, whatever the wall clock does.
///
/// The 74 bits after the time are a counter seeded at random for each new millisecond. While the
/// clock stands still or runs backwards (a router that boots in 1970 and then learns the time, and
/// the reverse) the last id is simply counted up: RFC 9562 section 6.2, method 2.
#[derive(Debug, Default)]
pub struct IdSource {
    last: u128,
}

/// The lowest bit of the millisecond field when `rand_a` and `rand_b` are taken as one counter.
const TIME_SHIFT: u32 = 74;

impl IdSource {
    /// The next id. `random` is 10 fresh random bytes, used only when the millisecond is new.
    pub fn next(&mut self, now_ms: i64, random: [u8; 10]) -> Uuid {
        let now_ms = (now_ms.max(0) as u128) & 0xffff_ffff_ffff;
        if now_ms > self.last >> TIME_SHIFT {
            let mut seed = 0;
            for byte in random {
                seed = seed << 8 | u128::from(byte);
            }
            // The counter's top bit starts clear, so that counting up has room.
            self.last = now_ms << TIME_SHIFT | seed & ((1 << (TIME_SHIFT - 1)) - 1);
        } else {
            self.last += 1;
        }
        let (time, counter) = (self.last >> TIME_SHIFT, self.last & ((1 << TIME_SHIFT) - 1));
        let (high, low) = (counter >> 62, counter & ((1 << 62) - 1));
        Uuid((time << 80 | 7 << 76 | high << 64 | 2 << 62 | low).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_while_the_clock_stands_still_jumps_and_runs_backwards() {
        let mut source = IdSource::default();
        let mut last = source.next(0, [0xff; 10]);
        for now_ms in [0, 1, 1, 1, 1_800_000_000_000, 1_800_000_000_000, 5, 0, 1_800_000_000_001] {
            let next = source.next(now_ms, [0xff; 10]);
            assert!(next > last, "{next} after {last} at {now_ms}");
            assert!(next.is_v7(), "{next}");
            last = next;
        }
    }

    #[test]
    fn text_form_is_canonical_and_the_only_one() {
        let text = "018f5e7a-9b1c-7def-8123-456789abcdef";
        assert_eq!(RunId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        for wrong in [
            "",
            "018F5E7A-9B1C-7DEF-8123-456789ABCDEF",
            "018f5e7a9b1c7def8123456789abcdef",
            "018f5e7a-9b1c-4def-8123-456789abcdef",
            "018f5e7a-9b1c-7def-0123-456789abcdef",
            "018f5e7a-9b1c-7def-8123-456789abcdef ",
        ] {
            assert_eq!(RunId::parse(wrong), None, "{wrong:?}");
        }
    }
}
