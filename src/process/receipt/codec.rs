//! The receipt's text: canonical JSON, exact keys, every value bounded. Packed and read side by side.

use crate::model::id::{AttemptId, RunId};
use crate::model::{json, limits};
use crate::process::step::{LaunchFailure, LaunchStep};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The only version there is.
const SCHEMA_VERSION: i64 = 1;
/// More than the longest receipt: what is reserved before the start.
pub(in crate::process) const ROOM_BYTES: usize = 1024;

/// How an Attempt ended, by the shim's own witness.
#[derive(Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The Run.
    pub run: RunId,
    /// The Attempt.
    pub attempt: AttemptId,
    /// Strictly next after what the store has; 1 for the first.
    pub sequence: i64,
    /// The callback capability, to be compared with the stored digest.
    pub token: [u8; 32],
    /// When the release was taken, epoch milliseconds.
    pub started_at_ms: i64,
    /// When the main process had ended, epoch milliseconds, never before the start.
    pub finished_at_ms: i64,
    /// 0..=255; 128 + n for signal n, 126 or 127 with a start error.
    pub exit_code: i32,
    /// The signal that ended the main process.
    pub signal: Option<i32>,
    /// Why exec failed after the release. User code never ran then.
    pub start_error: Option<LaunchFailure>,
    /// From release to end on boottime: true even when the wall clock was set meanwhile.
    pub elapsed_ms: i64,
    /// The end on boottime, to be compared with a deadline of the same boot.
    pub finished_boottime_ms: i64,
    /// Whether everything up to the cap was written; false when writing the log failed.
    pub log_complete: bool,
    /// Whether wall clock and boottime disagree about the duration.
    pub clock_stepped: bool,
    /// Processes that outlived the main one and its drain grace, and were ended.
    pub leftovers: u32,
    /// What the out-of-memory killer took of it, when it took anything.
    pub out_of_memory: Option<OutOfMemory>,
}

/// What the out-of-memory killer took of an Attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// So many of its processes.
    pub kills: u32,
    /// What all of them together could have, in bytes.
    pub limit_bytes: i64,
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the token: it must not reach a log.
        let mut shown = f.debug_struct("Receipt");
        shown.field("attempt", &self.attempt).field("exit_code", &self.exit_code).field("signal", &self.signal);
        shown.field("start_error", &self.start_error).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    schema_version: i64,
    run_id: String,
    attempt_id: String,
    callback_sequence: i64,
    token: String,
    started_at_ms: i64,
    finished_at_ms: i64,
    exit_code: i32,
    signal: Option<i32>,
    start_error: Option<WireError>,
    elapsed_ms: i64,
    finished_boottime_ms: i64,
    log_complete: bool,
    clock_stepped: bool,
    leftovers: u32,
    // Only when there is something to say, so that other receipts are the text they were before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out_of_memory: Option<WireOutOfMemory>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireOutOfMemory {
    kills: u32,
    limit_bytes: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireError {
    step: String,
    errno: i32,
}

/// The canonical text, at most [`limits::RECEIPT_BYTES_MAX`].
pub fn pack(receipt: &Receipt) -> Vec<u8> {
    let wire = Wire {
        schema_version: SCHEMA_VERSION,
        run_id: receipt.run.to_string(),
        attempt_id: receipt.attempt.to_string(),
        callback_sequence: receipt.sequence,
        token: hex(&receipt.token),
        started_at_ms: receipt.started_at_ms,
        finished_at_ms: receipt.finished_at_ms,
        exit_code: receipt.exit_code,
        signal: receipt.signal,
        start_error: receipt.start_error.map(|e| WireError { step: e.step.word().into(), errno: e.errno }),
        elapsed_ms: receipt.elapsed_ms,
        finished_boottime_ms: receipt.finished_boottime_ms,
        log_complete: receipt.log_complete,
        clock_stepped: receipt.clock_stepped,
        leftovers: receipt.leftovers,
        out_of_memory: receipt
            .out_of_memory
            .map(|OutOfMemory { kills, limit_bytes }| WireOutOfMemory { kills, limit_bytes }),
    };
    // Plain fields always have a JSON form; should that ever change, an empty receipt is an invalid one.
    serde_json::to_value(&wire).map_or_else(|_| Vec::new(), |value| json::canonical(&value).into_bytes())
}

