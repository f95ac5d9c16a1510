//! Another Attempt on a simulated host: due on the boot clock, whatever the wall clock does, made by
//! whichever daemon is there, and not by one that is ending.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod world;

use qinglet::model::life::RunState;
use serde_json::json;
use world::{Bench, World};

const YEAR_MS: i64 = 365 * 86_400_000;

fn waiting(delay_ms: i64) -> (Bench, qinglet::model::id::RunId) {
    let retry = json!({"maxAttempts": 3, "delayMs": delay_ms, "backoff": "fixed"});
    let bench = Bench::with(json!({"retry": retry}));
    let run = bench.start();
    (bench, run)
}

#[test]
fn a_delay_is_kept_on_the_boot_clock_through_every_jump_of_the_wall_clock() {
    let (bench, run) = waiting(60_000);
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| w.released == 1);
    bench.exit(1, None);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::RetryWait);
    for jump in [50 * YEAR_MS, -60 * YEAR_MS, 10 * YEAR_MS] {
        bench.world(|w| w.wall_ms += jump);
        bench.pass(&mut engine, 15_000);
        assert_eq!(bench.run(run).state, RunState::RetryWait);
    }
    bench.pass(&mut engine, 20_000);
    bench.turns(&mut engine, |w| w.released == 2);
    bench.exit(0, None);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Succeeded);
    assert_eq!(bench.run(run).attempt.unwrap().number, 2);
}

#[test]
fn the_engine_wakes_when_the_delay_is_over_and_not_before() {
    let (bench, run) = waiting(3_600_000);
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| w.released == 1);
    bench.exit(1, None);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::RetryWait);
    bench.pass(&mut engine, 1_000);
    // What else is due by itself is the next round of housekeeping, minutes away.
    bench.world(|w| w.boot_ms += 3_590_000);
    bench.pass(&mut engine, 1_000);
    let next_ms = engine.turn().expect("something is due");
    assert!(next_ms <= 10_000, "the delay ends in {next_ms} ms");
    assert_eq!(bench.run(run).state, RunState::RetryWait);
    bench.pass(&mut engine, 10_000);
    bench.turns(&mut engine, |w| w.released == 2);
}

#[test]
fn a_daemon_that_closes_makes_no_attempt_and_the_next_one_does() {
    let (bench, run) = waiting(1_000);
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| w.released == 1);
    engine.close();
    bench.exit(1, None);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::RetryWait);
    bench.pass(&mut engine, 10_000);
    assert_eq!((bench.run(run).state, bench.world(|w| w.launches)), (RunState::RetryWait, 1));
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.pass(&mut engine, 10_000);
    assert_eq!(bench.world(|w| w.launches), 1, "nothing before the door is open");
    engine.open();
    bench.pass(&mut engine, 2_000);
    bench.turns(&mut engine, |w| w.released == 2);
}

#[test]
fn a_store_that_fails_meanwhile_delays_the_next_attempt_and_loses_nothing() {
    let (bench, run) = waiting(1_000);
    let mut engine = bench.engine();
    bench.turns(&mut engine, |w| w.released == 1);
    bench.exit(1, None);
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::RetryWait);
    World::fail_writes();
    bench.pass(&mut engine, 20_000);
    assert_eq!(bench.world(|w| w.launches), 1);
    bench.heal();
    // The whole delay at most: when it is due could not be stored before.
    bench.pass(&mut engine, 2_000);
    bench.turns(&mut engine, |w| w.released == 2);
    assert_eq!(bench.world(|w| w.launches), 2);
}
