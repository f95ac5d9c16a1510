//! What may go and what stays, through the store: logs, ended Runs, audit rows.

mod store_support;

use qinglet::model::id::{RunId, Uuid};
use qinglet::model::life::RunState;
use qinglet::model::policy::Denial;
use qinglet::model::record::{ClockWatch, LogPlace, LogRetired};
use qinglet::store::audit::{ListAudit, RecordDenial};
use qinglet::store::cancel::{CancelRequested, RequestCancel};
use qinglet::store::lost::CloseLost;
use qinglet::store::retention::{
    Age, ClockKnown, DeleteRuns, ListLogs, ListOldRuns, LogPage, NoteClock, ReadClock, RetireLogs, RunRule, TrimAudit,
};
use qinglet::store::runs::{GetRun, ListEvents, LocateLog};
use qinglet::store::start::{Admitted, Completed, ListResolvable, Lose, Resolve, Started, Step};
use store_support::*;

const YEAR_MS: i64 = 365 * 86_400_000;
/// Later than everything these tests store.
const LATER_MS: i64 = 1_800_000_000_000 + YEAR_MS;

/// A Run that ended at this time by its receipt, which is dealt with.
fn ended_at(bench: &Bench, finished_at_ms: Option<i64>) -> Admitted {
    let task_ref = match bench.call(qinglet::store::tasks::GetTask { project: project(), task: name("hello") }) {
        Some(task) => task.head.task_ref,
        None => bench.task("hello"),
    };
    let admitted = bench.start("hello", task_ref);
    bench.run(&admitted);
    let mut complete = complete(&admitted, 0);
    complete.completion.finished_at_ms = finished_at_ms.unwrap_or(complete.completion.finished_at_ms);
    assert_eq!(bench.call(complete), Completed::Applied(RunState::Succeeded));
    bench.call(Resolve { attempts: vec![admitted.attempt] });
    admitted
}

fn ended(bench: &Bench) -> Admitted {
    ended_at(bench, None)
}

fn logs(bench: &Bench, after: i64, limit: usize) -> LogPage {
    bench.call(ListLogs { after, limit })
}

fn locate(bench: &Bench, admitted: &Admitted) -> Option<LogPlace> {
    bench.call(LocateLog { project: project(), run: admitted.run, attempt: admitted.attempt })
}

fn exists(bench: &Bench, admitted: &Admitted) -> bool {
    bench.call(GetRun { project: project(), run: admitted.run, attempt_number: None }).is_some()
}

fn old(bench: &Bench, rule: RunRule) -> Vec<RunId> {
    let page = bench.call(ListOldRuns { rule, after: 0, limit: 64 });
    assert!(page.is_sorted_by_key(|run| run.order));
    page.into_iter().map(|run| run.run).collect()
}

const fn count(keep: i64) -> RunRule {
    RunRule { keep, age: None }
}

const fn age(now_ms: i64, before_ms: i64) -> RunRule {
    RunRule { keep: 10_000, age: Some(Age { now_ms, before_ms }) }
}

fn run_ids(all: &[Admitted]) -> Vec<RunId> {
    all.iter().map(|admitted| admitted.run).collect()
}

