//! S376 acceptance 1 and 2 at the store: the fixed order, replay from what is stored, conflicts,
//! fences, damaged records, rollback and the single winner.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::digest::Digest;
use qinglet::model::life::RunState;
use qinglet::model::limits::{EDGE, Limits};
use qinglet::model::policy::{Role, Subject};
use qinglet::model::record::AuditRow;
use qinglet::model::task::TaskRef;
use qinglet::model::word::FenceReason;
use qinglet::store::access::{AddCredential, Bind, Bound, CredentialChange, ReissueOwner, RevokeCredential};
use qinglet::store::audit::ListAudit;
use qinglet::store::runs::{CountRuns, ListRuns, RunCounts, RunCursor};
use qinglet::store::start::{AdmitStart, Started, Step};
use qinglet::store::tasks::{DeleteTask, Deleted};
use std::sync::{Arc, Barrier, mpsc};
use store_support::*;

fn audit(bench: &Bench) -> Vec<AuditRow> {
    bench.call(ListAudit { project: project(), after: None, limit: 64 }).0
}

fn runs(bench: &Bench) -> usize {
    let list = ListRuns { project: project(), task: None, state: None, after: None, limit: 64 };
    bench.call(list).0.len()
}

#[test]
fn accepted_then_exact_replay_same_run() {
    let mut bench = Bench::new();
    let task_ref = bench.task("hello");
    let mutation = mutation();
    let Started::Accepted(first) = bench.call(admit("hello", task_ref, mutation)) else { panic!() };
    assert_eq!(bench.call(admit("hello", task_ref, mutation)), Started::Existing(first.clone()));
    let starts = |rows: Vec<AuditRow>| rows.iter().filter(|row| row.operation == "task.start").count();
    assert_eq!(starts(audit(&bench)), 1, "a replay changes nothing and writes nothing");
    // Whatever became of the Run, the task, or the daemon.
    bench.run(&first);
    bench.call(complete(&first, 0));
    bench.call(put("hello", Some(1), "false", false));
    bench.restart(&options()).unwrap();
    assert_eq!(bench.call(admit("hello", task_ref, mutation)), Started::Existing(first));
    assert_eq!(runs(&bench), 1);
}

#[test]
fn mutation_conflict_on_task_digest_subject_and_event_shape() {
    let mut bench = Bench::new();
    let (hello, other) = (bench.task("hello"), bench.task("other"));
    let mutation = mutation();
    assert!(matches!(bench.call(admit("hello", hello, mutation)), Started::Accepted(_)));
    let conflict = Started::Refused(FenceReason::MutationConflict);
    assert_eq!(bench.call(admit("other", other, mutation)), conflict);
    let revised = TaskRef { revision: 2, ..hello };
    assert_eq!(bench.call(admit("hello", revised, mutation)), conflict);
    let redigested = TaskRef { digest: Digest::of("x", b""), ..hello };
    assert_eq!(bench.call(admit("hello", redigested, mutation)), conflict);
    let friend = befriend(&bench, Role::Operator);
    assert_eq!(bench.call(AdmitStart { authority: friend, ..admit("hello", hello, mutation) }), conflict);
    // As an earlier version wrote it: in the payload.
    let older = format!(
        "UPDATE run_events SET definition_digest = NULL, execution_digest = NULL, mutation = NULL,
            payload = '{{\"definitionDigest\":\"{}\",\"mutationId\":\"{mutation}\"}}' WHERE sequence = 1",
        hello.digest
    );
    bench.tamper(&older).unwrap();
    assert!(matches!(bench.call(admit("hello", hello, mutation)), Started::Existing(_)));
    bench.tamper("UPDATE run_events SET payload = replace(payload, 'mutationId', 'mutationIx')").unwrap();
    assert_eq!(bench.call(admit("hello", hello, mutation)), conflict);
    let other = "UPDATE run_events SET mutation = randomblob(16), definition_digest = randomblob(32)";
    bench.tamper(other).unwrap();
    assert_eq!(bench.call(admit("hello", hello, mutation)), conflict);
    bench.tamper("DELETE FROM run_events WHERE sequence = 2").unwrap();
    let result = bench.store.call(admit("hello", hello, mutation));
    assert_eq!(result, Err(unavailable("run_record_damaged")), "consistency cannot be proved");
    assert_eq!(runs(&bench), 1);
}

/// Binds `user:friend` and gives it a credential; the authority it then has.
fn befriend(bench: &Bench, role: Role) -> qinglet::model::policy::Authority {
    let subject = Subject::parse("friend").unwrap();
    let bind = Bind { authority: authority(), mutation: mutation(), subject: subject.clone(), role: Some(role) };
    let Bound::Done(binding) = bench.call(bind) else { panic!() };
    let add = AddCredential {
        authority: authority(),
        mutation: mutation(),
        subject: subject.clone(),
        credential_id: "friend-1".into(),
        secret_digest: [9; 32],
        expires_in_ms: None,
    };
    assert!(matches!(bench.call(add), CredentialChange::Done(_)));
    let mut friend = authority();
    (friend.subject, friend.credential_id) = (subject, "friend-1".into());
    friend.fence.binding_version = binding.version;
    friend
}

