//! What is stored of a token: HMAC-SHA-256 under the pepper over its id and secret.

use super::pepper::Pepper;
use super::token::Token;
use hmac::digest::generic_array::GenericArray;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Keeps this digest from passing as one of another kind.
const DOMAIN: &[u8] = b"qinglong.api-credential.v1\0";

/// The digest of a token: HMAC-SHA-256 keyed by the pepper over the domain, a NUL, and id and
/// secret, each after its length as four bytes, most significant first. The lengths keep an id's
/// end and a secret's beginning apart. Frozen: tests/data/credential.txt.
pub fn digest(pepper: &Pepper, token: &Token) -> [u8; 32] {
    // A key shorter than the block is padded with zeros (RFC 2104 section 2); done here, because
    // the constructor that takes a whole block cannot fail.
    let mut block = [0; 64];
    block[..32].copy_from_slice(pepper.bytes());
    let mut mac = <Hmac<Sha256> as Mac>::new(GenericArray::from_slice(&block));
    block.fill(0);
    std::hint::black_box(&block);
    mac.update(DOMAIN);
    for part in [token.credential_id().as_bytes(), token.secret()] {
        mac.update(&(part.len() as u32).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest::Digest;

    /// Frozen: a digest that changes locks everybody out.
    #[test]
    fn credential_digest_vectors() {
        let vectors = include_str!("../../tests/data/credential.txt");
        let mut seen = 0;
        for line in vectors.lines().filter(|line| !line.starts_with('#')) {
            let [pepper, token, want] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let pepper = Pepper::known(*Digest::parse(pepper).unwrap().as_bytes());
            let got = digest(&pepper, &Token::parse(token).unwrap());
            assert_eq!(Digest::from_bytes(got).to_string(), want, "{token}");
            seen += 1;
        }
        assert_eq!(seen, 3);
    }
}
