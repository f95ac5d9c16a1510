//! From the request to the first instruction of the task, and to its outcome where anybody can see it.

use crate::Outcome;
use crate::daemon::{Daemon, State, Task};
use crate::figure::{Figure, Table};
use crate::floor::{self, Began, Floor};
use crate::place::Place;
use serde_json::json;
use std::time::Instant;

const ROUNDS: i64 = 200;

/// Readings of one thing in milliseconds: to the first instruction, and to the visible outcome.
#[derive(Default)]
struct Readings {
    first: Vec<f64>,
    outcome: Vec<f64>,
}

impl Readings {
    /// Takes one, if the way there was gone without an error.
    fn take(&mut self, began: &Began, go: impl FnOnce() -> Outcome<()>) -> Outcome<()> {
        let (from_ns, from) = (monotonic_ns(), Instant::now());
        go()?;
        self.outcome.push(from.elapsed().as_secs_f64() * 1e3);
        self.first.push((began.next_ns()? - from_ns) as f64 / 1e6);
        Ok(())
    }
}

/// One start with nothing else going on, again and again, in turn with the floors.
pub fn measure(place: &Place) -> Outcome<Vec<Table>> {
    let began = Began::new(place)?;
    let state = State::new(place, &json!({}))?;
    let daemon = state.serve()?;
    let task = daemon.add_task("tiny", &[&place.tiny, &began.path])?;
    daemon.warm(&daemon.add_task("warm", &[&place.tiny])?)?;
    let store = Floor::new(place)?;
    let [mut ours, mut floor, mut two, mut bare] = [(); 4].map(|()| Readings::default());
    for round in 0..ROUNDS {
        ours.take(&began, || daemon.run(&task))?;
        floor.take(&began, || store.run(2 * round, false, Some(&began.path)))?;
        two.take(&began, || store.run(2 * round + 1, true, Some(&began.path)))?;
        bare.take(&began, || floor::bare(&place.tiny, Some(&began.path)))?;
    }
    store.close();
    let mut table = Table::new(
        "Start latency",
        &format!(
            "{ROUNDS} starts in turn, one at a time, in milliseconds from the request being sent. The floor is four \
             durable commits, a fork, an exec and a durable receipt, without HTTP; supervised, it has one more process, \
             which does nothing but fork, exec and wait. The outcome of a run is looked for every half millisecond."
        ),
        ["to", "qinglet", "floor", "times it", "floor, supervised", "times it", "fork, exec, wait"],
    );
    let readings = [ours, floor, two, bare];
    let firsts = readings.each_ref().map(|each| Figure::of(each.first.clone()));
    let outcomes = readings.map(|each| Figure::of(each.outcome));
    for (name, [ours, floor, two, bare]) in [("first instruction", firsts), ("outcome visible", outcomes)] {
        table.row([
            name.into(),
            ours.to_string(),
            floor.to_string(),
            ours.times(&floor),
            two.to_string(),
            ours.times(&two),
            bare.to_string(),
        ]);
    }
    Ok(vec![table])
}

/// To the first instruction, of so many runs one after the other, in milliseconds.
pub fn first_ms(daemon: &Daemon<'_>, task: &Task, began: &Began) -> Outcome<f64> {
    let mut readings = Readings::default();
    readings.take(began, || daemon.run(task))?;
    Ok(readings.first[0])
}

/// The clock of the tiny program, in nanoseconds.
fn monotonic_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for the call to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}
