//! Roles, credentials, the first owner and the audit, as the store keeps them.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::limits::TOKENS_PER_SUBJECT_MAX;
use qinglet::model::policy::{Authority, Denial, Fence, Role, Standing, Subject};
use qinglet::model::word::FenceReason;
use qinglet::store::access::{
    AddCredential, Bind, BootstrapOwner, Bound, CredentialChange, ExpireCredentials, FindCredential, FindStanding,
    ListAccess, NoteUse, ReissueOwner, RevokeCredential,
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
        expires_in_ms: None,
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
fn reissue_makes_the_folders_owner_an_owner_again_whoever_else_is_one() {
    let mut bench = Bench::new();
    let reissue = |id: &str| ReissueOwner { subject: owner(), credential_id: id.into(), secret_digest: [8; 32] };
    let standing = |bench: &Bench| bench.call(FindStanding { project: project(), subject: owner() }).binding;
    bench.call(reissue("owner-2"));
    assert_eq!(standing(&bench), Some((1, Some(Role::Owner))), "still the owner, so no new version");
    bench.tamper("UPDATE role_bindings SET role = NULL").unwrap();
    bench.call(reissue("owner-3"));
    assert_eq!(standing(&bench), Some((2, Some(Role::Owner))));
    // Somebody with the owner's token makes an owner of their own and takes the role from the first.
    let thief = Authority { credential_id: "owner-3".into(), ..authority() };
    let thief = Authority { fence: Fence { binding_version: 2, ..thief.fence }, ..thief };
    assert!(matches!(bind(&bench, &thief, "accomplice", Some(Role::Owner)), Bound::Done(_)));
    assert!(matches!(bind(&bench, &thief, "owner", None), Bound::Done(_)));
    bench.call(reissue("owner-4"));
    assert_eq!(standing(&bench), Some((4, Some(Role::Owner))));
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

/// An agent only reads: with one as the only owner nobody could manage anything.
#[test]
fn an_agent_is_not_the_owner_that_may_be_left() {
    let bench = Bench::new();
    assert!(matches!(bind(&bench, &authority(), "agent:helper", Some(Role::Owner)), Bound::Done(_)));
    assert_eq!(bind(&bench, &authority(), "owner", None), Bound::Refused(FenceReason::LastOwner));
}

/// Two threads at once, each with the other's owner to take away: one of them stays.
#[test]
fn two_owners_who_revoke_each_other_leave_one() {
    for _ in 0..8 {
        let bench = Bench::new();
        assert!(matches!(bind(&bench, &authority(), "second", Some(Role::Owner)), Bound::Done(_)));
        assert!(matches!(bench.call(add(&authority(), "second", "second-1")), CredentialChange::Done(_)));
        let second = Authority { subject: user("second"), credential_id: "second-1".into(), ..authority() };
        let out = std::thread::scope(|scope| {
            let one = scope.spawn(|| bind(&bench, &authority(), "second", None));
            let two = scope.spawn(|| bind(&bench, &second, "owner", None));
            [one.join().unwrap(), two.join().unwrap()]
        });
        assert_eq!(out.iter().filter(|bound| matches!(bound, Bound::Done(_))).count(), 1, "{out:?}");
        let (page, _) = bench.call(ListAccess { project: project(), after: None });
        assert_eq!(page.iter().filter(|(binding, _)| binding.role == Some(Role::Owner)).count(), 1);
    }
}

/// The same mutation from two at once is stored once, and different ones count up without a hole.
#[test]
fn binding_append_replay_conflict_two_writers() {
    let bench = Bench::new();
    let mutation = mutation();
    let grant = |role| Bind { authority: authority(), mutation, subject: user("ann"), role: Some(role) };
    let race = |ops: [Bind; 2]| {
        let [one, two] = ops;
        std::thread::scope(|scope| {
            let one = scope.spawn(|| bench.call(one));
            let two = scope.spawn(|| bench.call(two));
            [one.join().unwrap(), two.join().unwrap()]
        })
    };
    let same = race([grant(Role::Viewer), grant(Role::Viewer)]);
    let done = |out: &[Bound; 2]| out.iter().filter(|bound| matches!(bound, Bound::Done(_))).count();
    assert_eq!(done(&same), 1, "{same:?}");
    assert!(same.iter().any(|bound| matches!(bound, Bound::Existing(_))), "{same:?}");
    let drift = race([grant(Role::Admin), grant(Role::Viewer)]);
    assert_eq!(drift.iter().filter(|bound| **bound == Bound::Refused(FenceReason::MutationConflict)).count(), 1);
    let fresh = |role| Bind { mutation: store_support::mutation(), ..grant(role) };
    let both = race([fresh(Role::Operator), fresh(Role::Admin)]);
    let mut versions: Vec<_> = both.iter().map(|b| if let Bound::Done(b) = b { b.version } else { 0 }).collect();
    versions.sort_unstable();
    assert_eq!(versions, [2, 3], "{both:?}");
}

/// What an admin has made for somebody does not become an owner's.
#[test]
fn whoever_becomes_an_owner_needs_new_tokens() {
    let bench = Bench::new();
    let admin = member(&bench, "adam", Role::Admin);
    bind(&bench, &admin, "ann", Some(Role::Viewer));
    assert!(matches!(bench.call(add(&admin, "ann", "ann-1")), CredentialChange::Done(_)));
    bind(&bench, &authority(), "ann", Some(Role::Admin));
    assert!(bench.call(FindCredential { credential_id: "ann-1".into() }).unwrap().active, "not an owner's yet");
    bind(&bench, &authority(), "ann", Some(Role::Owner));
    assert!(!bench.call(FindCredential { credential_id: "ann-1".into() }).unwrap().active);
    let row = bench.call(ListAudit { project: project(), after: None, limit: 1 }).0.remove(0);
    assert_eq!((row.operation.as_str(), row.target.as_deref()), ("credential.revoke", Some("user:ann ann-1")));
    assert!(matches!(bench.call(add(&authority(), "ann", "ann-2")), CredentialChange::Done(_)));
    bind(&bench, &authority(), "ann", Some(Role::Owner));
    assert!(bench.call(FindCredential { credential_id: "ann-2".into() }).unwrap().active, "an owner already");
}

/// However many revoked ones there are, a list never hides a token that works.
#[test]
fn a_subject_has_so_many_tokens_and_every_one_is_listed() {
    let bench = Bench::new();
    bind(&bench, &authority(), "ann", Some(Role::Viewer));
    let revoke = |id: &str| {
        let (authority, mutation) = (authority(), mutation());
        bench.call(RevokeCredential { authority, mutation, credential_id: id.into() })
    };
    for i in 0..70 {
        assert!(matches!(bench.call(add(&authority(), "ann", &format!("old-{i}"))), CredentialChange::Done(_)));
        assert!(matches!(revoke(&format!("old-{i}")), CredentialChange::Done(_)));
    }
    for i in 0..TOKENS_PER_SUBJECT_MAX {
        assert!(matches!(bench.call(add(&authority(), "ann", &format!("z-{i}"))), CredentialChange::Done(_)));
    }
    assert_eq!(bench.call(add(&authority(), "ann", "one-more")), CredentialChange::TooMany);
    let (page, _) = bench.call(ListAccess { project: project(), after: None });
    assert_eq!(page[0].1.iter().filter(|(token, _)| token.active).count(), TOKENS_PER_SUBJECT_MAX);
    revoke("z-0");
    assert!(matches!(bench.call(add(&authority(), "ann", "one-more")), CredentialChange::Done(_)));
}

#[test]
fn a_token_that_expires_says_when_and_is_replayed_only_with_the_same_life() {
    let bench = Bench::new();
    bind(&bench, &authority(), "ann", Some(Role::Viewer));
    let first = AddCredential { expires_in_ms: Some(5_000), ..add(&authority(), "ann", "ann-1") };
    let mutation = first.mutation;
    let again = |life| AddCredential { mutation, expires_in_ms: life, ..add(&authority(), "ann", "ann-2") };
    let CredentialChange::Done(made) = bench.call(first) else { panic!() };
    assert_eq!(made.expires_at_ms, Some(made.changed_at_ms + 5_000));
    assert_eq!(bench.call(again(Some(5_000))), CredentialChange::Existing(made.clone()));
    for drift in [None, Some(5_001)] {
        assert_eq!(bench.call(again(drift)), CredentialChange::Refused(FenceReason::MutationConflict));
    }
    let end_ms = made.expires_at_ms.unwrap();
    assert_eq!(bench.call(ExpireCredentials { now_ms: end_ms - 1, limit: 4 }), 0);
    assert_eq!(bench.call(ExpireCredentials { now_ms: end_ms, limit: 4 }), 1);
    let gone = bench.call(FindCredential { credential_id: "ann-1".into() }).unwrap();
    assert_eq!((gone.active, gone.version, gone.expires_at_ms), (false, 2, Some(end_ms)));
    let row = bench.call(ListAudit { project: project(), after: None, limit: 1 }).0.remove(0);
    let by = row.subject.unwrap().to_string();
    assert_eq!((row.operation.as_str(), by.as_str()), ("credential.expire", "system:clock"));
    assert_eq!(bench.call(ExpireCredentials { now_ms: i64::MAX, limit: 4 }), 0, "once");
}

/// A proof that has ended between admission and the transaction holds no mutation.
#[test]
fn a_mutation_is_held_to_the_end_of_its_proof() {
    let bench = Bench::new();
    let until = |at_ms| Authority { valid_until_ms: Some(at_ms), ..authority() };
    let over = bind(&bench, &until(1), "ann", Some(Role::Viewer));
    assert_eq!(over, Bound::Refused(FenceReason::AuthorizationChanged));
    assert!(matches!(bind(&bench, &until(i64::MAX), "ann", Some(Role::Viewer)), Bound::Done(_)));
}

#[test]
fn the_day_of_the_last_use_is_kept_apart_from_the_token() {
    let bench = Bench::new();
    let day = |bench: &Bench| bench.call(ListAccess { project: project(), after: None }).0[0].1[0].1;
    let note = |day| bench.call(NoteUse { credential_id: "owner-1".into(), day });
    assert_eq!(day(&bench), None);
    note(20_000);
    note(20_001);
    assert_eq!(day(&bench), Some(20_001));
    note(20_000);
    assert_eq!(day(&bench), Some(20_000), "a clock that was far ahead does not stay for ever");
    let token = bench.call(FindCredential { credential_id: "owner-1".into() }).unwrap();
    assert_eq!(token.version, 1, "a use is no new version");
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
    assert_eq!(page[0].1, [(revoked, None)]);
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
            target: Some("hello".into()),
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
