//! Triggers in the store: what may be stored and what it is held to, one run for each occurrence, and runs
//! that the end of another starts.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::id::{MutationId, RunId, Uuid};
use qinglet::model::life::RunState;
use qinglet::model::limits::{EDGE, Limits};
use qinglet::model::record::{PinState, Run, TriggerHead};
use qinglet::model::task::TaskRef;
use qinglet::model::trigger::Trigger;
use qinglet::model::word::FenceReason;
use qinglet::store::cancel::{EndAsked, RequestCancel};
use qinglet::store::fire::{Due, Fire, FireAtBoot, Fired, ListDue, RecomputeAfter};
use qinglet::store::runs::{CountRuns, GetRun, ListRuns};
use qinglet::store::start::{Admitted, ListCandidates, Lose};
use qinglet::store::tasks::{DeleteTask, Published};
use qinglet::store::triggers::{DeleteTrigger, GetTrigger, ListTriggers, PutTrigger, TriggerDeleted, TriggerPut};
use serde_json::{Value, json};
use store_support::*;

fn cron(overlap: &str) -> Value {
    let config = json!({"expression": "* * * * *", "timezone": "UTC", "overlap": overlap});
    json!({"schema": "qinglong/cron@v1", "config": config})
}

fn after(task: &str, outcomes: &[&str]) -> Value {
    json!({"schema": "qinglong/run-finished@v1", "config": {"taskId": task, "outcomes": outcomes, "overlap": "allow"}})
}

fn put_of(id: &str, task: &str, pin: TaskRef, spec: &Value, expected_revision: Option<i64>) -> PutTrigger {
    let trigger = Trigger::check(name(task), pin, spec, true).unwrap_or_else(|e| panic!("{e}"));
    PutTrigger { authority: authority(), id: name(id), mutation: mutation(), expected_revision, trigger, boot: None }
}

fn make(bench: &Bench, id: &str, task: &str, pin: TaskRef, spec: &Value) -> TriggerHead {
    match bench.call(put_of(id, task, pin, spec, None)) {
        TriggerPut::Created(head) => *head,
        other => panic!("{other:?}"),
    }
}

fn get(bench: &Bench, id: &str) -> TriggerHead {
    bench.call(GetTrigger { project: project(), id: name(id) }).unwrap()
}

fn due(bench: &Bench, now_ms: i64) -> Vec<Due> {
    bench.call(ListDue { now_ms, limit: 8 }).0
}

fn fire(due: &Due, at_ms: i64, next_ms: i64) -> Fire {
    Fire {
        due: due.clone(),
        scheduled_for_ms: Some(at_ms),
        skip: None,
        next_fire_at_ms: Some(next_ms),
        computed_at_ms: at_ms,
    }
}

/// Computes the one schedule there is, as due at this time.
fn computed(bench: &Bench, at_ms: i64) -> Due {
    let new = due(bench, 0).remove(0);
    let moved = Fire { due: new, scheduled_for_ms: None, skip: None, next_fire_at_ms: Some(at_ms), computed_at_ms: 1 };
    assert_eq!(bench.call(moved), Fired::Moved);
    due(bench, at_ms).remove(0)
}

fn run(bench: &Bench, id: RunId) -> Run {
    bench.call(GetRun { project: project(), run: id, attempt_number: None }).unwrap()
}

fn runs_of(bench: &Bench, task: &str) -> Vec<Run> {
    bench.call(ListRuns { project: project(), task: Some(name(task)), state: None, after: None, limit: 64 }).0
}

fn admitted(run: &Run) -> Admitted {
    Admitted {
        run: run.id,
        attempt: run.attempt.as_ref().unwrap().id,
        task: run.task.clone(),
        task_ref: run.task_ref,
        queued_at_ms: 0,
    }
}

#[test]
fn trigger_enabled_needs_current_head() {
    let bench = Bench::new();
    let first = bench.task("t");
    let Published::Updated(second, _) = bench.call(PublishNoRepin::of("t", Some(1))) else { panic!() };
    let refused = |pin| bench.call(put_of("x", "t", pin, &cron("skip"), None));
    assert_eq!(refused(first), TriggerPut::Refused(FenceReason::DefinitionChanged));
    assert_eq!(bench.call(put_of("x", "nobody", first, &cron("skip"), None)), TriggerPut::TaskNotFound);
    assert_eq!(
        bench.call(put_of("x", "t", second.task_ref, &after("nobody", &["failed"]), None)),
        TriggerPut::TaskNotFound
    );
    assert!(matches!(refused(second.task_ref), TriggerPut::Created(_)));
}

