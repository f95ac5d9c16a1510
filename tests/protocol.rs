//! The start protocol over a simulated host and the real store: the seven verifications of seed
//! record 70, by number, and what else the protocol promises whatever the operating system does.

mod world;

use qinglet::execution::board::WaitReason;
use qinglet::execution::host::{Host as _, Inspection, Signalled, Stop};
use qinglet::model::life::{AttemptState, CancelReason, RunState};
use world::{Bench, World};

#[test]
fn s70_1_the_launcher_sees_dispatching_starting_the_digest_and_two_events() {
    let bench = Bench::new();
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    let seen = bench.world(|w| w.seen_at_launch.clone()).expect("launched");
    assert_eq!((seen.run.state, seen.run.version, seen.run.event_sequence), (RunState::Dispatching, 4, 4));
    assert_eq!(seen.run.attempt.as_ref().unwrap().state, AttemptState::Starting);
    assert!(seen.token_digest.is_some(), "the digest is stored before the launch");
    let kinds: Vec<String> = seen.events.iter().map(|e| e.kind.to_string()).collect();
    assert_eq!(kinds, ["run.created", "run.queued", "run.dispatching", "attempt.starting"]);
    assert_eq!(bench.run(run).state, RunState::Running);
}

#[test]
fn s70_2_success_is_running_running_after_four_steps_and_nothing_is_released_before() {
    let bench = Bench::new();
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    let now = bench.run(run);
    assert_eq!((now.state, now.version, now.event_sequence), (RunState::Running, 6, 6));
    assert_eq!(now.attempt.unwrap().state, AttemptState::Running);
    assert_eq!(bench.world(|w| w.state_at_release), Some((RunState::Running, AttemptState::Running)));
}

#[test]
fn s70_3_a_launch_failure_fails_both_and_no_process_is_signalled() {
    let bench = Bench::new();
    bench.world(|w| w.launch_fails = Some("the program does not exist".into()));
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    let now = bench.run(run);
    let attempt = now.attempt.unwrap();
    assert_eq!((now.state, attempt.state), (RunState::Failed, AttemptState::Failed));
    assert_eq!(attempt.end.error_code.as_deref(), Some("EXECUTOR_START_FAILED"));
    assert_eq!(attempt.end.error_summary.as_deref(), Some("the program does not exist"));
    assert_eq!(now.started_at_ms, None, "it never ran");
    assert!(bench.world(|w| w.signals.is_empty()));
    assert_eq!(engine.active(), 0, "its place is free");
}

#[test]
fn s70_4_ownership_that_cannot_be_stored_stops_the_exact_process_first_then_both_are_lost() {
    let bench = Bench::new();
    bench.world(|w| w.before_ownership = Some(World::fail_writes));
    let run = bench.start();
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| !w.signals.is_empty());
    assert_eq!(bench.world(|w| w.signals.clone()), [Stop::Term]);
    bench.heal();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
    assert_eq!(bench.run(run).attempt.unwrap().state, AttemptState::Lost);
    assert_eq!(bench.world(|w| w.released), 0, "user code never ran");
}

#[test]
fn the_log_of_a_start_that_was_cancelled_before_it_was_stored_goes_with_it() {
    let bench = Bench::new();
    let run = bench.start();
    let mut engine = bench.engine();
    // Asks for candidates; by the time anybody else is answered, so is that.
    engine.turn();
    bench.ask_to_end(run);
    engine.turn();
    engine.inbox().poke();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Cancelled);
    assert_eq!(bench.world(|w| (w.logs_made, w.launches, w.logs.len())), (1, 0, 0));
}

#[test]
fn the_log_of_a_start_that_a_crash_cut_before_it_was_stored_goes_when_it_is_cancelled() {
    let bench = Bench::new();
    let run = bench.start();
    let attempt = bench.run(run).attempt.unwrap().id;
    bench.engine().host().allocate_log(run, attempt, None).unwrap();
    bench.ask_to_end(run);
    let mut engine = bench.engine();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Cancelled);
    assert_eq!(bench.world(|w| (w.logs_made, w.launches, w.logs.len())), (1, 0, 0));
}

