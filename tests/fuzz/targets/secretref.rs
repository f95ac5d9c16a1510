//! A task's reference to a secret: one text for one secret.

use qinglet::model::limits::REVISION_MAX;
use qinglet::model::secret::SecretRef;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(secret) = SecretRef::parse(text) else { return };
    assert_eq!(secret.to_string(), text);
    assert!(secret.version.is_none_or(|version| (1..=REVISION_MAX).contains(&version)));
    for other in [format!("{text}="), format!(" {text}"), format!("{text}\n"), text.to_uppercase()] {
        assert_eq!(SecretRef::parse(&other), None, "{other:?}");
    }
}
