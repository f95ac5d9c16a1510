//! The rows of secrets, and the transactions that change them.

use super::audit;
use super::fail::Fail;
use super::fence;
use super::secrets::{
    BeginRekey, DeleteSecret, ListOldSeals, ListUsedKeys, LookSecret, PutSecret, Reseal, SecretDeleted, SecretLook,
    SecretPut,
};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::MutationId;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::{Authority, Permission};
use crate::model::secret::{ALGORITHM, Envelope, SecretHead};
use crate::model::word::FenceReason;
use rusqlite::{Row, params};

const PUT: &str = "secret.put";
const DELETE: &str = "secret.delete";
const REKEY: &str = "secret.rekey";
const COLUMNS: &str = "project, name, version, key_id, nonce, sealed, mutation, created_at_ms";

/// A secret's head row.
pub(super) struct HeadRow {
    pub(super) version: i64,
    pub(super) deleted: bool,
    pub(super) updated_at_ms: i64,
    deletion: Option<MutationId>,
}

pub(super) fn head(tx: &Tx<'_>, project: &Name, name: &Name) -> Result<Option<HeadRow>, Fail> {
    let sql = "SELECT version, deleted, updated_at_ms, deletion FROM secrets WHERE project = ?1 AND name = ?2";
    tx.find(sql, params![project, name], |row| {
        Ok(HeadRow { version: row.get(0)?, deleted: row.get(1)?, updated_at_ms: row.get(2)?, deletion: row.get(3)? })
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<Envelope> {
    Ok(Envelope {
        project: row.get(0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        key_id: row.get(3)?,
        nonce: row.get(4)?,
        sealed: row.get(5)?,
        mutation: row.get(6)?,
        created_at_ms: row.get(7)?,
    })
}

/// One version's envelope; `None` as version is the current one.
pub(super) fn envelope(
    tx: &Tx<'_>,
    project: &Name,
    name: &Name,
    version: Option<i64>,
) -> Result<Option<Envelope>, Fail> {
    let Some(head) = head(tx, project, name)?.filter(|head| !head.deleted) else { return Ok(None) };
    let sql = format!("SELECT {COLUMNS} FROM secret_envelopes WHERE project = ?1 AND name = ?2 AND version = ?3");
    tx.find(&sql, params![project, name, version.unwrap_or(head.version)], read)
}

fn stored_by(tx: &Tx<'_>, mutation: MutationId) -> Result<Option<Envelope>, Fail> {
    let sql = format!("SELECT {COLUMNS} FROM secret_envelopes WHERE mutation = ?1");
    tx.find(&sql, params![mutation], read)
}

/// Whether the authority still holds; if not, that is written down.
fn refused(tx: &mut Tx<'_>, by: &Authority, operation: &str, target: &str) -> Result<Option<FenceReason>, Fail> {
    if fence::held(tx, by, Permission::SecretManage)?.is_some() {
        return Ok(None);
    }
    audit::fenced(tx, by, operation, target).map(Some)
}

impl Operation for LookSecret {
    type Out = SecretLook;

    fn perform(self, tx: &mut Tx<'_>) -> Result<SecretLook, Fail> {
        if let Some(reason) = refused(tx, &self.authority, PUT, self.name.as_str())? {
            return Ok(SecretLook::Refused(reason));
        }
        if let Some(stored) = stored_by(tx, self.mutation)? {
            return Ok(SecretLook::Stored(Box::new(stored)));
        }
        let head = head(tx, &self.authority.project, &self.name)?;
        Ok(SecretLook::Next(head.map_or(0, |head| head.version) + 1))
    }
}

impl Operation for PutSecret {
    type Out = SecretPut;

    fn perform(self, tx: &mut Tx<'_>) -> Result<SecretPut, Fail> {
        let (by, new) = (&self.authority, &self.envelope);
        if let Some(reason) = refused(tx, by, PUT, new.name.as_str())? {
            return Ok(SecretPut::Refused(reason));
        }
        if stored_by(tx, new.mutation)?.is_some() || new.project != by.project {
            return Ok(SecretPut::Refused(FenceReason::MutationConflict));
        }
        let head = head(tx, &by.project, &new.name)?;
        let live = head.as_ref().filter(|head| !head.deleted).map(|head| head.version);
        let next = head.as_ref().map_or(0, |head| head.version) + 1;
        if live != self.expected_version || next != new.version || next > limits::REVISION_MAX {
            return Ok(SecretPut::Refused(FenceReason::VersionChanged));
        }
        if live.is_none() {
            let sql = "SELECT count(*) FROM secrets WHERE project = ?1 AND deleted = 0";
            let count: usize = tx.row(sql, params![&by.project], |row| row.get(0))?;
            if count >= limits::SECRETS_MAX {
                return Ok(SecretPut::Full);
            }
        }
        let now_ms = head.map_or(0, |head| head.updated_at_ms).max(tx.now_ms());
        let sql = "INSERT INTO secrets (project, name, version, deleted, updated_at_ms) VALUES (?1, ?2, ?3, 0, ?4)
            ON CONFLICT DO UPDATE SET version = excluded.version, deleted = 0, updated_at_ms = excluded.updated_at_ms,
            deletion = NULL";
        tx.change(sql, params![by.project, new.name, next, now_ms])?;
        let sql =
            format!("INSERT INTO secret_envelopes ({COLUMNS}, algorithm) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
        tx.change(
            &sql,
            params![new.project, new.name, next, new.key_id, new.nonce, new.sealed, new.mutation, now_ms, ALGORITHM,],
        )?;
        let sql = "DELETE FROM secret_envelopes WHERE project = ?1 AND name = ?2 AND version <= ?3";
        let oldest = next - limits::SECRET_VERSIONS_MAX;
        tx.change(sql, params![new.project, new.name, oldest])?;
        audit::allowed(tx, by, PUT, new.name.as_str())?;
        let stored = SecretHead { name: new.name.clone(), version: next, updated_at_ms: now_ms };
        Ok(if live.is_none() { SecretPut::Created(stored) } else { SecretPut::Updated(stored) })
    }
}

impl Operation for DeleteSecret {
    type Out = SecretDeleted;

    fn perform(self, tx: &mut Tx<'_>) -> Result<SecretDeleted, Fail> {
        let by = &self.authority;
        if let Some(reason) = refused(tx, by, DELETE, self.name.as_str())? {
            return Ok(SecretDeleted::Refused(reason));
        }
        if stored_by(tx, self.mutation)?.is_some() {
            return Ok(SecretDeleted::Refused(FenceReason::MutationConflict));
        }
        let Some(head) = head(tx, &by.project, &self.name)? else { return Ok(SecretDeleted::NotFound) };
        if head.deleted {
            let same = head.deletion == Some(self.mutation) && head.version == self.expected_version;
            return Ok(if same { SecretDeleted::Existing } else { SecretDeleted::NotFound });
        }
        if head.version != self.expected_version {
            return Ok(SecretDeleted::Refused(FenceReason::VersionChanged));
        }
        let now_ms = head.updated_at_ms.max(tx.now_ms());
        let sql = "DELETE FROM secret_envelopes WHERE project = ?1 AND name = ?2";
        tx.change(sql, params![by.project, self.name])?;
        let sql = "UPDATE secrets SET deleted = 1, updated_at_ms = ?3, deletion = ?4 WHERE project = ?1 AND name = ?2";
        tx.change(sql, params![by.project, self.name, now_ms, self.mutation])?;
        audit::allowed(tx, by, DELETE, self.name.as_str())?;
        Ok(SecretDeleted::Done)
    }
}

impl Operation for BeginRekey {
    /// Why not, if so.
    type Out = Option<FenceReason>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let reason = refused(tx, &self.authority, REKEY, "keyring")?;
        if reason.is_none() {
            audit::allowed(tx, &self.authority, REKEY, "keyring")?;
        }
        Ok(reason)
    }
}

impl Operation for ListOldSeals {
    /// The page, and how many there are in all.
    type Out = (Vec<Envelope>, usize);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = "SELECT count(*) FROM secret_envelopes WHERE key_id <> ?1";
        let count = tx.row(sql, params![&self.active], |row| row.get(0))?;
        let sql = format!("SELECT {COLUMNS} FROM secret_envelopes WHERE key_id <> ?1 LIMIT ?2");
        let page = tx.rows(&sql, params![self.active, self.limit], read)?;
        Ok((page, count))
    }
}

impl Operation for Reseal {
    /// How many were exchanged; why not, if so.
    type Out = Result<usize, FenceReason>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        if let Some(reason) = refused(tx, &self.authority, REKEY, "keyring")? {
            return Ok(Err(reason));
        }
        let sql = "UPDATE secret_envelopes SET key_id = ?4, nonce = ?5, sealed = ?6
            WHERE project = ?1 AND name = ?2 AND version = ?3 AND key_id = ?7 AND mutation = ?8";
        let mut moved = 0;
        for (before, new) in &self.moved {
            moved += tx.change(
                sql,
                params![new.project, new.name, new.version, new.key_id, new.nonce, new.sealed, before, new.mutation,],
            )?;
        }
        Ok(Ok(moved))
    }
}

impl Operation for ListUsedKeys {
    type Out = Vec<String>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let mut query = tx.conn.prepare_cached("SELECT DISTINCT key_id FROM secret_envelopes")?;
        Ok(query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }
}
