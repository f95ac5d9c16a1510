//! A zone's name or POSIX string, and the stretches of time it is made of.

use qinglet::schedule::zone::{OFFSET_MAX, Segment, Zone};
use std::path::Path;

/// From the year 1 to the year 9999.
const INSTANTS: [i64; 7] = [-62_135_596_800, -1, 0, 951_782_400, 1_743_296_400, 4_107_542_400, 253_402_300_799];

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The nearest of all names is looked for where none is meant, which takes long and finds nothing new.
    if text.len() > 16 && !text.bytes().any(|byte| byte == b'<' || byte == b',' || byte.is_ascii_digit()) {
        return;
    }
    // Without a folder of zone data, so that it means the same everywhere.
    let read = |text| Zone::parse_with(text, Path::new("/nonexistent"));
    match read(text) {
        Err(error) => {
            assert!(error.at <= text.len() && text.as_bytes()[..error.at].is_ascii(), "{error:?}");
            assert!(!error.why.is_empty());
        }
        Ok(zone) => {
            assert_eq!(read(zone.name()).as_ref(), Ok(&zone), "what is stored means the same");
            walk(&zone);
        }
    }
}

/// Every instant is in exactly one segment, and they lie end to end.
pub fn walk(zone: &Zone) {
    for at in INSTANTS {
        let mut segment = zone.segment_at(at);
        sound(&segment, at);
        if segment.from != i64::MIN {
            let before = zone.segment_at(segment.from - 1);
            assert_eq!(before.until, segment.from, "before {segment:?} stands {before:?}");
        }
        for _ in 0..5 {
            // Beyond the year 9999 nobody asks.
            if segment.until > INSTANTS[6] {
                break;
            }
            let next = zone.segment_at(segment.until);
            assert_eq!(next.from, segment.until, "behind {segment:?} stands {next:?}");
            sound(&next, segment.until);
            segment = next;
        }
    }
}

fn sound(segment: &Segment, at: i64) {
    assert!(segment.from <= at && at < segment.until, "{at} is not in {segment:?}");
    assert!(segment.offset.abs() <= OFFSET_MAX, "{segment:?}");
}
