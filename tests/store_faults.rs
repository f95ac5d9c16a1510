//! The n-th write and the n-th sync of every operation fail, for every n (design D2). Nobody is told
//! a lie, nothing is half there, and the store goes on when the fault is over.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::id::Uuid;
use qinglet::model::limits::{EDGE, Limits, SECRET_VERSIONS_MAX};
use qinglet::model::policy::{Denial, Role, Subject};
use qinglet::model::record::{ClockWatch, LogRetired};
use qinglet::model::secret::Envelope;
use qinglet::model::trigger::Trigger;
use qinglet::store::access::{
    AddCredential, Bind, BootstrapOwner, ExpireCredentials, FindStanding, ListAccess, NoteUse, ReissueOwner,
    RevokeCredential,
};
use qinglet::store::audit::{ListAudit, RecordDenial, RecordRejections};
use qinglet::store::fire::{Due, Fire, FireAtBoot, ListDue};
use qinglet::store::lost::CloseLost;
use qinglet::store::open::{self, Options};
use qinglet::store::reconcile::Reconcile;
use qinglet::store::resolve::{ResolveRun, Resolver};
use qinglet::store::retention::{DeleteRuns, NoteClock, RetireLogs, RunRule, TrimAudit};
use qinglet::store::retry::{BeginRetry, ListRetries};
use qinglet::store::runs::{CountRuns, GetRun, ListEvents, ListRuns};
use qinglet::store::secrets::{BeginRekey, DeleteSecret, FindEnvelopes, ListOldSeals, ListSecrets, Reseal};
use qinglet::store::start::{
    AdmitRetry, Admitted, CountActive, FailStart, ListCandidates, ListInFlight, ListResolvable, Lose,
    QuarantineReceipt, Resolve,
};
use qinglet::store::state::StateDir;
use qinglet::store::tasks::{DeleteTask, GetTask, ListTasks};
use qinglet::store::triggers::{DeleteTrigger, PutTrigger};
use qinglet::store::{Operation, Store, StoreError};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, mpsc};
use store_support::faults::{self, Kind, Plan};
use store_support::*;

/// So little cache that pages go to disk in the middle of a transaction, and a checkpoint after
/// every commit.
static CRAMPED: Limits = Limits { cache_bytes: 4096, checkpoint_pages: 1, ..EDGE };

fn faulty(limits: &'static Limits) -> Options {
    Options { limits, vfs: Some(faults::NAME.into()), ..options() }
}

/// A closed store with something of every kind in it, to be copied for each try.
struct Template {
    bench: Bench,
    files: Vec<PathBuf>,
    queued: Admitted,
    begun: Admitted,
    running: Admitted,
    ended: Admitted,
    /// It ended before, and its receipt is dealt with.
    old: Admitted,
    /// It failed.
    failed: Admitted,
    /// It runs, and another follows it when it fails.
    followed: Admitted,
    /// It is due.
    due: Due,
    /// It runs, and will be tried again.
    flaky: Admitted,
    /// It waits for its second Attempt.
    waiting: Admitted,
    poisoned: qinglet::store::start::AdmitStart,
    task_ref: qinglet::model::task::TaskRef,
}

