//! What the daemon says of itself: one line each on the standard error, `qinglet: level: word: text`, as
//! logread and journalctl show it.

use crate::model::log_level::LogLevel;
use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};

/// The level in force; one for the process, like its standard error.
static LEVEL: AtomicU8 = AtomicU8::new(LogLevel::Info as u8);

/// From now on nothing beyond this is said.
pub(super) fn set_level(level: LogLevel) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Says one line: level, machine word, sentence. A standard error that nobody reads any more is no
/// reason to end.
pub(super) fn say(level: &str, word: &str, sentence: impl fmt::Display) {
    // A level that is none is said always.
    if LogLevel::parse(level).is_some_and(|level| level as u8 > LEVEL.load(Ordering::Relaxed)) {
        return;
    }
    let _ = io::stderr().write_all(line(level, word, &sentence.to_string()).as_bytes());
}

/// The whole line in one piece, so that lines of two threads do not mix, with nothing in it that would
/// begin another.
fn line(level: &str, word: &str, sentence: &str) -> String {
    let mut line = format!("qinglet: {level}: {word}: ");
    for c in sentence.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_is_in_it() {
        let said = line("warn", "x", "a\nqinglet: info: forged: b\r\u{1b}[2Jé");
        assert_eq!(said, "qinglet: warn: x: a\\nqinglet: info: forged: b\\r\\u{1b}[2Jé\n");
    }
}
