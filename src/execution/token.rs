//! The callback token of one start: 256 random bits that tie a receipt to its Attempt. The store
//! keeps only the digest (S70 section 2).

use crate::model::digest::Digest;

/// The digest that is stored for a token.
pub fn digest(token: &[u8; 32]) -> Digest {
    Digest::of("qinglet.callback.v1", token)
}
