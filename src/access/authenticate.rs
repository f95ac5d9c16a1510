//! From a bearer's text to a proven subject.
//!
//! Unknown id, wrong secret, expired and revoked credential take one path: one point read, one HMAC, one
//! constant-time comparison, one kind of rejection. Nothing is cached, so a revocation works from
//! its commit on.
//!
//! Time decides only while the clock may decide by age (design D9): a board that boots in 1970 must not
//! lock anybody out, nor let somebody else's clock end every token. Until then a token that expires works,
//! unless it was seen to expire before, which is stored as its revocation.

use super::digest::digest;
use super::pepper::Pepper;
use super::token::Token;
use crate::model::limits::{DAY_MS, NOTED_TOKENS_MAX};
use crate::model::policy::{Subject, SubjectKind};
use crate::store::access::{FindCredential, NoteUse};
use crate::store::{Store, StoreError};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};
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
    /// When the proof ends, in epoch milliseconds, if the credential expires and the clock may say so.
    pub valid_until_ms: Option<i64>,
}

/// Why nobody was proven. A rejection has no more detail, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotProven {
    /// The token does not work. The word is one of [`rejections::REASONS`](super::rejections::REASONS).
    Rejected(&'static str),
    /// It could not be checked.
    Unavailable(StoreError),
}

/// The wall clock in epoch milliseconds, while it may decide by age. Must not block.
pub type AgeClock = Box<dyn Fn() -> Option<i64> + Send + Sync>;

/// The credentials whose use was noted on one day.
#[derive(Default)]
struct Noted {
    day: i64,
    ids: BTreeSet<Box<str>>,
}

/// Checks tokens against the store under the pepper.
pub struct Authenticator {
    store: Store,
    pepper: Pepper,
    clock: AgeClock,
    noted: Mutex<Noted>,
    #[cfg(debug_assertions)]
    digests: AtomicU64,
    #[cfg(debug_assertions)]
    comparisons: AtomicU64,
}

fn is_over(expires_at_ms: Option<i64>, now_ms: Option<i64>) -> bool {
    matches!((expires_at_ms, now_ms), (Some(end_ms), Some(now_ms)) if end_ms <= now_ms)
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authenticator(..)")
    }
}

impl Authenticator {
    /// An authenticator over this store and pepper, by this clock.
    pub fn new(store: Store, pepper: Pepper, clock: AgeClock) -> Self {
        Self {
            store,
            pepper,
            clock,
            noted: Mutex::default(),
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
        let now_ms = (self.clock)();
        let usable = found.as_ref().is_some_and(|credential| {
            credential.active
                && !is_over(credential.expires_at_ms, now_ms)
                && *credential.id == *token.credential_id()
                && credential.subject.kind != SubjectKind::System
        });
        let same = self.compare(&self.digest(&token), &stored);
        match found {
            Some(credential) if bool::from(same & Choice::from(u8::from(usable))) => {
                if let Some(now_ms) = now_ms {
                    self.note_use(&credential.id, now_ms.div_euclid(DAY_MS));
                }
                Ok(Proof {
                    subject: credential.subject,
                    credential_id: credential.id,
                    credential_version: credential.version,
                    valid_until_ms: credential.expires_at_ms.filter(|_| now_ms.is_some()),
                })
            }
            _ => Err(NotProven::Rejected("credential_rejected")),
        }
    }

    /// What a new token's record holds of it.
    pub fn digest(&self, token: &Token) -> [u8; 32] {
        #[cfg(debug_assertions)]
        self.digests.fetch_add(1, Ordering::Relaxed);
        digest(&self.pepper, token)
    }

    /// Whether a credential that is good until then is over, as far as the clock may say so.
    pub fn is_over(&self, expires_at_ms: Option<i64>) -> bool {
        is_over(expires_at_ms, (self.clock)())
    }

    /// Has the store note the day, the first time on it; nobody waits for that. One that fails is not tried
    /// again before the next day, because a full disk would see one with every request.
    fn note_use(&self, id: &str, day: i64) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.day != day {
            *noted = Noted { day, ids: BTreeSet::new() };
        }
        if noted.ids.len() < NOTED_TOKENS_MAX && noted.ids.insert(id.into()) {
            drop(noted);
            self.store.post(NoteUse { credential_id: id.into(), day }, |_| ());
        }
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
