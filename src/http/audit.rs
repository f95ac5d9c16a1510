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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::Uuid;
    use crate::model::limits::{AUDIT_PAGE_MAX, RESPONSE_BYTES_MAX, SUBJECT_ID_BYTES_MAX, TIME_MS_MAX};
    use crate::model::policy::{Subject, SubjectKind};

    #[test]
    #[allow(non_snake_case)] // the acceptance point's own name
    fn max_page_response_under_64KiB() {
        let subject = Subject::new(SubjectKind::McpClient, &"\"".repeat(SUBJECT_ID_BYTES_MAX)).unwrap();
        let longest = AuditRow {
            id: EventId(Uuid::from_bytes([0xff; 16])),
            operation: "credential.revoke".into(),
            outcome: "authentication_rejected".into(),
            reason: Some("agent_action_requires_approval".into()),
            target: Some(subject.to_string()),
            subject: Some(subject),
            credential_id: Some("c".repeat(64)),
            count: i64::MAX,
            at_ms: TIME_MS_MAX,
        };
        let page = page(vec![longest.clone(); AUDIT_PAGE_MAX], false, shape);
        assert!(page.has_more && page.last.is_some(), "what does not fit goes to the next page");
        let next = json!({"after": longest.id.to_string()});
        let body = json!({"audit": page.items, "hasMore": true, "next": next}).to_string();
        assert!(body.len() <= RESPONSE_BYTES_MAX, "{} bytes", body.len());
        assert!(page.items.len() > AUDIT_PAGE_MAX / 2, "{} rows", page.items.len());
    }
}
