//! The durable audit: what was refused, and reading it. What was allowed is written by each
//! mutation inside its own transaction (design D13).

use super::fail::Fail;
use super::fence::read_subject;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::EventId;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::{Authority, Denial, Subject};
use crate::model::record::AuditRow;
use crate::model::word::FenceReason;
use rusqlite::params;

/// One row as it is written.
#[derive(Default)]
pub(super) struct Entry<'a> {
    pub(super) operation: &'a str,
    pub(super) outcome: &'a str,
    pub(super) reason: Option<&'a str>,
    pub(super) subject: Option<&'a Subject>,
    pub(super) credential_id: Option<&'a str>,
    pub(super) target: Option<&'a str>,
    pub(super) count: i64,
}

pub(super) fn write(tx: &mut Tx<'_>, project: &Name, entry: &Entry<'_>) -> Result<(), Fail> {
    let now_ms = tx.now_ms();
    let id = EventId(tx.id(now_ms)?);
    let sql = "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    tx.change(
        sql,
        params![
            project,
            id,
            entry.operation,
            entry.outcome,
            entry.reason,
            entry.subject.map(|subject| subject.kind),
            entry.subject.map(|subject| &subject.id),
            entry.credential_id,
            entry.target,
            entry.count,
            now_ms,
        ],
    )?;
    Ok(())
}

/// The `allowed` row of a mutation, in its transaction.
pub(super) fn allowed(tx: &mut Tx<'_>, by: &Authority, operation: &str, target: &str) -> Result<(), Fail> {
    let entry = Entry {
        operation,
        outcome: "allowed",
        subject: Some(&by.subject),
        credential_id: Some(&by.credential_id),
        target: Some(target),
        count: 1,
        ..Entry::default()
    };
    write(tx, &by.project, &entry)
}

/// The `refused` row of a mutation that was allowed at admission and was not any more in its
/// transaction. Refusals by content (a stale revision, a reused mutation id) change nothing about
/// who may do what and are not written: a client in a loop would wear out the flash.
pub(super) fn refused(tx: &mut Tx<'_>, by: &Authority, operation: &str, target: &str, why: &str) -> Result<(), Fail> {
    let entry = Entry {
        operation,
        outcome: "refused",
        reason: Some(why),
        subject: Some(&by.subject),
        credential_id: Some(&by.credential_id),
        target: Some(target),
        count: 1,
    };
    write(tx, &by.project, &entry)
}

/// The `refused` row of a fence that did not hold.
pub(super) fn fenced(tx: &mut Tx<'_>, by: &Authority, operation: &str, target: &str) -> Result<FenceReason, Fail> {
    let reason = FenceReason::AuthorizationChanged;
    refused(tx, by, operation, target, reason.word())?;
    Ok(reason)
}

/// Writes one denial.
pub struct RecordDenial {
    /// The project asked about.
    pub project: Name,
    /// The operation asked for, as the route table names it.
    pub operation: &'static str,
    /// Who asked.
    pub subject: Subject,
    /// With which credential.
    pub credential_id: Box<str>,
    /// What it was about, if the path names it.
    pub target: Option<String>,
    /// Why not.
    pub denial: Denial,
}

impl Operation for RecordDenial {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let entry = Entry {
            operation: self.operation,
            outcome: "denied",
            reason: Some(self.denial.word()),
            subject: Some(&self.subject),
            credential_id: Some(&self.credential_id),
            target: self.target.as_deref(),
            count: 1,
        };
        write(tx, &self.project, &entry)
    }
}

/// Writes rejected authentications folded to a row for each reason. Nobody was proven, so the rows
/// have no subject, and they stand in the default project's audit.
pub struct RecordRejections {
    /// Reason and how many alike since the last row of that reason.
    pub counts: Vec<(&'static str, u64)>,
}

impl Operation for RecordRejections {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        for (reason, count) in self.counts {
            let entry = Entry {
                operation: "authenticate",
                outcome: "authentication_rejected",
                reason: Some(reason),
                count: i64::try_from(count).unwrap_or(i64::MAX).max(1),
                ..Entry::default()
            };
            write(tx, &Name::default_project(), &entry)?;
        }
        Ok(())
    }
}

/// Reads one page of the audit, newest first.
pub struct ListAudit {
    /// The project.
    pub project: Name,
    /// Only rows older than this one.
    pub after: Option<EventId>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListAudit {
    /// The page and whether there are more.
    type Out = (Vec<AuditRow>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = self.limit.min(limits::AUDIT_PAGE_MAX);
        let sql = "SELECT id, operation, outcome, reason, subject_type, subject_id, credential_id, target, count, at_ms
            FROM audit WHERE project = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3";
        let mut query = tx.conn.prepare_cached(sql)?;
        // Greater than every UUIDv7, whose version bits are never all set.
        let after: &[u8] = self.after.as_ref().map_or(&[0xff; 16], |id| id.0.as_bytes());
        let rows = query.query_map(params![self.project, after, limit + 1], |row| {
            let subject = match row.get_ref(4)? {
                rusqlite::types::ValueRef::Null => None,
                _ => Some(read_subject(row, 4)?),
            };
            Ok(AuditRow {
                id: row.get(0)?,
                operation: row.get(1)?,
                outcome: row.get(2)?,
                reason: row.get(3)?,
                subject,
                credential_id: row.get(6)?,
                target: row.get(7)?,
                count: row.get(8)?,
                at_ms: row.get(9)?,
            })
        })?;
        let mut rows = rows.collect::<Result<Vec<_>, _>>()?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        Ok((rows, more))
    }
}
