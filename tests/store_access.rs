//! Roles, credentials, the first owner and the audit, as the store keeps them.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::policy::{Authority, Denial, Role, Standing, Subject};
use qinglet::model::word::FenceReason;
use qinglet::store::access::{
    AddCredential, Bind, BootstrapOwner, Bound, CredentialChange, FindCredential, FindStanding, ListAccess,
    ReissueOwner, RevokeCredential,
};
use qinglet::store::audit::{ListAudit, RecordDenial, RecordRejections};
use store_support::*;

fn user(id: &str) -> Subject {
    Subject::parse(id).unwrap()
}

fn bind(bench: &Bench, by: &Authority, subject: &str, role: Option<Role>) -> Bound {
    bench.call(Bind { authority: by.clone(), mutation: mutation(), subject: user(subject), role })
}

/// Binds a subject, gives it a credential, and returns what it may act with.
fn member(bench: &Bench, id: &str, role: Role) -> Authority {
    let Bound::Done(binding) = bind(bench, &authority(), id, Some(role)) else { panic!() };
    let credential_id: Box<str> = format!("{id}-1").into();
    let add = add(&authority(), id, &credential_id);
    assert!(matches!(bench.call(add), CredentialChange::Done(_)));
    let mut by = authority();
    (by.subject, by.credential_id, by.fence.binding_version) = (user(id), credential_id, binding.version);
    by
}

fn add(by: &Authority, subject: &str, credential_id: &str) -> AddCredential {
    AddCredential {
        authority: by.clone(),
        mutation: mutation(),
        subject: user(subject),
        credential_id: credential_id.into(),
        secret_digest: [3; 32],
    }
}

#[test]
fn bootstrap_closed_after_any_binding() {
    let bench = Bench::new();
    let again = || BootstrapOwner { subject: user("other"), credential_id: "x".into(), secret_digest: [1; 32] };
    assert!(!bench.call(again()));
    bench.call(ReissueOwner { subject: owner(), credential_id: "owner-2".into(), secret_digest: [8; 32] });
    assert!(!bench.call(again()));
    assert!(bench.call(FindCredential { credential_id: "x".into() }).is_none());
    let first = bench.call(FindCredential { credential_id: "owner-1".into() }).unwrap();
    assert_eq!((first.active, first.version), (false, 2));
    let second = bench.call(FindCredential { credential_id: "owner-2".into() }).unwrap();
    assert_eq!((second.active, second.version, second.secret_digest), (true, 1, [8; 32]));
    let rows = bench.call(ListAudit { project: project(), after: None, limit: 64 }).0;
    let rows: Vec<_> =
        rows.iter().map(|row| (row.operation.as_str(), row.subject.as_ref().unwrap().to_string())).collect();
    let local = || "system:owner-bootstrap".to_owned();
    assert_eq!(rows, [("owner.reissue", local()), ("owner.bootstrap", local())]);
}

#[test]
fn reissue_makes_an_owner_again_only_when_there_is_none() {
    let mut bench = Bench::new();
    let reissue = |id: &str| ReissueOwner { subject: owner(), credential_id: id.into(), secret_digest: [8; 32] };
    let standing = |bench: &Bench| bench.call(FindStanding { project: project(), subject: owner() }).binding;
    bench.call(reissue("owner-2"));
    assert_eq!(standing(&bench), Some((1, Some(Role::Owner))), "still the owner, so no new version");
    bench.tamper("UPDATE role_bindings SET role = NULL").unwrap();
    bench.call(reissue("owner-3"));
    assert_eq!(standing(&bench), Some((2, Some(Role::Owner))));
}

#[test]
fn binding_append_replay_conflict_and_versions() {
    let bench = Bench::new();
    let mutation = mutation();
    let grant = |role| Bind { authority: authority(), mutation, subject: user("ann"), role };
    let Bound::Done(first) = bench.call(grant(Some(Role::Viewer))) else { panic!() };
    assert_eq!((first.version, first.role), (1, Some(Role::Viewer)));
    assert_eq!(bench.call(grant(Some(Role::Viewer))), Bound::Existing(first));
    assert_eq!(bench.call(grant(Some(Role::Admin))), Bound::Refused(FenceReason::MutationConflict));
    let Bound::Done(second) = bind(&bench, &authority(), "ann", None) else { panic!() };
    assert_eq!((second.version, second.role), (2, None));
    assert_eq!(bind(&bench, &authority(), "ann", None), Bound::NotFound);
    assert_eq!(bind(&bench, &authority(), "bob", None), Bound::NotFound);
    let standing = bench.call(FindStanding { project: project(), subject: user("ann") });
    assert_eq!(standing, Standing { project: Some((1, true)), binding: Some((2, None)) });
    let nowhere = bench.call(FindStanding { project: name("nowhere"), subject: user("ann") });
    assert_eq!(nowhere, Standing { project: None, binding: None });
}

