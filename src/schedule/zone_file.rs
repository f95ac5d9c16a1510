//! The system's zone data: `TZif` files as RFC 8536 describes them. Only the 64-bit part is read. A
//! file without one and without a rule for the future (version 1) is as good as none.

use super::zone::OFFSET_MAX;
use super::zone_posix::{self, Rule};
use crate::model::limits::ZONE_FILE_BYTES_MAX;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
pub struct History {
    /// The offset before the first change.
    pub first: i32,
    /// Changes: from this epoch second on, this offset. Ascending.
    pub changes: Vec<(i64, i32)>,
    /// What holds from the last change on.
    pub rule: Rule,
}

/// Reads a zone file; `None` when there is none, or none that can be used.
pub fn read(path: &Path) -> Option<History> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(ZONE_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

/// The counts of a `TZif` header, in the order of the data.
struct Header {
    changes: usize,
    types: usize,
    letters: usize,
    leaps: usize,
    standard: usize,
    universal: usize,
}

const HEADER_BYTES: usize = 44;

impl Header {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let count = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(|four| u32::from_be_bytes(four) as usize);
        if bytes.get(..4)? != b"TZif" || *bytes.get(4)? < b'2' {
            return None;
        }
        let header = Self {
            universal: count(20)?,
            standard: count(24)?,
            leaps: count(28)?,
            changes: count(32)?,
            types: count(36)?,
            letters: count(40)?,
        };
        // What does not fit into the file is not believed, and cannot overflow what is computed below.
        let all = [header.universal, header.standard, header.leaps, header.changes, header.types, header.letters];
        all.iter().all(|count| *count <= bytes.len()).then_some(header)
    }

    /// How long the data behind this header are, with times of `width` bytes.
    fn data_bytes(&self, width: usize) -> usize {
        let leaps = self.leaps * (width + 4);
        self.changes * (width + 1) + self.types * 6 + self.letters + leaps + self.standard + self.universal
    }
}

/// What the bytes of a file say; `None` when they cannot be used.
pub(super) fn parse(bytes: &[u8]) -> Option<History> {
    let skipped = HEADER_BYTES + Header::parse(bytes)?.data_bytes(4);
    let bytes = bytes.get(skipped..)?;
    let header = Header::parse(bytes)?;
    // Files below `right/` count leap seconds; nothing else here does.
    if header.leaps != 0 || header.types == 0 {
        return None;
    }
    let footer = bytes.get(HEADER_BYTES + header.data_bytes(8)..)?.strip_prefix(b"\n")?.strip_suffix(b"\n")?;
    let (times, rest) = bytes.get(HEADER_BYTES..)?.split_at_checked(header.changes * 8)?;
    let (kinds, rest) = rest.split_at_checked(header.changes)?;
    let types = rest.get(..header.types * 6)?;
    let offset = |kind: u8| {
        let at = usize::from(kind) * 6;
        let offset = i32::from_be_bytes(types.get(at..at + 4)?.try_into().ok()?);
        (-OFFSET_MAX..=OFFSET_MAX).contains(&offset).then_some(offset)
    };
    let first = offset(0)?;
    let mut changes: Vec<(i64, i32)> = Vec::with_capacity(header.changes);
    for (time, kind) in times.chunks_exact(8).zip(kinds) {
        let (at, offset) = (i64::from_be_bytes(time.try_into().ok()?), offset(*kind)?);
        if changes.last().is_some_and(|(before, _)| *before >= at) {
            return None;
        }
        changes.push((at, offset));
    }
    let last = changes.last().map_or(first, |(_, offset)| *offset);
    // An empty footer: nobody has said more about the future than that it goes on.
    let rule = match footer {
        [] => Rule::Fixed(last),
        text => zone_posix::parse(std::str::from_utf8(text).ok()?).ok()?,
    };
    Some(History { first, changes, rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of version 2 with one change, at `at`, from UTC to an hour east of it.
    fn file(at: i64, footer: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (changes, types, letters) in [(0_u32, 1_u32, 1_u32), (1, 2, 8)] {
            bytes.extend(b"TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
            for count in [changes, types, letters] {
                bytes.extend(count.to_be_bytes());
            }
            if changes == 0 {
                bytes.extend([0; 7]);
            }
        }
        bytes.extend(at.to_be_bytes());
        bytes.push(1);
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x0e, 0x10, 0, 4]);
        bytes.extend(b"UTC\0CET\0\n");
        bytes.extend(footer.as_bytes());
        bytes.push(b'\n');
        bytes
    }

    #[test]
    fn a_file_gives_its_changes_and_its_rule() {
        let history = parse(&file(5, "CET-1")).unwrap();
        assert_eq!(history, History { first: 0, changes: vec![(5, 3600)], rule: Rule::Fixed(3600) });
        assert_eq!(parse(&file(5, "")).unwrap().rule, Rule::Fixed(3600));
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let whole = file(5, "CET-1");
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), None, "cut after {length}");
        }
        // No byte of it may bring the reader down, whatever it becomes.
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = parse(&bytes);
            }
        }
        assert_eq!(parse(&file(5, "CET-1CEST")), None);
    }
}
