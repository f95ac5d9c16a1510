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
    /// How long it works from now on, in milliseconds; `None` = until it is revoked.
    pub expires_in_ms: Option<i64>,
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
    /// The subject has as many as it may have.
    TooMany,
}

/// Notes that a credential was used on a day, unless that is known. No decision, so no audit row.
pub struct NoteUse {
    /// Which credential.
    pub credential_id: Box<str>,
    /// Which day, counted from 1970 in UTC.
    pub day: i64,
}

/// Revokes credentials whose time is over, each with its audit row by `system:clock`: what expired once
/// does not come back when the clock does. Answers how many. Only for a clock that may decide by age.
pub struct ExpireCredentials {
    /// What time it is, in epoch milliseconds.
    pub now_ms: i64,
    /// At most so many.
    pub limit: usize,
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

/// Lists current bindings by subject, each with the last used days of its credentials: those that are
/// active first, then the newest revoked ones. At most `PAGE_MAX` of each.
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
/// subject is revoked in the same transaction, audited as `system:owner-bootstrap`. When the subject
/// is not an owner any more, whoever took that away, it is bound as owner again.
pub struct ReissueOwner {
    /// The owner's subject.
    pub subject: Subject,
    /// The new credential's id.
    pub credential_id: Box<str>,
    /// HMAC-SHA-256 of id and secret under the pepper.
    pub secret_digest: [u8; 32],
}