#[test]
fn role_or_credential_revoked_between_admission_and_tx() {
    let mut bench = Bench::new();
    let task_ref = bench.task("hello");
    let refused = Started::Refused(FenceReason::AuthorizationChanged);
    let friend = befriend(&bench, Role::Operator);
    let start = |friend: &qinglet::model::policy::Authority, mutation| AdmitStart {
        authority: friend.clone(),
        ..admit("hello", task_ref, mutation)
    };
    let used = mutation();
    assert!(matches!(bench.call(start(&friend, used)), Started::Accepted(_)));
    let subject = friend.subject.clone();
    let bind = |role| Bind { authority: authority(), mutation: mutation(), subject: subject.clone(), role };
    assert!(matches!(bench.call(bind(Some(Role::Viewer))), Bound::Done(_)));
    assert_eq!(bench.call(start(&friend, mutation())), refused, "the version moved on");
    let viewer = {
        let mut viewer = friend.clone();
        viewer.fence.binding_version = 2;
        viewer
    };
    assert_eq!(bench.call(start(&viewer, mutation())), refused, "a viewer may not");
    assert_eq!(bench.call(start(&viewer, used)), refused, "not even a replay");
    assert!(matches!(bench.call(bind(Some(Role::Operator))), Bound::Done(_)));
    let mut again = friend.clone();
    again.fence.binding_version = 3;
    assert!(matches!(bench.call(start(&again, used)), Started::Existing(_)), "the stored fence is history");
    let credential_id = friend.credential_id.clone();
    let revoke = RevokeCredential { authority: authority(), mutation: mutation(), credential_id };
    assert!(matches!(bench.call(revoke), CredentialChange::Done(_)));
    assert_eq!(bench.call(start(&again, mutation())), refused, "revoked: it works for nobody from the commit on");
    let newest = &audit(&bench)[0];
    assert_eq!((newest.outcome.as_str(), newest.reason.as_deref()), ("refused", Some("authorization_changed")));
    bench.tamper("UPDATE projects SET version = 2").unwrap();
    assert_eq!(bench.call(admit("hello", task_ref, mutation())), refused);
    bench.tamper("UPDATE projects SET version = 1, status = 'archived'").unwrap();
    assert_eq!(bench.call(admit("hello", task_ref, mutation())), refused);
    let mut nowhere = admit("hello", task_ref, mutation());
    nowhere.authority.project = name("nowhere");
    assert_eq!(bench.call(nowhere), refused);
}

#[test]
fn a_reissued_owner_works_and_the_old_credential_does_not() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    bench.call(ReissueOwner { subject: owner(), credential_id: "owner-2".into(), secret_digest: [8; 32] });
    let refused = Started::Refused(FenceReason::AuthorizationChanged);
    assert_eq!(bench.call(admit("hello", task_ref, mutation())), refused);
    let mut start = admit("hello", task_ref, mutation());
    start.authority.credential_id = "owner-2".into();
    assert!(matches!(bench.call(start), Started::Accepted(_)));
}

#[test]
fn definition_updated_disabled_or_deleted() {
    let bench = Bench::new();
    let first = bench.task("hello");
    bench.call(put("hello", Some(1), "echo 2", true));
    let refused = |reason| Started::Refused(reason);
    let start = |task_ref| bench.call(admit("hello", task_ref, mutation()));
    assert_eq!(start(first), refused(FenceReason::DefinitionChanged));
    let wrong = TaskRef { revision: 2, ..first };
    assert_eq!(start(wrong), refused(FenceReason::DefinitionChanged));
    let qinglet::store::tasks::Published::Updated(head, _) = bench.call(put("hello", Some(2), "echo 3", false)) else {
        panic!()
    };
    assert_eq!(start(head.task_ref), refused(FenceReason::TaskDisabled));
    let delete = DeleteTask { authority: authority(), task: name("hello"), mutation: mutation(), expected_revision: 3 };
    assert_eq!(bench.call(delete), Deleted::Done(Vec::new()));
    assert_eq!(start(head.task_ref), Started::TaskNotFound);
    assert_eq!(bench.call(admit("never", first, mutation())), Started::TaskNotFound);
    assert_eq!(runs(&bench), 0);
}

