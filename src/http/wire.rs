//! Request bodies in their exact shape, and the small pieces that answers share.
//!
//! A body is taken apart field by field rather than through a derived type, because a refusal must
//! name the field and its rule, and must not repeat a value that may be a secret.

use super::message::Answer;
use crate::model::digest::Digest;
use crate::model::id::MutationId;
use crate::model::json;
use crate::model::limits::{MESSAGE_BYTES_MAX, RESPONSE_ITEMS_BYTES_MAX, REVISION_MAX};
use crate::model::policy::{Subject, SubjectKind};
use crate::model::word::{self, Word};
use crate::store::StoreError;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A JSON object whose fields are taken one by one. What is left at the end is unknown.
pub struct Fields {
    word: Word,
    path: &'static str,
    left: Map<String, Value>,
}

impl Fields {
    /// Reads a body. Text that is not one strict JSON value is `invalid_request_body`; every later
    /// refusal is `word`, the route's own.
    pub fn read(body: &[u8], word: Word) -> Result<Self, Answer> {
        let value = json::parse(body)
            .map_err(|e| refuse(word::INVALID_BODY, &format!("the body is not one strict JSON value: {e}")))?;
        Self::object(value, word, "")
    }

    fn object(value: Value, word: Word, path: &'static str) -> Result<Self, Answer> {
        match value {
            Value::Object(left) => Ok(Self { word, path, left }),
            _ if path.is_empty() => Err(refuse(word, "the body must be a JSON object")),
            _ => Err(refuse(word, &format!("{} must be an object", path.trim_end_matches('.')))),
        }
    }

    /// Refuses the field `name` by this rule.
    pub fn wrong(&self, name: &str, rule: &str) -> Answer {
        refuse(self.word, &format!("{}{name} {rule}", self.path))
    }

    fn take(&mut self, name: &str) -> Result<Value, Answer> {
        self.left.remove(name).ok_or_else(|| self.wrong(name, "is missing"))
    }

    /// `schema`, which must be this one.
    pub fn schema(&mut self, schema: &str) -> Result<(), Answer> {
        match self.take("schema")?.as_str() {
            Some(text) if text == schema => Ok(()),
            _ => Err(self.wrong("schema", &format!("must be \"{schema}\""))),
        }
    }

    /// `mutationId`.
    pub fn mutation(&mut self) -> Result<MutationId, Answer> {
        let value = self.take("mutationId")?;
        value
            .as_str()
            .and_then(MutationId::parse)
            .ok_or_else(|| self.wrong("mutationId", "must be a canonical lower-case UUID"))
    }

    /// A revision.
    pub fn revision(&mut self, name: &str) -> Result<i64, Answer> {
        self.nullable_revision(name)?
            .ok_or_else(|| self.wrong(name, &format!("must be a whole number from 1 to {REVISION_MAX}")))
    }

    /// A revision or `null`; it must be there.
    pub fn nullable_revision(&mut self, name: &str) -> Result<Option<i64>, Answer> {
        match self.take(name)? {
            Value::Null => Ok(None),
            value => match value.as_i64() {
                Some(revision) if (1..=REVISION_MAX).contains(&revision) => Ok(Some(revision)),
                _ => Err(self.wrong(name, &format!("must be a whole number from 1 to {REVISION_MAX}"))),
            },
        }
    }

    /// A version, or 0 for none: `None`.
    pub fn version_or_zero(&mut self, name: &str) -> Result<Option<i64>, Answer> {
        match self.take(name)?.as_i64() {
            Some(0) => Ok(None),
            Some(version) if (1..=REVISION_MAX).contains(&version) => Ok(Some(version)),
            _ => Err(self.wrong(name, &format!("must be a whole number from 0 to {REVISION_MAX}"))),
        }
    }

    /// A SHA-256 digest.
    pub fn digest(&mut self, name: &str) -> Result<Digest, Answer> {
        let value = self.take(name)?;
        value
            .as_str()
            .and_then(Digest::parse)
            .ok_or_else(|| self.wrong(name, "must be 64 lower-case hexadecimal digits"))
    }

