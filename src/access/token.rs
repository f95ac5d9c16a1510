//! Bearer tokens: `ql3c_<credentialId>_<43 base64url characters>` (spec/control section 2).

use base64ct::{Base64UrlUnpadded, Encoding};
use std::fmt;

/// What every token begins with.
const PREFIX: &str = "ql3c_";
/// 32 bytes as unpadded base64url.
const SECRET_CHARS: usize = 43;
/// The longest credential id the grammar takes.
const ID_CHARS_MAX: usize = 64;
/// Random bytes in the id of a token made here; 96 bits never meet twice.
const ID_RANDOM_BYTES: usize = 12;

/// A token in its two parts. It has no `Debug` that shows the secret, and wipes it when dropped.
pub struct Token {
    credential_id: Box<str>,
    secret: [u8; 32],
}

impl Token {
    /// A new token from the kernel's random bytes. Its id is also a [`Name`](crate::model::name::Name),
    /// so that it can stand in a URL path.
    pub fn make() -> Result<Self, getrandom::Error> {
        let mut id = [0; ID_RANDOM_BYTES];
        getrandom::fill(&mut id)?;
        let mut token = Self { credential_id: hex_id(&id), secret: [0; 32] };
        getrandom::fill(&mut token.secret)?;
        Ok(token)
    }

    /// Reads the one canonical form. The secret has a fixed length and is split off from the right,
    /// because an id may contain `_` itself.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(PREFIX)?;
        let (front, secret_text) = rest.split_at_checked(rest.len().checked_sub(SECRET_CHARS)?)?;
        let id = front.strip_suffix('_')?;
        if !is_credential_id(id) {
            return None;
        }
        let mut token = Self { credential_id: id.into(), secret: [0; 32] };
        let decoded = Base64UrlUnpadded::decode(secret_text, &mut token.secret).ok()?;
        // The last character carries two bits that mean nothing; only zero is canonical.
        (decoded.len() == 32 && token.reveal().expose() == text).then_some(token)
    }

    /// The public part.
    pub fn credential_id(&self) -> &str {
        &self.credential_id
    }

    /// The secret part, for the digest only.
    pub(super) fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The whole token as text, for the one place where it is handed out.
    pub fn reveal(&self) -> Revealed {
        let mut secret = Base64UrlUnpadded::encode_string(&self.secret);
        let text = format!("{PREFIX}{}_{secret}", self.credential_id);
        wipe(&mut secret);
        Revealed(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}, ..)", self.credential_id)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.secret.fill(0);
        std::hint::black_box(&self.secret);
    }
}

/// A token's text. It has no `Debug`, and is wiped when dropped.
pub struct Revealed(String);

impl Revealed {
    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for Revealed {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

fn wipe(text: &mut String) {
    let mut bytes = std::mem::take(text).into_bytes();
    bytes.fill(0);
    std::hint::black_box(&bytes);
}

fn hex_id(random: &[u8]) -> Box<str> {
    random.iter().fold(String::from("c"), |id, byte| format!("{id}{byte:02x}")).into()
}

/// A letter or digit, then letters, digits, `.`, `_`, `:` and `-`, 64 at most.
pub fn is_credential_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && bytes.all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b':' | b'-'))
        && text.len() <= ID_CHARS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::Name;

    const ZEROS: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    #[test]
    fn a_made_token_reads_back_and_its_id_is_a_url_name() {
        let token = Token::make().unwrap();
        let text = token.reveal();
        let again = Token::parse(text.expose()).unwrap();
        assert_eq!(again.credential_id(), token.credential_id());
        assert_eq!(again.secret(), token.secret());
        assert!(Name::parse(token.credential_id()).is_some());
        assert_ne!(Token::make().unwrap().secret(), token.secret());
    }

    #[test]
    fn the_secret_is_split_off_from_the_right() {
        let token = Token::parse(&format!("ql3c_a_b:c.d-_{ZEROS}")).unwrap();
        assert_eq!(token.credential_id(), "a_b:c.d-");
        let underscores = format!("ql3c_x_{}8", "_".repeat(42));
        assert_eq!(Token::parse(&underscores).unwrap().credential_id(), "x", "a secret of 0xff is all `_`");
    }

    #[test]
    fn only_the_canonical_form_is_a_token() {
        let id64 = "a".repeat(64);
        assert!(Token::parse(&format!("ql3c_{id64}_{ZEROS}")).is_some());
        for bad in [
            String::new(),
            "ql3c_".into(),
            format!("ql3c__{ZEROS}"),
            format!("ql3c_{ZEROS}"),
            format!("ql3c_-a_{ZEROS}"),
            format!("ql3c_a b_{ZEROS}"),
            format!("ql3c_{id64}a_{ZEROS}"),
            format!("QL3C_a_{ZEROS}"),
            format!(" ql3c_a_{ZEROS}"),
            format!("ql3c_a_{ZEROS} "),
            format!("ql3c_a_{ZEROS}="),
            format!("ql3c_a_{}", &ZEROS[1..]),
            format!("ql3c_a_{}B", &ZEROS[1..]),
            format!("ql3c_a_{}+", &ZEROS[1..]),
            format!("ql3c_a_{}é", &ZEROS[2..]),
            format!("ql3c_é_{ZEROS}"),
        ] {
            assert!(Token::parse(&bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn a_token_never_shows_its_secret_by_accident() {
        let token = Token::parse(&format!("ql3c_a_{ZEROS}")).unwrap();
        assert_eq!(format!("{token:?}"), "Token(a, ..)");
    }
}