impl Template {
    fn new() -> Self {
        let bench = Bench::fast();
        let task_ref = bench.task("hello");
        let start = || bench.start("hello", task_ref);
        let (queued, begun, running, ended) = (start(), start(), start(), start());
        bench.call(begin(&begun));
        for admitted in [&running, &ended] {
            bench.run(admitted);
        }
        let old = start();
        bench.run(&old);
        bench.call(complete(&old, 0));
        bench.call(Resolve { attempts: vec![old.attempt] });
        bench.call(complete(&ended, 0));
        let failed = start();
        bench.run(&failed);
        bench.call(complete(&failed, 1));
        let gone = start();
        bench.run(&gone);
        bench.call(Lose { run: gone.run, attempt: gone.attempt, error_code: "GONE", unproven: false });
        let again = bench.retrying("again", 10);
        let (flaky, waiting) = (bench.start("again", again), bench.start("again", again));
        bench.run(&flaky);
        bench.run(&waiting);
        bench.call(complete(&waiting, 1));
        for _ in 0..5 {
            start();
        }
        // One that comes due, and one that follows a run of the flaky task.
        let cron = json!({"schema": "qinglong/cron@v1", "config": {"expression": "* * * * *", "timezone": "UTC"}});
        let after = json!({"schema": "qinglong/run-finished@v1",
            "config": {"taskId": "follow", "outcomes": ["failed"], "overlap": "allow"}});
        bench.call(trigger("tick", task_ref, &cron));
        bench.call(trigger("up", task_ref, &json!({"schema": "qinglong/boot@v1", "config": {}})));
        let follow = bench.task("follow");
        let followed = bench.start("follow", follow);
        bench.run(&followed);
        bench.call(trigger("then", task_ref, &after));
        let due = bench.call(ListDue { now_ms: 0, limit: 1 }).0.remove(0);
        let subject = Subject::parse("ann").unwrap();
        let role = Some(Role::Viewer);
        bench.call(Bind { authority: authority(), mutation: mutation(), subject: subject.clone(), role });
        let (credential_id, secret_digest) = ("ann-1".into(), [1; 32]);
        bench.call(AddCredential {
            authority: authority(),
            mutation: mutation(),
            subject,
            credential_id,
            secret_digest,
            expires_in_ms: Some(1),
        });
        // One secret with as many versions as are kept, so that the next one makes the oldest go.
        for version in 1..=SECRET_VERSIONS_MAX {
            bench.call(put_secret("db", version, version > 1));
        }
        let poisoned = mutation();
        bench.call(admit("hello", task_ref, poisoned));
        bench.store.close();
        let half = "DELETE FROM run_events WHERE sequence = 2 AND run = (SELECT max(id) FROM runs)";
        raw(&bench.database()).execute_batch(half).unwrap();
        let files = vec![bench.database()];
        let poisoned = admit("hello", task_ref, poisoned);
        Self {
            bench,
            files,
            queued,
            begun,
            running,
            ended,
            old,
            failed,
            followed,
            due,
            flaky,
            waiting,
            poisoned,
            task_ref,
        }
    }

    /// An opened copy.
    fn copy(&self, limits: &'static Limits) -> Copied {
        let folder = Folder::fast();
        let state = StateDir::create(&folder.state()).unwrap();
        for file in &self.files {
            let to = state.path().join(file.file_name().unwrap());
            fs::copy(file, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let lock = state.lock("test").unwrap();
        let store = Store::start(&state, &lock, faulty(limits)).unwrap();
        Copied { _folder: folder, state, lock, store }
    }
}

fn trigger(id: &str, pin: qinglet::model::task::TaskRef, spec: &serde_json::Value) -> PutTrigger {
    let trigger = Trigger::check(name("hello"), pin, spec, true).unwrap_or_else(|e| panic!("{e}"));
    PutTrigger {
        authority: authority(),
        id: name(id),
        mutation: mutation(),
        expected_revision: None,
        trigger,
        boot: None,
    }
}

/// Every version that is kept of the template's secret, sealed under another key.
fn reseal(template: &Template) -> Reseal {
    let database = raw(&template.files[0]);
    let mut query = database.prepare("SELECT version, mutation FROM secret_envelopes ORDER BY version").unwrap();
    let kept = query.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?))).unwrap();
    let moved = kept.map(|row| {
        let (version, mutation) = row.unwrap();
        let mutation = qinglet::model::id::MutationId(Uuid::from_bytes(mutation));
        ("old".to_owned(), Envelope { mutation, ..envelope("db", version, "new") })
    });
    Reseal { authority: authority(), moved: moved.collect() }
}

struct Copied {
    _folder: Folder,
    state: StateDir,
    lock: qinglet::store::state::StateLock,
    store: Store,
}

