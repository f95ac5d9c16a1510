//! The wall clock set by decades while tasks run and old rows lie about, on a simulated host over the
//! real store: every duration runs on the boot clock, nothing is deleted or ended for its age, what is
//! written meanwhile is accepted and ordered.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod world;

use qinglet::execution::Engine;
use qinglet::execution::host::{Host, Stop};
use qinglet::model::id::RunId;
use qinglet::model::life::RunState;
use qinglet::model::limits::{CLOCK_PAUSE_MS, CLOCK_SETTLED_MS, EDGE};
use serde_json::json;
use world::Bench;

const DAY_MS: i64 = 86_400_000;
const YEAR_MS: i64 = 365 * DAY_MS;
/// Forward by fifty years, back by ten, and each the other way round.
const JUMPS: [i64; 4] = [50 * YEAR_MS, -10 * YEAR_MS, 10 * YEAR_MS, -50 * YEAR_MS];

/// Events count 1, 2, 3, ... and the version with them, whatever the times beside them say.
fn assert_ordered(bench: &Bench, run: RunId) {
    let (shown, sequences) = (bench.run(run), bench.sequences(run));
    let count = sequences.len() as i64;
    assert_eq!(sequences, (1..=count).collect::<Vec<_>>());
    assert_eq!((shown.version, shown.event_sequence), (count, count));
}

fn released<H: Host>(bench: &Bench, engine: &mut Engine<H>) -> RunId {
    let run = bench.start();
    engine.inbox().poke();
    bench.turns(engine, |w| w.alive.values().any(|process| process.run == run && process.released));
    run
}

fn jump(bench: &Bench, by_ms: i64) {
    bench.world(|w| w.wall_ms += by_ms);
}

/// So much time goes by on both clocks.
fn pass<H: Host>(bench: &Bench, engine: &mut Engine<H>, ms: u64) {
    bench.world(|w| w.wall_ms += ms as i64);
    bench.pass(engine, ms);
}

/// Lets time go by until a Run was ended by its timeout; its steps take boot time of their own.
fn assert_times_out<H: Host>(bench: &Bench, engine: &mut Engine<H>, run: RunId) {
    for _ in 0..200 {
        if bench.run(run).state == RunState::TimedOut {
            return;
        }
        pass(bench, engine, 1_000);
    }
    panic!("it is {:?}", bench.run(run).state);
}

#[test]
fn a_timeout_is_kept_on_the_boot_clock_through_every_jump() {
    for by_ms in JUMPS {
        let bench = Bench::with(json!({"timeoutMs": 60_000, "terminationGraceMs": 1_000}));
        let mut engine = bench.engine();
        let run = released(&bench, &mut engine);
        jump(&bench, by_ms);
        pass(&bench, &mut engine, 40_000);
        assert_eq!(bench.run(run).state, RunState::Running, "{by_ms}: not before its time");
        assert_eq!(bench.world(|w| w.signals.len()), 0, "{by_ms}");
        pass(&bench, &mut engine, 21_000);
        assert_times_out(&bench, &mut engine, run);
        assert_eq!(bench.world(|w| w.signals.clone()), [Stop::Term], "{by_ms}");
        assert_ordered(&bench, run);
    }
}

#[test]
fn so_it_is_by_the_next_daemon() {
    for by_ms in JUMPS {
        let bench = Bench::with(json!({"timeoutMs": 60_000, "terminationGraceMs": 1_000}));
        let mut first = bench.engine();
        let run = released(&bench, &mut first);
        pass(&bench, &mut first, 30_000);
        drop(first);
        jump(&bench, by_ms);
        let mut engine = bench.engine();
        assert_eq!(engine.recover().unwrap(), 1);
        engine.open();
        pass(&bench, &mut engine, 15_000);
        assert_eq!(bench.run(run).state, RunState::Running, "{by_ms}: not before its time");
        pass(&bench, &mut engine, 20_000);
        assert_times_out(&bench, &mut engine, run);
        assert_ordered(&bench, run);
    }
}

