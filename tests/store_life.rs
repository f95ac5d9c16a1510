//! A Run's life through the store: T1 to T6, each with its events, versions and journal row.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::digest::Digest;
use qinglet::model::life::{AttemptState, CancelReason, RunState};
use qinglet::model::record::{Event, LogPlace, Run};
use qinglet::store::cancel::{CancelRequested, EndAsked, Intend};
use qinglet::store::runs::{CountRuns, GetRun, ListEvents, LocateLog, RunCounts};
use qinglet::store::start::{
    Admitted, Complete, Completed, CountActive, FailStart, ListCandidates, ListInFlight, ListResolvable, Lose,
    QuarantineReceipt, Resolve, Step,
};
use qinglet::store::tasks::Published;
use store_support::*;

fn get(bench: &Bench, admitted: &Admitted) -> Run {
    bench.call(GetRun { project: project(), run: admitted.run, attempt_number: None }).unwrap()
}

fn events(bench: &Bench, admitted: &Admitted) -> Vec<String> {
    let list = ListEvents { project: project(), run: admitted.run, after_sequence: 0, limit: 64 };
    let (events, more) = bench.call(list).unwrap();
    assert!(!more);
    assert!(events.iter().zip(1..).all(|(event, n): (&Event, i64)| event.sequence == n), "no holes");
    events.iter().map(|event| format!("{} {}", event.kind, event.actor_type)).collect()
}

#[test]
fn a_run_is_admitted_at_2_started_at_6_and_ends_at_8() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let admitted = bench.start("hello", task_ref);
    let run = get(&bench, &admitted);
    assert_eq!((run.state, run.version, run.event_sequence), (RunState::Queued, 2, 2));
    assert_eq!((run.origin.as_str(), run.priority), ("manual", 0));
    assert_eq!(run.task_ref, task_ref);
    let attempt = run.attempt.unwrap();
    assert_eq!((attempt.state, attempt.number, attempt.id), (AttemptState::Claimed, 1, admitted.attempt));
    assert_eq!((attempt.handle, attempt.log_artifact, attempt.started_at_ms), (None, None, None));

    let candidates = bench.call(ListCandidates { limit: 4, except: Vec::new() });
    assert_eq!(candidates.len(), 1);
    assert_eq!(candidates[0].command.as_ref().unwrap().argv(), ["/bin/sh", "-c", "true"]);
    assert!(bench.call(ListCandidates { limit: 4, except: vec![admitted.run] }).is_empty());

    assert_eq!(bench.call(begin(&admitted)), Step::Done);
    let run = get(&bench, &admitted);
    assert_eq!((run.state, run.version, run.event_sequence), (RunState::Dispatching, 4, 4));
    assert_eq!(bench.call(CountActive), 1);
    let mut second = begin(&admitted);
    second.token_digest = Digest::of("token", b"another start");
    assert_eq!(bench.call(second), Step::Raced, "the second start of an Attempt is refused");
    assert_eq!(bench.call(begin(&admitted)), Step::Done, "the same start asked again");
    assert_eq!(get(&bench, &admitted).version, 4, "and nothing was written for it");
    let (in_flight, more) = bench.call(ListInFlight { limit: 256 });
    assert!(!more);
    assert_eq!((in_flight[0].active_attempts, in_flight[0].run_version), (1, 4));
    assert_eq!(in_flight[0].token_digest, Some(token_digest()));

    let mut stranger = own(&admitted);
    stranger.token_digest = Digest::of("token", b"other");
    assert_eq!(bench.call(stranger), Step::Raced);
    assert_eq!(bench.call(own(&admitted)), Step::Done);
    assert_eq!(bench.call(own(&admitted)), Step::Done, "the same ownership asked again");
    let mut other = own(&admitted);
    other.handle = "ql3lp1.b.43.43.7".into();
    assert_eq!(bench.call(other), Step::Raced);
    assert_eq!(bench.call(begin(&admitted)), Step::Raced, "its start is over");
    let run = get(&bench, &admitted);
    assert_eq!((run.state, run.version, run.event_sequence), (RunState::Running, 6, 6));
    assert!(run.started_at_ms.is_some());
    assert_eq!(run.attempt.unwrap().handle.as_deref(), Some("ql3lp1.b.42.42.7"));
    assert_eq!(bench.call(CountRuns), RunCounts { active: 1, ..RunCounts::default() });

    assert_eq!(bench.call(complete(&admitted, 0)), Completed::Applied(RunState::Succeeded));
    let run = get(&bench, &admitted);
    assert_eq!((run.state, run.version, run.event_sequence), (RunState::Succeeded, 8, 8));
    assert!(run.finished_at_ms >= run.started_at_ms);
    assert_eq!(run.attempt.unwrap().end.exit_code, Some(0));
    assert_eq!(
        events(&bench, &admitted),
        [
            "run.created user",
            "run.queued user",
            "run.dispatching system",
            "attempt.starting system",
            "attempt.running executor",
            "run.running executor",
            "attempt.succeeded executor",
            "run.succeeded executor",
        ]
    );
    assert_eq!(bench.call(CountRuns), RunCounts::default());
}