/// A task's new revision that leaves its triggers alone.
struct PublishNoRepin;

impl PublishNoRepin {
    fn of(task: &str, expected: Option<i64>) -> qinglet::store::tasks::PublishTask {
        let mut publish = put(task, expected, "echo changed", true);
        publish.put.repin = false;
        publish
    }
}

#[test]
fn stale_trigger_can_be_disabled() {
    let bench = Bench::new();
    let pin = bench.task("t");
    let other = bench.task("other");
    make(&bench, "x", "t", pin, &cron("skip"));
    bench.call(PublishNoRepin::of("t", Some(1)));
    assert_eq!(get(&bench, "x").pin, PinState::Stale);
    let mut off = put_of("x", "t", pin, &cron("skip"), Some(1));
    off.trigger.enabled = false;
    assert!(matches!(bench.call(off), TriggerPut::Updated(..)));
    let moved = put_of("x", "other", other, &cron("skip"), Some(2));
    assert_eq!(bench.call(moved), TriggerPut::Refused(FenceReason::TaskFixed));
    assert_eq!(
        bench.call(put_of("x", "t", pin, &cron("skip"), Some(1))),
        TriggerPut::Refused(FenceReason::DefinitionChanged),
        "another revision"
    );
}

#[test]
fn a_new_revision_of_the_task_takes_its_triggers_along_where_it_says_so() {
    let bench = Bench::new();
    let pin = bench.task("t");
    make(&bench, "x", "t", pin, &cron("skip"));
    let ready = computed(&bench, 60_000);
    let Published::Updated(head, _) = bench.call(put("t", Some(1), "echo changed", true)) else { panic!() };
    let now = get(&bench, "x");
    assert_eq!((now.revision, now.pin, now.trigger.pin), (2, PinState::Good, head.task_ref));
    assert_eq!(now.schedule.next_fire_at_ms, Some(60_000), "its schedule goes on");
    assert_eq!(bench.call(fire(&ready, 60_000, 120_000)), Fired::Raced, "read before, decided after");
    let Fired::Admitted(made) = bench.call(fire(&due(&bench, 60_000)[0], 60_000, 120_000)) else { panic!() };
    assert_eq!(run(&bench, made.run).task_ref, head.task_ref);
}

#[test]
fn cron_same_occurrence_one_run() {
    let bench = Bench::new();
    let pin = bench.task("t");
    make(&bench, "x", "t", pin, &cron("allow"));
    let ready = computed(&bench, 60_000);
    let Fired::Admitted(made) = bench.call(fire(&ready, 60_000, 120_000)) else { panic!() };
    assert_eq!(bench.call(fire(&ready, 60_000, 120_000)), Fired::Raced, "the schedule has moved on");
    // As if the schedule had been computed anew for the same instant.
    let again = due(&bench, 120_000).remove(0);
    assert_eq!(bench.call(fire(&again, 60_000, 120_000)), Fired::Existing);
    let stored = run(&bench, made.run);
    assert_eq!((stored.trigger.as_deref(), stored.origin.as_str()), (Some("x"), "trigger"));
    let candidate = bench.call(ListCandidates { limit: 1, except: vec![] }).remove(0);
    assert_eq!(candidate.scheduled_for_ms, Some(60_000));
    assert_eq!(runs_of(&bench, "t").len(), 1);
    let schedule = get(&bench, "x").schedule;
    assert_eq!((schedule.last_scheduled_at_ms, schedule.last_run), (Some(60_000), Some(made.run)));
}

#[test]
fn scan_then_task_change_no_run() {
    for change in ["stale", "disabled", "deleted"] {
        let bench = Bench::new();
        let pin = bench.task("t");
        make(&bench, "x", "t", pin, &cron("skip"));
        let ready = computed(&bench, 60_000);
        match change {
            "stale" => drop(bench.call(PublishNoRepin::of("t", Some(1)))),
            "disabled" => drop(bench.call(put("t", Some(1), "true", false))),
            _ => drop(bench.call(DeleteTask {
                authority: authority(),
                task: name("t"),
                mutation: mutation(),
                expected_revision: 1,
            })),
        }
        let word = match change {
            "stale" => "pin_stale",
            "disabled" => "task_disabled",
            _ => "task_deleted",
        };
        assert_eq!(bench.call(fire(&ready, 60_000, 120_000)), Fired::Skipped(word));
        let schedule = get(&bench, "x").schedule;
        assert_eq!((schedule.skipped, schedule.last_skip_reason.as_deref()), (1, Some(word)));
        assert_eq!(schedule.next_fire_at_ms, Some(120_000), "and goes on");
        assert_eq!(bench.call(CountRuns).queued, 0);
    }
}

