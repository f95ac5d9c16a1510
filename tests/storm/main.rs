//! The storm: the daemon is killed again and again at random moments under load, and after each kill
//! everything that can be checked is. `make storm` is the long one; `make test` has a short one.
//!
//! `QINGLET_STORM_SEED` has a storm again: the same tasks, cancellations, pauses, kills and crash points
//! in the same rounds. Run ids, who gets the processor when, and so which step a kill hits, and which
//! supervisors there are to be killed, cannot be had again. `QINGLET_STORM_KILLS` is how many;
//! `QINGLET_STORM_KEEP` names a folder for the state of a storm that went wrong.

// A test's own helpers fail by panicking too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dice;
mod load;
mod look;
mod marks;
mod plan;
mod rounds;
mod shims;
mod snapshot;
#[path = "../support/mod.rs"]
mod support;
mod tasks;

use plan::Plan;
use rounds::{Storm, Tally};
use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often the short storm kills.
const KILLS: u64 = 20;
/// So many rounds between two quiet times.
const BETWEEN_QUIET: u64 = 25;
/// So many rounds with one state: what is checked after each kill grows with it.
const STATE_ROUNDS: u64 = 100;

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) << 16 ^ now.as_secs() ^ u64::from(std::process::id()) << 40
}

#[test]
fn no_kill_of_the_daemon_loses_repeats_or_invents_anything() {
    let seed = number("QINGLET_STORM_SEED").unwrap_or_else(any_seed);
    let kills = number("QINGLET_STORM_KILLS").unwrap_or(KILLS);
    println!("storm: seed {seed}, {kills} kills");
    let began = Instant::now();
    let mut total = Tally::default();
    let mut round = 0;
    while round < kills {
        let mut storm = Storm::new(seed);
        let last = (round + STATE_ROUNDS).min(kills);
        while round < last {
            let wrong = storm.round(round);
            fail_on(&storm, seed, round, &wrong);
            round += 1;
            if round % BETWEEN_QUIET == 0 || round == last {
                let wrong = storm.quiet(round);
                fail_on(&storm, seed, round - 1, &wrong);
                println!("storm: {round} kills in {:.0?}; {:?}", began.elapsed(), storm.tally);
            }
        }
        add(&mut total, &storm);
    }
    assert!(total.kills >= kills, "{total:?}");
    let runs: u64 = total.outcomes.values().sum();
    println!(
        "storm: seed {seed}: {} kills ({} at crash points, {} supervisors), {runs} runs {:?}, {} attempts ran, {} \
         receipts, {} processes had got away from killed supervisors, slowest recovery {:.0?} in round {}, {:.0?}",
        total.kills,
        total.own_deaths,
        total.shims,
        total.outcomes,
        total.ran,
        total.receipts,
        total.escaped,
        total.slowest.0,
        total.slowest.1,
        began.elapsed()
    );
}

fn fail_on(storm: &Storm, seed: u64, round: u64, wrong: &[String]) {
    if wrong.is_empty() {
        return;
    }
    if let Ok(folder) = env::var("QINGLET_STORM_KEEP") {
        storm.keep(&folder);
    }
    let all = wrong.join("\n  ");
    panic!(
        "after round {round} of QINGLET_STORM_SEED={seed} (QINGLET_STORM_KILLS={} has it again):\n  {all}\nits plan was \
         {:#?}",
        round + 1,
        Plan::of(seed, round)
    );
}

fn add(total: &mut Tally, storm: &Storm) {
    let tally = &storm.tally;
    total.kills += tally.kills;
    total.own_deaths += tally.own_deaths;
    total.shims += tally.shims;
    total.ran += tally.ran;
    total.receipts += tally.receipts;
    total.escaped += tally.escaped;
    total.slowest = total.slowest.max(tally.slowest);
    for (outcome, count) in &tally.outcomes {
        *total.outcomes.entry(outcome.clone()).or_default() += count;
    }
}

#[test]
fn the_same_seed_decides_the_same_and_another_does_not() {
    let plans = |seed| (0..50).map(|round| Plan::of(seed, round)).collect::<Vec<_>>();
    assert_eq!(plans(7), plans(7));
    assert_ne!(plans(7), plans(8));
    let all = plans(7);
    assert!(all.iter().any(|plan| plan.shim_kill.is_some()) && all.iter().any(|plan| plan.patient));
    assert!(all.iter().all(|plan| Duration::from_millis(plan.delay_ms) < Duration::from_secs(1)));
}