#[test]
fn a_receipt_is_believed_once_and_only_with_its_own_token_sequence_and_bounds() {
    let bench = Bench::new();
    let admitted = bench.start("hello", bench.task("hello"));
    bench.run(&admitted);
    let spoil = |change: &dyn Fn(&mut Complete)| {
        let mut complete = complete(&admitted, 3);
        change(&mut complete);
        bench.call(complete)
    };
    assert_eq!(spoil(&|c| c.completion.token_digest = Digest::of("x", b"")), Completed::Invalid("token"));
    assert_eq!(spoil(&|c| c.completion.sequence = 2), Completed::Invalid("sequence"));
    assert_eq!(spoil(&|c| c.completion.sequence = 0), Completed::Invalid("sequence"));
    assert_eq!(spoil(&|c| c.completion.finished_at_ms = 0), Completed::Invalid("times"));
    assert_eq!(spoil(&|c| c.completion.end.exit_code = None), Completed::Invalid("exit_code"));
    assert_eq!(spoil(&|c| c.completion.end.exit_code = Some(256)), Completed::Invalid("exit_code"));
    let other = bench.start("hello", get(&bench, &admitted).task_ref);
    assert_eq!(spoil(&|c| c.completion.run = other.run), Completed::Invalid("unknown_attempt"));
    assert_eq!(get(&bench, &admitted).version, 6, "nothing was written");

    assert_eq!(bench.call(complete(&admitted, 3)), Completed::Applied(RunState::Failed));
    let ended = get(&bench, &admitted);
    assert_eq!(spoil(&|_| ()), Completed::AlreadyTerminal, "published, committed, not deleted: replayed");
    assert_eq!(spoil(&|c| c.completion.sequence = 2), Completed::AlreadyTerminal, "a late one");
    assert_eq!(spoil(&|c| c.completion.token_digest = Digest::of("x", b"")), Completed::Invalid("token"));
    assert_eq!(get(&bench, &admitted), ended);
}

#[test]
fn finish_times_never_come_before_what_is_stored() {
    let bench = Bench::new();
    let admitted = bench.start("hello", bench.task("hello"));
    bench.run(&admitted);
    let mut early = complete(&admitted, 0);
    (early.completion.started_at_ms, early.completion.finished_at_ms) = (5, 6);
    assert_eq!(bench.call(early), Completed::Applied(RunState::Succeeded));
    let run = get(&bench, &admitted);
    assert_eq!(run.finished_at_ms, run.started_at_ms);
    assert_eq!(run.attempt.unwrap().finished_at_ms, run.started_at_ms);
}

