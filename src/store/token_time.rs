//! What time does to credentials: the day of the last use, and the end of those that expire.

use super::access::{ExpireCredentials, NoteUse};
use super::audit::{self, Entry};
use super::credential;
use super::fail::Fail;
use super::fence::read_credential;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::name::Name;
use crate::model::policy::{Subject, SubjectKind};
use crate::model::record::Credential;
use rusqlite::params;

impl Operation for NoteUse {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        // Another day, not a later one: what a clock that was far ahead has left is put right.
        let sql = "INSERT INTO credential_uses VALUES (?1, ?2)
            ON CONFLICT DO UPDATE SET last_used_day = excluded.last_used_day
            WHERE last_used_day <> excluded.last_used_day";
        tx.change(sql, params![self.credential_id, self.day.max(0)])?;
        Ok(())
    }
}

impl Operation for ExpireCredentials {
    /// How many.
    type Out = usize;

    fn perform(self, tx: &mut Tx<'_>) -> Result<usize, Fail> {
        let by = Subject { kind: SubjectKind::System, id: "clock".into() };
        let due = due(tx, self.now_ms, self.limit)?;
        let count = due.len();
        for current in due {
            let target = credential::target(&current.subject, &current.id);
            let gone = credential::revoked(tx, current);
            credential::append(tx, &gone, None, &by)?;
            let entry = Entry {
                operation: "credential.expire",
                outcome: "allowed",
                subject: Some(&by),
                target: Some(&target),
                count: 1,
                ..Entry::default()
            };
            audit::write(tx, &Name::default_project(), &entry)?;
        }
        Ok(count)
    }
}

fn due(tx: &Tx<'_>, now_ms: i64, limit: usize) -> Result<Vec<Credential>, Fail> {
    let sql = "SELECT id, version, subject_type, subject_id, status, secret_digest, changed_at_ms, expires_at_ms
        FROM credentials c WHERE expires_at_ms <= ?1 AND status = 'active'
        AND version = (SELECT max(version) FROM credentials WHERE id = c.id) LIMIT ?2";
    tx.rows(sql, params![now_ms, limit], read_credential)
}
