//! Sealing a secret's value, and opening it again: XChaCha20-Poly1305 under a key of the keyring,
//! bound to everything that stands beside it in its row (design D16).

use super::keyring::Keyring;
use crate::model::id::MutationId;
use crate::model::name::Name;
use crate::model::secret::{ALGORITHM, Envelope};
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::fmt;
use zeroize::Zeroizing;

/// Keeps what is sealed here from opening as something of another kind.
const DOMAIN: &[u8] = b"qinglet.secret.v1\0";

/// A secret's value. Wiped when dropped; no `Debug` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Zeroizing<Vec<u8>>);

impl Value {
    /// A value of these bytes, which are wiped with it.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for the one who needs them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether both are the same, in a time that tells nothing but their lengths.
    pub fn is(&self, other: &Self) -> bool {
        use subtle::ConstantTimeEq as _;
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(..)")
    }
}

/// Why an envelope could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// The keyring has no such key.
    UnknownKey,
    /// It was changed, or belongs to another row.
    Damaged,
}

/// What a value is bound to.
#[derive(Clone)]
pub struct Place {
    /// The project.
    pub project: Name,
    /// The secret's name.
    pub name: Name,
    /// Its version.
    pub version: i64,
    /// The mutation that stores it.
    pub mutation: MutationId,
}

/// Domain, then each field after its length as four bytes, most significant first. Frozen: vectors below.
fn bound_to(place: &Place, key_id: &str) -> Vec<u8> {
    let (version, mutation) = (place.version.to_string(), place.mutation.to_string());
    let fields = [place.project.as_str(), place.name.as_str(), &version, &mutation, key_id, ALGORITHM];
    let mut bytes = DOMAIN.to_vec();
    for field in fields {
        bytes.extend((field.len() as u32).to_be_bytes());
        bytes.extend(field.as_bytes());
    }
    bytes
}

/// Seals a value under the active key. `None`: there are no random bytes.
pub fn seal(ring: &Keyring, place: &Place, value: &Value) -> Option<Envelope> {
    let mut nonce = [0; 24];
    getrandom::fill(&mut nonce).ok()?;
    seal_with(ring, place, value, nonce)
}

fn seal_with(ring: &Keyring, place: &Place, value: &Value, nonce: [u8; 24]) -> Option<Envelope> {
    let key = ring.key(ring.active())?;
    let aad = bound_to(place, ring.active());
    let payload = Payload { msg: value.expose(), aad: &aad };
    let sealed = XChaCha20Poly1305::new((&**key).into()).encrypt(XNonce::from_slice(&nonce), payload).ok()?;
    let Place { project, name, version, mutation } = place.clone();
    let key_id = ring.active().to_owned();
    Some(Envelope { project, name, version, key_id, nonce, sealed, mutation, created_at_ms: 0 })
}

/// Opens an envelope.
pub fn open(ring: &Keyring, envelope: &Envelope) -> Result<Value, NotOpened> {
    let key = ring.key(&envelope.key_id).ok_or(NotOpened::UnknownKey)?;
    let Envelope { project, name, version, mutation, .. } = envelope.clone();
    let aad = bound_to(&Place { project, name, version, mutation }, &envelope.key_id);
    let payload = Payload { msg: &envelope.sealed, aad: &aad };
    let opened = XChaCha20Poly1305::new((&**key).into()).decrypt(XNonce::from_slice(&envelope.nonce), payload);
    opened.map(Value::new).map_err(|_| NotOpened::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Keyring {
        let text = r#"{"version":1,"activeKeyId":"k","keys":{"k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"}}"#;
        Keyring::parse(text.as_bytes()).unwrap()
    }

    fn place() -> Place {
        Place {
            project: Name::default_project(),
            name: Name::parse("n").unwrap(),
            version: 1,
            mutation: MutationId::parse("01234567-89ab-4def-8123-456789abcdef").unwrap(),
        }
    }

    /// Frozen: a sealing that changes makes every stored secret unreadable. The first is checked
    /// against another implementation's bytes (tests/data/secret.txt says which).
    #[test]
    fn secret_vectors_and_aad_tamper() {
        let nonce: [u8; 24] = std::array::from_fn(|i| i as u8 + 64);
        let value = Value::new(b"correct horse".to_vec());
        let envelope = seal_with(&ring(), &place(), &value, nonce).unwrap();
        let hex = envelope.sealed.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let vector = include_str!("../../tests/data/secret.txt");
        let want = vector.lines().find(|line| !line.starts_with('#')).unwrap();
        assert_eq!(hex, want);
        assert!(open(&ring(), &envelope).unwrap().is(&value));
        let changes: [fn(&mut Envelope); 8] = [
            |e| e.project = Name::parse("other").unwrap(),
            |e| e.name = Name::parse("m").unwrap(),
            |e| e.version = 2,
            |e| e.mutation = MutationId::parse("01234567-89ab-4def-8123-456789abcdee").unwrap(),
            |e| e.nonce[0] ^= 1,
            |e| e.sealed[0] ^= 1,
            |e| *e.sealed.last_mut().unwrap() ^= 1,
            |e| e.sealed.clear(),
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut bent = envelope.clone();
            change(&mut bent);
            assert_eq!(open(&ring(), &bent).unwrap_err(), NotOpened::Damaged, "{at}");
        }
        let mut other = envelope;
        other.key_id = "l".into();
        assert_eq!(open(&ring(), &other).unwrap_err(), NotOpened::UnknownKey);
    }

    #[test]
    fn no_two_sealings_are_alike() {
        let seals = [(); 2].map(|()| seal(&ring(), &place(), &Value::new(b"x".to_vec())).unwrap());
        assert!(seals[0].nonce != seals[1].nonce && seals[0].sealed != seals[1].sealed);
    }
}