#[test]
fn logs_come_in_the_order_in_which_their_runs_ended_whatever_the_clock_said() {
    let bench = Bench::new();
    let ends = [Some(LATER_MS + 50 * YEAR_MS), None, Some(LATER_MS)].map(|at| ended_at(&bench, at));
    bench.start("hello", ends[0].task_ref);
    let page = logs(&bench, 0, 64);
    assert_eq!((page.upto, page.more), (3, false));
    assert_eq!(page.logs.iter().map(|log| log.order).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(page.logs.iter().map(|log| log.run).collect::<Vec<_>>(), run_ids(&ends));
    assert!(page.logs.iter().all(|log| !log.held && !log.lost && log.number == 1));
    let (first, rest) = (logs(&bench, 0, 2), logs(&bench, 2, 2));
    assert_eq!((first.logs.len(), first.upto, first.more), (2, 2, true));
    assert_eq!((rest.logs.len(), rest.upto, rest.more), (1, 3, false));
    assert_eq!(logs(&bench, 3, 2), LogPage { logs: Vec::new(), upto: 3, more: false });
}

#[test]
fn a_log_is_said_to_be_gone_once_and_only_when_nothing_is_open() {
    let bench = Bench::new();
    let done = ended(&bench);
    let retire = |admitted: &Admitted, at_ms, bytes| {
        let log = LogRetired { at_ms, bytes, truncated: Some(true) };
        bench.call(RetireLogs { logs: vec![(admitted.run, 1, log)] });
    };
    retire(&done, 5, 77);
    let gone = Some(LogPlace::Retired(LogRetired { at_ms: 5, bytes: 77, truncated: Some(true) }));
    assert_eq!(locate(&bench, &done), gone);
    retire(&done, 6, 0);
    assert_eq!(locate(&bench, &done), gone, "the first time counts");
    assert!(logs(&bench, 0, 64).logs.is_empty());
    let shown = bench.call(GetRun { project: project(), run: done.run, attempt_number: None }).unwrap();
    assert_eq!(shown.attempt.unwrap().log_artifact, None, "there is none to be read");

    let running = bench.start("hello", done.task_ref);
    bench.run(&running);
    retire(&running, 7, 1);
    assert!(matches!(locate(&bench, &running), Some(LogPlace::File { active: true, .. })), "it writes still");
    assert_eq!(bench.call(complete(&running, 0)), Completed::Applied(RunState::Succeeded));
    assert!(logs(&bench, 0, 64).logs[0].held, "its receipt is not dealt with");
    retire(&running, 7, 1);
    assert!(matches!(locate(&bench, &running), Some(LogPlace::File { .. })));

    let lost = bench.start("hello", done.task_ref);
    bench.run(&lost);
    assert_eq!(
        bench.call(Lose { run: lost.run, attempt: lost.attempt, error_code: "GONE", unproven: false }),
        Step::Done
    );
    bench.call(Resolve { attempts: vec![lost.attempt] });
    retire(&lost, 8, 1);
    assert!(matches!(locate(&bench, &lost), Some(LogPlace::File { .. })), "nobody knows how it ended");
}

#[test]
fn runs_beyond_the_newest_go_oldest_end_first_and_the_newest_never() {
    let bench = Bench::new();
    let all: Vec<Admitted> = (0..6).map(|_| ended(&bench)).collect();
    let queued = bench.start("hello", all[0].task_ref);
    assert_eq!(old(&bench, count(6)), []);
    assert_eq!(old(&bench, count(4)), run_ids(&all[..2]));
    assert_eq!(old(&bench, count(0)), run_ids(&all[..5]), "the newest stays, so that the count goes on");
    let page = bench.call(ListOldRuns { rule: count(0), after: 0, limit: 2 });
    assert_eq!(page.iter().map(|run| (run.order, run.logs.len())).collect::<Vec<_>>(), [(1, 1), (2, 1)]);

    let everything = [run_ids(&all), vec![queued.run]].concat();
    assert_eq!(bench.call(DeleteRuns { rule: count(4), runs: everything.clone() }), 2, "only what the rule says");
    assert_eq!(all.iter().filter(|run| exists(&bench, run)).count(), 4);
    assert!(exists(&bench, &queued));
    let list = ListEvents { project: project(), run: all[0].run, after_sequence: 0, limit: 64 };
    assert_eq!(bench.call(list), None);
    assert_eq!(bench.call(DeleteRuns { rule: count(0), runs: everything }), 3);
    let next = ended(&bench);
    assert_eq!(logs(&bench, 0, 64).logs.iter().map(|log| log.order).collect::<Vec<_>>(), [6, 7]);
    assert!(exists(&bench, &next));
    bench.store.close();
    let conn = raw(&bench.database());
    let left = "SELECT (SELECT count(*) FROM attempts), (SELECT count(DISTINCT run) FROM run_events)";
    let left: (i64, i64) = conn.query_row(left, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(left, (3, 3), "two that ended and the queued one, and nothing of the others");
}

#[test]
fn age_removes_what_ended_before_and_passes_over_what_ended_in_the_future() {
    let bench = Bench::new();
    let future = ended_at(&bench, Some(LATER_MS + 50 * YEAR_MS));
    let first = ended_at(&bench, Some(LATER_MS));
    let second = ended_at(&bench, Some(LATER_MS + 1000));
    let young = ended_at(&bench, Some(LATER_MS + 2000));
    ended(&bench);
    let now_ms = LATER_MS + YEAR_MS;
    assert_eq!(old(&bench, age(now_ms, LATER_MS)), []);
    assert_eq!(old(&bench, age(now_ms, LATER_MS + 1)), [first.run]);
    assert_eq!(old(&bench, age(now_ms, LATER_MS + 1001)), [first.run, second.run]);
    let all = run_ids(&[future.clone(), first, second, young.clone()]);
    assert_eq!(bench.call(DeleteRuns { rule: age(now_ms, LATER_MS + 1001), runs: all.clone() }), 2);
    assert!(exists(&bench, &future) && exists(&bench, &young));
    assert_eq!(bench.call(DeleteRuns { rule: count(10_000), runs: all }), 0, "without a clock age is nothing");
    assert_eq!(old(&bench, count(1)), run_ids(&[future, young]), "but count goes on");
}

#[test]
fn a_run_with_a_receipt_to_be_dealt_with_stays_and_its_key_goes_with_it() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let mutation = mutation();
    let Started::Accepted(first) = bench.call(admit("hello", task_ref, mutation)) else { panic!() };
    bench.run(&first);
    bench.call(complete(&first, 0));
    ended(&bench);
    assert_eq!(old(&bench, count(0)), []);
    assert_eq!(bench.call(DeleteRuns { rule: count(0), runs: vec![first.run] }), 0);
    let page = bench.call(ListResolvable { after: None, limit: 64 });
    assert_eq!(page.iter().map(|row| (row.attempt, row.since_ms)).collect::<Vec<_>>(), [(first.attempt, None)]);
    bench.call(Resolve { attempts: vec![first.attempt] });
    let again = || bench.call(admit("hello", task_ref, mutation));
    assert_eq!(again(), Started::Existing(first.clone()));
    assert_eq!(bench.call(DeleteRuns { rule: count(0), runs: vec![first.run] }), 1);
    assert!(matches!(again(), Started::Accepted(new) if new.run != first.run));
}

#[test]
fn lost_runs_beyond_the_newest_or_too_old_are_closed_as_failed_a_page_at_a_time_and_may_go_then() {
    let bench = Bench::new();
    let task_ref = bench.task("hello");
    let lost: Vec<Admitted> = (0..6)
        .map(|_| {
            let run = bench.start("hello", task_ref);
            bench.run(&run);
            let gone = Lose { run: run.run, attempt: run.attempt, error_code: "GONE", unproven: false };
            assert_eq!(bench.call(gone), Step::Done);
            bench.call(Resolve { attempts: vec![run.attempt] });
            run
        })
        .collect();
    let get = |run: &Admitted| bench.call(GetRun { project: project(), run: run.run, attempt_number: None }).unwrap();
    let states = || lost.iter().map(|run| get(run).state).collect::<Vec<_>>();
    let close = |keep, age, limit| bench.call(CloseLost { keep, age, limit });
    let ask = RequestCancel { authority: authority(), run: lost[0].run, mutation: mutation() };
    assert_eq!(bench.call(ask), CancelRequested::Accepted);
    assert_eq!(close(6, None, 64), 0);
    assert_eq!(close(3, None, 1), 1, "a page");
    assert_eq!(close(3, None, 64), 1, "one that was asked to end is closed by that");
    let (l, f) = (RunState::Lost, RunState::Failed);
    assert_eq!(states(), [l, f, f, l, l, l], "the oldest");
    let closed = get(&lost[1]);
    assert_eq!(closed.error_code.as_deref(), Some("RUN_LOST_RETRY_DISABLED"));
    assert_eq!(closed.attempt.unwrap().end.error_code.as_deref(), Some("GONE"), "what was known stays");
    assert_eq!(logs(&bench, 0, 64).logs.iter().filter(|log| log.lost).count(), 2, "and so does the log");
    let at_ms = get(&lost[4]).attempt.unwrap().finished_at_ms.unwrap();
    let age = |before_ms| Some(Age { now_ms: LATER_MS, before_ms });
    assert_eq!(close(6, age(at_ms), 64), 1);
    assert_eq!(states(), [l, f, f, f, l, l], "what was lost before that");
    assert_eq!(close(6, Some(Age { now_ms: at_ms - YEAR_MS, before_ms: LATER_MS }), 64), 0, "lost in the future");
    let events = ListEvents { project: project(), run: lost[1].run, after_sequence: 8, limit: 64 };
    let (events, _) = bench.call(events).unwrap();
    assert_eq!(events.iter().map(|event| event.kind.to_string()).collect::<Vec<_>>(), ["run.failed"]);
    ended(&bench);
    assert_eq!(old(&bench, count(0)).len(), 3, "ordinary retention may remove them");
}

#[test]
fn the_audit_keeps_its_newest_rows_and_loses_a_page_at_a_time() {
    let bench = Bench::new();
    let deny = |operation| {
        let (project, subject) = (project(), owner());
        bench.call(RecordDenial {
            project,
            operation,
            subject,
            credential_id: "c".into(),
            target: None,
            denial: Denial::PermissionMissing,
        });
    };
    let newest = || bench.call(ListAudit { project: project(), after: None, limit: 64 }).0;
    (0..10).for_each(|_| deny("old"));
    (0..5).for_each(|_| deny("new"));
    let trim = |on| bench.call(TrimAudit { keep: 5, limit: 4, on });
    let before = newest().len();
    assert!(before >= 15);
    let mut on = trim(None);
    assert_eq!(newest().len(), before - 4);
    // A row more meanwhile changes nothing about where it ends.
    deny("new");
    while on.is_some() {
        on = trim(on);
    }
    assert_eq!(newest().iter().map(|row| row.operation.as_str()).collect::<Vec<_>>(), ["new"; 6]);
    assert_eq!(trim(None), None);
    assert_eq!(newest().len(), 5);
    assert_eq!(bench.call(TrimAudit { keep: 5, limit: 4, on: None }), None);
    assert_eq!(newest().len(), 5);
}

#[test]
fn the_clock_is_noted_over_a_restart_and_the_newest_time_is_known() {
    let mut bench = Bench::new();
    let known = bench.call(ReadClock);
    assert_eq!(known.watch, None);
    ended_at(&bench, Some(LATER_MS));
    assert_eq!(bench.call(ReadClock).newest_ms, LATER_MS);
    let watch = ClockWatch { boot: Uuid::from_bytes([3; 16]), anchor_ms: -7, paused_until_ms: 9 };
    bench.call(NoteClock(ClockWatch { anchor_ms: 1, ..watch }));
    bench.call(NoteClock(watch));
    bench.restart(&options()).unwrap();
    assert_eq!(bench.call(ReadClock), ClockKnown { newest_ms: LATER_MS, watch: Some(watch) });
}
