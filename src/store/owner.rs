//! The first owner, made once by `init`, and a new credential for an owner who lost theirs. Both
//! are local acts of whoever owns the state folder; neither is reachable over HTTP (design D13).

use super::access::{BootstrapOwner, ReissueOwner};
use super::audit::{self, Entry};
use super::binding::{self, Next};
use super::credential;
use super::fail::Fail;
use super::fence;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::name::Name;
use crate::model::policy::{Role, Subject, SubjectKind};
use crate::model::record::Credential;

fn local() -> Subject {
    Subject { kind: SubjectKind::System, id: "owner-bootstrap".into() }
}

fn note(tx: &mut Tx<'_>, project: &Name, operation: &str, subject: &Subject) -> Result<(), Fail> {
    let (by, target) = (local(), subject.to_string());
    let entry = Entry {
        operation,
        outcome: "allowed",
        subject: Some(&by),
        target: Some(&target),
        count: 1,
        ..Entry::default()
    };
    audit::write(tx, project, &entry)
}

fn issue(tx: &Tx<'_>, id: Box<str>, subject: &Subject, secret_digest: [u8; 32]) -> Result<(), Fail> {
    let changed_at_ms = tx.now_ms();
    let (subject, expires_at_ms) = (subject.clone(), None);
    let fresh = Credential { id, subject, version: 1, active: true, secret_digest, changed_at_ms, expires_at_ms };
    credential::append(tx, &fresh, None, &local())
}

fn bind(tx: &Tx<'_>, project: &Name, subject: &Subject) -> Result<(), Fail> {
    let next = Next { project, subject, role: Some(Role::Owner), mutation: None, by: &local() };
    binding::append(tx, &next).map(drop)
}

impl Operation for BootstrapOwner {
    /// Whether it was made; `false` = closed.
    type Out = bool;

    fn perform(self, tx: &mut Tx<'_>) -> Result<bool, Fail> {
        // Any binding, even a revoked one, closes this for ever.
        if tx.conn.prepare_cached("SELECT 1 FROM role_bindings LIMIT 1")?.exists([])? {
            return Ok(false);
        }
        let project = Name::default_project();
        bind(tx, &project, &self.subject)?;
        issue(tx, self.credential_id, &self.subject, self.secret_digest)?;
        note(tx, &project, "owner.bootstrap", &self.subject)?;
        Ok(true)
    }
}

impl Operation for ReissueOwner {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let project = Name::default_project();
        credential::revoke_all(tx, &self.subject, &local())?;
        issue(tx, self.credential_id, &self.subject, self.secret_digest)?;
        // Whatever other owners there are: one who was made by a thief must not be able to lock out whoever
        // has the state folder.
        if fence::binding(tx, &project, &self.subject)?.is_none_or(|(_, role)| role != Some(Role::Owner)) {
            bind(tx, &project, &self.subject)?;
        }
        note(tx, &project, "owner.reissue", &self.subject)
    }
}