#[test]
fn a_receipt_of_a_start_whose_ownership_was_not_stored_passes_through_running() {
    let bench = Bench::new();
    let admitted = bench.start("hello", bench.task("hello"));
    assert_eq!(bench.call(begin(&admitted)), Step::Done);
    assert_eq!(bench.call(complete(&admitted, 0)), Completed::Applied(RunState::Succeeded));
    let events = events(&bench, &admitted);
    assert_eq!(events[4..6], ["attempt.running executor", "run.running executor"]);
    assert_eq!(get(&bench, &admitted).version, 8);
}

#[test]
fn a_failed_start_was_never_running_and_says_why() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let fail = |admitted: &Admitted| FailStart {
        run: admitted.run,
        attempt: admitted.attempt,
        error_code: "EXECUTOR_START_FAILED",
        error_summary: "the program does not exist".into(),
    };
    let launched = bench.start("hello", task_ref);
    assert_eq!(bench.call(begin(&launched)), Step::Done);
    assert_eq!(bench.call(fail(&launched)), Step::Done);
    let unmade = bench.start("hello", task_ref);
    assert_eq!(bench.call(fail(&unmade)), Step::Done);
    for admitted in [&launched, &unmade] {
        let run = get(&bench, admitted);
        assert_eq!((run.state, run.version, run.started_at_ms), (RunState::Failed, 6, None));
        assert_eq!(run.error_code.as_deref(), Some("EXECUTOR_START_FAILED"));
        let attempt = run.attempt.unwrap();
        assert_eq!(attempt.state, AttemptState::Failed);
        assert_eq!(attempt.end.error_summary.as_deref(), Some("the program does not exist"));
        assert_eq!(
            events(&bench, admitted)[2..],
            ["run.dispatching system", "attempt.starting system", "attempt.failed system", "run.failed system"]
        );
        assert_eq!(bench.call(fail(admitted)), Step::Raced);
    }
    let running = bench.start("hello", task_ref);
    bench.run(&running);
    assert_eq!(bench.call(fail(&running)), Step::Raced);
}

#[test]
fn a_lost_run_is_not_over() {
    let bench = Bench::new();
    let admitted = bench.start("hello", bench.task("hello"));
    let lose = || Lose { run: admitted.run, attempt: admitted.attempt, error_code: "GONE", unproven: false };
    assert_eq!(bench.call(lose()), Step::Raced, "a queued Run has nothing to lose");
    assert_eq!(bench.call(begin(&admitted)), Step::Done);
    assert_eq!(bench.call(lose()), Step::Done);
    assert_eq!(bench.call(lose()), Step::Raced);
    let run = get(&bench, &admitted);
    assert_eq!((run.state, run.finished_at_ms, run.error_code.as_deref()), (RunState::Lost, None, Some("GONE")));
    assert_eq!(run.attempt.unwrap().state, AttemptState::Lost);
    assert_eq!(bench.call(CountRuns), RunCounts { lost: 1, ..RunCounts::default() });
    assert_eq!(bench.call(complete(&admitted, 0)), Completed::AlreadyTerminal, "first committed wins");
}

