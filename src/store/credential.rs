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
use crate::model::limits::{TIME_MS_MAX, TOKENS_PER_SUBJECT_MAX};
use crate::model::policy::{Permission, Role, Subject};
use crate::model::record::Credential;
use crate::model::word::FenceReason;
use rusqlite::{Row, params};

/// A credential and the day it was used last.
pub(super) type Used = (Credential, Option<i64>);

/// No limit, as SQLite counts.
const ALL: usize = usize::MAX >> 1;

/// The current credentials of a subject, each with the day it was used last: active ones first, then the
/// newest revoked ones, at most `limit`.
pub(super) fn of_subject(tx: &Tx<'_>, subject: &Subject, limit: usize) -> Result<Vec<Used>, Fail> {
    let sql = "SELECT id, version, subject_type, subject_id, status, secret_digest, changed_at_ms, expires_at_ms,
        (SELECT last_used_day FROM credential_uses WHERE credential = c.id)
        FROM credentials c WHERE subject_type = ?1 AND subject_id = ?2
        AND version = (SELECT max(version) FROM credentials WHERE id = c.id)
        ORDER BY status, changed_at_ms DESC, id LIMIT ?3";
    let mut query = tx.conn.prepare_cached(sql)?;
    let read = |row: &Row<'_>| Ok((read_credential(row)?, row.get(8)?));
    let rows = query.query_map(params![subject.kind, subject.id, limit], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Revokes every active credential of a subject. Answers their ids.
pub(super) fn revoke_all(tx: &Tx<'_>, subject: &Subject, by: &Subject) -> Result<Vec<Box<str>>, Fail> {
    let mut gone = Vec::new();
    for (current, _) in of_subject(tx, subject, ALL)? {
        if current.active {
            let credential = revoked(tx, current);
            append(tx, &credential, None, by)?;
            gone.push(credential.id);
        }
    }
    Ok(gone)
}

/// What an audit row is about: whose credential, and which.
pub(super) fn target(subject: &Subject, id: &str) -> String {
    format!("{subject} {id}")
}

/// Stores a credential's next version.
pub(super) fn append(
    tx: &Tx<'_>,
    credential: &Credential,
    mutation: Option<MutationId>,
    by: &Subject,
) -> Result<(), Fail> {
    let sql = "INSERT INTO credentials VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    tx.change(
        sql,
        params![
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
            credential.expires_at_ms,
        ],
    )?;
    Ok(())
}

/// The next version of a credential, revoked.
pub(super) fn revoked(tx: &Tx<'_>, current: Credential) -> Credential {
    Credential { version: current.version + 1, active: false, changed_at_ms: tx.now_ms(), ..current }
}

fn stored(tx: &Tx<'_>, mutation: MutationId) -> Result<Option<Credential>, Fail> {
    let sql = "SELECT id, version, subject_type, subject_id, status, secret_digest, changed_at_ms, expires_at_ms
        FROM credentials WHERE mutation = ?1";
    tx.find(sql, params![mutation], read_credential)
}

impl Operation for AddCredential {
    type Out = CredentialChange;

    fn perform(self, tx: &mut Tx<'_>) -> Result<CredentialChange, Fail> {
        let (by, operation) = (&self.authority, "credential.create");
        let target = target(&self.subject, &self.credential_id);
        let Some(own_role) = fence::held(tx, by, Permission::PolicyManage)? else {
            return Ok(CredentialChange::Refused(audit::fenced(tx, by, operation, &target)?));
        };
        if let Some(stored) = stored(tx, self.mutation)? {
            let life_ms = stored.expires_at_ms.map(|at_ms| at_ms - stored.changed_at_ms);
            let same = stored.active && stored.subject == self.subject && life_ms == self.expires_in_ms;
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
        let active = of_subject(tx, &self.subject, ALL)?.iter().filter(|(credential, _)| credential.active).count();
        if active >= TOKENS_PER_SUBJECT_MAX {
            return Ok(CredentialChange::TooMany);
        }
        let now_ms = tx.now_ms();
        let credential = Credential {
            id: self.credential_id,
            subject: self.subject,
            version: 1,
            active: true,
            secret_digest: self.secret_digest,
            changed_at_ms: now_ms,
            expires_at_ms: self.expires_in_ms.map(|life_ms| now_ms.saturating_add(life_ms).min(TIME_MS_MAX)),
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
        let target = target(&current.subject, &self.credential_id);
        let role = fence::binding(tx, &by.project, &current.subject)?.and_then(|(_, role)| role);
        if role == Some(Role::Owner) && !own_role.holds(Permission::ProjectManage) {
            audit::refused(tx, by, operation, &target, "forbidden")?;
            return Ok(CredentialChange::Forbidden);
        }
        if !current.active {
            return Ok(CredentialChange::Done(current));
        }
        let credential = revoked(tx, current);
        append(tx, &credential, Some(self.mutation), &by.subject)?;
        audit::allowed(tx, by, operation, &target)?;
        Ok(CredentialChange::Done(credential))
    }
}