#[test]
fn only_an_owner_touches_owners_and_the_last_one_stays() {
    let bench = Bench::new();
    let admin = member(&bench, "adam", Role::Admin);
    assert_eq!(bind(&bench, &admin, "ann", Some(Role::Owner)), Bound::Forbidden);
    assert_eq!(bind(&bench, &admin, "owner", Some(Role::Viewer)), Bound::Forbidden);
    assert_eq!(bind(&bench, &admin, "owner", None), Bound::Forbidden);
    assert!(matches!(bind(&bench, &admin, "ann", Some(Role::Operator)), Bound::Done(_)));
    assert_eq!(bench.call(add(&admin, "owner", "o-9")), CredentialChange::Forbidden);
    let revoke = |by: &Authority, id: &str| RevokeCredential {
        authority: by.clone(),
        mutation: mutation(),
        credential_id: id.into(),
    };
    assert_eq!(bench.call(revoke(&admin, "owner-1")), CredentialChange::Forbidden);
    let last = Bound::Refused(FenceReason::LastOwner);
    assert_eq!(bind(&bench, &authority(), "owner", None), last);
    assert_eq!(bind(&bench, &authority(), "owner", Some(Role::Admin)), last);
    assert!(matches!(bind(&bench, &authority(), "ann", Some(Role::Owner)), Bound::Done(_)));
    assert!(matches!(bind(&bench, &authority(), "owner", None), Bound::Done(_)));
    let gone = Bound::Refused(FenceReason::AuthorizationChanged);
    assert_eq!(bind(&bench, &authority(), "ann", None), gone);
    let viewer = member_of(&admin);
    assert_eq!(bind(&bench, &viewer, "ann", None), gone, "an older binding version");
    let system = Subject::parse("system:x").unwrap();
    let bound = bench.call(Bind { authority: admin, mutation: mutation(), subject: system, role: Some(Role::Viewer) });
    assert_eq!(bound, Bound::Forbidden);
}

fn member_of(by: &Authority) -> Authority {
    let mut older = by.clone();
    older.fence.binding_version -= 1;
    older
}

#[test]
fn credentials_are_added_replayed_revoked_and_listed() {
    let bench = Bench::new();
    assert_eq!(bench.call(add(&authority(), "ann", "ann-1")), CredentialChange::NotFound, "it has no role");
    bind(&bench, &authority(), "ann", Some(Role::Viewer));
    let first = add(&authority(), "ann", "ann-1");
    let replayed = AddCredential { mutation: first.mutation, ..add(&authority(), "ann", "ann-2") };
    let drifted = AddCredential { mutation: first.mutation, ..add(&authority(), "owner", "ann-3") };
    let CredentialChange::Done(stored) = bench.call(first) else { panic!() };
    assert_eq!(bench.call(replayed), CredentialChange::Existing(stored), "the stored one, not a second");
    assert_eq!(bench.call(drifted), CredentialChange::Refused(FenceReason::MutationConflict));
    let taken = bench.call(add(&authority(), "ann", "ann-1"));
    assert_eq!(taken, CredentialChange::Refused(FenceReason::VersionChanged));

    let mutation = mutation();
    let revoke = |id: &str| RevokeCredential { authority: authority(), mutation, credential_id: id.into() };
    assert_eq!(bench.call(revoke("none")), CredentialChange::NotFound);
    let CredentialChange::Done(revoked) = bench.call(revoke("ann-1")) else { panic!() };
    assert_eq!((revoked.active, revoked.version), (false, 2));
    assert_eq!(bench.call(revoke("ann-1")), CredentialChange::Existing(revoked.clone()));
    assert_eq!(bench.call(revoke("owner-1")), CredentialChange::Refused(FenceReason::MutationConflict));
    assert_eq!(bench.call(FindCredential { credential_id: "ann-1".into() }), Some(revoked.clone()));

    let (page, more) = bench.call(ListAccess { project: project(), after: None });
    assert!(!more);
    assert_eq!(page.len(), 2);
    assert_eq!((&page[0].0.subject, page[0].0.role), (&user("ann"), Some(Role::Viewer)));
    assert_eq!(page[0].1, [revoked]);
    assert_eq!(page[1].0.subject, owner());
    let (page, _) = bench.call(ListAccess { project: project(), after: Some(user("ann")) });
    assert_eq!(page.len(), 1);
}

#[test]
fn the_audit_pages_backwards_and_survives_a_clock_that_fell_back() {
    let mut bench = Bench::new();
    for denial in [Denial::SubjectUnbound, Denial::PermissionMissing] {
        let record = RecordDenial {
            project: project(),
            operation: "task.start",
            subject: user("eve"),
            credential_id: "eve-1".into(),
            denial,
        };
        bench.call(record);
    }
    bench.call(RecordRejections { counts: vec![("bad_secret", 3), ("unknown", 10_000)] });
    // A router that boots in 1970: ids go on rising, so the order of writing stays the order read.
    bench.restart(&open_options(|| 1_000)).unwrap();
    bench.call(RecordRejections { counts: vec![("late", 1)] });
    let (page, more) = bench.call(ListAudit { project: project(), after: None, limit: 3 });
    assert!(more);
    let words: Vec<_> = page.iter().map(|row| (row.reason.as_deref().unwrap(), row.count)).collect();
    assert_eq!(words, [("late", 1), ("unknown", 10_000), ("bad_secret", 3)]);
    assert!(page.iter().all(|row| row.subject.is_none() && row.outcome == "authentication_rejected"));
    let (page, more) = bench.call(ListAudit { project: project(), after: Some(page[2].id), limit: 64 });
    assert!(!more);
    let words: Vec<_> = page.iter().map(|row| row.reason.as_deref()).collect();
    assert_eq!(words, [Some("permission_missing"), Some("subject_unbound"), None]);
    assert_eq!(page[0].credential_id.as_deref(), Some("eve-1"));
    assert_eq!(bench.call(ListAudit { project: name("nowhere"), after: None, limit: 3 }), (Vec::new(), false));
}

fn open_options(clock_ms: fn() -> i64) -> qinglet::store::open::Options {
    qinglet::store::open::Options { clock_ms, ..options() }
}
