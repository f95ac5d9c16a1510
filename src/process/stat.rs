//! /proc/<pid>/stat, the few fields that make an identity (`proc_pid_stat(5)`).

use std::fs::File;
use std::io::{self, Read as _};

/// What identifies a process and says how it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its number.
    pub pid: i32,
    /// The letter of its state: `Z` and `X` have ended.
    pub state: u8,
    /// Its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Whether it has ended: only its status is left, or not even that.
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Reads the text. The command's name may hold spaces, digits and parentheses, so the fields are
/// counted after the LAST `)`.
pub fn parse(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let pid = number(text.get(..open)?.trim_ascii())?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let (parent, group, session) = (fields.next()?, fields.next()?, fields.next()?);
    // tty_nr is field 7, starttime field 22: 15 stand between the session (6) and it.
    let start = fields.nth(15)?;
    Some(Stat {
        pid,
        state: *state.as_bytes().first().filter(|_| state.len() == 1)?,
        parent: parent.parse().ok()?,
        group: group.parse().ok()?,
        session: session.parse().ok()?,
        start_ticks: start.parse().ok()?,
    })
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads a process's stat. A process that ends meanwhile shows as `NotFound`.
pub fn read(pid: i32) -> io::Result<Stat> {
    // Enough for 52 numbers of 20 digits and a name of 64 bytes; in practice about 350.
    let mut buffer = [0; 2048];
    let gone = |e: io::Error| if e.raw_os_error() == Some(libc::ESRCH) { io::ErrorKind::NotFound.into() } else { e };
    let mut file = File::open(format!("/proc/{pid}/stat"))?;
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(gone(e)),
        }
    }
    let stat = buffer.get(..filled).and_then(parse).ok_or(io::ErrorKind::InvalidData)?;
    if stat.pid == pid { Ok(stat) } else { Err(io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAIL: &str = " S 10 20 30 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 1 2 3";

    #[test]
    fn fields_are_counted_after_the_last_parenthesis() {
        let expected = Stat { pid: 7, state: b'S', parent: 10, group: 20, session: 30, start_ticks: 987_654_321 };
        for name in ["sh", "a b", ")", "((", ") Z 1 1 1", "x) S 9 9 9 0 0", "\n", ""] {
            assert_eq!(parse(format!("7 ({name}){TAIL}").as_bytes()), Some(expected), "{name:?}");
        }
        let mut raw = b"7 (\xff\xfe)".to_vec();
        raw.extend(TAIL.as_bytes());
        assert_eq!(parse(&raw), Some(expected), "a name need not be text");
    }

    #[test]
    fn what_is_not_a_stat_line_is_refused() {
        for wrong in
            ["", "7", "7 (sh", "7 sh) S 1", "7 (sh)", "x (sh) S 1 2 3", "7 (sh) SS 10 20 30 0", "7 (sh) S 1 2 3"]
        {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn own_stat_reads() {
        let stat = read(std::process::id() as i32).unwrap();
        assert_eq!(stat.pid, std::process::id() as i32);
        assert!(!stat.has_ended());
        assert_eq!(read(i32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