/// What a store holds, told without ids and times: one line for each row that matters.
fn shape(state: &Path) -> Vec<String> {
    // A copy of the files as they lie there, as a power cut would leave them: SQLite recovers it.
    let folder = Folder::fast();
    for entry in fs::read_dir(state).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), folder.0.join(entry.file_name())).unwrap();
        }
    }
    let conn = raw(&database(&folder.0));
    let whole: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    assert!(!conn.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap(), "a reference to nothing");
    let mut lines = Vec::new();
    for sql in [
        "SELECT 'run ' || task || status || version || event_sequence || coalesce(cancel_reason, '')
            || coalesce(next_attempt_delay_ms, '') || coalesce(next_attempt_boot_ms, '') FROM runs",
        "SELECT 'attempt ' || number || status || callback_sequence || coalesce(handle, '') || coalesce(log_retired_bytes, '') FROM attempts",
        "SELECT 'clock ' || anchor_ms FROM clock",
        "SELECT 'event ' || type || sequence || actor_type FROM run_events",
        "SELECT 'journal ' || status FROM receipt_journal",
        "SELECT 'trigger ' || id || revision || deleted || enabled FROM triggers",
        "SELECT 'trigger revision ' || trigger_id || revision FROM trigger_revisions",
        "SELECT 'schedule ' || trigger_id || version || coalesce(next_fire_at_ms, '') || skipped FROM trigger_schedules",
        "SELECT 'task ' || id || revision || deleted FROM tasks",
        "SELECT 'revision ' || task || revision FROM task_revisions",
        "SELECT 'deletion ' || task FROM task_deletions",
        "SELECT 'execution ' || task || revision FROM execution_revisions",
        "SELECT 'recipe' FROM context_recipes",
        "SELECT 'binding ' || subject_id || version || coalesce(role, 'none') FROM role_bindings",
        "SELECT 'credential ' || id || version || status FROM credentials",
        "SELECT 'use ' || credential || last_used_day FROM credential_uses",
        "SELECT 'secret ' || name || version || deleted FROM secrets",
        "SELECT 'envelope ' || name || version || key_id || hex(sealed) FROM secret_envelopes",
        "SELECT 'audit ' || operation || outcome || count FROM audit",
    ] {
        let mut query = conn.prepare(sql).unwrap();
        let rows = query.query_map([], |row| row.get::<_, String>(0)).unwrap();
        lines.extend(rows.map(Result::unwrap));
    }
    let counted = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let events = counted("SELECT sum(event_sequence) FROM runs");
    // The template's poisoned Run lacks one event on purpose.
    assert_eq!(counted("SELECT count(*) FROM run_events"), events - 1, "every version has its event");
    lines.sort();
    lines
}

type Act = Box<dyn Fn(&Template, &Store) -> Result<(), StoreError>>;

fn act<O: Operation>(make: impl Fn(&Template) -> O + 'static) -> Act {
    Box::new(move |template, store| store.call(make(template)).map(drop))
}