#[test]
fn s70_5_a_stop_that_cannot_be_proven_leaves_it_starting_for_recovery() {
    let bench = Bench::new();
    bench.world(|w| {
        w.before_ownership = Some(World::fail_writes);
        w.signal_answer = Some(Signalled::Unknown);
        w.inspect_answer = Some(Inspection::Unavailable);
    });
    let run = bench.start();
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| !w.signals.is_empty());
    bench.pass(&mut engine, 5_000);
    bench.heal();
    bench.pass(&mut engine, 60_000);
    assert!(bench.world(|w| w.signals.contains(&Stop::Kill)), "it was tried");
    let now = bench.run(run);
    assert_eq!((now.state, now.attempt.unwrap().state), (RunState::Dispatching, AttemptState::Starting));
    assert_eq!(bench.in_flight(), [run], "it is a candidate for recovery");
    assert_eq!(engine.active(), 1, "it keeps its place");
}

#[test]
fn s70_6_each_signal_goes_to_a_verified_identity() {
    let bench = Bench::new();
    bench.world(|w| {
        w.before_ownership = Some(World::fail_writes);
        w.deaf = true;
    });
    bench.start();
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| !w.signals.is_empty());
    bench.heal();
    bench.pass(&mut engine, 10_000);
    // The host verifies inside each call (tests of the process side); the protocol asks it for TERM
    // and later, separately, for KILL.
    assert_eq!(bench.world(|w| w.signals[..2].to_vec()), [Stop::Term, Stop::Kill]);
}

#[test]
fn s70_7_the_same_attempt_is_not_started_twice() {
    let bench = Bench::new();
    let run = bench.start();
    let mut first = bench.engine();
    let mut second = bench.engine();
    for _ in 0..50 {
        first.turn();
        second.turn();
        bench.breathe();
    }
    assert_eq!(bench.world(|w| (w.launches, w.released)), (1, 1));
    assert_eq!(bench.run(run).state, RunState::Running);
}

#[test]
fn s03_4_exit_codes_and_signals_map_to_outcomes() {
    for (code, signal, want) in [
        (0, None, RunState::Succeeded),
        (1, None, RunState::Failed),
        (137, None, RunState::Failed),
        (139, Some(11), RunState::Failed),
    ] {
        let bench = Bench::new();
        let run = bench.start();
        let mut engine = bench.engine();
        bench.settle(&mut engine);
        bench.exit(code, signal);
        bench.turns_until(&mut engine, || bench.run(run).state != RunState::Running);
        bench.turns(&mut engine, |w| w.receipts.is_empty());
        let now = bench.run(run);
        let end = now.attempt.unwrap().end;
        assert_eq!((now.state, end.exit_code, end.signal), (want, Some(code), signal));
        assert_eq!((now.version, now.event_sequence), (8, 8));
    }
}

