//! Holding a mutation to the decision it was allowed by: project, role and credential are read
//! again inside the mutation's own transaction (spec/control section 1).

use super::fail::Fail;
use super::tx::Tx;
use crate::model::name::Name;
use crate::model::policy::SubjectKind;
use crate::model::policy::{self, Authority, Permission, Role, Standing, Subject};
use crate::model::record::Credential;
use rusqlite::{Row, params};

/// Reads a subject's standing: the project and the latest binding.
pub fn standing(tx: &Tx<'_>, project: &Name, subject: &Subject) -> Result<Standing, Fail> {
    let sql = "SELECT version, status = 'active' FROM projects WHERE id = ?1";
    let found = tx.find(sql, params![project], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Standing { project: found, binding: binding(tx, project, subject)? })
}

/// The latest binding's version and role; `None` = there never was one.
pub fn binding(tx: &Tx<'_>, project: &Name, subject: &Subject) -> Result<Option<(i64, Option<Role>)>, Fail> {
    let sql = "SELECT version, role FROM role_bindings
        WHERE project = ?1 AND subject_type = ?2 AND subject_id = ?3 ORDER BY version DESC LIMIT 1";
    tx.find(sql, params![project, subject.kind, subject.id], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The latest version of a credential.
pub fn credential(tx: &Tx<'_>, id: &str) -> Result<Option<Credential>, Fail> {
    let sql = "SELECT id, version, subject_type, subject_id, status, secret_digest, changed_at_ms, expires_at_ms
        FROM credentials WHERE id = ?1 ORDER BY version DESC LIMIT 1";
    tx.find(sql, params![id], read_credential)
}

/// Reads a credential from the columns of [`credential`].
pub fn read_credential(row: &Row<'_>) -> rusqlite::Result<Credential> {
    let digest: crate::model::digest::Digest = row.get(5)?;
    Ok(Credential {
        id: row.get(0)?,
        version: row.get(1)?,
        subject: read_subject(row, 2)?,
        active: row.get_ref(4)?.as_str()? == "active",
        secret_digest: *digest.as_bytes(),
        changed_at_ms: row.get(6)?,
        expires_at_ms: row.get(7)?,
    })
}

/// Reads a subject from two columns.
pub fn read_subject(row: &Row<'_>, at: usize) -> rusqlite::Result<Subject> {
    let kind: SubjectKind = row.get(at)?;
    let id: Box<str> = row.get(at + 1)?;
    Ok(Subject { kind, id })
}

/// Whether the authority still holds, with its role now. `None`: project, binding or credential is
/// not what the decision was based on (`authorization_changed`).
pub fn held(tx: &Tx<'_>, authority: &Authority, permission: Permission) -> Result<Option<Role>, Fail> {
    let standing = standing(tx, &authority.project, &authority.subject)?;
    if policy::decide(&authority.subject, standing, permission) != Ok(authority.fence) {
        return Ok(None);
    }
    let proof = credential(tx, &authority.credential_id)?;
    let now_ms = tx.now_ms();
    let good = proof.is_some_and(|proof| {
        proof.active
            && proof.version == authority.credential_version
            && proof.subject == authority.subject
            && authority.valid_until_ms.is_none_or(|until_ms| now_ms < until_ms)
    });
    Ok(if good { standing.binding.and_then(|(_, role)| role) } else { None })
}