fn mutations() -> Vec<(&'static str, Act)> {
    let ann = || Subject::parse("ann").unwrap();
    vec![
        ("AdmitStart", act(|t| admit("hello", t.task_ref, mutation()))),
        (
            "AdmitStart refused",
            act(|t| {
                let mut start = admit("hello", t.task_ref, mutation());
                start.authority.credential_version = 9;
                start
            }),
        ),
        (
            "BeginStart",
            act(|t| {
                let mut begin = begin(&t.queued);
                begin.resolved = vec![t.ended.attempt];
                begin
            }),
        ),
        ("TakeOwnership", act(|t| own(&t.begun))),
        ("Reconcile", act(|t| Reconcile { run: t.running.run, attempt: t.running.attempt })),
        (
            "ResolveRun",
            act(|t| ResolveRun { by: Resolver::Local, run: t.running.run, mutation: mutation(), version: 6 }),
        ),
        ("CloseLost", act(|_| CloseLost { keep: 0, age: None, limit: 8 })),
        (
            "FailStart",
            act(|t| FailStart {
                run: t.begun.run,
                attempt: t.begun.attempt,
                error_code: "EXECUTOR_START_FAILED",
                error_summary: "no".into(),
            }),
        ),
        (
            "FailStart of a candidate",
            act(|t| FailStart {
                run: t.queued.run,
                attempt: t.queued.attempt,
                error_code: "EXECUTOR_START_FAILED",
                error_summary: "no".into(),
            }),
        ),
        ("Lose", act(|t| Lose { run: t.running.run, attempt: t.running.attempt, error_code: "GONE", unproven: false })),
        (
            "Complete",
            act(|t| {
                let mut complete = complete(&t.running, 3);
                complete.resolved = vec![t.ended.attempt];
                complete
            }),
        ),
        ("Complete, to be tried again", act(|t| complete(&t.flaky, 3))),
        (
            "Lose, to be tried again",
            act(|t| Lose { run: t.flaky.run, attempt: t.flaky.attempt, error_code: "GONE", unproven: false }),
        ),
        ("ListRetries", act(|_| ListRetries { boot: Uuid::from_bytes([1; 16]), boot_ms: 5, limit: 8 })),
        ("BeginRetry", act(|t| BeginRetry { run: t.waiting.run })),
        ("AdmitRetry", act(|t| AdmitRetry { authority: authority(), run: t.failed.run, mutation: mutation() })),
        ("Complete, followed by another", act(|t| complete(&t.followed, 3))),
        ("PutTrigger", act(|t| trigger("new", t.task_ref, &json!({"schema": "qinglong/boot@v1", "config": {}})))),
        (
            "DeleteTrigger",
            act(|_| DeleteTrigger {
                authority: authority(),
                id: name("tick"),
                mutation: mutation(),
                expected_revision: 1,
            }),
        ),
        (
            "Fire",
            act(|t| Fire {
                due: t.due.clone(),
                scheduled_for_ms: Some(60_000),
                skip: None,
                next_fire_at_ms: Some(120_000),
                computed_at_ms: 60_000,
            }),
        ),
        ("FireAtBoot", act(|_| FireAtBoot { boot: Uuid::from_bytes([1; 16]), after: None, limit: 4 })),
        ("Complete, ownership not stored", act(|t| complete(&t.begun, 0))),
        ("Resolve", act(|t| Resolve { attempts: vec![t.ended.attempt] })),
        (
            "RetireLogs",
            act(|t| RetireLogs {
                logs: vec![(t.old.run, 1, LogRetired { at_ms: 1, bytes: 2, truncated: Some(false) })],
            }),
        ),
        (
            "NoteClock",
            act(|_| NoteClock(ClockWatch { boot: Uuid::from_bytes([1; 16]), anchor_ms: 1, paused_until_ms: 2 })),
        ),
        (
            "DeleteRuns",
            act(|t| DeleteRuns { rule: RunRule { keep: 0, age: None }, runs: vec![t.old.run, t.ended.run] }),
        ),
        ("TrimAudit", act(|_| TrimAudit { keep: 1, limit: 2, on: None })),
        ("QuarantineReceipt", act(|t| QuarantineReceipt { run: t.running.run, attempt: t.running.attempt })),
        ("PublishTask new", act(|_| put("fresh", None, "true", true))),
        ("PublishTask disable", act(|_| put("hello", Some(1), "true", false))),
        (
            "DeleteTask",
            act(|_| DeleteTask {
                authority: authority(),
                task: name("hello"),
                mutation: mutation(),
                expected_revision: 1,
            }),
        ),
        (
            "Bind",
            act(move |_| Bind {
                authority: authority(),
                mutation: mutation(),
                subject: ann(),
                role: Some(Role::Admin),
            }),
        ),
        (
            "AddCredential",
            act(move |_| AddCredential {
                authority: authority(),
                mutation: mutation(),
                subject: ann(),
                credential_id: "ann-2".into(),
                secret_digest: [2; 32],
                expires_in_ms: None,
            }),
        ),
        (
            "RevokeCredential",
            act(|_| RevokeCredential { authority: authority(), mutation: mutation(), credential_id: "ann-1".into() }),
        ),
        ("PutSecret new", act(|_| put_secret("fresh", 1, false))),
        ("PutSecret, and the oldest version goes", act(|_| put_secret("db", SECRET_VERSIONS_MAX + 1, true))),
        (
            "DeleteSecret",
            act(|_| DeleteSecret {
                authority: authority(),
                name: name("db"),
                mutation: mutation(),
                expected_version: SECRET_VERSIONS_MAX,
            }),
        ),
        ("BeginRekey", act(|_| BeginRekey { authority: authority() })),
        ("Reseal", act(reseal)),
        ("NoteUse", act(|_| NoteUse { credential_id: "ann-1".into(), day: 20_000 })),
        ("ExpireCredentials", act(|_| ExpireCredentials { now_ms: i64::MAX, limit: 4 })),
        (
            "ReissueOwner",
            act(|_| ReissueOwner { subject: owner(), credential_id: "owner-2".into(), secret_digest: [2; 32] }),
        ),
        (
            "RecordDenial",
            act(move |_| RecordDenial {
                project: project(),
                operation: "task.start",
                subject: ann(),
                credential_id: "ann-1".into(),
                target: None,
                denial: Denial::PermissionMissing,
            }),
        ),
        ("RecordRejections", act(|_| RecordRejections { counts: vec![("a", 1), ("b", 2)] })),
    ]
}

