//! Runs that nobody can decide, over a simulated host and the real store: they stay as they are, keep
//! their places, show why, and end properly once something can be said.

mod world;

use qinglet::execution::board::Doubt;
use qinglet::execution::host::{Inspection, ReceiptRead, Stop, Swept};
use qinglet::model::id::RunId;
use qinglet::model::life::{AttemptState, RunState};
use qinglet::model::limits::{KILL_PAUSE_MS_MAX, KILL_WAIT_MS};
use qinglet::store::resolve::Resolved;
use world::{Bench, Process, World};

/// Why the board says that nobody can decide it.
fn doubt(bench: &Bench, run: RunId) -> Option<Doubt> {
    bench.board.undecided_run(run).map(|undecided| undecided.doubt)
}

/// A bench with a Run that was running when its daemon died.
fn left_running() -> (Bench, RunId) {
    let bench = Bench::new();
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    (bench, run)
}

#[test]
fn what_recovery_cannot_judge_stays_running_in_its_place_and_says_why_since_when() {
    type Spoil = fn(&mut World);
    let spoils: [(Spoil, Doubt); 4] = [
        (|w| w.inspect_answer = Some(Inspection::Unavailable), Doubt::ProcessUnknown),
        (|w| w.inspect_answer = Some(Inspection::Invalid), Doubt::HandleInvalid),
        (|w| w.receipt_answer = Some(ReceiptRead::Unavailable), Doubt::ReceiptUnreadable),
        (
            |w| {
                w.receipt_answer = Some(ReceiptRead::Invalid("text"));
                w.stuck_receipts = true;
            },
            Doubt::ReceiptUnreadable,
        ),
    ];
    for (spoil, want) in spoils {
        let (bench, run) = left_running();
        bench.world(spoil);
        let mut engine = bench.engine();
        assert_eq!(engine.recover().unwrap(), 1);
        bench.turns_until(&mut engine, || doubt(&bench, run) == Some(want));
        assert!(!engine.recovering(), "{want:?} holds nobody up");
        engine.prove().unwrap();
        engine.open();
        let since_ms = bench.board.undecided_run(run).unwrap().since_ms;
        bench.world(|w| w.wall_ms += 60_000);
        bench.pass(&mut engine, 60_000);
        assert_eq!((doubt(&bench, run), engine.active()), (Some(want), 1), "it keeps its place");
        assert_eq!(bench.board.undecided_run(run).unwrap().since_ms, since_ms, "{want:?}");
        assert_eq!((bench.board.undecided_count(), bench.board.undecided(0).len()), (1, 0));
        assert_eq!(bench.run(run).state, RunState::Running);
        assert!(bench.world(|w| w.signals.is_empty()), "nothing is signalled on a doubt");
        // What everybody else does goes on, and what is in doubt is looked at again.
        let other = bench.start();
        engine.inbox().poke();
        bench.turns_until(&mut engine, || bench.run(other).state == RunState::Running);
        bench.world(|w| {
            w.inspect_answer = None;
            w.receipt_answer = None;
        });
        bench.pass(&mut engine, 60_000);
        bench.turns_until(&mut engine, || doubt(&bench, run).is_none());
        bench.leave_receipt_of(run);
        bench.pass(&mut engine, 60_000);
        bench.turns_until(&mut engine, || bench.run(run).state == RunState::Succeeded);
    }
}

