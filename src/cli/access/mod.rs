//! `qinglet access ...`: who may do what, and with which tokens.

pub mod grant;
pub mod list;
pub mod revoke;
pub mod token_new;
pub mod token_revoke;

use super::failure::Failure;
use crate::model::policy::{Subject, SubjectKind};
use serde_json::{Value, json};

/// The wire's name for a role change.
const BINDING: &str = "qinglong/role-binding@v1";

/// Reads a subject from the command line: `alice`, `user:alice`, `api_app:panel`.
pub fn subject(text: &str) -> Result<Subject, Failure> {
    Subject::parse(text).filter(|subject| subject.kind != SubjectKind::System).ok_or_else(|| {
        Failure::usage(format!(
            "\"{}\" cannot be a subject; one is a name like alice, or a kind and a name like api_app:panel",
            text.escape_debug()
        ))
    })
}

/// The subject as the wire writes it.
fn wire(subject: &Subject) -> Value {
    json!({"type": subject.kind.word(), "id": &*subject.id})
}
