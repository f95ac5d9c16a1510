//! The durable audit: what was refused, and reading it. What was allowed is written by each
//! mutation inside its own transaction (design D13).

use super::thread::Operation;
use crate::model::id::EventId;
use crate::model::name::Name;
use crate::model::policy::{Denial, Subject};
use crate::model::record::AuditRow;

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
    /// Why not.
    pub denial: Denial,
}

impl Operation for RecordDenial {
    type Out = ();
}

/// Writes rejected authentications folded to a row for each reason.
pub struct RecordRejections {
    /// Reason and how many alike since the last row of that reason.
    pub counts: Vec<(&'static str, u64)>,
}

impl Operation for RecordRejections {
    type Out = ();
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
}
