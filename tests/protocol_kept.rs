//! Attempts whose shim may stay after the receipt, over a simulated host that tells of no receipt.

mod world;

use qinglet::execution::Engine;
use qinglet::execution::host::{Host, Stop};
use qinglet::model::id::RunId;
use qinglet::model::life::RunState;
use world::Bench;

fn keeping() -> (Bench, RunId) {
    let bench = Bench::with(serde_json::json!({"leftovers": "keep"}));
    let run = bench.start();
    (bench, run)
}

fn is_over<H: Host>(bench: &Bench, engine: &mut Engine<H>, run: RunId, state: RunState) {
    for _ in 0..10 {
        bench.pass(engine, 200);
    }
    assert_eq!((bench.run(run).state, engine.active(), bench.world(|w| w.receipts.len())), (state, 0, 0));
}

#[test]
fn a_receipt_that_nobody_tells_of_is_looked_for_and_ends_the_run_while_its_shim_lives() {
    let (bench, run) = keeping();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    assert!(engine.turn().is_some_and(|ms| ms <= 1_000), "looked for");
    bench.leave_receipt_and_stay();
    is_over(&bench, &mut engine, run, RunState::Succeeded);
    assert_eq!(bench.world(|w| (w.alive.len(), w.signals.len())), (1, 0), "what it keeps is nobody's any more");
}

#[test]
fn a_stop_that_the_store_had_before_the_receipt_ends_what_was_kept() {
    let (bench, run) = keeping();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    // Nobody has told the engine yet.
    bench.ask_to_end(run);
    bench.leave_receipt_and_stay();
    is_over(&bench, &mut engine, run, RunState::Cancelled);
    assert_eq!(bench.world(|w| (w.alive.len(), w.signals.clone())), (0, vec![Stop::Term]));
}

#[test]
fn and_so_it_does_after_a_restart_once_recovery_has_only_looked() {
    let (bench, run) = keeping();
    let mut engine = bench.engine();
    bench.settle(&mut engine);
    drop(engine);
    bench.ask_to_end(run);
    bench.leave_receipt_and_stay();
    let mut engine = bench.engine();
    assert_eq!(engine.recover().unwrap(), 1);
    bench.pass(&mut engine, 200);
    assert_eq!((bench.run(run).state, bench.world(|w| w.signals.len())), (RunState::Cancelled, 0));
    engine.open();
    is_over(&bench, &mut engine, run, RunState::Cancelled);
    assert_eq!(bench.world(|w| (w.alive.len(), w.signals.clone())), (0, vec![Stop::Term]));
}
