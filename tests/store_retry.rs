//! What the store says about another Attempt: decided with the end of the one before, due on the boot
//! clock, made once; and about a Run that is tried again by hand.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::id::{RunId, Uuid};
use qinglet::model::life::{AttemptState, CancelReason, RunState};
use qinglet::model::limits::{EDGE, Limits};
use qinglet::model::record::Run;
use qinglet::store::cancel::{CancelRequested, EndAsked, Intend, ListCancelling, RequestCancel};
use qinglet::store::retry::{BeginRetry, ListRetries, Waiting};
use qinglet::store::runs::{CountRuns, GetRun, ListEvents};
use qinglet::store::start::{AdmitRetry, Admitted, Completed, FailStart, ListCandidates, Lose, Retried, Started, Step};
use qinglet::store::tasks::DeleteTask;
use store_support::*;

const HERE: Uuid = Uuid::from_bytes([1; 16]);
const ELSEWHERE: Uuid = Uuid::from_bytes([2; 16]);

fn run(bench: &Bench, run: RunId) -> Run {
    bench.call(GetRun { project: project(), run, attempt_number: None }).unwrap()
}

/// Run, latest Attempt and its number.
fn stands(bench: &Bench, id: RunId) -> (RunState, AttemptState, i64) {
    let run = run(bench, id);
    let attempt = run.attempt.unwrap();
    (run.state, attempt.state, attempt.number)
}

fn waiting(bench: &Bench, boot: Uuid, boot_ms: i64) -> Vec<(RunId, i64)> {
    let page = bench.call(ListRetries { boot, boot_ms, limit: 8 });
    page.into_iter().map(|Waiting { run, due_boot_ms }| (run, due_boot_ms)).collect()
}

fn fail(bench: &Bench, admitted: &Admitted) {
    bench.run(admitted);
    bench.call(complete(admitted, 1));
}

/// The Run's latest Attempt as it would have been admitted.
fn latest(bench: &Bench, admitted: &Admitted) -> Admitted {
    Admitted { attempt: run(bench, admitted.run).attempt.unwrap().id, ..admitted.clone() }
}

#[test]
fn a_delay_counts_in_its_boot_and_begins_again_in_another() {
    let bench = Bench::new();
    let task = bench.retrying("again", 1000);
    let admitted = bench.start("again", task);
    fail(&bench, &admitted);
    assert_eq!(stands(&bench, admitted.run), (RunState::RetryWait, AttemptState::Failed, 1));
    assert_eq!(waiting(&bench, HERE, 50), [(admitted.run, 1050)]);
    assert_eq!(waiting(&bench, HERE, 900), [(admitted.run, 1050)], "set once");
    assert_eq!(waiting(&bench, ELSEWHERE, 7), [(admitted.run, 1007)], "in full");
    assert!(bench.call(ListCandidates { limit: 8, except: vec![] }).is_empty(), "not before it is made");
}

#[test]
fn the_next_attempt_is_made_once_and_each_delay_is_twice_the_one_before() {
    let bench = Bench::new();
    let task = bench.retrying("again", 1000);
    let admitted = bench.start("again", task);
    fail(&bench, &admitted);
    assert_eq!(bench.call(BeginRetry { run: admitted.run }), Step::Done);
    assert_eq!(bench.call(BeginRetry { run: admitted.run }), Step::Raced);
    assert_eq!(stands(&bench, admitted.run), (RunState::Queued, AttemptState::Claimed, 2));
    assert_eq!(run(&bench, admitted.run).error_code, None);
    assert_eq!(waiting(&bench, HERE, 0), []);
    let candidates = bench.call(ListCandidates { limit: 8, except: vec![] });
    assert_eq!(candidates[0].attempt_number, 2);
    let second = latest(&bench, &admitted);
    assert_ne!(second.attempt, admitted.attempt);
    fail(&bench, &second);
    assert_eq!(waiting(&bench, HERE, 0), [(admitted.run, 2000)]);
    assert_eq!(bench.call(complete(&admitted, 0)), Completed::AlreadyTerminal, "the first one's receipt comes late");
    bench.call(BeginRetry { run: admitted.run });
    fail(&bench, &latest(&bench, &admitted));
    assert_eq!(stands(&bench, admitted.run), (RunState::Failed, AttemptState::Failed, 3));
    let (events, _) =
        bench.call(ListEvents { project: project(), run: admitted.run, after_sequence: 0, limit: 64 }).unwrap();
    let run = run(&bench, admitted.run);
    assert_eq!((run.version, run.event_sequence), (events.len() as i64, events.len() as i64));
}