#[test]
fn a_receipt_that_is_put_aside_decides_nothing_while_the_process_says_nothing() {
    let (bench, run) = left_running();
    bench.world(|w| {
        w.inspect_answer = Some(Inspection::Unavailable);
        w.receipt_answer = Some(ReceiptRead::Invalid("text"));
    });
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.turns(&mut engine, |w| w.quarantined > 0);
    bench.world(|w| w.receipt_answer = None);
    bench.pass(&mut engine, 10_000);
    bench.turns_until(&mut engine, || doubt(&bench, run) == Some(Doubt::ReceiptQuarantined));
    bench.world(|w| w.inspect_answer = Some(Inspection::NotRunning));
    bench.pass(&mut engine, 20_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
    assert_eq!(bench.board.undecided_count(), 0);
}

#[test]
fn a_handle_that_is_missing_or_does_not_name_the_stored_pid_is_never_taken_for_gone() {
    // The simulated host knows no pids, so that it is the missing handle here; the pid is for the real one.
    let (mut bench, run) = left_running();
    bench.tamper("UPDATE attempts SET handle = NULL");
    bench.world(|w| {
        w.alive.clear();
        w.inspect_answer = Some(Inspection::Invalid);
    });
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.pass(&mut engine, 60_000);
    assert_eq!((doubt(&bench, run), bench.run(run).state), (Some(Doubt::HandleInvalid), RunState::Running));
}

#[test]
fn of_two_active_attempts_none_is_chosen_whatever_the_evidence_says() {
    let (mut bench, run) = left_running();
    bench.tamper(
        "INSERT INTO attempts (run, number, id, status, callback_sequence, created_at_ms, handle, pid)
            SELECT run, 2, zeroblob(16), 'running', 0, created_at_ms, handle, pid FROM attempts",
    );
    bench.leave_receipt_of(run);
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.pass(&mut engine, 10_000);
    engine.prove().unwrap();
    engine.open();
    bench.ask_to_end(run);
    engine.inbox().poke();
    bench.pass(&mut engine, 60_000);
    assert_eq!((doubt(&bench, run), bench.run(run).state), (Some(Doubt::AttemptsAmbiguous), RunState::Running));
    assert!(bench.world(|w| w.signals.is_empty()), "and none is signalled");
    let Resolved::Lost(lost) = bench.resolve(run) else { panic!() };
    assert_eq!(lost.len(), 2, "both are lost");
}

#[test]
fn what_a_killed_supervisor_left_and_nobody_can_look_for_is_not_lost() {
    let (bench, run) = left_running();
    bench.vanish_run(run);
    bench.world(|w| w.sweep_answer = Swept::Unknown);
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.pass(&mut engine, 10_000);
    bench.turns_until(&mut engine, || doubt(&bench, run) == Some(Doubt::SweepImpossible));
    assert!(!engine.recovering());
    bench.world(|w| w.sweep_answer = Swept::Empty);
    bench.pass(&mut engine, 10_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
    assert!(!bench.run(run).attempt.unwrap().end.unproven);
}

#[test]
fn what_may_have_got_away_is_said_once_it_is_said_again_and_again() {
    for asked in [false, true] {
        let (bench, run) = left_running();
        bench.vanish_run(run);
        bench.world(|w| w.sweep_answer = Swept::Unproven);
        let mut engine = bench.engine();
        engine.recover().unwrap();
        if asked {
            // The stop had begun, so that its end is the stop's.
            bench.world(|w| w.inspect_answer = Some(Inspection::Unavailable));
            bench.ask_to_end(run);
            engine.open();
            engine.inbox().poke();
            bench.pass(&mut engine, 100);
            bench.world(|w| w.inspect_answer = None);
        }
        bench.pass(&mut engine, 20_000);
        let want = if asked { RunState::Cancelled } else { RunState::Lost };
        bench.turns_until(&mut engine, || bench.run(run).state == want);
        assert!(bench.run(run).attempt.unwrap().end.unproven, "asked: {asked}");
        assert!(bench.world(|w| w.sweeps) >= 3, "one look that says so may be at a process that is just ending");
    }
    let (bench, run) = left_running();
    bench.vanish_run(run);
    bench.world(|w| w.sweep_answer = Swept::Unproven);
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.turns(&mut engine, |w| {
        w.boot_ms += 20;
        w.sweeps == 1
    });
    bench.world(|w| w.sweep_answer = Swept::Empty);
    bench.pass(&mut engine, 1_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
    assert!(!bench.run(run).attempt.unwrap().end.unproven, "it was just ending");
}

#[test]
fn an_attempt_of_which_something_may_have_got_away_is_not_tried_again_by_itself() {
    let retry = serde_json::json!({"retry": {"maxAttempts": 3, "delayMs": 0, "on": ["lost"], "safety": "idempotent"}});
    for (answer, want) in [(Swept::Empty, RunState::RetryWait), (Swept::Unproven, RunState::Lost)] {
        let bench = Bench::with(retry.clone());
        let run = bench.start();
        let mut engine = bench.engine();
        bench.settle(&mut engine);
        engine.close();
        bench.world(|w| w.sweep_answer = answer);
        bench.vanish();
        bench.pass(&mut engine, 2_000);
        bench.turns_until(&mut engine, || bench.run(run).state != RunState::Running);
        assert_eq!(bench.run(run).state, want);
    }
}

#[test]
fn what_stays_after_kill_shows_as_unkillable_is_killed_more_and_more_rarely_and_ends_when_it_dies() {
    let bench = Bench::with(serde_json::json!({"terminationGraceMs": 1_000}));
    bench.world(|w| {
        w.deaf = true;
        w.frozen = true;
    });
    let run = bench.start();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    bench.ask_to_end(run);
    engine.inbox().poke();
    bench.turns(&mut engine, |w| w.signals == [Stop::Term]);
    let mut at_ms = Vec::new();
    for _ in 0..300 {
        bench.world(|w| w.boot_ms += 1_000);
        let before = bench.world(|w| w.kills);
        engine.turn();
        if bench.world(|w| w.kills) > before {
            at_ms.push(bench.world(|w| w.boot_ms));
        }
        assert_eq!(doubt(&bench, run), (at_ms.len() > 3).then_some(Doubt::Unkillable), "{at_ms:?}");
    }
    let pauses: Vec<u64> = at_ms.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert_eq!(pauses[..2], [KILL_WAIT_MS, KILL_WAIT_MS]);
    assert_eq!(pauses.last(), Some(&KILL_PAUSE_MS_MAX), "{pauses:?}");
    assert_eq!(bench.run(run).state, RunState::Running);
    bench.exit(137, Some(9));
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Cancelled);
    bench.turns_until(&mut engine, || bench.board.undecided_count() == 0);
    assert_eq!(engine.active(), 0);
}

#[test]
fn what_stays_after_a_sweep_shows_as_unkillable_and_is_lost_once_it_is_gone() {
    let (bench, run) = left_running();
    bench.vanish_run(run);
    bench.world(|w| w.sweep_answer = Swept::Found);
    let mut engine = bench.engine();
    engine.recover().unwrap();
    for _ in 0..100 {
        bench.world(|w| w.boot_ms += 50);
        engine.turn();
    }
    assert_eq!(doubt(&bench, run), Some(Doubt::Unkillable));
    assert!(!engine.recovering());
    let before = bench.world(|w| w.sweeps);
    bench.pass(&mut engine, 600_000);
    let looks = bench.world(|w| w.sweeps) - before;
    assert!((5..=20).contains(&looks), "{looks} in ten minutes");
    bench.world(|w| w.sweep_answer = Swept::Empty);
    bench.pass(&mut engine, KILL_PAUSE_MS_MAX + 1_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Lost);
}

#[test]
fn a_resolved_run_gives_its_place_up_at_once_and_an_intent_that_is_there_closes_it() {
    let (bench, run) = left_running();
    bench.world(|w| w.inspect_answer = Some(Inspection::Unavailable));
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.turns_until(&mut engine, || doubt(&bench, run).is_some());
    engine.open();
    bench.ask_to_end(run);
    let Resolved::Lost(lost) = bench.resolve(run) else { panic!() };
    let now = bench.run(run);
    let attempt = now.attempt.unwrap();
    assert_eq!((now.state, attempt.state, attempt.end.unproven), (RunState::Lost, AttemptState::Lost, true));
    assert_eq!(now.error_code.as_deref(), Some("RUN_RESOLVED_LOST"));
    assert_eq!(bench.resolve(run), Resolved::Already);
    engine.inbox().settled(lost[0]);
    engine.turn();
    assert_eq!((engine.active(), bench.board.undecided_count()), (0, 0));
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Cancelled);
    assert!(matches!(bench.resolve(run), Resolved::NotUnderWay(RunState::Cancelled)));
    // What it says later is not believed.
    bench.world(|w| w.inspect_answer = None);
    bench.leave_receipt_of(run);
    bench.pass(&mut engine, 60_000);
    assert_eq!(bench.run(run).state, RunState::Cancelled);
}

#[test]
fn a_survivor_is_written_down_once_and_proven_a_second_time() {
    let (bench, run) = left_running();
    for restart in 0..3 {
        let mut engine = bench.engine();
        engine.recover().unwrap();
        bench.turns_until(&mut engine, || !bench.events(run).is_empty());
        while engine.recovering() {
            engine.turn();
            bench.breathe();
        }
        engine.prove().unwrap();
        assert!(!engine.recovering());
        engine.open();
        let events = bench.events(run);
        let count = events.iter().filter(|kind| *kind == "run.reconciled").count();
        assert_eq!((count, events.len()), (1, 7), "restart {restart}: {events:?}");
        assert_eq!((bench.run(run).state, bench.run(run).version), (RunState::Running, 7));
    }
}

#[test]
fn what_does_not_pass_the_second_proof_is_looked_at_again() {
    type Change = fn(&Bench, RunId);
    let changes: [(Change, RunState); 4] = [
        (|bench, run| bench.leave_receipt_of(run), RunState::Succeeded),
        // Its supervisor is not gone yet.
        (
            |bench, run| {
                let (attempt, token) = bench.world(|w| w.alive.iter().map(|(a, p)| (*a, p.token)).next().unwrap());
                bench.leave_receipt_of(run);
                bench.world(|w| w.alive.insert(attempt, Process { run, token, released: true }));
            },
            RunState::Succeeded,
        ),
        (|bench, run| bench.vanish_run(run), RunState::Lost),
        // Somebody asks for its end: the version moves on, and it lives.
        (|bench, run| bench.ask_to_end(run), RunState::Running),
    ];
    for (change, want) in changes {
        let (bench, run) = left_running();
        let mut engine = bench.engine();
        engine.recover().unwrap();
        while engine.recovering() {
            engine.turn();
            bench.breathe();
        }
        change(&bench, run);
        engine.prove().unwrap();
        assert!(engine.recovering(), "before anybody would look by himself");
        bench.pass(&mut engine, 2_000);
        bench.turns_until(&mut engine, || bench.run(run).state == want && !engine_is_at_work(&bench));
        assert!(bench.world(|w| w.signals.is_empty()), "recovery only looks");
        let events = bench.events(run);
        let noted = events.iter().filter(|kind| *kind == "run.reconciled").count();
        assert_eq!(noted, if want == RunState::Running { 2 } else { 1 }, "{events:?}");
    }
}

fn engine_is_at_work(bench: &Bench) -> bool {
    bench.world(|w| !w.exited.is_empty())
}

#[test]
fn a_run_that_came_to_its_handle_and_not_to_running_is_promoted_by_the_reconciler() {
    let (mut bench, run) = left_running();
    bench.tamper(
        "UPDATE runs SET status = 'dispatching', started_at_ms = NULL;
        UPDATE attempts SET status = 'starting', started_at_ms = NULL",
    );
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Running);
    let now = bench.run(run);
    assert_eq!(now.attempt.unwrap().state, AttemptState::Running);
    assert!(now.started_at_ms.is_some());
    let events = bench.events(run);
    assert_eq!(events[6..], ["attempt.running", "run.running", "run.reconciled"], "{events:?}");
    bench.leave_receipt_of(run);
    bench.pass(&mut engine, 5_000);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Succeeded);
}