    /// A string.
    pub fn text(&mut self, name: &str) -> Result<String, Answer> {
        match self.take(name)? {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong(name, "must be a string")),
        }
    }

    /// A string or `null`; it may be left out.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<String>, Answer> {
        match self.left.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(name, "must be a string")),
        }
    }

    /// A string or `null`; it must be there.
    pub fn nullable_text(&mut self, name: &str) -> Result<Option<String>, Answer> {
        match self.take(name)? {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text)),
            _ => Err(self.wrong(name, "must be a string or null")),
        }
    }

    /// `true` or `false`.
    pub fn flag(&mut self, name: &str) -> Result<bool, Answer> {
        self.take(name)?.as_bool().ok_or_else(|| self.wrong(name, "must be true or false"))
    }

    /// `true` or `false`; it may be left out.
    pub fn optional_flag(&mut self, name: &str) -> Result<Option<bool>, Answer> {
        match self.left.remove(name) {
            None => Ok(None),
            Some(value) => value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "must be true or false")),
        }
    }

    /// Any value; whoever reads it refuses by its own rules.
    pub fn value(&mut self, name: &str) -> Result<Value, Answer> {
        self.take(name)
    }

    /// An object of strings.
    pub fn texts(&mut self, name: &str) -> Result<BTreeMap<String, String>, Answer> {
        let Value::Object(entries) = self.take(name)? else { return Err(self.wrong(name, "must be an object")) };
        let texts = entries.into_iter().map(|(key, value)| match value {
            Value::String(text) => Some((key, text)),
            _ => None,
        });
        texts.collect::<Option<_>>().ok_or_else(|| self.wrong(name, "must hold strings only"))
    }

    /// `subject`: `{type, id}` of somebody who may hold a credential.
    pub fn subject(&mut self) -> Result<Subject, Answer> {
        let mut inner = Self::object(self.take("subject")?, self.word, "subject.")?;
        let kind = SubjectKind::parse(&inner.text("type")?).filter(|kind| *kind != SubjectKind::System);
        let kind = kind.ok_or_else(|| inner.wrong("type", "must be user, api_app, mcp_client or agent"))?;
        let id = inner.text("id")?;
        let subject = Subject::new(kind, &id);
        let subject = subject.ok_or_else(|| inner.wrong("id", "must be 1 to 255 bytes without control characters"))?;
        inner.end()?;
        Ok(subject)
    }

    /// Refuses what nobody took.
    pub fn end(self) -> Result<(), Answer> {
        match self.left.keys().next() {
            Some(name) => Err(refuse(self.word, &format!("{}{name}: unknown field", self.path))),
            None => Ok(()),
        }
    }
}