#[test]
fn the_journal_holds_a_row_from_before_the_spawn_until_the_receipt_is_deleted() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let first = bench.start("hello", task_ref);
    bench.run(&first);
    let rows = || bench.call(ListResolvable { after: None, limit: 64 });
    let resolvable = || rows().iter().map(|row| row.attempt).collect::<Vec<_>>();
    assert!(resolvable().is_empty(), "an active Attempt's receipt may still come");
    bench.call(Resolve { attempts: vec![first.attempt] });
    assert_eq!(bench.call(complete(&first, 0)), Completed::Applied(RunState::Succeeded));
    assert_eq!(resolvable(), [first.attempt], "an active Attempt's row cannot be resolved");

    let second = bench.start("hello", task_ref);
    let mut next = begin(&second);
    next.resolved = vec![first.attempt];
    assert_eq!(bench.call(next), Step::Done);
    assert!(resolvable().is_empty());
    assert_eq!(bench.call(own(&second)), Step::Done);
    let third = bench.start("hello", task_ref);
    bench.run(&third);
    assert_eq!(bench.call(complete(&second, 0)), Completed::Applied(RunState::Succeeded));
    let mut last = complete(&third, 0);
    last.resolved = vec![second.attempt];
    assert_eq!(bench.call(last), Completed::Applied(RunState::Succeeded));
    assert_eq!(resolvable(), [third.attempt]);
    bench.call(Resolve { attempts: vec![third.attempt] });
    assert!(resolvable().is_empty());

    let fourth = bench.start("hello", task_ref);
    bench.run(&fourth);
    let quarantine = || QuarantineReceipt { run: fourth.run, attempt: fourth.attempt };
    assert_eq!(bench.call(quarantine()), Step::Done);
    assert_eq!(bench.call(quarantine()), Step::Raced);
    assert_eq!(
        bench.call(Lose { run: fourth.run, attempt: fourth.attempt, error_code: "GONE", unproven: false }),
        Step::Done
    );
    let [row] = rows()[..] else { panic!() };
    assert!(row.attempt == fourth.attempt && row.quarantined && row.since_ms.is_some(), "it is kept for a while");
    let fifth = bench.start("hello", task_ref);
    bench.run(&fifth);
    assert_eq!(
        bench.call(Lose { run: fifth.run, attempt: fifth.attempt, error_code: "GONE", unproven: false }),
        Step::Done
    );
    let late = bench.call(ListResolvable { after: Some(fourth.attempt), limit: 64 });
    assert!(late.len() == 1 && !late[0].quarantined && late[0].since_ms.is_some(), "a late receipt may come");
    let sixth = bench.start("hello", task_ref);
    assert_eq!(bench.call(begin(&sixth)), Step::Done);
    assert_eq!(
        bench.call(Lose { run: sixth.run, attempt: sixth.attempt, error_code: "GONE", unproven: false }),
        Step::Done
    );
    let never = bench.call(ListResolvable { after: Some(fifth.attempt), limit: 64 });
    assert_eq!(never[0].since_ms, None, "it was never released");
}

#[test]
fn a_damaged_execution_revision_leaves_a_candidate_without_a_command() {
    let mut bench = Bench::new();
    let admitted = bench.start("hello", bench.task("hello"));
    bench.tamper("UPDATE execution_revisions SET execution = replace(execution, 'true', 'evil')").unwrap();
    let candidates = bench.call(ListCandidates { limit: 4, except: Vec::new() });
    assert_eq!(candidates[0].run, admitted.run);
    assert!(candidates[0].command.is_none());
}

#[test]
fn candidates_come_oldest_first_and_a_log_is_found_once_it_is_there() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let all: Vec<Admitted> = (0..6).map(|_| bench.start("hello", task_ref)).collect();
    let page = bench.call(ListCandidates { limit: 4, except: vec![all[1].run] });
    let want: Vec<_> = [0, 2, 3, 4].iter().map(|&i| all[i].run).collect();
    assert_eq!(page.iter().map(|c| c.run).collect::<Vec<_>>(), want);

    let locate = |admitted: &Admitted| {
        bench.call(LocateLog { project: project(), run: admitted.run, attempt: admitted.attempt })
    };
    assert_eq!(locate(&all[0]), Some(LogPlace::Pending));
    bench.run(&all[0]);
    assert!(matches!(locate(&all[0]), Some(LogPlace::File { active: true, .. })));
    bench.call(complete(&all[0], 1));
    assert!(matches!(locate(&all[0]), Some(LogPlace::File { active: false, .. })));
    let foreign = LocateLog { project: project(), run: all[0].run, attempt: all[1].attempt };
    assert_eq!(bench.call(foreign), None);
    let foreign = LocateLog { project: name("other"), run: all[0].run, attempt: all[0].attempt };
    assert_eq!(bench.call(foreign), None);
    assert!(bench.call(GetRun { project: name("other"), run: all[0].run, attempt_number: None }).is_none());
    let second = bench.call(GetRun { project: project(), run: all[0].run, attempt_number: Some(2) });
    assert!(second.unwrap().attempt.is_none());
}

