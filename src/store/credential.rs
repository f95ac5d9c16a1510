//! Credentials: append-only, the highest version is the current one (spec/control section 2). Only
//! the digest of a secret ever comes here.

use super::access::{AddCredential, CredentialChange, RevokeCredential};
use super::audit;
use super::fail::Fail;
use super::fence::{self, read_credential};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::digest::Digest;
use crate::model::id::MutationId;
use crate::model::policy::{Permission, Role, Subject};
use crate::model::record::Credential;
use crate::model::word::FenceReason;
use rusqlite::{OptionalExtension as _, params};

/// The current credentials of a subject, newest id last, at most `limit`.
pub(super) fn of_subject(tx: &Tx<'_>, subject: &Subject, limit: usize) -> Result<Vec<Credential>, Fail> {
    let sql = "SELECT id, version, subject_type, subject_id, status, secret_digest, changed_at_ms
        FROM credentials c WHERE subject_type = ?1 AND subject_id = ?2
        AND version = (SELECT max(version) FROM credentials WHERE id = c.id) ORDER BY id LIMIT ?3";
    let mut query = tx.conn.prepare_cached(sql)?;
    let rows = query.query_map(params![subject.kind, subject.id, limit], read_credential)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Stores a credential's next version.
pub(super) fn append(
    tx: &Tx<'_>,
    credential: &Credential,
    mutation: Option<MutationId>,
    by: &Subject,
) -> Result<(), Fail> {
    let sql = "INSERT INTO credentials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    tx.conn.prepare_cached(sql)?.execute(params![
        credential.id,
        credential.version,
        credential.subject.kind,
        credential.subject.id,
        if credential.active { "active" } else { "revoked" },
        Digest::from_bytes(credential.secret_digest),
        mutation,
        by.kind,
        by.id,
        credential.changed_at_ms,
    ])?;
    Ok(())
}

/// The next version of a credential, revoked.
pub(super) fn revoked(tx: &Tx<'_>, current: Credential) -> Credential {
    Credential { version: current.version + 1, active: false, changed_at_ms: tx.now_ms(), ..current }
}

fn stored(tx: &Tx<'_>, mutation: MutationId) -> Result<Option<Credential>, Fail> {
    let sql = "SELECT id, version, subject_type, subject_id, status, secret_digest, changed_at_ms
        FROM credentials WHERE mutation = ?1";
    Ok(tx.conn.prepare_cached(sql)?.query_row([mutation], read_credential).optional()?)
}

impl Operation for AddCredential {
    type Out = CredentialChange;

    fn perform(self, tx: &mut Tx<'_>) -> Result<CredentialChange, Fail> {
        let (by, operation, target) = (&self.authority, "credential.create", self.subject.to_string());
        let Some(own_role) = fence::held(tx, by, Permission::PolicyManage)? else {
            return Ok(CredentialChange::Refused(audit::fenced(tx, by, operation, &target)?));
        };
        if let Some(stored) = stored(tx, self.mutation)? {
            let same = stored.active && stored.subject == self.subject;
            return Ok(if same {
                CredentialChange::Existing(stored)
            } else {
                CredentialChange::Refused(FenceReason::MutationConflict)
            });
        }
        let role = fence::binding(tx, &by.project, &self.subject)?.and_then(|(_, role)| role);
        let Some(role) = role else { return Ok(CredentialChange::NotFound) };
        if role == Role::Owner && !own_role.holds(Permission::ProjectManage) {
            audit::refused(tx, by, operation, &target, "forbidden")?;
            return Ok(CredentialChange::Forbidden);
        }
        if fence::credential(tx, &self.credential_id)?.is_some() {
            return Ok(CredentialChange::Refused(FenceReason::VersionChanged));
        }
        let credential = Credential {
            id: self.credential_id,
            subject: self.subject,
            version: 1,
            active: true,
            secret_digest: self.secret_digest,
            changed_at_ms: tx.now_ms(),
        };
        append(tx, &credential, Some(self.mutation), &by.subject)?;
        audit::allowed(tx, by, operation, &target)?;
        Ok(CredentialChange::Done(credential))
    }
}

impl Operation for RevokeCredential {
    type Out = CredentialChange;

    fn perform(self, tx: &mut Tx<'_>) -> Result<CredentialChange, Fail> {
        let (by, operation) = (&self.authority, "credential.revoke");
        let Some(own_role) = fence::held(tx, by, Permission::PolicyManage)? else {
            return Ok(CredentialChange::Refused(audit::fenced(tx, by, operation, &self.credential_id)?));
        };
        if let Some(stored) = stored(tx, self.mutation)? {
            let same = !stored.active && stored.id == self.credential_id;
            return Ok(if same {
                CredentialChange::Existing(stored)
            } else {
                CredentialChange::Refused(FenceReason::MutationConflict)
            });
        }
        let Some(current) = fence::credential(tx, &self.credential_id)? else {
            return Ok(CredentialChange::NotFound);
        };
        let role = fence::binding(tx, &by.project, &current.subject)?.and_then(|(_, role)| role);
        if role == Some(Role::Owner) && !own_role.holds(Permission::ProjectManage) {
            audit::refused(tx, by, operation, &self.credential_id, "forbidden")?;
            return Ok(CredentialChange::Forbidden);
        }
        if !current.active {
            return Ok(CredentialChange::Done(current));
        }
        let credential = revoked(tx, current);
        append(tx, &credential, Some(self.mutation), &by.subject)?;
        audit::allowed(tx, by, operation, &self.credential_id)?;
        Ok(CredentialChange::Done(credential))
    }
}
