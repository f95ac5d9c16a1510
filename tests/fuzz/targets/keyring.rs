//! The text of a keyring on the first line, a value to seal with it behind: what is read is written as one
//! text, what is sealed opens as the same, and what was changed does not open.

use super::task::name;
use qinglet::access::keyring::Keyring;
use qinglet::access::seal::{NotOpened, Place, Value, open, seal};
use qinglet::model::id::MutationId;
use qinglet::model::limits::KEYRING_KEYS_MAX;

pub fn run(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (text, value) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let ring = match Keyring::parse(text) {
        Ok(ring) => ring,
        Err(why) => return assert!(!why.is_empty()),
    };
    assert!(ring.has(ring.active()) && ring.ids().count() <= KEYRING_KEYS_MAX);
    assert_eq!(format!("{ring:?}"), "Keyring(..)", "no key is shown");
    let written = ring.written();
    let again = Keyring::parse(written.as_bytes()).expect("what is written reads back");
    assert_eq!((again.active(), again.written()), (ring.active(), written));
    sealed(&ring, &again, value);
}

fn sealed(ring: &Keyring, again: &Keyring, bytes: &[u8]) {
    let mutation = MutationId::parse("01234567-89ab-4def-8123-456789abcdef").expect("an id");
    let place = Place { project: name("default"), name: name("n"), version: 1, mutation };
    let value = Value::new(bytes.to_vec());
    assert_eq!(format!("{value:?}"), "Value(..)", "no value is shown");
    let envelope = seal(ring, &place, &value).expect("random bytes");
    assert_eq!(open(again, &envelope).as_ref(), Ok(&value));
    for at in [0, envelope.sealed.len() / 2, envelope.sealed.len() - 1] {
        let mut changed = envelope.clone();
        changed.sealed[at] ^= 1;
        assert_eq!(open(ring, &changed), Err(NotOpened::Damaged));
    }
    let mut moved = envelope.clone();
    moved.version = 2;
    assert_eq!(open(ring, &moved), Err(NotOpened::Damaged), "it opens in its own place only");
    let mut foreign = envelope;
    foreign.sealed = bytes.to_vec();
    assert_eq!(open(ring, &foreign), Err(NotOpened::Damaged), "what nobody has sealed");
}
