//! An Attempt's output, by range.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::unavailable;
use crate::execution::logs::{LogReadError, LogSlice};
use crate::model::id::{AttemptId, RunId};
use crate::model::record::{LogPlace, LogRetired};
use crate::model::word;
use crate::store::runs::LocateLog;
use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

/// The schema of a log range.
pub const SCHEMA: &str = "qinglong/run-attempt-log-read-result@v1";

/// `GET /api/v3/projects/{project}/runs/{run}/attempts/{attempt}/log?offset&length`,
/// `artifact.read`.
///
/// `200 {schema, status: "available", content: base64, start, endExclusive, totalBytes, nextOffset?,
/// truncated: true | false | "unknown", droppedBytes: number | null, active}`: `nextOffset` while
/// there is more now, `active` while more may come. An offset past the end gives an empty range at
/// the end. `202 {schema, status: "pending"}` while the Attempt has no log. 404
/// `artifact_not_found`, which is also the answer to whoever may not read it; 410 `artifact_retired`
/// with `retiredAtMs`, `byteLength` (0 when the file was already gone) and `truncated: true | false |
/// "unknown"` once retention has removed it; 503 `artifact_unavailable`.
pub(super) fn read(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let param = |at: usize| request.params.get(at).map(String::as_str);
    let run = param(1).and_then(RunId::parse).ok_or_else(not_found)?;
    let attempt = param(2).and_then(AttemptId::parse).ok_or_else(not_found)?;
    let locate = || {
        let place = api.store.call(LocateLog { project: who.authority.project.clone(), run, attempt });
        let place = place.map_err(|e| unavailable(word::ARTIFACT_UNAVAILABLE, e, "the log was not found out about"))?;
        place.ok_or_else(not_found)
    };
    let (artifact, active) = match locate()? {
        LogPlace::Pending => return Ok(Answer::json(202, &json!({"schema": SCHEMA, "status": "pending"}))),
        LogPlace::Retired(log) => return Err(retired(log)),
        LogPlace::File { artifact, active } => (artifact, active),
    };
    let offset = query::number(request, "offset").unwrap_or(0) as u64;
    let length = query::number(request, "length").map_or(api.limits.log_range_default_bytes, |length| length as u32);
    match api.logs.read(&artifact, offset, length.min(api.limits.log_range_bytes)) {
        Ok(slice) => Ok(Answer::json(200, &shape(&slice, active))),
        // Removed between the two looks: its file goes before the store says so.
        Err(LogReadError::Missing) => match locate()? {
            LogPlace::Retired(log) => Err(retired(log)),
            _ => Err(lost("missing", "the log's file is missing from the log folder")),
        },
        Err(LogReadError::Unsafe) => {
            Err(lost("unsafe", "the log's file is not the private regular file that was written; it is not read"))
        }
        Err(LogReadError::Io) => Err(lost("io", "the log's file could not be read; the daemon's log says why")),
    }
}

fn shape(slice: &LogSlice, active: bool) -> Value {
    let end = slice.start + slice.bytes.len() as u64;
    let mut shown = json!({
        "schema": SCHEMA,
        "status": "available",
        "content": Base64::encode_string(&slice.bytes),
        "start": slice.start,
        "endExclusive": end,
        "totalBytes": slice.total,
        "truncated": slice.truncated.map_or(Value::from("unknown"), Value::from),
        "droppedBytes": slice.dropped_bytes,
        "active": active,
    });
    if end < slice.total {
        shown["nextOffset"] = end.into();
    }
    shown
}

fn retired(log: LogRetired) -> Answer {
    let body = json!({
        "code": word::ARTIFACT_RETIRED.code,
        "message": "the log was removed to keep the logs within their time and space",
        "retiredAtMs": log.at_ms,
        "byteLength": log.bytes,
        "truncated": log.truncated.map_or(Value::from("unknown"), Value::from),
    });
    Answer::json(word::ARTIFACT_RETIRED.status, &body)
}

fn lost(reason: &'static str, message: &str) -> Answer {
    Answer::refusal(word::ARTIFACT_UNAVAILABLE.because(reason), message)
}

/// The one answer for a log that is not there, is elsewhere, or may not be read.
pub(super) fn not_found() -> Answer {
    Answer::refusal(word::ARTIFACT_NOT_FOUND, "there is no such log")
}
