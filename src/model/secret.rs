//! Secrets: how a task refers to one, and what is stored of one. Never its value
//! (spec/control section 5, design D16).

use super::id::MutationId;
use super::json::{self, canonical};
use super::limits::REVISION_MAX;
use super::name::Name;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use serde_json::{Map, Value};
use std::fmt;

/// What every reference begins with.
const PREFIX: &str = "qlsecret:v1:";

/// The only algorithm there is; it stands in every envelope, so that another one can come.
pub const ALGORITHM: &str = "xchacha20-poly1305";

/// A reference to a secret: `qlsecret:v1:<base64url of its JSON>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SecretRef {
    /// Whose secret. A task can only use those of its own project.
    pub project: Name,
    /// Its name.
    pub name: Name,
    /// 1, 2, ...; `None` is whatever is current when the task starts.
    pub version: Option<i64>,
}

impl SecretRef {
    /// Reads the one canonical form.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = Base64UrlUnpadded::decode_vec(text.strip_prefix(PREFIX)?).ok()?;
        let value = json::parse(&bytes).ok()?;
        let fields = value.as_object()?;
        let version = match fields.get("version") {
            None => None,
            Some(version) => Some(version.as_i64().filter(|version| (1..=REVISION_MAX).contains(version))?),
        };
        let name = |field| fields.get(field).and_then(Value::as_str).and_then(Name::parse);
        let found = Self { project: name("projectId")?, name: name("name")?, version };
        // Any other field, order or spelling is another text.
        (found.to_string() == text).then_some(found)
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Map::new();
        fields.insert("projectId".into(), self.project.as_str().into());
        fields.insert("name".into(), self.name.as_str().into());
        if let Some(version) = self.version {
            fields.insert("version".into(), version.into());
        }
        let text = canonical(&Value::Object(fields));
        write!(f, "{PREFIX}{}", Base64UrlUnpadded::encode_string(text.as_bytes()))
    }
}

/// One version of a secret as it is stored: sealed, and bound to everything that stands beside it.
#[derive(Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The project.
    pub project: Name,
    /// The secret's name.
    pub name: Name,
    /// 1, 2, ...
    pub version: i64,
    /// The key of the keyring that seals it.
    pub key_id: String,
    /// The nonce of this sealing.
    pub nonce: [u8; 24],
    /// The value, sealed, with its tag.
    pub sealed: Vec<u8>,
    /// The mutation that stored this version.
    pub mutation: MutationId,
    /// When it was stored, in epoch milliseconds.
    pub created_at_ms: i64,
}

/// What a listing says of a secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretHead {
    /// Its name.
    pub name: Name,
    /// The current version.
    pub version: i64,
    /// When that was stored, in epoch milliseconds.
    pub updated_at_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(version: Option<i64>) -> SecretRef {
        SecretRef { project: Name::default_project(), name: Name::parse("db.password").unwrap(), version }
    }

    /// Frozen: references stand in stored tasks.
    #[test]
    fn a_reference_has_one_form() {
        let current = reference(None).to_string();
        assert_eq!(current, "qlsecret:v1:eyJuYW1lIjoiZGIucGFzc3dvcmQiLCJwcm9qZWN0SWQiOiJkZWZhdWx0In0");
        assert_eq!(SecretRef::parse(&current), Some(reference(None)));
        let pinned = reference(Some(7));
        assert_eq!(SecretRef::parse(&pinned.to_string()), Some(pinned));
        let of = |json: &str| format!("{PREFIX}{}", Base64UrlUnpadded::encode_string(json.as_bytes()));
        for bad in [
            current[..current.len() - 1].to_owned(),
            format!("{current}="),
            current.replace("v1", "v2"),
            of(r#"{"projectId":"default","name":"x"}"#),
            of(r#"{"name":"x", "projectId":"default"}"#),
            of(r#"{"name":"x","projectId":"default","version":0}"#),
            of(r#"{"name":"x","projectId":"default","version":null}"#),
            of(r#"{"name":"x","projectId":"default","version":1.0}"#),
            of(r#"{"name":"x","other":1,"projectId":"default"}"#),
            of(r#"{"name":"","projectId":"default"}"#),
            of(r#"{"name":"x"}"#),
            "db.password".to_owned(),
            PREFIX.to_owned(),
        ] {
            assert_eq!(SecretRef::parse(&bad), None, "{bad}");
        }
    }
}