#[test]
fn receipts_are_accepted_whatever_time_they_carry() {
    let bench = Bench::new();
    let mut engine = bench.engine();
    for (at, by_ms) in JUMPS.into_iter().enumerate() {
        let run = released(&bench, &mut engine);
        jump(&bench, by_ms);
        pass(&bench, &mut engine, 1_000);
        bench.exit(at as i32, None);
        bench.turns_until(&mut engine, || bench.run(run).finished_at_ms.is_some());
        let shown = bench.run(run);
        let expected = if at == 0 { RunState::Succeeded } else { RunState::Failed };
        assert_eq!((shown.state, shown.attempt.unwrap().end.exit_code), (expected, Some(at as i32)), "{by_ms}");
        assert!(shown.finished_at_ms >= shown.started_at_ms && shown.started_at_ms >= Some(shown.created_at_ms));
        assert_ordered(&bench, run);
        assert_eq!(bench.world(|w| w.quarantined), 0, "{by_ms}");
    }
}

#[test]
fn rows_of_1970_of_now_and_of_fifty_years_on_are_not_deleted_for_their_age() {
    let bench = Bench::new();
    let begun_ms = bench.world(|w| w.wall_ms);
    bench.world(|w| w.wall_ms = 90_000);
    let mut engine = bench.engine();
    let mut runs = Vec::new();
    let mut some = |bench: &Bench, engine: &mut _| {
        for _ in 0..3 {
            let run = released(bench, engine);
            bench.exit(0, None);
            bench.turns_until(engine, || bench.run(run).finished_at_ms.is_some());
            runs.push(run);
        }
        runs.clone()
    };
    // A board without a battery; its clock is set; fifty years on by mistake; ten of them back.
    some(&bench, &mut engine);
    let assert_kept = |bench: &Bench, runs: &[RunId], when: &str| {
        for (at, run) in runs.iter().enumerate() {
            assert!(bench.is_there(*run), "{when}: the run {at}");
            assert!(bench.run(*run).attempt.unwrap().log_artifact.is_some(), "{when}: the log {at}");
            assert_ordered(bench, *run);
        }
    };
    let settled = CLOCK_SETTLED_MS + 3 * EDGE.housekeeping_ms;
    for (when, wall_ms) in
        [("now", begun_ms), ("fifty years on", begun_ms + 50 * YEAR_MS), ("ten years back", begun_ms + 40 * YEAR_MS)]
    {
        bench.world(|w| w.wall_ms = wall_ms);
        let runs = some(&bench, &mut engine);
        pass(&bench, &mut engine, settled);
        assert_kept(&bench, &runs, when);
        // Nor by a daemon that starts then.
        engine = bench.engine();
        engine.recover().unwrap();
        engine.open();
        pass(&bench, &mut engine, settled);
        assert_kept(&bench, &runs, when);
        assert!(bench.world(|w| w.space_looks) > 2, "rounds there were");
    }
}

#[test]
fn once_the_clock_is_right_age_counts_again_but_not_for_what_a_wrong_one_wrote() {
    let bench = Bench::new();
    let begun_ms = bench.world(|w| w.wall_ms);
    let mut engine = bench.engine();
    let ended = |bench: &Bench, wall_ms: i64, engine: &mut _| {
        bench.world(|w| w.wall_ms = wall_ms);
        let run = released(bench, engine);
        bench.exit(0, None);
        bench.turns_until(engine, || bench.run(run).finished_at_ms.is_some());
        run
    };
    let of_1970 = ended(&bench, 90_000, &mut engine);
    let right = ended(&bench, begun_ms, &mut engine);
    let newest = ended(&bench, begun_ms + 1, &mut engine);
    pass(&bench, &mut engine, CLOCK_PAUSE_MS + CLOCK_SETTLED_MS);
    for _ in 0..92 {
        pass(&bench, &mut engine, DAY_MS as u64);
    }
    assert!(!bench.is_there(right), "three months were over");
    assert!(bench.is_there(of_1970), "nobody knows how old that is");
    assert!(bench.run(of_1970).attempt.unwrap().log_artifact.is_some());
    assert!(bench.is_there(newest), "the newest stays");
}