#[test]
fn a_disabled_or_deleted_task_takes_its_queued_runs_with_it() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let other = bench.start("other", bench.task("other"));
    let running = bench.start("hello", task_ref);
    bench.run(&running);
    let queued = [bench.start("hello", task_ref), bench.start("hello", task_ref)];
    let Published::Updated(head, cancelled) = bench.call(put("hello", Some(1), "true", false)) else { panic!() };
    assert_eq!(cancelled, queued.each_ref().map(|admitted| admitted.run));
    assert!(!head.enabled);
    for admitted in &queued {
        let run = get(&bench, admitted);
        assert_eq!((run.state, run.version), (RunState::Cancelled, 5));
        assert_eq!(run.cancel_reason.unwrap().word(), "policy");
        let want = ["run.cancel_requested user", "attempt.cancelled user", "run.cancelled user"];
        assert_eq!(events(&bench, admitted)[2..], want);
    }
    assert_eq!(get(&bench, &running).state, RunState::Running);
    assert_eq!(get(&bench, &other).state, RunState::Queued);
    assert_eq!(bench.call(complete(&running, 0)), Completed::Applied(RunState::Succeeded));
}

/// Spec/execution 8.2: the first intent decides, whatever comes after it, in either order with an end.
#[test]
fn a_committed_intent_decides_the_outcome_and_the_first_end_stands() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let ask = |admitted: &Admitted, reason| bench.call(Intend { run: admitted.run, reason });
    for (reason, later, want) in [
        (CancelReason::User, CancelReason::Shutdown, RunState::Cancelled),
        (CancelReason::Shutdown, CancelReason::User, RunState::Cancelled),
        (CancelReason::Timeout, CancelReason::User, RunState::TimedOut),
    ] {
        for exit_code in [0, 1, 137] {
            let admitted = bench.start("hello", task_ref);
            bench.run(&admitted);
            assert_eq!(ask(&admitted, reason), CancelRequested::Accepted);
            assert_eq!(ask(&admitted, later), CancelRequested::AlreadyRequested);
            assert_eq!(bench.call(complete(&admitted, exit_code)), Completed::Applied(want));
            let run = get(&bench, &admitted);
            assert_eq!((run.state, run.cancel_reason), (want, Some(reason)), "{exit_code}");
            assert_eq!(run.attempt.unwrap().end.exit_code, Some(exit_code), "the exit code is kept");
        }
        let unable = bench.start("hello", task_ref);
        assert_eq!(bench.call(begin(&unable)), Step::Done);
        assert_eq!(ask(&unable, reason), CancelRequested::Accepted);
        let fail =
            FailStart { run: unable.run, attempt: unable.attempt, error_code: "NO", error_summary: "none".into() };
        assert_eq!(bench.call(fail), Step::Done);
        assert_eq!(get(&bench, &unable).state, want, "it could not even start");

        let ended = bench.start("hello", task_ref);
        bench.run(&ended);
        bench.call(complete(&ended, 0));
        let before = get(&bench, &ended);
        assert_eq!(ask(&ended, reason), CancelRequested::AlreadyTerminal);
        assert_eq!(get(&bench, &ended), before, "the end came first");

        let stopped = bench.start("hello", task_ref);
        bench.run(&stopped);
        assert_eq!(ask(&stopped, reason), CancelRequested::Accepted);
        assert_eq!(bench.call(EndAsked { run: stopped.run, attempt: stopped.attempt, unproven: false }), Step::Done);
        let before = get(&bench, &stopped);
        assert_eq!(before.state, want);
        assert_eq!(bench.call(complete(&stopped, 0)), Completed::AlreadyTerminal);
        assert_eq!(get(&bench, &stopped), before, "a late receipt changes nothing");
    }
}