#[test]
fn misfire_skip_is_noted_once_and_a_deleted_one_is_never_due() {
    let bench = Bench::new();
    let pin = bench.task("t");
    make(&bench, "x", "t", pin, &cron("skip"));
    let ready = computed(&bench, 60_000);
    let skip = Fire { skip: Some("misfire"), ..fire(&ready, 60_000, 120_000) };
    assert_eq!(bench.call(skip), Fired::Skipped("misfire"));
    let schedule = get(&bench, "x").schedule;
    assert_eq!((schedule.skipped, schedule.last_skipped_at_ms), (1, Some(60_000)));
    let delete = |mutation| DeleteTrigger { authority: authority(), id: name("x"), mutation, expected_revision: 1 };
    let first = mutation();
    assert_eq!(bench.call(delete(first)), TriggerDeleted::Done(vec![]));
    assert_eq!(bench.call(delete(first)), TriggerDeleted::Existing);
    assert_eq!(bench.call(delete(mutation())), TriggerDeleted::NotFound);
    assert_eq!(due(&bench, i64::MAX), []);
    assert_eq!(bench.call(GetTrigger { project: project(), id: name("x") }), None);
    // Made again it begins anew, with another revision and so with other keys.
    let again = make(&bench, "x", "t", pin, &cron("skip"));
    assert_eq!((again.revision, again.schedule.skipped), (3, 0));
}

#[test]
fn the_same_mutation_again_is_the_same_trigger_and_another_use_of_it_is_refused() {
    let bench = Bench::new();
    let pin = bench.task("t");
    let wanted = mutation();
    let with = |id: &str, mutation: MutationId| PutTrigger { mutation, ..put_of(id, "t", pin, &cron("skip"), None) };
    assert!(matches!(bench.call(with("x", wanted)), TriggerPut::Created(_)));
    assert!(matches!(bench.call(with("x", wanted)), TriggerPut::Existing(_)));
    assert_eq!(bench.call(with("y", wanted)), TriggerPut::Refused(FenceReason::MutationConflict));
    let mut unlike = with("x", wanted);
    unlike.trigger.enabled = false;
    assert_eq!(bench.call(unlike), TriggerPut::Refused(FenceReason::MutationConflict));
    let (page, more) = bench.call(ListTriggers { project: project(), after: None, limit: 1 });
    assert_eq!((page.len(), more), (1, false));
}

#[test]
fn disabling_or_deleting_a_trigger_ends_its_waiting_runs_and_no_others() {
    for delete in [false, true] {
        let bench = Bench::new();
        let pin = bench.task("t");
        make(&bench, "x", "t", pin, &cron("allow"));
        let ready = computed(&bench, 60_000);
        let Fired::Admitted(made) = bench.call(fire(&ready, 60_000, 120_000)) else { panic!() };
        let by_hand = bench.start("t", pin);
        let cancelled = if delete {
            let delete =
                DeleteTrigger { authority: authority(), id: name("x"), mutation: mutation(), expected_revision: 1 };
            let TriggerDeleted::Done(runs) = bench.call(delete) else { panic!() };
            runs
        } else {
            let mut off = put_of("x", "t", pin, &cron("allow"), Some(1));
            off.trigger.enabled = false;
            let TriggerPut::Updated(_, runs) = bench.call(off) else { panic!() };
            runs
        };
        assert_eq!(cancelled, [made.run]);
        assert_eq!(run(&bench, made.run).state, RunState::Cancelled);
        assert_eq!(run(&bench, by_hand.run).state, RunState::Queued);
    }
}

