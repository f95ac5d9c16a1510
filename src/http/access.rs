//! Roles and tokens.

use super::admit::{Admitted, forbidden};
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{self, Fields, page, unavailable};
use crate::access::token::Token;
use crate::model::limits::{DAY_MS, TOKEN_LIFE_MS_MAX, TOKEN_LIFE_MS_MIN, TOKENS_PER_SUBJECT_MAX};
use crate::model::policy::Role;
use crate::model::record::{Binding, Credential};
use crate::model::word::{self, FenceReason};
use crate::schedule::civil::clock_text;
use crate::store::access::{AddCredential, Bind, Bound, CredentialChange, ListAccess, RevokeCredential};
use serde_json::{Value, json};

/// The schema of a role change.
pub const BIND_SCHEMA: &str = "qinglong/role-binding@v1";
/// The schema of a new token.
pub const CREDENTIAL_SCHEMA: &str = "qinglong/credential@v1";
/// The schema of a token's revocation.
pub const REVOCATION_SCHEMA: &str = "qinglong/credential-revocation@v1";

/// `GET /api/v3/projects/{project}/access?after_subject`, `policy.manage`: `200 {access: [{subject:
/// {type, id}, role: word | null, version, changedAtMs, credentials: [credential]}], hasMore, next?:
/// {afterSubject}}` by subject. `next.afterSubject` is the text to send as `after_subject`. A
/// `credential` is `{credentialId, state: "active" | "expired" | "revoked", active, version, changedAtMs,
/// expiresAtMs: number | null, lastUsedDay: "2026-11-30" | null}`, never a secret or its digest; the days
/// are UTC's. Those that are active come first, and all of them are there; of the others the newest. 503
/// `access_unavailable`.
pub(super) fn list(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let (entries, more) = api
        .store
        .call(ListAccess { project: who.authority.project.clone(), after: query::subject_cursor(request) })
        .map_err(|e| unavailable(word::ACCESS_UNAVAILABLE, e, "the roles were not read"))?;
    let page = page(entries, more, |entry| entry_shape(&over(api), entry));
    let mut body = json!({"access": page.items, "hasMore": page.has_more});
    if let Some((last, _)) = page.last {
        body["next"] = json!({"afterSubject": query::subject_text(&last.subject)});
    }
    Ok(Answer::json(200, &body))
}

/// `PUT /api/v3/projects/{project}/access`, `policy.manage`; granting or taking `owner` needs
/// `project.manage`. Who becomes an owner needs new tokens: those there were may be in an admin's hands, and
/// end with it. Body, exactly: `{schema: "qinglong/role-binding@v1", mutationId, subject: {type,
/// id}, role: "owner" | "admin" | "operator" | "viewer" | null}`; null revokes. `200 {status:
/// "updated" | "existing", binding: {subject, role, version, changedAtMs}}`. 400
/// `invalid_request_body`, `invalid_access_request`; 404 `access_not_found`; 409
/// `access_fence_rejected`; 503 `access_unavailable`.
pub(super) fn bind(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_ACCESS)?;
    fields.schema(BIND_SCHEMA)?;
    let mutation = fields.mutation()?;
    let subject = fields.subject()?;
    let role = match fields.nullable_text("role")? {
        None => None,
        Some(text) => {
            let rule = "must be owner, admin, operator, viewer or null";
            Some(Role::parse(&text).ok_or_else(|| fields.wrong("role", rule))?)
        }
    };
    fields.end()?;
    let bound = api
        .store
        .call(Bind { authority: who.authority.clone(), mutation, subject, role })
        .map_err(|e| unavailable(word::ACCESS_UNAVAILABLE, e, "the role was not changed"))?;
    match bound {
        Bound::Done(bound) => Ok(Answer::json(200, &json!({"status": "updated", "binding": binding(&bound)}))),
        Bound::Existing(bound) => Ok(Answer::json(200, &json!({"status": "existing", "binding": binding(&bound)}))),
        Bound::NotFound => Err(Answer::refusal(word::ACCESS_NOT_FOUND, "this subject has no role here")),
        Bound::Refused(reason) => Err(refused(reason)),
        // The transaction has written its own audit row.
        Bound::Forbidden => Err(forbidden()),
    }
}

