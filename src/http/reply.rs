//! Answers in bytes: the one head every answer leaves with, and the head of a worker's answer.

use super::message::Answer;
use crate::model::limits::RESPONSE_BYTES_MAX;
use std::fmt::Write;

/// What a client that waits before its body is told.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The head of an answer. All answers, the gate's own and the handlers', get it here, so that they
/// cannot be told apart by it. A 401 names the scheme (RFC 9110 section 11.6.1).
pub fn head(status: u16, length: usize, retry_after: Option<u32>, allow: Option<&str>) -> String {
    let mut head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n",
        phrase(status)
    );
    if status == 401 {
        head.push_str("WWW-Authenticate: Bearer\r\n");
    }
    // Writing to a string cannot fail.
    if let Some(seconds) = retry_after {
        let _ = write!(head, "Retry-After: {seconds}\r\n");
    }
    if let Some(methods) = allow {
        let _ = write!(head, "Allow: {methods}\r\n");
    }
    head.push_str("\r\n");
    head
}

/// A whole answer; without its body when the request was a HEAD.
pub fn whole(answer: &Answer, allow: Option<&str>, head_only: bool) -> Vec<u8> {
    let mut bytes = head(answer.status, answer.body.len(), answer.retry_after, allow).into_bytes();
    if !head_only {
        bytes.extend_from_slice(&answer.body);
    }
    bytes
}

/// The head of a worker's answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Worked {
    /// The HTTP status.
    pub status: u16,
    /// The body's length in bytes.
    pub length: usize,
    /// Seconds for `Retry-After`.
    pub retry_after: Option<u32>,
}

impl Worked {
    /// Reads the head of a worker's answer, the empty line included. One without a length, or with a
    /// length beyond the bound, is no answer.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let (mut length, mut retry_after) = (None, None);
        for line in lines {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse().ok()?);
            } else if name.eq_ignore_ascii_case("retry-after") {
                retry_after = Some(value.trim().parse().ok()?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                return None;
            }
        }
        let length = length.filter(|length| *length <= RESPONSE_BYTES_MAX)?;
        (200..600).contains(&status).then_some(Self { status, length, retry_after })
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        413 => "Content Too Large",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::word;

    #[test]
    fn reply_has_one_shape() {
        let overloaded = whole(&Answer::refusal(word::SERVER_OVERLOADED, ""), None, false);
        let want = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\
                    Cache-Control: no-store\r\nConnection: close\r\nRetry-After: 1\r\n\r\n{\"code\":\"server_overloaded\"}";
        assert_eq!(String::from_utf8(overloaded).unwrap(), want);
        let head_only = whole(&Answer::refusal(word::METHOD_NOT_ALLOWED, ""), Some("GET"), true);
        assert!(
            head_only
                .ends_with(b"Content-Length: 29\r\nCache-Control: no-store\r\nConnection: close\r\nAllow: GET\r\n\r\n")
        );
    }

    #[test]
    fn worked_answer_needs_a_length_within_the_bound() {
        let parse = |text: &str| Worked::parse(text.as_bytes());
        let good = parse("HTTP/1.1 202 Accepted\r\nServer: -\r\ncontent-length: 12\r\nRetry-After: 1\r\n\r\n");
        assert_eq!(good, Some(Worked { status: 202, length: 12, retry_after: Some(1) }));
        for bad in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 20",
            "",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }
}
