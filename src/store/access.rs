//! Subjects' role bindings and credentials; the reads that every admission makes.

use super::fail::Fail;
use super::fence;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::MutationId;
use crate::model::name::Name;
use crate::model::policy::{Authority, Role, Standing, Subject};
use crate::model::record::{Binding, Credential};
use crate::model::word::FenceReason;

/// Reads a credential's latest version.
pub struct FindCredential {
    /// The id in the token.
    pub credential_id: String,
}

impl Operation for FindCredential {
    type Out = Option<Credential>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        fence::credential(tx, &self.credential_id)
    }
}

/// Reads a subject's standing in a project: one bounded point read, never cached.
pub struct FindStanding {
    /// The project.
    pub project: Name,
    /// Who.
    pub subject: Subject,
}

impl Operation for FindStanding {
    type Out = Standing;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Standing, Fail> {
        fence::standing(tx, &self.project, &self.subject)
    }
}

/// Grants or revokes a role: a new version of the binding, with its audit row.
pub struct Bind {
    /// Who asks and on what basis. `policy.manage` was checked; granting or taking `owner` also
    /// needs an owner, which this transaction checks.
    pub authority: Authority,
    /// The mutation's name.
    pub mutation: MutationId,
    /// Whose role.
    pub subject: Subject,
    /// The new role; `None` revokes.
    pub role: Option<Role>,
}

/// What became of an access change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The binding as it is now.
    Done(Binding),
    /// The same mutation was stored before.
    Existing(Binding),
    /// Nothing to revoke.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
    /// The asker's role may not do this.
    Forbidden,
}

/// Stores a new credential for a subject that has a role, with its audit row. The secret itself
/// never comes here.
pub struct AddCredential {
    /// Who asks and on what basis. A credential for an owner needs an owner.
    pub authority: Authority,
    /// The mutation's name.
    pub mutation: MutationId,
    /// Whom it proves.
    pub subject: Subject,
    /// Its id.
    pub credential_id: Box<str>,
    /// HMAC-SHA-256 of id and secret under the pepper.
    pub secret_digest: [u8; 32],
}

/// What became of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialChange {
    /// It is as asked.
    Done(Credential),
    /// The same mutation was stored before. Its secret was shown then and cannot be shown again.
    Existing(Credential),
    /// No such credential, or the subject has no role.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
    /// The asker's role may not do this.
    Forbidden,
}

/// Revokes a credential, with its audit row. It works for nobody from the commit on.
pub struct RevokeCredential {
    /// Who asks and on what basis. An owner's credential needs an owner.
    pub authority: Authority,
    /// The mutation's name.
    pub mutation: MutationId,
    /// Which credential.
    pub credential_id: Box<str>,
}

/// Lists current bindings and credentials, each by id, at most `PAGE_MAX` of each.
pub struct ListAccess {
    /// The project.
    pub project: Name,
    /// Only subjects after this one.
    pub after: Option<Subject>,
}

/// Makes the first owner, once: refused for ever after any binding was made.
pub struct BootstrapOwner {
    /// The owner's subject.
    pub subject: Subject,
    /// Its credential's id.
    pub credential_id: Box<str>,
    /// HMAC-SHA-256 of id and secret under the pepper.
    pub secret_digest: [u8; 32],
}

/// Replaces the owner's credential: the new one is stored and every older active one of that
/// subject is revoked in the same transaction, audited as `system:owner-bootstrap`. When no active
/// owner is left (all were revoked), the subject is bound as owner again.
pub struct ReissueOwner {
    /// The owner's subject.
    pub subject: Subject,
    /// The new credential's id.
    pub credential_id: Box<str>,
    /// HMAC-SHA-256 of id and secret under the pepper.
    pub secret_digest: [u8; 32],
}
