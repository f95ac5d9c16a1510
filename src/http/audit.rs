//! Reading the audit.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{self, page, unavailable};
use crate::model::id::EventId;
use crate::model::record::AuditRow;
use crate::model::word;
use crate::store::audit::ListAudit;
use serde_json::{Value, json};

/// `GET /api/v3/projects/{project}/audit?limit&after`, `policy.manage`: `200 {audit: [{eventId,
/// operation, outcome, reason, subject: {type, id} | null, credentialId, target, count,
/// occurredAtMs}], hasMore, next?: {after}}`, newest first. `count` is how many alike one row stands
/// for. 503 `audit_query_unavailable`.
pub(super) fn list(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let (rows, more) = api
        .store
        .call(ListAudit {
            project: who.authority.project.clone(),
            after: request.query("after").and_then(EventId::parse),
            limit: query::limit(request),
        })
        .map_err(|e| unavailable(word::AUDIT_QUERY_UNAVAILABLE, e, "the audit was not read"))?;
    let page = page(rows, more, shape);
    let mut body = json!({"audit": page.items, "hasMore": page.has_more});
    if let Some(last) = page.last {
        body["next"] = json!({"after": last.id.to_string()});
    }
    Ok(Answer::json(200, &body))
}

fn shape(row: &AuditRow) -> Value {
    json!({
        "eventId": row.id.to_string(),
        "operation": row.operation,
        "outcome": row.outcome,
        "reason": row.reason,
        "subject": row.subject.as_ref().map(wire::subject),
        "credentialId": row.credential_id,
        "target": row.target,
        "count": row.count,
        "occurredAtMs": row.at_ms,
    })
}
