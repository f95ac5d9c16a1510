//! The keyring: the keys that seal secrets, in a private file of their own, so that a stolen
//! database alone holds no secret (design D16, spec/control section 5).
//!
//! It is read anew for every use and wiped afterwards. Made by `init`, changed only by a rotation.

use super::private_file::{self, Unfit};
use crate::model::json;
use crate::model::limits::{KEYRING_BYTES_MAX, KEYRING_KEYS_MAX};
use crate::model::name::Name;
use base64ct::{Base64UrlUnpadded, Encoding as _};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// The file's own version.
const VERSION: i64 = 1;
/// Random bytes in the first key's id.
const ID_RANDOM_BYTES: usize = 8;

/// A key.
pub(super) type Key = Zeroizing<[u8; 32]>;

/// The keys by id, one of them active. Wiped when dropped; no `Debug` shows a key.
pub struct Keyring {
    active: String,
    keys: Vec<(String, Key)>,
}

/// Why there is no keyring to work with.
#[derive(Debug)]
pub enum KeyringError {
    /// The file is not there.
    Missing,
    /// The file is not the private file that was written; the text says in what.
    Unsafe(&'static str),
    /// The file is not a keyring; the text says in what. Never what stands in it.
    Malformed(&'static str),
    /// It has as many keys as it may have.
    Full,
    /// Reading, writing or the kernel's random bytes failed.
    Io(std::io::Error),
}

impl fmt::Display for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str(
                "the file `keyring` is missing from the state folder, and no secret can be read without it; restore it \
                 from a backup, or delete every secret, run `qinglet init`, and set them anew",
            ),
            Self::Unsafe(what) => write!(
                f,
                "the file `keyring` in the state folder {what}; it must be a plain file with mode 0600 that belongs to \
                 the folder's owner",
            ),
            Self::Malformed(what) => write!(
                f,
                "the file `keyring` in the state folder {what}; restore it from a backup, nothing is repaired here",
            ),
            Self::Full => {
                write!(f, "the keyring has {KEYRING_KEYS_MAX} keys already; run `qinglet secret rekey` again")
            }
            Self::Io(e) => write!(f, "the file `keyring` in the state folder could not be used: {e}"),
        }
    }
}

impl std::error::Error for KeyringError {}

impl KeyringError {
    /// The machine word.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Missing => "keyring_missing",
            Self::Unsafe(_) => "keyring_unsafe",
            Self::Malformed(_) => "keyring_malformed",
            Self::Full => "keyring_full",
            Self::Io(_) => "keyring_unreadable",
        }
    }
}

impl From<Unfit> for KeyringError {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Missing => Self::Missing,
            Unfit::Unsafe(what) => Self::Unsafe(what),
            Unfit::Io(e) => Self::Io(e),
        }
    }
}

impl Keyring {
    /// Reads the file: mode 0600, no link, the state folder's owner, and exactly a keyring.
    pub fn load(path: &Path) -> Result<Self, KeyringError> {
        let bytes = Zeroizing::new(private_file::read(path, KEYRING_BYTES_MAX)?);
        Self::parse(&bytes).map_err(KeyringError::Malformed)
    }

    /// Makes the file with one key, whole or not at all. Only under the state lock and only when
    /// there is none and no secret depends on another.
    pub fn create(path: &Path) -> Result<(), KeyringError> {
        let mut id = [0; ID_RANDOM_BYTES];
        random(&mut id)?;
        let id = id.iter().fold(String::new(), |id, byte| format!("{id}{byte:02x}"));
        let mut ring = Self { active: String::new(), keys: Vec::new() };
        ring.rotate(&id)?;
        ring.save(path)
    }