/// Every plan, until one finds nothing to fail.
fn each_plan(mut run: impl FnMut(Plan) -> bool) -> u64 {
    let mut tries = 0;
    for kind in [Kind::Write, Kind::Sync] {
        for at in 1.. {
            assert!(at < 2_000, "no end of {kind:?}");
            tries += 1;
            // Both errors, each once and for good, in turn.
            if !run(Plan { kind, at, full: at % 2 == 0, sticky: at / 2 % 2 == 0 }) {
                break;
            }
        }
    }
    tries
}

/// What became of one try: what the caller was told against what is there.
fn judge(copied: &Copied, name: &str, plan: Plan, told: Result<(), StoreError>, before: &[String], after: &[String]) {
    let here = |when: &str| {
        let found = shape(copied.state.path());
        let (was, is) = (found == before, found == after);
        match told {
            Ok(()) => assert!(is, "{name} {plan:?}: said to be done, and is not {when}"),
            Err(StoreError::Unavailable("commit_unknown")) => {
                assert!(was || is, "{name} {plan:?}: half there {when}");
            }
            Err(error) => assert!(was, "{name} {plan:?}: said not to be done ({error:?}), and is there {when}"),
        }
        is
    };
    // The thread goes on, and by its first look the outcome is settled for good.
    copied.store.call(CountRuns).unwrap_or_else(|e| panic!("{name} {plan:?}: does not go on: {e:?}"));
    let first = here("afterwards");
    copied.store.call(RecordRejections { counts: Vec::new() }).unwrap();
    copied.store.close();
    assert_eq!(here("after closing"), first, "{name} {plan:?}: changed its mind");
    // All of the checks at a start find nothing to say; a few times is enough, they are the same.
    if plan.at % 8 == 1 {
        Store::start(&copied.state, &copied.lock, options()).unwrap_or_else(|e| panic!("{name} {plan:?}: {e}"));
    }
}

fn try_all(limits: &'static Limits) {
    let _turn = faults::turn();
    let template = Template::new();
    let before = shape(template.bench.state.path());
    for (name, act) in mutations() {
        let calm = template.copy(limits);
        faults::disarm();
        act(&template, &calm.store).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let (writes, syncs) = faults::counts();
        assert!(writes > 0 && syncs > 0, "{name} writes and syncs");
        let after = shape(calm.state.path());
        assert_ne!(before, after, "{name} changes something");
        drop(calm);
        let mut told = [0; 3];
        let tries = each_plan(|plan| {
            let copied = template.copy(limits);
            faults::arm(plan);
            let answer = act(&template, &copied.store);
            let tripped = faults::disarm();
            told[match answer {
                Ok(()) => 0,
                Err(StoreError::Unavailable("commit_unknown")) => 1,
                Err(_) => 2,
            }] += 1;
            judge(&copied, name, plan, answer, &before, &after);
            tripped
        });
        println!("{name}: {writes} writes, {syncs} syncs; {tries} tries: {told:?} done, unknown, not done");
        assert!(told[1] > 0, "{name}: a failed commit is unknown");
    }
}

#[test]
fn the_nth_write_and_sync_of_every_operation_fail() {
    try_all(&EDGE);
}

#[test]
fn the_same_with_so_little_cache_that_pages_are_written_in_the_middle() {
    try_all(&CRAMPED);
}