/// Reads the text. The error says what is wrong with it, in words without its content.
pub fn unpack(text: &[u8]) -> Result<Receipt, &'static str> {
    if text.len() > limits::RECEIPT_BYTES_MAX {
        return Err("it is too large");
    }
    let wire: Wire = json::parse_as(text).map_err(|_| "it is not the JSON of a receipt")?;
    if wire.schema_version != SCHEMA_VERSION {
        return Err("its version is unknown");
    }
    let start_error = match wire.start_error {
        None => None,
        Some(e) => {
            let step = LaunchStep::from_word(&e.step).ok_or("its start error is unknown")?;
            Some(LaunchFailure { step, errno: e.errno })
        }
    };
    let receipt = Receipt {
        run: RunId::parse(&wire.run_id).ok_or("its run id is malformed")?,
        attempt: AttemptId::parse(&wire.attempt_id).ok_or("its attempt id is malformed")?,
        sequence: wire.callback_sequence,
        token: unhex(&wire.token).ok_or("its token is malformed")?,
        started_at_ms: wire.started_at_ms,
        finished_at_ms: wire.finished_at_ms,
        exit_code: wire.exit_code,
        signal: wire.signal,
        start_error,
        elapsed_ms: wire.elapsed_ms,
        finished_boottime_ms: wire.finished_boottime_ms,
        log_complete: wire.log_complete,
        clock_stepped: wire.clock_stepped,
        leftovers: wire.leftovers,
        out_of_memory: wire
            .out_of_memory
            .map(|WireOutOfMemory { kills, limit_bytes }| OutOfMemory { kills, limit_bytes }),
    };
    bounds(&receipt)?;
    // One text for one receipt: also refuses missing optional keys, spaces and other spellings.
    if pack(&receipt) == text { Ok(receipt) } else { Err("it is not in canonical form") }
}

fn bounds(receipt: &Receipt) -> Result<(), &'static str> {
    let time = 0..=limits::TIME_MS_MAX;
    let times = [receipt.started_at_ms, receipt.finished_at_ms, receipt.elapsed_ms, receipt.finished_boottime_ms];
    if receipt.sequence < 1 || times.iter().any(|at| !time.contains(at)) {
        return Err("a number is out of its range");
    }
    if receipt.finished_at_ms < receipt.started_at_ms {
        return Err("it ends before it starts");
    }
    if receipt.out_of_memory.is_some_and(|oom| oom.kills == 0 || oom.limit_bytes < 0) {
        return Err("it says that nothing ran out of memory");
    }
    let code = receipt.exit_code;
    let sound = match (receipt.signal, &receipt.start_error) {
        (None, None) => (0..=255).contains(&code),
        (Some(signal), None) => (1..=64).contains(&signal) && code == 128 + signal,
        (None, Some(failure)) => failure.errno >= 0 && code == failure.exit_code(),
        (Some(_), Some(_)) => false,
    };
    if sound { Ok(()) } else { Err("its exit code, signal and start error do not fit together") }
}