    /// Reads the text of a keyring: `{version: 1, activeKeyId, keys: {id: 32 bytes in base64url}}`.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut value = json::parse(bytes).map_err(|_| "is not strict JSON")?;
        let fields = value.as_object_mut().ok_or("is not a JSON object")?;
        let mut ring = Self { active: String::new(), keys: Vec::new() };
        let mut trouble = None;
        // All keys are taken out and wiped before any trouble is told.
        if let Some(serde_json::Value::Object(keys)) = fields.remove("keys") {
            for (id, key) in keys {
                let serde_json::Value::String(text) = key else {
                    trouble = Some("has a key that is not a text");
                    continue;
                };
                let text = Zeroizing::new(text);
                let mut key = Key::default();
                let decoded = Base64UrlUnpadded::decode(&*text, &mut *key).map(<[u8]>::len);
                match decoded {
                    Ok(32) if Name::parse(&id).is_some() => ring.keys.push((id, key)),
                    Ok(32) => trouble = Some("has a key with a bad id"),
                    _ => trouble = Some("has a key that is not 32 bytes"),
                }
            }
        }
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        if fields.remove("version").and_then(|v| v.as_i64()) != Some(VERSION) {
            return Err("is not of version 1");
        }
        ring.active = fields.remove("activeKeyId").and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        if !fields.is_empty() {
            return Err("has an unknown field");
        }
        if ring.keys.len() > KEYRING_KEYS_MAX {
            return Err("has too many keys");
        }
        if ring.key(&ring.active).is_none() {
            return Err("has no active key");
        }
        Ok(ring)
    }

    /// Writes the file, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), KeyringError> {
        let text = self.to_text();
        let temporary = path.with_extension("new");
        private_file::write_new(&temporary, text.as_bytes())
            .and_then(|()| private_file::publish(&temporary, path))
            .map_err(KeyringError::Io)
    }

    fn to_text(&self) -> Zeroizing<String> {
        // Room for everything first, so that no half of a key is left behind by a growing buffer.
        let mut text = Zeroizing::new(String::with_capacity(64 + (self.keys.len() + 1) * (128 + 64)));
        text.push_str("{\"version\":1,\"activeKeyId\":\"");
        text.push_str(&self.active);
        text.push_str("\",\"keys\":{");
        for (at, (id, key)) in self.keys.iter().enumerate() {
            let encoded = Zeroizing::new(Base64UrlUnpadded::encode_string(&**key));
            let parts = [if at == 0 { "\"" } else { ",\"" }, id, "\":\"", &encoded, "\""];
            for part in parts {
                text.push_str(part);
            }
        }
        text.push_str("}}\n");
        text
    }

    /// The text as it is written to the file, for tests that feed any bytes in.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn written(&self) -> Zeroizing<String> {
        self.to_text()
    }

    /// The active key's id.
    pub fn active(&self) -> &str {
        &self.active
    }

    /// Whether there is a key of this id.
    pub fn has(&self, id: &str) -> bool {
        self.key(id).is_some()
    }

    /// The keys' ids.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(id, _)| id.as_str())
    }

    pub(super) fn key(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|(known, _)| known == id).map(|(_, key)| key)
    }

    /// Adds a new random key of this id and makes it the active one.
    pub fn rotate(&mut self, id: &str) -> Result<(), KeyringError> {
        if self.keys.len() >= KEYRING_KEYS_MAX {
            return Err(KeyringError::Full);
        }
        let mut key = Key::default();
        random(&mut *key)?;
        self.keys.push((id.to_owned(), key));
        id.clone_into(&mut self.active);
        Ok(())
    }

    /// Forgets every key but the active one and those that are still used. `true`: some went.
    pub fn keep_only(&mut self, used: &[String]) -> bool {
        let before = self.keys.len();
        let active = &self.active;
        self.keys.retain(|(id, _)| id == active || used.contains(id));
        self.keys.len() != before
    }
}

fn random(buffer: &mut [u8]) -> Result<(), KeyringError> {
    getrandom::fill(buffer).map_err(|e| KeyringError::Io(std::io::Error::other(e.to_string())))
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyring(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

    fn ring() -> Keyring {
        let mut ring = Keyring { active: String::new(), keys: Vec::new() };
        ring.rotate("one").unwrap();
        ring
    }

    #[test]
    fn a_keyring_reads_back_as_it_was_written() {
        let mut ring = ring();
        ring.rotate("two").unwrap();
        let again = Keyring::parse(ring.to_text().as_bytes()).unwrap();
        assert_eq!((again.active(), again.ids().collect::<Vec<_>>()), ("two", vec!["one", "two"]));
        assert!(again.key("one").unwrap()[..] == ring.key("one").unwrap()[..]);
        assert!(ring.keep_only(&[]), "what nothing uses goes");
        assert!(!ring.keep_only(&[]) && ring.has("two") && !ring.has("one"));
    }

    #[test]
    fn what_is_not_exactly_a_keyring_is_refused_without_saying_what_stands_in_it() {
        let key = "A".repeat(43);
        let text = |body: &str| body.replace("KEY", &key);
        assert!(Keyring::parse(text(r#"{"version":1,"activeKeyId":"a","keys":{"a":"KEY"}}"#).as_bytes()).is_ok());
        for bad in [
            r"{}",
            "x",
            r#"{"version":2,"activeKeyId":"a","keys":{"a":"KEY"}}"#,
            r#"{"version":1,"activeKeyId":"b","keys":{"a":"KEY"}}"#,
            r#"{"version":1,"activeKeyId":"a","keys":{}}"#,
            r#"{"version":1,"activeKeyId":"a","keys":{"a":"KEYA"}}"#,
            r#"{"version":1,"activeKeyId":"a","keys":{"a":"short"}}"#,
            r#"{"version":1,"activeKeyId":"a","keys":{"a":7}}"#,
            r#"{"version":1,"activeKeyId":"","keys":{"":"KEY"}}"#,
            r#"{"version":1,"activeKeyId":"a","keys":{"a":"KEY","a":"KEY"}}"#,
            r#"{"version":1,"activeKeyId":"a","more":1,"keys":{"a":"KEY"}}"#,
        ] {
            let Err(why) = Keyring::parse(text(bad).as_bytes()) else { panic!("taken: {bad}") };
            assert!(!why.contains(&key));
        }
        let many: Vec<String> = (0..=KEYRING_KEYS_MAX).map(|n| format!("\"k{n}\":\"{key}\"")).collect();
        let many = format!(r#"{{"version":1,"activeKeyId":"k0","keys":{{{}}}}}"#, many.join(","));
        assert_eq!(Keyring::parse(many.as_bytes()).err(), Some("has too many keys"));
    }

    #[test]
    fn keyring_mode_symlink_size() {
        let root = std::env::temp_dir().join(format!("qinglet-keyring-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::DirBuilder::new().mode(0o700).create(&root).unwrap();
        let path = root.join("keyring");
        assert!(matches!(Keyring::load(&path), Err(KeyringError::Missing)));
        Keyring::create(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(Keyring::load(&path).is_ok());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Keyring::load(&path), Err(KeyringError::Unsafe(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, root.join("link")).unwrap();
        assert!(matches!(Keyring::load(&root.join("link")), Err(KeyringError::Unsafe(_))));
        let large = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        large.set_len(KEYRING_BYTES_MAX as u64 + 1).unwrap();
        assert!(matches!(Keyring::load(&path), Err(KeyringError::Unsafe(_))));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
