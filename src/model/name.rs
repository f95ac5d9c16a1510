//! Names that people give: projects, tasks, subjects, environment variables.

use std::fmt;

/// A project's or task's id: 1..=128 characters, a letter or digit first, then letters, digits,
/// `.`, `_` and `-`. Such a name can stand in a URL path and a file name without any escaping.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(Box<str>);

/// What a name must look like, for an error text.
pub const NAME_RULE: &str = "a letter or digit, then letters, digits, '.', '_' or '-', 128 characters at most";

/// The only project there is until projects have a surface of their own (spec/control section 1).
pub const DEFAULT_PROJECT: &str = "default";

impl Name {
    /// Reads a name; `None` when it breaks [`NAME_RULE`].
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(|c| c.is_ascii_alphanumeric());
        let rest = bytes.all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'));
        (first && rest && text.len() <= 128).then(|| Self(text.into()))
    }

    /// The default project's id.
    pub fn default_project() -> Self {
        Self(DEFAULT_PROJECT.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether an environment variable may have this name: a letter or `_` first, then letters, digits
/// and `_`, 1..=255 bytes (POSIX XBD 8.1, taken with both letter cases).
pub fn is_variable_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|c| c.is_ascii_alphabetic() || c == b'_')
        && bytes.all(|c| c.is_ascii_alphanumeric() || c == b'_')
        && text.len() <= 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_needs_escaping() {
        for good in ["a", "0", "backup", "Backup.daily_2-x", &"a".repeat(128)] {
            assert!(Name::parse(good).is_some(), "{good:?}");
        }
        for bad in ["", ".", "..", "-x", "_x", "a/b", "a b", "ä", "a\n", "a%2e", &"a".repeat(129)] {
            assert!(Name::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn variable_names_follow_posix() {
        for good in ["A", "_", "path", "A_1"] {
            assert!(is_variable_name(good), "{good:?}");
        }
        for bad in ["", "1A", "A-B", "A=B", "A B", "Ä", "A\0"] {
            assert!(!is_variable_name(bad), "{bad:?}");
        }
    }
}