#[test]
fn an_exit_without_a_receipt_is_lost_and_a_late_receipt_within_the_grace_counts() {
    let bench = Bench::new();
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    bench.vanish();
    engine.turn();
    assert_eq!(bench.run(run).state, RunState::Running, "not lost at once");
    bench.pass(&mut engine, 1_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
    assert_eq!(
        bench.run(run).attempt.unwrap().end.error_code.as_deref(),
        Some("RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT")
    );
}

#[test]
fn a_receipt_with_a_wrong_token_is_quarantined_and_decides_nothing() {
    let bench = Bench::new();
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    bench.forge_exit();
    bench.turns(&mut engine, |w| w.quarantined == 1);
    assert_eq!(bench.run(run).state, RunState::Running, "what it says is not believed");
    bench.pass(&mut engine, 1_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
}

#[test]
fn never_more_at_a_time_than_the_cap_and_all_get_their_turn() {
    let bench = Bench::new();
    let runs: Vec<_> = (0..64).map(|_| bench.start()).collect();
    let mut engine = bench.engine();
    for _ in 0..2_000 {
        engine.turn();
        assert!(bench.world(|w| w.alive.len()) <= 4);
        if engine.settled() && engine.active() > 0 {
            bench.exit(0, None);
        }
        bench.breathe();
        if runs.iter().all(|&run| bench.run(run).state == RunState::Succeeded) {
            assert_eq!(bench.world(|w| w.launches), 64);
            return;
        }
    }
    panic!("not all ended");
}

#[test]
fn what_a_queued_run_waits_for_is_visible() {
    use qinglet::execution::board::WaitReason;
    for reason in [WaitReason::Pids, WaitReason::Memory, WaitReason::Disk] {
        let bench = Bench::new();
        bench.world(|w| w.room = Err(reason));
        let run = bench.start();
        let mut engine = bench.engine();
        bench.turns_until(&mut engine, || bench.board.wait_reason() == Some(reason));
        assert_eq!(bench.run(run).state, RunState::Queued);
        bench.world(|w| w.room = Ok(()));
        bench.pass(&mut engine, 6_000);
        bench.turns_until(&mut engine, || bench.run(run).state == RunState::Running);
        assert_eq!(bench.board.wait_reason(), None);
    }
    let bench = Bench::new();
    let runs: Vec<_> = (0..5).map(|_| bench.start()).collect();
    let mut engine = bench.engine();
    bench.turns_until(&mut engine, || bench.board.wait_reason() == Some(WaitReason::Capacity));
    assert_eq!(bench.run(runs[4]).state, RunState::Queued);
}

#[test]
fn a_timeout_is_an_intent_first_then_term_then_kill_below_and_the_receipt_still_counts() {
    let bench = Bench::with(serde_json::json!({"timeoutMs": 1_000, "terminationGraceMs": 500}));
    bench.world(|w| w.deaf = true);
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    bench.pass(&mut engine, 900);
    assert_eq!(bench.run(run).cancel_reason, None);
    bench.world(|w| w.boot_ms += 200);
    bench.turns(&mut engine, |w| !w.signals.is_empty());
    assert_eq!(bench.run(run).cancel_reason, Some(CancelReason::Timeout), "the intent is stored before the signal");
    bench.pass(&mut engine, 600);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::TimedOut);
    assert_eq!((bench.world(|w| w.kills), bench.world(|w| w.signals.clone())), (1, vec![Stop::Term]));
    let end = bench.run(run).attempt.unwrap().end;
    assert_eq!((end.exit_code, end.signal), (Some(137), Some(9)));
}

#[test]
fn a_timeout_that_cannot_be_stored_signals_nothing() {
    let bench = Bench::with(serde_json::json!({"timeoutMs": 1_000}));
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    World::fail_writes();
    bench.pass(&mut engine, 20_000);
    assert!(bench.world(|w| w.signals.is_empty()));
    bench.heal();
    bench.turns_until(&mut engine, || {
        bench.run(run).state == RunState::TimedOut || bench.world(|w| !w.signals.is_empty())
    });
    assert_eq!(bench.run(run).cancel_reason, Some(CancelReason::Timeout));
}

#[test]
fn recovery_believes_the_receipt_first_then_the_process_and_never_signals() {
    let bench = Bench::new();
    let runs: Vec<_> = (0..3).map(|_| bench.start()).collect();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    drop(engine);
    // One ended with a receipt, one vanished, one lives.
    bench.leave_receipt_of(runs[0]);
    bench.vanish_run(runs[1]);
    bench.ask_to_end(runs[2]);
    let waiting = bench.start();
    let mut engine = bench.engine();
    assert_eq!(engine.recover().unwrap(), 3);
    bench.pass(&mut engine, 1_000);
    bench.turns_until(&mut engine, || !engine_is_recovering(&bench, &runs));
    assert_eq!(bench.run(runs[0]).state, RunState::Succeeded);
    assert_eq!(bench.run(runs[1]).state, RunState::Lost);
    assert_eq!(bench.run(runs[2]).state, RunState::Running);
    // The store says so a moment before the engine has been told.
    assert!((0..3_000).any(|_| {
        engine.turn();
        bench.breathe();
        engine.active() == 1
    }));
    assert!(bench.world(|w| w.signals.is_empty()), "an intent that waits is not acted on yet");
    assert_eq!(bench.run(waiting).state, RunState::Queued, "and nothing is started");
    engine.open();
    bench.turns(&mut engine, |w| !w.signals.is_empty());
    bench.turns_until(&mut engine, || bench.run(waiting).state == RunState::Running);
}

fn engine_is_recovering(bench: &Bench, runs: &[qinglet::model::id::RunId]) -> bool {
    bench.run(runs[0]).state == RunState::Running || bench.run(runs[1]).state == RunState::Running
}

/// A daemon died between making a log and storing whose it is; the Run may be cancelled before it starts.
#[test]
fn a_log_that_a_dead_daemon_made_for_a_queued_run_is_cleared_away() {
    let bench = Bench::new();
    let run = bench.start();
    bench.world(|w| w.room = Err(WaitReason::Pids));
    let attempt = bench.run(run).attempt.unwrap().id;
    let artifact = format!("local-{}", &attempt.to_string().replace('-', "")[2..]);
    bench.world(|w| w.logs.insert(artifact, 0));
    bench.engine().recover().unwrap();
    assert!(bench.world(|w| w.logs.is_empty()));
}
