//! A request as a handler sees it and an answer as it leaves.

use super::route::Route;
use crate::model::word::Word;
use serde_json::Value;
use std::fmt;

/// A bearer token's text. It has no `Debug` that shows it, and is wiped when dropped.
pub struct Bearer(String);

impl Bearer {
    /// Takes the text after `Bearer `.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The token.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(..)")
    }
}

impl Drop for Bearer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0).into_bytes();
        bytes.fill(0);
        std::hint::black_box(&bytes);
    }
}

/// A request whose head has passed the route table. Nothing of the body has been parsed.
#[derive(Debug)]
pub struct Request {
    /// The route it matched.
    pub route: &'static Route,
    /// The path's parameters in the template's order, each a checked name.
    pub params: Vec<String>,
    /// The query's parts, each known to the route and given once.
    pub query: Vec<(&'static str, String)>,
    /// The token; `None` on a public route.
    pub bearer: Option<Bearer>,
    /// The body's bytes; empty when the route takes none.
    pub body: Vec<u8>,
}

impl Request {
    /// The query's part of this name.
    pub fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

/// A status and a JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// JSON text, at most `RESPONSE_BYTES_MAX`.
    pub body: Vec<u8>,
    /// Seconds for a `Retry-After` header.
    pub retry_after: Option<u32>,
}

impl Answer {
    /// An answer with this JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self { status, body: body.to_string().into_bytes(), retry_after: None }
    }

    /// A refusal: `{code, reason?, message?}`. The message says what could not be done, on what,
    /// why, and what to do; it never holds a secret, a command or an environment.
    pub fn refusal(word: Word, message: &str) -> Self {
        let mut body = serde_json::Map::new();
        body.insert("code".into(), word.code.into());
        if let Some(reason) = word.reason {
            body.insert("reason".into(), reason.into());
        }
        if !message.is_empty() {
            body.insert("message".into(), message.into());
        }
        let retry_after = (word == crate::model::word::SERVER_OVERLOADED).then_some(1);
        Self { retry_after, ..Self::json(word.status, &Value::Object(body)) }
    }
}

/// What answers requests. The server's workers call it, several at a time.
pub trait Service: Send + Sync {
    /// Answers one request, within [`ANSWER_MS_MAX`](crate::model::limits::ANSWER_MS_MAX).
    fn answer(&self, request: &Request) -> Answer;
}