/// `POST /api/v3/projects/{project}/access/tokens`, `policy.manage`; a token for an owner needs
/// `project.manage`. Body, exactly: `{schema: "qinglong/credential@v1", mutationId, subject: {type,
/// id}, expiresInMs?: number | null}`; without `expiresInMs` it works until it is revoked. `201 {status:
/// "created", token, credential}` with the `credential`'s subject: the only time the token is shown. `200
/// {status: "existing", credential}` for the same mutation again. 400, 404, 409, 503 as for [`bind`]; 409
/// also when the subject has as many tokens as it may (`too_many_tokens`), 503 when the clock cannot be
/// trusted yet and the token would expire (`clock_untrusted`).
pub(super) fn create_token(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_ACCESS)?;
    fields.schema(CREDENTIAL_SCHEMA)?;
    let mutation = fields.mutation()?;
    let subject = fields.subject()?;
    let expires_in_ms = fields.optional_number("expiresInMs", TOKEN_LIFE_MS_MIN, TOKEN_LIFE_MS_MAX)?;
    fields.end()?;
    if expires_in_ms.is_some() && api.board.clock_is_untrusted() {
        // Made in 1970, it would be over as soon as the clock is right.
        let message = "the clock cannot be trusted yet, so nobody knows when the token would expire; make it \
                       without an end, or try again when `status` says that the clock is trusted";
        return Err(Answer::refusal(word::ACCESS_UNAVAILABLE.because("clock_untrusted"), message));
    }
    let token = Token::make().map_err(|_| {
        Answer::refusal(word::ACCESS_UNAVAILABLE.because("random"), "the kernel gave no random bytes for a token")
    })?;
    let change = api
        .store
        .call(AddCredential {
            authority: who.authority.clone(),
            mutation,
            subject,
            credential_id: token.credential_id().into(),
            secret_digest: api.authenticator.digest(&token),
            expires_in_ms,
        })
        .map_err(|e| unavailable(word::ACCESS_UNAVAILABLE, e, "the token was not made"))?;
    match change {
        CredentialChange::Done(made) => {
            let shown = credential(&over(api), &made);
            let body = json!({"status": "created", "token": token.reveal().expose(), "credential": shown});
            Ok(Answer::json(201, &body))
        }
        other => changed(api, other, "this subject has no role here; give it one first"),
    }
}

/// `POST /api/v3/projects/{project}/access/tokens/{credential}/revocation`, `policy.manage`; an
/// owner's needs `project.manage`. Body, exactly: `{schema: "qinglong/credential-revocation@v1",
/// mutationId}`. `200 {status: "revoked" | "existing", credential}`. 400, 404, 409, 503 as for
/// [`bind`].
pub(super) fn revoke_token(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_ACCESS)?;
    fields.schema(REVOCATION_SCHEMA)?;
    let mutation = fields.mutation()?;
    fields.end()?;
    let credential_id = request.params.get(1).map(String::as_str).unwrap_or_default().into();
    let change = api
        .store
        .call(RevokeCredential { authority: who.authority.clone(), mutation, credential_id })
        .map_err(|e| unavailable(word::ACCESS_UNAVAILABLE, e, "the token was not revoked"))?;
    match change {
        CredentialChange::Done(gone) => {
            Ok(Answer::json(200, &json!({"status": "revoked", "credential": credential(&over(api), &gone)})))
        }
        other => changed(api, other, "there is no such token here"),
    }
}

fn changed(api: &Api, change: CredentialChange, nothing: &str) -> Result<Answer, Answer> {
    match change {
        CredentialChange::Done(it) | CredentialChange::Existing(it) => {
            Ok(Answer::json(200, &json!({"status": "existing", "credential": credential(&over(api), &it)})))
        }
        CredentialChange::NotFound => Err(Answer::refusal(word::ACCESS_NOT_FOUND, nothing)),
        CredentialChange::Refused(reason) => Err(refused(reason)),
        CredentialChange::Forbidden => Err(forbidden()),
        CredentialChange::TooMany => {
            let message = format!(
                "this subject has {TOKENS_PER_SUBJECT_MAX} tokens, as many as one may have; revoke those that nobody needs"
            );
            Err(Answer::refusal(word::ACCESS_TOO_MANY, &message))
        }
    }
}