#[test]
fn a_batch_with_one_failing_request_under_every_fault() {
    let _turn = faults::turn();
    let template = Template::new();
    let run = |copied: &Copied| -> Vec<Result<(), StoreError>> {
        let barrier = Arc::new(Barrier::new(2));
        let (held, (begun, wait)) = (Arc::clone(&barrier), mpsc::channel());
        copied.store.post(CountRuns, move |_| {
            begun.send(()).unwrap();
            held.wait();
        });
        wait.recv().unwrap();
        let (send, answers) = mpsc::channel();
        let poisoned = template.poisoned.mutation;
        for mutation in [mutation(), poisoned, mutation()] {
            let send = send.clone();
            let start = admit("hello", template.task_ref, mutation);
            copied.store.post(start, move |answer| send.send(answer.map(drop)).unwrap());
        }
        drop(send);
        barrier.wait();
        answers.iter().collect()
    };
    let before = shape(template.bench.state.path());
    let calm = template.copy(&EDGE);
    let damaged = Err(unavailable("run_record_damaged"));
    assert_eq!(run(&calm), [Ok(()), damaged, Ok(())], "the failing one fails alone");
    let after = shape(calm.state.path());
    assert_eq!(after.len(), before.len() + 2 * 5, "two Runs with Attempt, two events and audit row each");
    each_plan(|plan| {
        let copied = template.copy(&EDGE);
        faults::arm(plan);
        let answers = run(&copied);
        let tripped = faults::disarm();
        assert!(answers[1].is_err());
        assert_eq!(answers[0], answers[2], "{plan:?}: one commit holds both");
        judge(&copied, "batch", plan, answers[0], &before, &after);
        tripped
    });
}

#[test]
fn a_read_or_a_refusal_writes_and_syncs_nothing() {
    let _turn = faults::turn();
    let template = Template::new();
    let copied = template.copy(&EDGE);
    let store = &copied.store;
    faults::disarm();
    let (project, run) = (project(), template.ended.run);
    for _ in 0..20 {
        store.call(CountRuns).unwrap();
        store.call(CountActive).unwrap();
        store.call(ListCandidates { limit: 4, except: Vec::new() }).unwrap();
        store.call(ListInFlight { limit: 256 }).unwrap();
        store.call(ListResolvable { after: None, limit: 64 }).unwrap();
        store.call(GetRun { project: project.clone(), run, attempt_number: None }).unwrap();
        store.call(ListEvents { project: project.clone(), run, after_sequence: 0, limit: 64 }).unwrap();
        let list = ListRuns { project: project.clone(), task: None, state: None, after: None, limit: 64 };
        store.call(list).unwrap();
        assert!(store.call(GetTask { project: project.clone(), task: name("hello") }).unwrap().is_some());
        store.call(ListTasks { project: project.clone(), after: None, limit: 64 }).unwrap();
        store.call(ListAccess { project: project.clone(), after: None }).unwrap();
        store.call(ListAudit { project: project.clone(), after: None, limit: 64 }).unwrap();
        store.call(FindStanding { project: project.clone(), subject: owner() }).unwrap();
        store.call(ListSecrets { project: project.clone(), after: None, limit: 64 }).unwrap();
        store.call(ListOldSeals { active: "new".into(), limit: 64 }).unwrap();
        store.call(FindEnvelopes { project: project.clone(), wanted: vec![(name("db"), None)] }).unwrap();
        store.call(put_secret("db", 1, false)).unwrap();
        assert_eq!(store.call(Reseal { authority: authority(), moved: Vec::new() }), Ok(Ok(0)));
        // Mutations that find nothing to change.
        let stale = qinglet::model::task::TaskRef { revision: 7, ..template.task_ref };
        store.call(admit("hello", stale, mutation())).unwrap();
        store.call(begin(&template.running)).unwrap();
        store.call(complete(&template.ended, 0)).unwrap();
        let closed = BootstrapOwner { subject: owner(), credential_id: "x".into(), secret_digest: [0; 32] };
        assert_eq!(store.call(closed), Ok(false));
        assert!(store.call(admit("hello", template.task_ref, template.poisoned.mutation)).is_err());
    }
    assert_eq!(faults::counts(), (0, 0));

    // One that had written already when it failed: rolled back, and its empty rest not committed.
    store.close();
    let bent = "UPDATE context_recipes SET bindings = '[]'";
    raw(&database(copied.state.path())).execute_batch(bent).unwrap();
    let store = Store::start(&copied.state, &copied.lock, faulty(&EDGE)).unwrap();
    faults::disarm();
    let failed = store.call(put("fresh", None, "true", true));
    assert_eq!(failed, Err(unavailable("context_recipe_damaged")));
    assert_eq!(faults::counts(), (0, 0));
}

