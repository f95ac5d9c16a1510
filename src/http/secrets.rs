//! Secrets: storing them sealed, listing and deleting them, and sealing them under a new key. A value
//! comes in and never goes out.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{Fields, page, refuse, unavailable};
use crate::access::keyring::{Keyring, KeyringError};
use crate::access::seal::{self, Place, Value as Plain};
use crate::model::limits::{REKEY_PAGE, SECRET_BYTES_MAX, SECRETS_MAX};
use crate::model::name::{NAME_RULE, Name};
use crate::model::secret::{Envelope, SecretHead, SecretRef};
use crate::model::word::{self, FenceReason};
use crate::store::StoreError;
use crate::store::secrets::{
    BeginRekey, DeleteSecret, GetSecret, ListOldSeals, ListSecrets, ListUsedKeys, LookSecret, PutSecret, Reseal,
    SecretDeleted, SecretLook, SecretPut,
};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::PoisonError;

/// The schema of a secret PUT.
pub const PUT_SCHEMA: &str = "qinglong/secret@v1";
/// The schema of a secret DELETE.
pub const DELETE_SCHEMA: &str = "qinglong/secret-deletion@v1";
/// The schema of a rotation.
pub const ROTATION_SCHEMA: &str = "qinglong/keyring-rotation@v1";

/// `GET /api/v3/projects/{project}/secrets?limit&after_name`, `secret.manage`: `200 {secrets: [{name,
/// version, updatedAtMs, ref}], hasMore, next?: {name}}` by name. `ref` names this very version; what
/// a task uses to follow the current one is the same without a version. 503 `secret_query_unavailable`.
pub(super) fn list(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let project = who.authority.project.clone();
    let after = request.query("after_name").and_then(Name::parse);
    let (secrets, more) = api
        .store
        .call(ListSecrets { project: project.clone(), after, limit: query::limit(request) })
        .map_err(|e| unavailable(word::SECRET_QUERY_UNAVAILABLE, e, "the secrets were not read"))?;
    let page = page(secrets, more, |head| shape(&project, head));
    let mut body = json!({"secrets": page.items, "hasMore": page.has_more});
    if let Some(last) = page.last {
        body["next"] = json!({"name": last.name.as_str()});
    }
    Ok(Answer::json(200, &body))
}

/// `GET /api/v3/projects/{project}/secrets/{secret}`, `secret.manage`: `200 {secret}`. 404
/// `secret_not_found`; 503 `secret_query_unavailable`.
pub(super) fn get(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let project = who.authority.project.clone();
    let name = secret_name(request)?;
    let found = api
        .store
        .call(GetSecret { project: project.clone(), name })
        .map_err(|e| unavailable(word::SECRET_QUERY_UNAVAILABLE, e, "the secret was not read"))?;
    let found = found.ok_or_else(not_found)?;
    Ok(Answer::json(200, &json!({"secret": shape(&project, &found)})))
}

/// `PUT /api/v3/projects/{project}/secrets`, `secret.manage`. Body, exactly: `{schema:
/// "qinglong/secret@v1", mutationId, name, plaintext, expectedCurrentVersion: 0.. (0 = create)}`.
///
/// `201 {status: "created", secret}`, `200 {status: "updated" | "existing", secret}`. The same mutation
/// again with the same value is `existing`, with another a conflict; values are compared opened, since
/// no two sealings are alike. 400 `invalid_secret`; 409 `secret_fence_rejected`; 503 `secret_unavailable`.
pub(super) fn put(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let (wanted, value) = read_put(request)?;
    let project = &who.authority.project;
    // Held until the commit: a rotation in between could take the key away that seals this.
    let path = api.keyring.lock().unwrap_or_else(PoisonError::into_inner);
    let look = LookSecret { authority: who.authority.clone(), name: wanted.name.clone(), mutation: wanted.mutation };
    let version = match api.store.call(look).map_err(not_stored)? {
        SecretLook::Refused(reason) => return Err(refused(reason)),
        SecretLook::Stored(stored) => return replay(&path, project, &wanted, &value, &stored),
        SecretLook::Next(version) => version,
    };
    if wanted.expected_version.unwrap_or(0) > version {
        return Err(refused(FenceReason::VersionChanged));
    }
    let ring = load(&path)?;
    let place = Place { project: project.clone(), name: wanted.name, version, mutation: wanted.mutation };
    let envelope = seal::seal(&ring, &place, &value).ok_or_else(no_random)?;
    drop((ring, value));
    let put = PutSecret { authority: who.authority.clone(), expected_version: wanted.expected_version, envelope };
    match api.store.call(put).map_err(not_stored)? {
        SecretPut::Created(head) => Ok(said(201, "created", project, &head)),
        SecretPut::Updated(head) => Ok(said(200, "updated", project, &head)),
        SecretPut::Refused(reason) => Err(refused(reason)),
        SecretPut::Full => {
            let words = format!("there are {SECRETS_MAX} secrets already; delete one that is not used any more");
            Err(Answer::refusal(word::SECRET_UNAVAILABLE.because("secrets_used_up"), &words))
        }
    }
}

