//! From a bearer's text to a proven subject.
//!
//! Unknown id, wrong secret and revoked credential take one path: one point read, one HMAC, one
//! constant-time comparison, one kind of rejection. Nothing is cached, so a revocation works from
//! its commit on.

use super::digest::digest;
use super::pepper::Pepper;
use super::token::Token;
use crate::model::policy::{Subject, SubjectKind};
use crate::store::access::FindCredential;
use crate::store::{Store, StoreError};
use std::fmt;
use subtle::{Choice, ConstantTimeEq};

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

/// Who somebody is, proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Who.
    pub subject: Subject,
    /// By which credential.
    pub credential_id: Box<str>,
    /// That credential's version, which every mutation checks again in its own transaction.
    pub credential_version: i64,
}

/// Why nobody was proven. A rejection has no more detail, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotProven {
    /// The token does not work. The word is one of [`rejections::REASONS`](super::rejections::REASONS).
    Rejected(&'static str),
    /// It could not be checked.
    Unavailable(StoreError),
}

/// Checks tokens against the store under the pepper.
pub struct Authenticator {
    store: Store,
    pepper: Pepper,
    #[cfg(debug_assertions)]
    digests: AtomicU64,
    #[cfg(debug_assertions)]
    comparisons: AtomicU64,
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator(..)")
    }
}

impl Authenticator {
    /// An authenticator over this store and pepper.
    pub fn new(store: Store, pepper: Pepper) -> Self {
        Self {
            store,
            pepper,
            #[cfg(debug_assertions)]
            digests: AtomicU64::new(0),
            #[cfg(debug_assertions)]
            comparisons: AtomicU64::new(0),
        }
    }

    /// Proves who holds this token.
    pub fn authenticate(&self, bearer: &str) -> Result<Proof, NotProven> {
        // The grammar is public; what does not fit it tells nothing about any credential.
        let token = Token::parse(bearer).ok_or(NotProven::Rejected("bearer_malformed"))?;
        let find = FindCredential { credential_id: token.credential_id().to_owned() };
        let found = self.store.call(find).map_err(NotProven::Unavailable)?;
        let stored = found.as_ref().map_or([0; 32], |credential| credential.secret_digest);
        let usable = found.as_ref().is_some_and(|credential| {
            credential.active
                && *credential.id == *token.credential_id()
                && credential.subject.kind != SubjectKind::System
        });
        let same = self.compare(&self.digest(&token), &stored);
        match found {
            Some(credential) if bool::from(same & Choice::from(u8::from(usable))) => Ok(Proof {
                subject: credential.subject,
                credential_id: credential.id,
                credential_version: credential.version,
            }),
            _ => Err(NotProven::Rejected("credential_rejected")),
        }
    }

    /// What a new token's record holds of it.
    pub fn digest(&self, token: &Token) -> [u8; 32] {
        #[cfg(debug_assertions)]
        self.digests.fetch_add(1, Ordering::Relaxed);
        digest(&self.pepper, token)
    }

    fn compare(&self, one: &[u8; 32], other: &[u8; 32]) -> Choice {
        #[cfg(debug_assertions)]
        self.comparisons.fetch_add(1, Ordering::Relaxed);
        // Without the seam nothing of `self` is needed; with it, it is.
        let _ = self;
        one.ct_eq(other)
    }

    /// How many digests and comparisons were made, for the test that every rejection costs the same.
    #[cfg(debug_assertions)]
    pub fn work(&self) -> (u64, u64) {
        (self.digests.load(Ordering::Relaxed), self.comparisons.load(Ordering::Relaxed))
    }
}