/// A refusal whose words may repeat something from the request, and so are cut to a bound.
pub fn refuse(word: Word, message: &str) -> Answer {
    let mut end = message.len().min(MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    Answer::refusal(word, &message[..end])
}

/// What to say when the store did not do it. `what` says what could not be done.
pub fn unavailable(word: Word, error: StoreError, what: &str) -> Answer {
    match error {
        StoreError::Busy => {
            let message = format!("{what}: the store has too much to do; try again in a moment");
            Answer { retry_after: Some(1), ..Answer::refusal(word.because("busy"), &message) }
        }
        StoreError::Closed => Answer::refusal(
            word::SERVER_DRAINING,
            &format!("{what}: the daemon is stopping; try again when it is back"),
        ),
        StoreError::Unavailable("commit_unknown") => Answer::refusal(
            word.because("commit_unknown"),
            "the store could not say whether it was done, most often because no space is left: free some, then send the very \
             same request again, with its mutationId, which does it once",
        ),
        StoreError::Unavailable(reason) => Answer::refusal(
            word.because(reason),
            &format!("{what}: the store could not do it ({reason}); the same request may be sent again"),
        ),
    }
}

/// One page of a list.
pub struct Page<T> {
    /// The items' JSON.
    pub items: Vec<Value>,
    /// Whether there are more.
    pub has_more: bool,
    /// The last item on the page, when there are more: where the next page goes on.
    pub last: Option<T>,
}

/// Makes a page that fits an answer: items that would make it too long go to the next page. One
/// item always fits.
pub fn page<T>(read: Vec<T>, more: bool, shape: impl Fn(&T) -> Value) -> Page<T> {
    let mut page = Page { items: Vec::with_capacity(read.len()), has_more: more, last: None };
    let mut bytes = 0;
    for item in read {
        let value = shape(&item);
        bytes += value.to_string().len() + 1;
        if bytes > RESPONSE_ITEMS_BYTES_MAX && !page.items.is_empty() {
            page.has_more = true;
            break;
        }
        page.items.push(value);
        page.last = Some(item);
    }
    page.last = page.last.filter(|_| page.has_more);
    page
}

/// `{type, id}`.
pub fn subject(subject: &Subject) -> Value {
    json!({"type": subject.kind.word(), "id": &*subject.id})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(answer: &Answer) -> String {
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        format!("{}: {}", body["code"].as_str().unwrap(), body["message"].as_str().unwrap())
    }

    fn subject_of(body: &str) -> Result<Subject, String> {
        let mut fields = Fields::read(body.as_bytes(), word::INVALID_ACCESS).map_err(|a| message(&a))?;
        let subject = fields.subject().map_err(|a| message(&a))?;
        fields.end().map_err(|a| message(&a))?;
        Ok(subject)
    }

    #[test]
    fn a_refusal_names_the_field_and_its_rule_and_repeats_no_value() {
        assert_eq!(subject_of(r#"{"subject":{"type":"user","id":"a"}}"#).unwrap().to_string(), "user:a");
        let secret = "hunter2";
        for (body, want) in [
            ("", "invalid_request_body: the body is not one strict JSON value"),
            ("{}{}", "invalid_request_body: "),
            (r#"{"subject":{"type":"user","type":"user","id":"a"}}"#, "invalid_request_body: "),
            ("[]", "invalid_access_request: the body must be a JSON object"),
            (r#"[{"type":"user","id":"a"}]"#, "invalid_access_request: the body must be a JSON object"),
            ("{}", "invalid_access_request: subject is missing"),
            (r#"{"subject":["user","a"]}"#, "invalid_access_request: subject must be an object"),
            (r#"{"subject":{"type":"hunter2","id":"a"}}"#, "invalid_access_request: subject.type must be"),
            (r#"{"subject":{"type":"system","id":"a"}}"#, "invalid_access_request: subject.type must be"),
            (r#"{"subject":{"type":"user","id":7}}"#, "invalid_access_request: subject.id must be a string"),
            (r#"{"subject":{"type":"user","id":"\n"}}"#, "invalid_access_request: subject.id must be 1 to 255"),
            (r#"{"subject":{"type":"user","id":"a","x":1}}"#, "invalid_access_request: subject.x: unknown field"),
            (r#"{"subject":{"type":"user","id":"a"},"y":1}"#, "invalid_access_request: y: unknown field"),
        ] {
            let got = subject_of(body).unwrap_err();
            assert!(got.starts_with(want), "{body}: {got}");
            assert!(!got.contains(secret), "{got}");
        }
    }

    #[test]
    fn a_store_that_did_not_do_it_is_503_with_the_routes_word() {
        let busy = unavailable(word::TASK_START_UNAVAILABLE, StoreError::Busy, "the task was not started");
        assert_eq!((busy.status, busy.retry_after), (503, Some(1)));
        assert!(message(&busy).starts_with("task_start_unavailable: the task was not started: "));
        let closed = unavailable(word::TASK_START_UNAVAILABLE, StoreError::Closed, "the task was not started");
        assert!(message(&closed).starts_with("server_draining: "));
        let failed = unavailable(word::TASK_START_UNAVAILABLE, StoreError::Unavailable("disk_full"), "x");
        let body: Value = serde_json::from_slice(&failed.body).unwrap();
        assert_eq!((&body["code"], &body["reason"]), (&json!("task_start_unavailable"), &json!("disk_full")));
    }

    #[test]
    fn a_long_name_does_not_make_a_long_answer() {
        let body = format!("{{\"{}\":1}}", "\\u0001".repeat(16_000));
        let fields = Fields::read(body.as_bytes(), word::INVALID_ACCESS).unwrap_or_else(|_| panic!("refused"));
        let answer = fields.end().unwrap_err();
        assert!(answer.body.len() < 4096, "{}", answer.body.len());
        let cut = refuse(word::INVALID_ACCESS, &"ü".repeat(400));
        assert!(serde_json::from_slice::<Value>(&cut.body).is_ok());
    }

    #[test]
    fn a_page_never_outgrows_an_answer_and_always_moves_on() {
        let read: Vec<usize> = (0..64).collect();
        let small = page(read.clone(), false, |_| json!("x"));
        assert_eq!((small.items.len(), small.has_more, small.last), (64, false, None));
        let big = page(read.clone(), false, |_| json!("x".repeat(10_000)));
        assert_eq!((big.items.len(), big.has_more, big.last), (6, true, Some(5)));
        let huge = page(read, false, |_| json!("x".repeat(100_000)));
        assert_eq!((huge.items.len(), huge.last), (1, Some(0)));
    }
}