/// `DELETE /api/v3/projects/{project}/secrets/{secret}`, `secret.manage`. Body, exactly: `{schema:
/// "qinglong/secret-deletion@v1", mutationId, expectedCurrentVersion}`. `200 {status: "deleted" |
/// "existing", name}`. Tasks that use it cannot start from then on. 400 `invalid_secret`; 404
/// `secret_not_found`; 409 `secret_fence_rejected`; 503 `secret_unavailable`.
pub(super) fn delete(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_SECRET)?;
    fields.schema(DELETE_SCHEMA)?;
    let mutation = fields.mutation()?;
    let expected_version = fields.revision("expectedCurrentVersion")?;
    fields.end()?;
    let name = secret_name(request)?;
    let deleted = api
        .store
        .call(DeleteSecret { authority: who.authority.clone(), name: name.clone(), mutation, expected_version })
        .map_err(|e| unavailable(word::SECRET_UNAVAILABLE, e, "the secret was not deleted"))?;
    let body = |status: &str| json!({"status": status, "name": name.as_str()});
    match deleted {
        SecretDeleted::Done => Ok(Answer::json(200, &body("deleted"))),
        SecretDeleted::Existing => Ok(Answer::json(200, &body("existing"))),
        SecretDeleted::NotFound => Err(not_found()),
        SecretDeleted::Refused(reason) => Err(refused(reason)),
    }
}

/// `POST /api/v3/projects/{project}/keyring/rotation`, `secret.manage`. Body, exactly: `{schema:
/// "qinglong/keyring-rotation@v1", mutationId}`.
///
/// The first request of a mutation makes a new key, named by it, the active one; every request seals a
/// page of values anew. `200 {status: "rekeyed" | "more", keyId, moved, remaining}`: as long as it is
/// `more`, the same request is to be sent again. Then no value needs an older key, and those go. 409
/// `secret_fence_rejected`; 503 `secret_unavailable`.
pub(super) fn rekey(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_SECRET)?;
    fields.schema(ROTATION_SCHEMA)?;
    let key_id = fields.mutation()?.to_string();
    fields.end()?;
    let path = api.keyring.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ring = load(&path)?;
    if !ring.has(&key_id) {
        // Written down before the file is touched; keys that nothing needs make room for the new one.
        if let Some(reason) = api.store.call(BeginRekey { authority: who.authority.clone() }).map_err(not_rekeyed)? {
            return Err(refused(reason));
        }
        ring.keep_only(&api.store.call(ListUsedKeys).map_err(not_rekeyed)?);
        ring.rotate(&key_id).and_then(|()| ring.save(&path)).map_err(|e| keyring(&e))?;
    } else if ring.active() != key_id {
        return Err(refused(FenceReason::MutationConflict));
    }
    let list = ListOldSeals { active: key_id.clone(), limit: REKEY_PAGE };
    let (old, count) = api.store.call(list).map_err(not_rekeyed)?;
    let sealed = old.iter().map(|envelope| seal_anew(&ring, envelope)).collect::<Result<Vec<_>, _>>()?;
    let moved = if sealed.is_empty() {
        0
    } else {
        let reseal = Reseal { authority: who.authority.clone(), moved: sealed };
        api.store.call(reseal).map_err(not_rekeyed)?.map_err(refused)?
    };
    let remaining = count.saturating_sub(moved);
    if remaining == 0 && ring.keep_only(&[]) {
        ring.save(&path).map_err(|e| keyring(&e))?;
    }
    let status = if remaining == 0 { "rekeyed" } else { "more" };
    Ok(Answer::json(200, &json!({"status": status, "keyId": key_id, "moved": moved, "remaining": remaining})))
}

struct Wanted {
    name: Name,
    mutation: crate::model::id::MutationId,
    expected_version: Option<i64>,
}