#[test]
fn what_somebody_asked_to_end_is_never_tried_again() {
    let bench = Bench::new();
    let task = bench.retrying("again", 1000);
    let ask = |run| bench.call(RequestCancel { authority: authority(), run, mutation: mutation() });
    let page = |bench: &Bench| bench.call(ListCancelling { limit: 8 });
    // While it runs, failed or lost.
    for lost in [false, true] {
        let admitted = bench.start("again", task);
        bench.run(&admitted);
        assert_eq!(ask(admitted.run), CancelRequested::Accepted);
        if lost {
            bench.call(Lose { run: admitted.run, attempt: admitted.attempt, error_code: "GONE", unproven: false });
            assert_eq!(stands(&bench, admitted.run).0, RunState::Lost);
            bench.call(EndAsked { run: admitted.run, attempt: admitted.attempt, unproven: false });
        } else {
            bench.call(complete(&admitted, 1));
        }
        assert_eq!(stands(&bench, admitted.run).0, RunState::Cancelled);
    }
    // While it waits.
    let admitted = bench.start("again", task);
    fail(&bench, &admitted);
    assert_eq!(ask(admitted.run), CancelRequested::Accepted);
    assert_eq!(bench.call(BeginRetry { run: admitted.run }), Step::Raced);
    assert_eq!(waiting(&bench, HERE, 0), []);
    let asked = page(&bench)[0];
    assert_eq!((asked.run, asked.state), (admitted.run, AttemptState::Failed));
    assert_eq!(bench.call(EndAsked { run: asked.run, attempt: asked.attempt, unproven: false }), Step::Done);
    assert_eq!(stands(&bench, admitted.run), (RunState::Cancelled, AttemptState::Failed, 1));
    // While its timeout ends it: the first intent stays.
    for forbidden in [false, true] {
        let admitted = bench.start("again", task);
        bench.run(&admitted);
        bench.call(Intend { run: admitted.run, reason: CancelReason::Timeout });
        if forbidden {
            assert_eq!(ask(admitted.run), CancelRequested::AlreadyRequested);
        }
        bench.call(complete(&admitted, 143));
        let want = if forbidden { RunState::TimedOut } else { RunState::RetryWait };
        assert_eq!(stands(&bench, admitted.run).0, want);
        assert_eq!(run(&bench, admitted.run).cancel_reason.is_some(), forbidden);
    }
    assert!(page(&bench).is_empty());
}

#[test]
fn a_failed_start_and_a_stopped_timeout_are_followed_by_another_attempt() {
    let bench = Bench::new();
    let task = bench.retrying("again", 0);
    let unable = bench.start("again", task);
    bench.call(begin(&unable));
    let fail = FailStart { run: unable.run, attempt: unable.attempt, error_code: "NO", error_summary: "none".into() };
    bench.call(fail);
    assert_eq!(stands(&bench, unable.run), (RunState::RetryWait, AttemptState::Failed, 1));
    let slow = bench.start("again", task);
    bench.run(&slow);
    bench.call(Intend { run: slow.run, reason: CancelReason::Timeout });
    bench.call(EndAsked { run: slow.run, attempt: slow.attempt, unproven: false });
    assert_eq!(stands(&bench, slow.run), (RunState::RetryWait, AttemptState::TimedOut, 1));
}

static FEW: Limits = Limits { queued_runs: 2, ..EDGE };

#[test]
fn those_that_wait_for_another_attempt_take_room_in_the_queue() {
    let bench = Bench::limited(&FEW);
    let task = bench.retrying("again", 1000);
    for _ in 0..2 {
        fail(&bench, &bench.start("again", task));
    }
    assert_eq!(bench.call(CountRuns).retry_wait, 2);
    assert_eq!(bench.call(admit("again", task, mutation())), Started::Unavailable("queue_full"));
    bench.call(DeleteTask { authority: authority(), task: name("again"), mutation: mutation(), expected_revision: 1 });
    assert_eq!(bench.call(CountRuns).retry_wait, 0, "a deleted task's Runs do not wait");
}

#[test]
fn by_hand_the_same_mutation_makes_one_run_and_another_mutation_another() {
    let bench = Bench::new();
    let task = bench.task("hello");
    let old = bench.start("hello", task);
    fail(&bench, &old);
    let again = |mutation| AdmitRetry { authority: authority(), run: old.run, mutation };
    let first = mutation();
    let Retried::Accepted(made) = bench.call(again(first)) else { panic!() };
    assert_eq!(bench.call(again(first)), Retried::Existing(made.clone()));
    assert_eq!(run(&bench, made.run).retry_of, Some(old.run));
    assert!(matches!(bench.call(again(mutation())), Retried::Accepted(_)));
    let other = AdmitRetry { authority: authority(), run: made.run, mutation: first };
    assert!(matches!(bench.call(other), Retried::Refused(_)), "the mutation was used for another Run");
    let queued = AdmitRetry { authority: authority(), run: made.run, mutation: mutation() };
    assert_eq!(bench.call(queued), Retried::NotEnded(RunState::Queued));
}