/// Whether a token that is good until then is over, as far as the clock may say so.
type Over<'a> = &'a dyn Fn(Option<i64>) -> bool;

fn over(api: &Api) -> impl Fn(Option<i64>) -> bool {
    |end_ms| api.authenticator.is_over(end_ms)
}

fn entry_shape(over: Over<'_>, (bound, credentials): &(Binding, Vec<(Credential, Option<i64>)>)) -> Value {
    let mut shown = binding(bound);
    let listed = credentials.iter().map(|(credential, day)| {
        let mut shown = listed(over, credential);
        shown["lastUsedDay"] = json!(day.map(day_text));
        shown
    });
    shown["credentials"] = listed.collect();
    shown
}

/// `2026-11-30` for a day counted from 1970.
fn day_text(day: i64) -> String {
    let mut text = clock_text(day.saturating_mul(DAY_MS / 1000));
    text.truncate(text.find(' ').unwrap_or(text.len()));
    text
}

fn binding(binding: &Binding) -> Value {
    json!({
        "subject": wire::subject(&binding.subject),
        "role": binding.role.map(Role::word),
        "version": binding.version,
        "changedAtMs": binding.changed_at_ms,
    })
}

/// A credential in the list, where whose it is stands beside it.
fn listed(over: Over<'_>, credential: &Credential) -> Value {
    let expired = match (credential.active, credential.expires_at_ms) {
        (true, end_ms) => over(end_ms),
        (false, end_ms) => end_ms.is_some_and(|end_ms| end_ms <= credential.changed_at_ms),
    };
    json!({
        "credentialId": &*credential.id,
        "state": if expired { "expired" } else if credential.active { "active" } else { "revoked" },
        "active": credential.active && !expired,
        "version": credential.version,
        "changedAtMs": credential.changed_at_ms,
        "expiresAtMs": credential.expires_at_ms,
    })
}

fn credential(over: Over<'_>, credential: &Credential) -> Value {
    let mut shown = listed(over, credential);
    shown["subject"] = wire::subject(&credential.subject);
    shown
}

fn refused(reason: FenceReason) -> Answer {
    let message = match reason {
        FenceReason::AuthorizationChanged => "your role or credential changed meanwhile; try again",
        FenceReason::VersionChanged => "it was changed meanwhile; look at the list and decide anew",
        FenceReason::LastOwner => "this is the last owner; make another owner first",
        FenceReason::MutationConflict => "this mutationId was used for something else; use a fresh one",
        _ => "",
    };
    Answer::refusal(word::access_fence(reason), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits::{PAGE_MAX, RESPONSE_BYTES_MAX, SUBJECT_ID_BYTES_MAX, TIME_MS_MAX};
    use crate::model::policy::{Subject, SubjectKind};

    /// One subject with as many tokens as a page may hold, each the longest there can be.
    #[test]
    #[allow(non_snake_case)] // the acceptance point's own name
    fn max_page_response_under_64KiB() {
        let subject = Subject::new(SubjectKind::McpClient, &"\"".repeat(SUBJECT_ID_BYTES_MAX)).unwrap();
        let (version, changed_at_ms) = (TIME_MS_MAX, TIME_MS_MAX);
        let bound = Binding { subject: subject.clone(), role: Some(Role::Operator), version, changed_at_ms };
        let id = "c".repeat(64).into();
        let (secret_digest, expires_at_ms) = ([0; 32], Some(TIME_MS_MAX));
        let one = Credential { id, subject, version, active: false, secret_digest, changed_at_ms, expires_at_ms };
        let entry = (bound, vec![(one, Some(20_000)); PAGE_MAX]);
        assert_eq!(entry_shape(&|_| true, &entry)["credentials"][0]["lastUsedDay"], "2024-10-04");
        let page = page(vec![entry; PAGE_MAX], false, |entry| entry_shape(&|_| true, entry));
        let next = json!({"afterSubject": query::subject_text(&page.last.as_ref().unwrap().0.subject)});
        let body = json!({"access": page.items, "hasMore": true, "next": next}).to_string();
        assert!(body.len() <= RESPONSE_BYTES_MAX, "{} bytes", body.len());
    }
}
