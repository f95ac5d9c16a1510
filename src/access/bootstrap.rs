//! The first owner, made once by `init`, and a new token for an owner who lost theirs.
//!
//! The token is on the disk under a temporary name before the store commits to it, and gets its
//! real name after: so a crash can lose neither the token of a committed owner nor leave a token
//! that looks real and is not. What a crash left half done is told by the digest: the store knows
//! the temporary file's token, or it does not.

use super::digest::digest;
use super::pepper::{Pepper, PepperError};
use super::private_file::{self, Unfit};
use super::token::Token;
use crate::model::name::Name;
use crate::model::policy::{Subject, SubjectKind};
use crate::store::access::{BootstrapOwner, FindCredential, ListAccess, ReissueOwner};
use crate::store::state::StateDir;
use crate::store::{Store, StoreError};
use std::fmt;
use std::path::{Path, PathBuf};

/// The first owner's id; they are a `user`.
pub const OWNER_ID: &str = "owner";
/// The longest token, with its newline: prefix, 64 characters of id, `_`, 43 of secret.
const TOKEN_FILE_BYTES_MAX: usize = 5 + 64 + 1 + 43 + 1;

/// The steps after which a crash is survived, in order. A debug build calls its hook with the name.
pub const STEPS: [&str; 4] = ["bootstrap.pepper", "bootstrap.token", "bootstrap.commit", "bootstrap.publish"];

/// What `init` found or made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerState {
    /// The first owner is new; `owner.token` holds the token.
    Made,
    /// A half-done one was finished; `owner.token` holds the token.
    Finished,
    /// There was an owner already. Nothing was done.
    Existing {
        /// Whether `owner.token` is there.
        token_file: bool,
    },
}

/// Why there is no owner, in words that say what to do.
#[derive(Debug)]
pub enum BootstrapError {
    /// The pepper could not be used or made.
    Pepper(PepperError),
    /// A token file is not as it should be.
    TokenFile {
        /// The file's name in the state folder.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The kernel gave no random bytes.
    Random(getrandom::Error),
    /// The store could not do it.
    Store(StoreError),
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pepper(e) => e.fmt(f),
            Self::TokenFile { name, what } => write!(
                f,
                "the file `{name}` in the state folder {what}; remove the cause and run the same command again",
            ),
            Self::Random(e) => write!(f, "the kernel gave no random bytes for a token: {e}; run the command again"),
            Self::Store(StoreError::Unavailable(word)) => write!(
                f,
                "the owner could not be stored ({word}); see whether its file system is full or fails, then run the \
                 same command again, it goes on where it stopped",
            ),
            Self::Store(_) => f.write_str("the owner could not be stored, the store is busy or closing; run it again"),
        }
    }
}

impl std::error::Error for BootstrapError {}

impl From<PepperError> for BootstrapError {
    fn from(e: PepperError) -> Self {
        Self::Pepper(e)
    }
}

impl From<StoreError> for BootstrapError {
    fn from(e: StoreError) -> Self {
        Self::Store(e)
    }
}

/// Makes the first owner, finishes a half-done one, or finds that there is one. The caller holds
/// the state lock.
pub fn init_owner(state: &StateDir, store: &Store) -> Result<OwnerState, BootstrapError> {
    Bootstrap::new(state, store, &|_| {}).init()
}

/// Replaces the owner's token: every older one of that owner stops working with the commit. The
/// caller holds the state lock, so no daemon runs, and is the state folder's owner.
pub fn reissue_owner(state: &StateDir, store: &Store) -> Result<(), BootstrapError> {
    Bootstrap::new(state, store, &|_| {}).reissue()
}

/// Takes the owner's token of an old state over to one that was restored in its place, when that knows it.
/// `false`: there was none, or it does not.
pub fn carry_owner_token(old: &StateDir, new: &StateDir, store: &Store) -> Result<bool, BootstrapError> {
    let bootstrap = Bootstrap::new(new, store, &|_| {});
    let Ok(Some(token)) = read_token(&old.owner_token_path(), "owner.token") else { return Ok(false) };
    if !bootstrap.is_committed(&token, &Pepper::load(&bootstrap.pepper)?)? {
        return Ok(false);
    }
    bootstrap.put_down(&token)?;
    bootstrap.publish()?;
    Ok(true)
}

/// [`init_owner`] with a hook that is called after each of [`STEPS`], to crash there.
#[cfg(debug_assertions)]
pub fn init_owner_at(state: &StateDir, store: &Store, at: &dyn Fn(&'static str)) -> Result<OwnerState, BootstrapError> {
    Bootstrap::new(state, store, at).init()
}

/// [`reissue_owner`] with a hook that is called after each of [`STEPS`], to crash there.
#[cfg(debug_assertions)]
pub fn reissue_owner_at(state: &StateDir, store: &Store, at: &dyn Fn(&'static str)) -> Result<(), BootstrapError> {
    Bootstrap::new(state, store, at).reissue()
}

struct Bootstrap<'a> {
    store: &'a Store,
    pepper: PathBuf,
    token: PathBuf,
    temporary: PathBuf,
    at: &'a dyn Fn(&'static str),
}