#[test]
fn execution_revision_missing_or_corrupt_503() {
    let damages = [
        ("UPDATE task_revisions SET definition = replace(definition, 'true', 'evil')", "task_record_damaged"),
        ("UPDATE task_revisions SET digest = zeroblob(32)", "task_record_damaged"),
        ("DELETE FROM task_revisions", "task_record_damaged"),
        ("DELETE FROM execution_revisions", "execution_revision_missing"),
        ("UPDATE execution_revisions SET task_digest = zeroblob(32)", "execution_revision_damaged"),
        ("UPDATE execution_revisions SET digest = zeroblob(32)", "execution_revision_damaged"),
        ("UPDATE context_recipes SET bindings = replace(bindings, '\"1\"', '\"2\"')", "execution_revision_damaged"),
        ("PRAGMA foreign_keys = OFF; DELETE FROM context_recipes", "execution_revision_missing"),
    ];
    for (damage, word) in damages {
        let mut bench = Bench::new();
        let task_ref = bench.task("hello");
        bench.tamper(damage).unwrap();
        assert_eq!(bench.call(admit("hello", task_ref, mutation())), Started::Unavailable(word), "{damage}");
        assert_eq!(runs(&bench), 0, "{damage}");
    }
}

#[test]
fn a_full_queue_is_refused_and_takes_one_more_when_one_has_left() {
    static SMALL: Limits = Limits { queued_runs: 3, ..EDGE };
    let bench = Bench::limited(&SMALL);
    let task_ref = bench.task("hello");
    let queued: Vec<_> = (0..3).map(|_| bench.start("hello", task_ref)).collect();
    let start = || bench.call(admit("hello", task_ref, mutation()));
    assert_eq!(start(), Started::Unavailable("queue_full"));
    assert_eq!(bench.call(begin(&queued[0])), Step::Done);
    assert!(matches!(start(), Started::Accepted(_)));
    assert_eq!(start(), Started::Unavailable("queue_full"));
}

#[test]
fn concurrent_single_winner() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let mutation = mutation();
    let barrier = Arc::new(Barrier::new(32));
    let answers: Vec<Started> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..32)
            .map(|_| {
                let (barrier, store) = (Arc::clone(&barrier), bench.store.clone());
                scope.spawn(move || {
                    barrier.wait();
                    store.call(admit("hello", task_ref, mutation)).unwrap()
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let accepted: Vec<_> = answers.iter().filter(|answer| matches!(answer, Started::Accepted(_))).collect();
    let [Started::Accepted(winner)] = accepted[..] else { panic!("{accepted:?}") };
    let existing = answers.iter().filter(|answer| **answer == Started::Existing(winner.clone())).count();
    assert_eq!(existing, 31);
    assert_eq!(bench.call(CountRuns), RunCounts { queued: 1, ..RunCounts::default() });
}

#[test]
fn posted_operations_are_answered_after_their_commit() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let (send, receive) = mpsc::channel();
    for _ in 0..64 {
        let send = send.clone();
        bench.store.post(admit("hello", task_ref, mutation()), move |answer| send.send(answer).unwrap());
    }
    bench.store.close();
    drop(send);
    let answers: Vec<_> = receive.iter().collect();
    assert_eq!(answers.len(), 64, "what was accepted is finished before the end");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Started::Accepted(_)))));
    assert_eq!(bench.store.call(CountRuns), Err(qinglet::store::StoreError::Closed));
    bench.store.close();
}

#[test]
fn pages_of_runs_meet_without_gap_or_overlap() {
    let bench = Bench::new();
    let (hello, other) = (bench.task("hello"), bench.task("other"));
    let mut want = Vec::new();
    for i in 0..20 {
        let admitted = if i % 3 == 0 { bench.start("other", other) } else { bench.start("hello", hello) };
        if i % 2 == 0 {
            bench.run(&admitted);
            bench.call(complete(&admitted, i32::from(i % 4 == 0)));
        }
        want.insert(0, admitted.run);
    }
    let walk = |task: Option<&str>, state| {
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let list = ListRuns { project: project(), task: task.map(name), state, after, limit: 3 };
            let (page, more) = bench.call(list);
            seen.extend(page.iter().map(|run| run.id));
            let Some(end) = page.last().filter(|_| more) else { return seen };
            after = Some(RunCursor { created_at_ms: end.created_at_ms, run: end.id });
        }
    };
    assert_eq!(walk(None, None), want);
    let picked = |keep: fn(usize) -> bool| -> Vec<_> {
        want.iter().rev().enumerate().filter(|(i, _)| keep(*i)).map(|(_, run)| *run).rev().collect()
    };
    assert_eq!(walk(Some("other"), None), picked(|i| i % 3 == 0));
    assert_eq!(walk(None, Some(RunState::Queued)), picked(|i| i % 2 == 1));
    assert_eq!(walk(None, Some(RunState::Failed)), picked(|i| i % 4 == 0));
    assert_eq!(walk(Some("other"), Some(RunState::Succeeded)), picked(|i| i % 3 == 0 && i % 4 == 2));
    assert_eq!(walk(Some("none"), None), []);
}