#[test]
fn every_fault_of_init_and_start_is_said_and_finished_by_the_next() {
    let _turn = faults::turn();
    let mut sentences = std::collections::BTreeSet::new();
    each_plan(|plan| {
        let folder = Folder::fast();
        let state = StateDir::create(&folder.state()).unwrap();
        let lock = state.lock("init").unwrap();
        faults::arm(plan);
        let made = open::init(&state, &lock, &faulty(&EDGE));
        let tripped = faults::disarm();
        if let Err(error) = &made {
            sentences.insert(error.to_string().replace(&*state.path().to_string_lossy(), "STATE"));
        }
        open::init(&state, &lock, &options()).unwrap_or_else(|e| panic!("{plan:?}: the next init: {e}"));
        assert!(made.is_ok() || tripped);
        faults::arm(plan);
        let started = Store::start(&state, &lock, faulty(&EDGE));
        let tripped_too = faults::disarm();
        match started {
            Ok(store) => store.close(),
            Err(error) => {
                sentences.insert(error.to_string().replace(&*state.path().to_string_lossy(), "STATE"));
                assert!(tripped_too);
            }
        }
        let store = Store::start(&state, &lock, options()).unwrap_or_else(|e| panic!("{plan:?}: the next start: {e}"));
        let owner = BootstrapOwner { subject: owner(), credential_id: "owner-1".into(), secret_digest: [7; 32] };
        assert_eq!(store.call(owner), Ok(true));
        tripped || tripped_too
    });
    let all = sentences.iter().cloned().collect::<Vec<_>>().join("\n");
    println!("{all}");
    assert!(all.contains("the file system of STATE is full: free some space and try again"), "{all}");
    assert!(all.contains("look at the kernel's log for faults of the storage"), "{all}");
    assert!(!all.contains("damaged"), "a fault is not damage: {all}");
}

/// Owner, token and audit row are one: whichever write fails, all are there or none, and the next try
/// settles it.
#[test]
fn bootstrap_rollback_on_audit_failure() {
    let _turn = faults::turn();
    let first = || BootstrapOwner { subject: owner(), credential_id: "owner-1".into(), secret_digest: [7; 32] };
    each_plan(|plan| {
        let folder = Folder::fast();
        let state = StateDir::create(&folder.state()).unwrap();
        let lock = state.lock("test").unwrap();
        open::init(&state, &lock, &options()).unwrap();
        let store = Store::start(&state, &lock, faulty(&EDGE)).unwrap();
        faults::arm(plan);
        let told = store.call(first());
        let tripped = faults::disarm();
        store.call(CountRuns).unwrap();
        let next = store.call(first()).unwrap();
        match told {
            Ok(made) => assert!(made && !next, "{plan:?}"),
            Err(StoreError::Unavailable("commit_unknown")) => {}
            Err(_) => assert!(next, "{plan:?}: said not to be done"),
        }
        store.close();
        let conn = raw(&database(state.path()));
        for table in ["role_bindings", "credentials", "audit"] {
            let count: i64 = conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
            assert_eq!(count, 1, "{plan:?}: {table}");
        }
        tripped
    });
}

#[test]
fn a_read_only_file_system_is_said_and_nothing_is_changed() {
    let _turn = faults::turn();
    let template = Template::new();
    let copied = template.copy(&EDGE);
    copied.store.close();
    let file = database(copied.state.path());
    let bytes = fs::read(&file).unwrap();
    faults::read_only(true);
    let start = Store::start(&copied.state, &copied.lock, faulty(&EDGE)).map(drop).unwrap_err().to_string();
    let init = open::init(&copied.state, &copied.lock, &faulty(&EDGE)).unwrap_err().to_string();
    faults::read_only(false);
    for sentence in [start, init] {
        assert!(sentence.contains("mount its file system writable, or use another folder"), "{sentence}");
    }
    assert_eq!(fs::read(&file).unwrap(), bytes);
}