#[test]
fn overlap_is_counted_over_the_triggers_own_runs() {
    for (overlap, second, third) in
        [("skip", Some("overlap"), Some("overlap")), ("queue", None, Some("overlap")), ("allow", None, None)]
    {
        let bench = Bench::new();
        let pin = bench.task("t");
        make(&bench, "x", "t", pin, &cron(overlap));
        let ready = computed(&bench, 60_000);
        let Fired::Admitted(first) = bench.call(fire(&ready, 60_000, 120_000)) else { panic!() };
        bench.run(&first);
        bench.start("t", pin);
        for (at_ms, want) in [(120_000, second), (180_000, third)] {
            let ready = due(&bench, at_ms).remove(0);
            let got = bench.call(fire(&ready, at_ms, at_ms + 60_000));
            let skipped = if let Fired::Skipped(word) = got { Some(word) } else { None };
            assert_eq!(skipped, want, "{overlap} at {at_ms}");
        }
        let waiting = bench.call(ListCandidates { limit: 8, except: vec![] });
        let own = waiting.iter().filter(|candidate| candidate.trigger.is_some()).count();
        assert_eq!(own, if overlap == "allow" { 2 } else { 0 }, "{overlap}: one that waits is not started beside it");
        bench.call(complete(&first, 0));
        let waiting = bench.call(ListCandidates { limit: 8, except: vec![] });
        let own = waiting.iter().filter(|candidate| candidate.trigger.is_some()).count();
        assert_eq!(own, ["skip", "queue", "allow"].iter().position(|word| *word == overlap).unwrap());
    }
}

static FEW: Limits = Limits { queued_runs: 1, ..EDGE };

#[test]
fn a_full_queue_skips_an_occurrence_and_never_keeps_a_run_from_ending() {
    let bench = Bench::limited(&FEW);
    let pin = bench.task("t");
    let other = bench.task("other");
    make(&bench, "x", "other", other, &after("t", &["succeeded"]));
    let first = bench.start("t", pin);
    bench.run(&first);
    bench.start("t", pin);
    bench.call(complete(&first, 0));
    assert_eq!(run(&bench, first.run).state, RunState::Succeeded);
    assert_eq!(get(&bench, "x").schedule.last_skip_reason.as_deref(), Some("queue_full"));
}

#[test]
fn an_end_is_told_once_in_its_own_transaction() {
    let bench = Bench::new();
    let pin = bench.task("t");
    let then = bench.task("then");
    make(&bench, "bad", "then", then, &after("t", &["failed", "lost", "cancelled"]));
    make(&bench, "good", "then", then, &after("t", &["succeeded"]));
    let made = || {
        let runs = runs_of(&bench, "then");
        runs.into_iter().map(|run| run.trigger.unwrap()).collect::<Vec<_>>()
    };
    let first = bench.start("t", pin);
    bench.run(&first);
    bench.call(complete(&first, 3));
    assert_eq!(made(), ["bad"]);
    bench.call(complete(&first, 3));
    assert_eq!(made(), ["bad"], "the receipt comes again");
    let second = bench.start("t", pin);
    bench.run(&second);
    bench.call(complete(&second, 0));
    assert_eq!(made(), ["good", "bad"]);
    // Lost is an end; that it is settled later is not another.
    let third = bench.start("t", pin);
    bench.run(&third);
    bench.call(Lose { run: third.run, attempt: third.attempt, error_code: "GONE", unproven: false });
    assert_eq!(made(), ["bad", "good", "bad"]);
    bench.call(RequestCancel { authority: authority(), run: third.run, mutation: mutation() });
    bench.call(EndAsked { run: third.run, attempt: third.attempt, unproven: false });
    assert_eq!(run(&bench, third.run).state, RunState::Cancelled);
    assert_eq!(made().len(), 3);
    let cause = bench.call(ListCandidates { limit: 8, except: vec![] }).remove(0).cause.unwrap();
    assert_eq!((cause.run, cause.outcome, cause.exit_code), (first.run, RunState::Failed, Some(3)));
}

#[test]
fn what_will_be_tried_again_has_not_ended() {
    let bench = Bench::new();
    let pin = bench.retrying("again", 0);
    let then = bench.task("then");
    make(&bench, "x", "then", then, &after("again", &["failed", "lost"]));
    let first = bench.start("again", pin);
    bench.run(&first);
    bench.call(Lose { run: first.run, attempt: first.attempt, error_code: "GONE", unproven: false });
    assert_eq!(run(&bench, first.run).state, RunState::RetryWait);
    assert!(runs_of(&bench, "then").is_empty());
}

