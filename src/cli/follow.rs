//! Writes an Attempt's log as it grows.

use super::cell::cell;
use super::client::{Client, Pause};
use super::context::{note, print_bytes};
use super::failure::Failure;
use super::time::rfc3339;
use super::{outcome, run};
use crate::model::limits;
use crate::model::word::ARTIFACT_RETIRED;
use base64ct::{Base64, Encoding};
use serde_json::Value;

/// How much of a log was written, and what is known of it.
#[derive(Default)]
pub struct Written {
    /// Where the next read begins.
    pub offset: u64,
    /// Whether there is a log at all.
    pub found: bool,
    dropped: Option<u64>,
    cut: bool,
}

/// Writes the log until its Run is over and nothing is left to write: from this Attempt on to the
/// last one, or, with `only`, of this one alone.
pub fn follow(client: &Client, run: &str, attempt: &str, only: bool) -> Result<Written, Failure> {
    let mut attempt = attempt.to_owned();
    let mut written = Written::default();
    let mut pause = Pause::new();
    loop {
        // Looked at before draining: what was written before the end is then surely drained.
        let state = run::get(client, run)?;
        let latest = &state["latestAttempt"];
        let overtaken = latest["id"].as_str().is_some_and(|id| id != attempt);
        let before = written.offset;
        drain(client, run, &attempt, &mut written)?;
        if overtaken && !only {
            note(&format!("(attempt {} of run {run})", latest["number"]));
            attempt = cell(&latest["id"]);
            written = Written { found: written.found, ..Written::default() };
            continue;
        }
        if overtaken || outcome::is_over(&state) {
            if !overtaken {
                written.tell(latest);
            }
            return Ok(written);
        }
        if written.offset > before {
            pause = Pause::new();
        }
        pause.wait();
    }
}

/// Writes what the log holds now and was not written yet.
pub fn drain(client: &Client, run: &str, attempt: &str, written: &mut Written) -> Result<(), Failure> {
    loop {
        let length = limits::EDGE.log_range_bytes;
        let path = format!("/runs/{run}/attempts/{attempt}/log?offset={}&length={length}", written.offset);
        let reply = client.send_patiently("GET", &path, None)?;
        // 202: there is none yet.
        if reply.status == 202 {
            return Ok(());
        }
        if reply.code() == ARTIFACT_RETIRED.code {
            return Err(removed(run, &reply.body));
        }
        let answer = reply.done(&format!("read the log of run {run}"))?;
        let range =
            Range::read(&answer).ok_or_else(|| Failure::unavailable("the daemon's log range cannot be read"))?;
        written.found = true;
        written.cut = answer["truncated"] == true;
        written.dropped = answer["droppedBytes"].as_u64();
        print_bytes(&range.bytes)?;
        // The log may have been replaced by a shorter one only if somebody meddled; never go back.
        written.offset = written.offset.max(range.end);
        if range.bytes.is_empty() || range.end >= range.total {
            return Ok(());
        }
    }
}

/// The sentence for a log that is not kept any more.
fn removed(run: &str, answer: &Value) -> Failure {
    let at = answer["retiredAtMs"].as_i64().map(|ms| format!(" at {}", rfc3339(ms))).unwrap_or_default();
    let bytes = answer["byteLength"].as_u64().filter(|bytes| *bytes > 0);
    let bytes = bytes.map(|bytes| format!("; it had {bytes} bytes")).unwrap_or_default();
    Failure::refused(format!(
        "the log of run {run} was removed{at}, because logs are kept for a time and up to a size in all{bytes}; \
         `qinglet show {run}` still says how the run ended"
    ))
}

struct Range {
    bytes: Vec<u8>,
    end: u64,
    total: u64,
}

impl Range {
    fn read(answer: &Value) -> Option<Self> {
        Some(Self {
            bytes: Base64::decode_vec(answer["content"].as_str()?).ok()?,
            end: answer["endExclusive"].as_u64()?,
            total: answer["totalBytes"].as_u64()?,
        })
    }
}

impl Written {
    /// Says what the log does not hold, as far as the log and its Attempt know.
    pub fn tell(&self, attempt: &Value) {
        if self.cut {
            let dropped = self.dropped.map(|bytes| format!("; {bytes} bytes were dropped")).unwrap_or_default();
            note(&format!("(the log was cut at its size limit{dropped})"));
        }
        if attempt["logComplete"] == false {
            note("(writing the log failed: it has a hole)");
        }
    }
}
