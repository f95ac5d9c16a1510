//! SHA-256 over a domain name, a NUL and canonical bytes.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// A SHA-256 value. Text form is 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes` in `domain`: SHA-256(`domain` ‖ NUL ‖ `bytes`).
    /// A domain keeps a record of one kind from passing as another (spec/control section 3).
    pub fn of(domain: &str, bytes: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(domain);
        hash.update([0]);
        hash.update(bytes);
        Self(hash.finalize().into())
    }

    /// The digest with these raw bytes, as the store keeps it.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes, as the store keeps them.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads exactly 64 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 64 || !text.iter().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let value = |c: u8| if c <= b'9' { c - b'0' } else { c - b'a' + 10 };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = value(pair[0]) << 4 | value(pair[1]);
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_is_64_lower_case_hex_digits() {
        let digest = Digest::of("d", b"x");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert_eq!(Digest::parse(&digest.to_string().to_uppercase()), None);
        assert_eq!(Digest::parse(&digest.to_string()[1..]), None);
        assert_ne!(digest, Digest::of("dx", b""), "the domain ends at its NUL");
    }
}