impl<'a> Bootstrap<'a> {
    fn new(state: &StateDir, store: &'a Store, at: &'a dyn Fn(&'static str)) -> Self {
        let token = state.owner_token_path();
        let temporary = token.with_extension("token.new");
        Self { store, pepper: state.pepper_path(), token, temporary, at }
    }

    fn init(&self) -> Result<OwnerState, BootstrapError> {
        let pepper = match Pepper::load(&self.pepper) {
            // A store that knows somebody had a pepper. Making another would end every token that
            // a backup of the old one could still save, so that is left to an explicit command.
            Err(PepperError::Missing) if self.somebody_is_known()? => return Err(PepperError::Missing.into()),
            Err(PepperError::Missing) => Pepper::create(&self.pepper)?,
            other => other?,
        };
        (self.at)(STEPS[0]);
        let half_done = read_token(&self.temporary, "owner.token.new")?;
        if let Some(token) = &half_done
            && self.is_committed(token, &pepper)?
        {
            self.publish()?;
            return Ok(OwnerState::Finished);
        }
        if self.somebody_is_known()? {
            // A token that was never committed and never will be.
            self.discard()?;
            return Ok(OwnerState::Existing { token_file: self.token.symlink_metadata().is_ok() });
        }
        let token = match half_done {
            Some(token) => token,
            None => self.write_token()?,
        };
        (self.at)(STEPS[1]);
        let made = self.store.call(BootstrapOwner {
            subject: owner(),
            credential_id: token.credential_id().into(),
            secret_digest: digest(&pepper, &token),
        })?;
        (self.at)(STEPS[2]);
        if !made {
            // Every binding was revoked: closed for good all the same.
            self.discard()?;
            return Ok(OwnerState::Existing { token_file: self.token.symlink_metadata().is_ok() });
        }
        self.publish()?;
        (self.at)(STEPS[3]);
        Ok(OwnerState::Made)
    }

    fn reissue(&self) -> Result<(), BootstrapError> {
        let pepper = match Pepper::load(&self.pepper) {
            Err(PepperError::Missing) => Pepper::create(&self.pepper)?,
            other => other?,
        };
        (self.at)(STEPS[0]);
        let token = self.write_token()?;
        (self.at)(STEPS[1]);
        self.store.call(ReissueOwner {
            subject: owner(),
            credential_id: token.credential_id().into(),
            secret_digest: digest(&pepper, &token),
        })?;
        (self.at)(STEPS[2]);
        self.publish()?;
        (self.at)(STEPS[3]);
        Ok(())
    }

    fn somebody_is_known(&self) -> Result<bool, BootstrapError> {
        let (bindings, more) = self.store.call(ListAccess { project: Name::default_project(), after: None })?;
        Ok(more || !bindings.is_empty())
    }

    fn is_committed(&self, token: &Token, pepper: &Pepper) -> Result<bool, BootstrapError> {
        let found = self.store.call(FindCredential { credential_id: token.credential_id().to_owned() })?;
        Ok(found.is_some_and(|credential| credential.active && credential.secret_digest == digest(pepper, token)))
    }

    fn write_token(&self) -> Result<Token, BootstrapError> {
        let token = Token::make().map_err(BootstrapError::Random)?;
        self.put_down(&token)?;
        Ok(token)
    }

    /// Writes a token under the temporary name.
    fn put_down(&self, token: &Token) -> Result<(), BootstrapError> {
        let mut line = format!("{}\n", token.reveal().expose()).into_bytes();
        let written = private_file::write_new(&self.temporary, &line);
        line.fill(0);
        std::hint::black_box(&line);
        written.map_err(|e| token_file("owner.token.new", format!("could not be written: {e}")))
    }

    fn publish(&self) -> Result<(), BootstrapError> {
        private_file::publish(&self.temporary, &self.token)
            .map_err(|e| token_file("owner.token", format!("could not be put in place: {e}")))
    }

    fn discard(&self) -> Result<(), BootstrapError> {
        private_file::remove(&self.temporary)
            .map_err(|e| token_file("owner.token.new", format!("could not be removed: {e}")))
    }
}

fn owner() -> Subject {
    Subject { kind: SubjectKind::User, id: OWNER_ID.into() }
}

fn token_file(name: &'static str, what: String) -> BootstrapError {
    BootstrapError::TokenFile { name, what }
}

/// Reads a token file: one token and a newline. `None` when it is not there, or torn by a crash
/// before it was synced, which is as good as not there.
fn read_token(path: &Path, name: &'static str) -> Result<Option<Token>, BootstrapError> {
    let mut bytes = match private_file::read(path, TOKEN_FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(Unfit::Missing) => return Ok(None),
        Err(Unfit::Unsafe(what)) => return Err(token_file(name, what.to_owned())),
        Err(Unfit::Io(e)) => return Err(token_file(name, format!("could not be read: {e}"))),
    };
    let token = std::str::from_utf8(&bytes).ok().and_then(|text| text.strip_suffix('\n')).and_then(Token::parse);
    bytes.fill(0);
    std::hint::black_box(&bytes);
    Ok(token)
}