#[test]
fn a_chain_ends_where_a_task_comes_again_or_at_its_bound() {
    let bench = Bench::new();
    let refs: Vec<TaskRef> = (0..10).map(|step| bench.task(&format!("t{step}"))).collect();
    for (step, pin) in refs.iter().enumerate().skip(1) {
        let (task, before) = (format!("t{step}"), format!("t{}", step - 1));
        make(&bench, &format!("to{step}"), &task, *pin, &after(&before, &["succeeded"]));
    }
    make(&bench, "back", "t0", refs[0], &after("t3", &["succeeded"]));
    let mut next = bench.start("t0", refs[0]);
    for step in 0..=8 {
        bench.run(&next);
        bench.call(complete(&next, 0));
        let Some(made) = runs_of(&bench, &format!("t{}", step + 1)).pop() else {
            assert_eq!(step, 8, "eight may follow from one");
            break;
        };
        next = admitted(&run(&bench, made.id));
    }
    assert_eq!(get(&bench, "back").schedule.last_skip_reason.as_deref(), Some("chain_loop"));
    assert_eq!(get(&bench, "to9").schedule.last_skip_reason.as_deref(), Some("chain_too_long"));
    assert_eq!(runs_of(&bench, "t0").len(), 1);
}

#[test]
fn at_boot_each_is_made_once_in_pages() {
    let bench = Bench::new();
    let pin = bench.task("t");
    let boot = json!({"schema": "qinglong/boot@v1", "config": {"overlap": "allow"}});
    for id in ["a", "b", "c"] {
        make(&bench, id, "t", pin, &boot);
    }
    let this = Uuid::from_bytes([9; 16]);
    let made_here = PutTrigger { boot: Some(this), ..put_of("d", "t", pin, &boot, None) };
    assert!(matches!(bench.call(made_here), TriggerPut::Created(_)));
    let walk = |boot| {
        let (mut after, mut made) = (None, 0);
        loop {
            let (more, count) = bench.call(FireAtBoot { boot, after, limit: 2 });
            made += count;
            let Some(last) = more else { return made };
            after = Some(last);
        }
    };
    assert_eq!((walk(this), walk(this)), (3, 0), "d was made in this boot");
    assert_eq!(walk(Uuid::from_bytes([8; 16])), 4);
}

#[test]
fn schedules_of_a_clock_that_was_ahead_are_computed_anew() {
    let bench = Bench::new();
    let pin = bench.task("t");
    make(&bench, "x", "t", pin, &cron("skip"));
    let ready = computed(&bench, 60_000);
    let mut ahead = fire(&ready, 60_000, 9_000_000_000_000);
    ahead.computed_at_ms = 8_999_999_999_999;
    bench.call(ahead);
    assert_eq!(bench.call(RecomputeAfter { after_ms: 9_000_000_000_000 }), 0);
    assert_eq!(bench.call(RecomputeAfter { after_ms: 60_000 }), 1);
    assert_eq!(due(&bench, 60_000)[0].next_fire_at_ms, 0);
}

#[test]
fn a_damaged_trigger_holds_up_no_other_and_keeps_no_run_from_ending() {
    let mut bench = Bench::new();
    let pin = bench.task("t");
    make(&bench, "a", "t", pin, &cron("skip"));
    make(&bench, "b", "t", pin, &cron("skip"));
    make(&bench, "c", "t", pin, &after("t", &["succeeded"]));
    bench.tamper("UPDATE triggers SET definition = definition || ' ' WHERE id IN ('a', 'c')").unwrap();
    let found: Vec<_> = due(&bench, 0).into_iter().map(|due| due.id).collect();
    assert_eq!(found, [name("b")]);
    let first = bench.start("t", pin);
    bench.run(&first);
    bench.call(complete(&first, 0));
    assert_eq!(run(&bench, first.run).state, RunState::Succeeded);
    let asked = bench.store.call(GetTrigger { project: project(), id: name("a") });
    assert_eq!(asked, Err(unavailable("trigger_record_damaged")));
    // It keeps its task from nothing, and setting it anew mends it.
    let Published::Updated(head, _) = bench.call(put("t", Some(1), "echo changed", true)) else { panic!() };
    let anew = put_of("a", "t", head.task_ref, &cron("skip"), Some(1));
    assert!(matches!(bench.call(anew), TriggerPut::Updated(..)));
}
