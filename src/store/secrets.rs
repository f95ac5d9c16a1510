//! Secrets: storing them sealed, deleting and reading them. This is their face; `secret` does it. No
//! value in plain ever comes here.

use super::fail::Fail;
use super::secret;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::MutationId;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::Authority;
use crate::model::secret::{Envelope, SecretHead};
use crate::model::word::FenceReason;
use rusqlite::params;

/// Reads what a value has to be sealed for: who may was checked at admission and is checked again here,
/// before any key is read.
pub struct LookSecret {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which secret.
    pub name: Name,
    /// The mutation that is to store a version.
    pub mutation: MutationId,
}

/// How a secret stands.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretLook {
    /// A fence did not hold.
    Refused(FenceReason),
    /// The mutation has stored this before.
    Stored(Box<Envelope>),
    /// The mutation is new, and the next version would be this one.
    Next(i64),
}

/// Stores a secret's next version with its `allowed` audit row. Versions older than the newest
/// [`SECRET_VERSIONS_MAX`](limits::SECRET_VERSIONS_MAX) go.
pub struct PutSecret {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// The version that is current for the caller; `None` creates.
    pub expected_version: Option<i64>,
    /// The value, sealed for the next version.
    pub envelope: Envelope,
}

/// What became of storing a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPut {
    /// It is new.
    Created(SecretHead),
    /// It has a new version.
    Updated(SecretHead),
    /// A fence did not hold.
    Refused(FenceReason),
    /// There are as many secrets as there may be.
    Full,
}

/// Deletes a secret: every version of its value goes for good.
pub struct DeleteSecret {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which secret.
    pub name: Name,
    /// The mutation's name.
    pub mutation: MutationId,
    /// The version the caller has seen.
    pub expected_version: i64,
}

/// What became of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretDeleted {
    /// It is gone.
    Done,
    /// The same mutation deleted it before.
    Existing,
    /// No such secret.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
}

/// Reads one secret's head. `None`: no such secret.
pub struct GetSecret {
    /// The project.
    pub project: Name,
    /// Which secret.
    pub name: Name,
}

impl Operation for GetSecret {
    type Out = Option<SecretHead>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let row = secret::head(tx, &self.project, &self.name)?.filter(|row| !row.deleted);
        Ok(row.map(|row| SecretHead { name: self.name, version: row.version, updated_at_ms: row.updated_at_ms }))
    }
}

/// Reads one page of secrets' heads by name.
pub struct ListSecrets {
    /// The project.
    pub project: Name,
    /// Only names greater than this.
    pub after: Option<Name>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListSecrets {
    /// The page and whether there are more.
    type Out = (Vec<SecretHead>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = self.limit.min(limits::PAGE_MAX);
        let after = self.after.as_ref().map_or("", Name::as_str);
        let sql = "SELECT name, version, updated_at_ms FROM secrets
            WHERE project = ?1 AND name > ?2 AND deleted = 0 ORDER BY name LIMIT ?3";
        let mut page = tx.rows(sql, params![self.project, after, limit + 1], |row| {
            Ok(SecretHead { name: row.get(0)?, version: row.get(1)?, updated_at_ms: row.get(2)? })
        })?;
        let more = page.len() > limit;
        page.truncate(limit);
        Ok((page, more))
    }
}

/// Reads the envelopes that a start needs, each by name and version; `None` is the current one. In the
/// order asked; what is not there is `None`.
pub struct FindEnvelopes {
    /// The project.
    pub project: Name,
    /// Which ones; at most [`SECRET_REFS_MAX`](limits::SECRET_REFS_MAX).
    pub wanted: Vec<(Name, Option<i64>)>,
}

impl Operation for FindEnvelopes {
    type Out = Vec<Option<Envelope>>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let wanted = self.wanted.iter().take(limits::SECRET_REFS_MAX);
        wanted.map(|(name, version)| secret::envelope(tx, &self.project, name, *version)).collect()
    }
}

/// Checks and writes down that secrets are to be sealed under a new key, before the keyring is touched.
pub struct BeginRekey {
    /// Who asks and on what basis.
    pub authority: Authority,
}

/// Reads envelopes that another key than this seals, and how many there are.
pub struct ListOldSeals {
    /// The active key.
    pub active: String,
    /// At most so many.
    pub limit: usize,
}

/// Exchanges envelopes for the same values sealed under another key. One that has changed meanwhile
/// stays as it is.
pub struct Reseal {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Each as it is to be, with the key that sealed it before.
    pub moved: Vec<(String, Envelope)>,
}

/// Reads which keys seal something.
pub struct ListUsedKeys;