fn hex(bytes: &[u8; 32]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn receipt() -> Receipt {
        Receipt {
            run: RunId::parse("0197d2a4-1b2c-7def-8123-456789abcdef").unwrap(),
            attempt: AttemptId::parse("0197d2a4-1b2c-7def-8123-456789abcdee").unwrap(),
            sequence: 1,
            token: [0xab; 32],
            started_at_ms: 10,
            finished_at_ms: 20,
            exit_code: 0,
            signal: None,
            start_error: None,
            elapsed_ms: 10,
            finished_boottime_ms: 500,
            log_complete: true,
            clock_stepped: false,
            leftovers: 0,
            out_of_memory: None,
        }
    }

    #[test]
    fn the_text_is_frozen() {
        let text = "{\"attemptId\":\"0197d2a4-1b2c-7def-8123-456789abcdee\",\"callbackSequence\":1,\"clockStepped\":false,\
            \"elapsedMs\":10,\"exitCode\":0,\"finishedAtMs\":20,\"finishedBoottimeMs\":500,\"leftovers\":0,\
            \"logComplete\":true,\"runId\":\"0197d2a4-1b2c-7def-8123-456789abcdef\",\"schemaVersion\":1,\"signal\":null,\
            \"startError\":null,\"startedAtMs\":10,\
            \"token\":\"abababababababababababababababababababababababababababababababab\"}";
        assert_eq!(String::from_utf8(pack(&receipt())).unwrap(), text);
        assert_eq!(unpack(text.as_bytes()), Ok(receipt()));
    }

    #[test]
    fn the_longest_receipt_fits_the_room_that_is_reserved() {
        let longest = |step: &LaunchStep| Receipt {
            sequence: i64::MAX,
            started_at_ms: limits::TIME_MS_MAX,
            finished_at_ms: limits::TIME_MS_MAX,
            exit_code: 126,
            start_error: Some(LaunchFailure { step: *step, errno: i32::MAX }),
            elapsed_ms: limits::TIME_MS_MAX,
            finished_boottime_ms: limits::TIME_MS_MAX,
            leftovers: u32::MAX,
            out_of_memory: Some(OutOfMemory { kills: u32::MAX, limit_bytes: i64::MAX }),
            ..receipt()
        };
        for step in LaunchStep::ALL {
            let text = pack(&longest(step));
            assert!(text.len() <= ROOM_BYTES && ROOM_BYTES <= limits::RECEIPT_BYTES_MAX);
            assert_eq!(unpack(&text), Ok(longest(step)));
        }
    }

    #[test]
    fn whatever_is_not_the_canonical_text_of_a_possible_end_is_refused() {
        let good = String::from_utf8(pack(&receipt())).unwrap();
        for (from, to) in [
            ("\"exitCode\":0", "\"exitCode\":256"),
            ("\"exitCode\":0", "\"exitCode\":-1"),
            ("\"exitCode\":0", "\"exitCode\":0.0"),
            ("\"exitCode\":0", "\"exitCode\":\"0\""),
            ("\"exitCode\":0", "\"exitCode\":0,\"exitCode\":0"),
            ("\"exitCode\":0", "\"exitCode\":0,\"extra\":0"),
            ("\"exitCode\":0,", ""),
            ("\"signal\":null", "\"signal\":9"),
            ("\"signal\":null,", ""),
            ("\"schemaVersion\":1", "\"schemaVersion\":2"),
            ("\"callbackSequence\":1", "\"callbackSequence\":0"),
            ("\"finishedAtMs\":20", "\"finishedAtMs\":9"),
            ("\"startedAtMs\":10", "\"startedAtMs\":-10"),
            ("\"startError\":null", "\"startError\":{\"errno\":2,\"step\":\"exec\"}"),
            ("\"leftovers\":0", "\"leftovers\":-1"),
            ("abab", "ABAB"),
            ("abab", "ab"),
            ("7def-8123-456789abcdee", "4def-8123-456789abcdee"),
            ("{", " {"),
            ("}", "}\n"),
            ("}", "}{}"),
        ] {
            assert!(good.contains(from));
            assert!(unpack(good.replacen(from, to, 1).as_bytes()).is_err(), "{from} -> {to}");
        }
        assert!(unpack(b"").is_err());
        assert!(unpack(&vec![b' '; limits::RECEIPT_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_signal_carries_its_own_code() {
        let killed = Receipt { exit_code: 137, signal: Some(9), ..receipt() };
        assert_eq!(unpack(&pack(&killed)), Ok(killed.clone()));
        assert!(unpack(&pack(&Receipt { exit_code: 1, signal: Some(9), ..receipt() })).is_err());
        let oom = Receipt { out_of_memory: Some(OutOfMemory { kills: 2, limit_bytes: 8 << 20 }), ..killed.clone() };
        let text = String::from_utf8(pack(&oom)).unwrap();
        assert!(text.contains("\"outOfMemory\":{\"kills\":2,\"limitBytes\":8388608}"), "{text}");
        assert_eq!(unpack(text.as_bytes()), Ok(oom));
        assert!(unpack(text.replace("\"kills\":2", "\"kills\":0").as_bytes()).is_err());
        let by_itself = Receipt { exit_code: 137, ..receipt() };
        assert_eq!(unpack(&pack(&by_itself)), Ok(by_itself));
    }

    proptest! {
        #[test]
        fn reading_never_panics_and_what_it_takes_packs_the_same(
            at in 0usize..500, byte in any::<u8>(), cut in 0usize..500
        ) {
            let mut text = pack(&receipt());
            let at = at % text.len();
            text[at] = byte;
            text.truncate(text.len() - cut % 3);
            if let Ok(read) = unpack(&text) {
                prop_assert_eq!(pack(&read), text);
            }
        }
    }
}
