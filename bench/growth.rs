//! What becomes slower with the past. It should be nothing.

use crate::Outcome;
use crate::daemon::State;
use crate::figure::{Figure, Table};
use crate::floor::Began;
use crate::history;
use crate::latency::first_ms;
use crate::place::Place;
use rusqlite::Connection;
use std::time::Instant;

const ROUNDS: usize = 40;

/// The same things with little and with much of a past, in turn.
pub fn measure(place: &Place) -> Outcome<Vec<Table>> {
    let mut sizes = vec![100, 10_000, 100_000];
    if place.full {
        sizes.push(1_000_000);
    }
    let began = Began::new(place)?;
    let states = sizes.iter().map(|runs| history::made(place, *runs, &[&place.tiny, &began.path]));
    let states = states.collect::<Outcome<Vec<State>>>()?;
    let mut readings: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); NAMES.len()]; sizes.len()];
    for _ in 0..5 {
        for (state, readings) in states.iter().zip(&mut readings) {
            let from = Instant::now();
            let daemon = state.serve()?;
            readings[0].push(ms(from));
            daemon.stop()?;
        }
    }
    let daemons = states.iter().map(State::serve).collect::<Outcome<Vec<_>>>()?;
    let tasks = daemons.iter().map(|daemon| daemon.task("tiny")).collect::<Outcome<Vec<_>>>()?;
    began.forget();
    for _ in 0..ROUNDS {
        for ((daemon, task), readings) in daemons.iter().zip(&tasks).zip(&mut readings) {
            readings[1].push(first_ms(daemon, task, &began)?);
            for (at, path) in LISTS.iter().enumerate() {
                let from = Instant::now();
                daemon.get(path)?;
                readings[2 + at].push(ms(from));
            }
        }
    }
    drop(daemons);
    // Those that go on by themselves, asked of the database as the daemon asks.
    for (state, readings) in states.iter().zip(&mut readings) {
        let conn = Connection::open(state.database())?;
        for (at, sql) in OWN.iter().enumerate() {
            let mut query = conn.prepare(sql)?;
            for _ in 0..ROUNDS {
                let from = Instant::now();
                let mut rows = query.query([])?;
                while rows.next()?.is_some() {}
                readings[2 + LISTS.len() + at].push(ms(from));
            }
        }
    }
    let mut table = Table::new(
        "Growth",
        &format!(
            "Milliseconds with so many past runs, {ROUNDS} times in turn (the start of the daemon 5 times), and the largest \
             as times the smallest. Nothing of the past is cleared away meanwhile. The due scan and retention are the \
             daemon's own queries, asked of the database directly."
        ),
        ["what", "10^2", "10^4", "10^5", "times"],
    );
    for (at, name) in NAMES.iter().enumerate() {
        let figures: Vec<Figure> = readings.iter_mut().map(|all| Figure::of(std::mem::take(&mut all[at]))).collect();
        let times = figures[figures.len() - 1].times(&figures[0]);
        let [a, b, c] = [0, 1, figures.len() - 1].map(|at| format!("{:.2}", figures[at].median()));
        table.row([(*name).into(), a, b, c, times]);
    }
    Ok(vec![table])
}

const NAMES: [&str; 9] = [
    "start of the daemon to its first answer",
    "request to first instruction",
    "list of tasks",
    "list of runs",
    "list of a task's runs",
    "list of the runs that failed",
    "audit",
    "due scan",
    "retention, a look",
];

const LISTS: [&str; 5] = ["/tasks", "/runs", "/runs?task=tiny", "/runs?status=failed", "/audit"];

const OWN: [&str; 2] = [
    "SELECT project, trigger_id FROM trigger_schedules INDEXED BY trigger_schedules_due WHERE next_fire_at_ms <= 1 LIMIT 16",
    "SELECT id FROM runs INDEXED BY runs_by_end WHERE end_order IS NOT NULL ORDER BY end_order LIMIT 8",
];

fn ms(from: Instant) -> f64 {
    from.elapsed().as_secs_f64() * 1e3
}
