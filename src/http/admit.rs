//! From a bearer to somebody who may: authenticate, decide, and write down a denial before it is
//! answered.
//!
//! Between the decision and a reading handler there is nothing that takes time, so a read is not
//! confirmed again; a mutation checks credential, project and role again inside its transaction.

use super::message::{Answer, Request};
use super::service::Api;
use super::wire::unavailable;
use crate::access::authenticate::NotProven;
use crate::model::name::Name;
use crate::model::policy::{Authority, Permission, Standing, decide};
use crate::model::word;
use crate::store::access::FindStanding;
use crate::store::audit::RecordDenial;

/// Somebody who was let in, and on what basis.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Who asks, and the fence every mutation checks again.
    pub authority: Authority,
    standing: Standing,
}

impl Admitted {
    /// Whether this subject's role holds another permission too, as of admission.
    pub fn may(&self, permission: Permission) -> bool {
        decide(&self.authority.subject, self.standing, permission).is_ok()
    }
}

/// The answer to every authentication that does not work: the same bytes for every cause.
pub fn unauthorized() -> Answer {
    Answer::refusal(word::AUTHENTICATION_REQUIRED, "")
}

/// The answer to somebody whose role does not allow it. Why not stands in the audit only.
pub fn forbidden() -> Answer {
    Answer::refusal(word::FORBIDDEN, "")
}

/// Admits whoever holds the request's bearer to a route that needs `permission` in the project that
/// is the path's first parameter.
pub(super) fn admit(api: &Api, request: &Request, permission: Permission) -> Result<Admitted, Answer> {
    let reject = |reason| {
        api.rejections.note(reason);
        unauthorized()
    };
    let bearer = request.bearer.as_ref().ok_or_else(|| reject("bearer_missing"))?;
    let proof = api.authenticator.authenticate(bearer.expose()).map_err(|e| match e {
        NotProven::Rejected(reason) => reject(reason),
        NotProven::Unavailable(e) => {
            unavailable(word::AUTHENTICATION_UNAVAILABLE, e, "the credential could not be checked")
        }
    })?;
    let project = request.params.first().and_then(|text| Name::parse(text));
    let project = project.ok_or_else(|| Answer::refusal(word::ROUTE_NOT_FOUND, ""))?;
    let standing = api
        .store
        .call(FindStanding { project: project.clone(), subject: proof.subject.clone() })
        .map_err(|e| unavailable(word::AUTHORIZATION_UNAVAILABLE, e, "the permission could not be checked"))?;
    let decision = decide(&proof.subject, standing, permission);
    let record = |denial| RecordDenial {
        project: project.clone(),
        operation: request.route.operation,
        subject: proof.subject.clone(),
        credential_id: proof.credential_id.clone(),
        target: target(request),
        denial,
    };
    match decision {
        Ok(fence) => Ok(Admitted {
            authority: Authority {
                project,
                subject: proof.subject,
                credential_id: proof.credential_id,
                credential_version: proof.credential_version,
                valid_until_ms: proof.valid_until_ms,
                fence,
            },
            standing,
        }),
        Err(denial) => Err(deny(api, request, record(denial))),
    }
}

/// Demands a second permission of somebody who was let in; a denial is audited like any other.
pub(super) fn demand(api: &Api, request: &Request, who: &Admitted, permission: Permission) -> Result<(), Answer> {
    match decide(&who.authority.subject, who.standing, permission) {
        Ok(_) => Ok(()),
        Err(denial) => {
            let Authority { project, subject, credential_id, .. } = who.authority.clone();
            let operation = request.route.operation;
            let target = target(request);
            Err(deny(api, request, RecordDenial { project, operation, subject, credential_id, target, denial }))
        }
    }
}

/// What the path names below the project: a task, a Run, or a Run and its Attempt. What only the body
/// names is not known to a denial, which comes first.
fn target(request: &Request) -> Option<String> {
    request.params.get(1..).filter(|named| !named.is_empty()).map(|named| named.join(" "))
}

fn deny(api: &Api, request: &Request, record: RecordDenial) -> Answer {
    match api.store.call(record) {
        // Who may not read a log must not learn which logs there are.
        Ok(()) if request.route.operation == "run.log.read" => super::logs::not_found(),
        Ok(()) => forbidden(),
        Err(e) => unavailable(word::AUDIT_UNAVAILABLE, e, "the refusal could not be written to the audit"),
    }
}