fn read_put(request: &Request) -> Result<(Wanted, Plain), Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_SECRET)?;
    fields.schema(PUT_SCHEMA)?;
    let mutation = fields.mutation()?;
    let value = Plain::new(fields.text("plaintext")?.into_bytes());
    let name =
        Name::parse(&fields.text("name")?).ok_or_else(|| fields.wrong("name", &format!("must be {NAME_RULE}")))?;
    let expected_version = fields.version_or_zero("expectedCurrentVersion")?;
    if value.expose().is_empty() || value.expose().len() > SECRET_BYTES_MAX {
        return Err(fields.wrong("plaintext", &format!("must be 1 to {SECRET_BYTES_MAX} bytes")));
    }
    if value.expose().contains(&0) {
        return Err(fields.wrong("plaintext", "must not contain a NUL character; no variable can hold one"));
    }
    fields.end()?;
    Ok((Wanted { name, mutation, expected_version }, value))
}

/// Answers from what the same mutation stored, when it is the same.
fn replay(path: &Path, project: &Name, wanted: &Wanted, value: &Plain, stored: &Envelope) -> Result<Answer, Answer> {
    let same_place = (&stored.project, &stored.name) == (project, &wanted.name);
    let opened = seal::open(&load(path)?, stored).map_err(|_| damaged(&stored.name))?;
    if !same_place || !opened.is(value) {
        return Err(refused(FenceReason::MutationConflict));
    }
    let head = SecretHead { name: stored.name.clone(), version: stored.version, updated_at_ms: stored.created_at_ms };
    Ok(said(200, "existing", project, &head))
}

fn seal_anew(ring: &Keyring, old: &Envelope) -> Result<(String, Envelope), Answer> {
    let value = seal::open(ring, old).map_err(|_| damaged(&old.name))?;
    let Envelope { project, name, version, mutation, .. } = old.clone();
    let new = seal::seal(ring, &Place { project, name, version, mutation }, &value).ok_or_else(no_random)?;
    Ok((old.key_id.clone(), new))
}

fn load(path: &Path) -> Result<Keyring, Answer> {
    Keyring::load(path).map_err(|e| keyring(&e))
}

fn keyring(error: &KeyringError) -> Answer {
    Answer::refusal(word::SECRET_UNAVAILABLE.because(error.word()), &error.to_string())
}

fn damaged(name: &Name) -> Answer {
    let words = format!("the stored secret {name} cannot be opened; set it anew or delete it");
    Answer::refusal(word::SECRET_UNAVAILABLE.because("secret_damaged"), &words)
}

fn no_random() -> Answer {
    Answer::refusal(word::SECRET_UNAVAILABLE.because("random"), "the kernel gave no random bytes; try again")
}

fn not_stored(error: StoreError) -> Answer {
    unavailable(word::SECRET_UNAVAILABLE, error, "the secret was not stored")
}

fn not_rekeyed(error: StoreError) -> Answer {
    unavailable(word::SECRET_UNAVAILABLE, error, "the secrets were not all sealed anew")
}

fn said(status: u16, what: &str, project: &Name, head: &SecretHead) -> Answer {
    Answer::json(status, &json!({"status": what, "secret": shape(project, head)}))
}

fn shape(project: &Name, head: &SecretHead) -> Value {
    let pinned = SecretRef { project: project.clone(), name: head.name.clone(), version: Some(head.version) };
    json!({
        "name": head.name.as_str(),
        "version": head.version,
        "updatedAtMs": head.updated_at_ms,
        "ref": pinned.to_string(),
    })
}

fn secret_name(request: &Request) -> Result<Name, Answer> {
    request.params.get(1).and_then(|text| Name::parse(text)).ok_or_else(not_found)
}

fn not_found() -> Answer {
    Answer::refusal(word::SECRET_NOT_FOUND, "there is no such secret in this project")
}

fn refused(reason: FenceReason) -> Answer {
    let message = match reason {
        FenceReason::VersionChanged => "the secret is not at the expected version; look at the list and decide anew",
        FenceReason::MutationConflict => "this mutationId was used for something else; use a fresh one",
        FenceReason::AuthorizationChanged => "your role or credential changed meanwhile; try again",
        _ => "",
    };
    refuse(word::secret_fence(reason), message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits::{PAGE_MAX, RESPONSE_BYTES_MAX, REVISION_MAX, TIME_MS_MAX};

    #[test]
    #[allow(non_snake_case)] // the acceptance point's own name
    fn max_page_response_under_64KiB() {
        let name = Name::parse(&"n".repeat(128)).unwrap();
        let longest = SecretHead { name: name.clone(), version: REVISION_MAX, updated_at_ms: TIME_MS_MAX };
        let page = page(vec![longest; PAGE_MAX], true, |head| shape(&name, head));
        let body = json!({"secrets": page.items, "hasMore": true, "next": {"name": name.as_str()}}).to_string();
        assert!(body.len() <= RESPONSE_BYTES_MAX, "{} bytes", body.len());
    }
}
