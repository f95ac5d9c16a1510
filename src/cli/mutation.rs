//! Names for mutations, so that a request said twice is done once.

use super::failure::Failure;
use crate::model::id::{MutationId, Uuid};

/// A fresh random UUID (RFC 9562 version 4).
pub fn fresh() -> Result<MutationId, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::unavailable(format!("the system gives no random bytes: {error}")))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(MutationId(Uuid::from_bytes(bytes)))
}
