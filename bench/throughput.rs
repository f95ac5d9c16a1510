//! Runs a second at several widths, and how many commits and syncs a run takes.

use crate::Outcome;
use crate::daemon::State;
use crate::figure::{Figure, Table};
use crate::floor::Floor;
use crate::place::Place;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

const RUNS: i64 = 500;
const ROUNDS: usize = 3;
/// Of those whose syncs are counted.
const COUNTED: i64 = 500;
const WIDTHS: [i64; 3] = [1, 4, 16];

/// Every width, in turn with the floor at the same one.
pub fn measure(place: &Place) -> Outcome<Vec<Table>> {
    let mut table = Table::new(
        "Throughput",
        &format!(
            "{RUNS} runs of a program that does nothing, started by as many clients, {ROUNDS} times in turn with the floor at the same width. Syncs \
             are counted by strace in a pass of their own, of every process; without shared commits the protocol needs \
             6 a run: 4 commits, and 2 for the receipt and its folder."
        ),
        [
            "at once",
            "qinglet, runs/s",
            "floor, runs/s",
            "its time, times",
            "floor, supervised",
            "its time, times",
            "syncs a run",
            "floor, commits a run",
        ],
    );
    for width in WIDTHS {
        let state = State::new(place, &settings(width))?;
        let (mut ours, mut floors, mut commits) = (Vec::new(), [Vec::new(), Vec::new()], 0);
        {
            let daemon = state.serve()?;
            let task = daemon.add_task("tiny", &[&place.tiny])?;
            daemon.warm(&task)?;
            for _ in 0..ROUNDS {
                let began = Instant::now();
                daemon.run_all(&task, RUNS, width)?;
                ours.push(began.elapsed());
                for (floor, supervised) in floors.iter_mut().zip([false, true]) {
                    let store = Floor::new(place)?;
                    let began = Instant::now();
                    floor_all(&store, supervised, width)?;
                    floor.push(began.elapsed());
                    commits = store.close();
                }
            }
            daemon.stop()?;
        }
        let rate = |took: &[Duration]| Figure::of(took.iter().map(|t| RUNS as f64 / t.as_secs_f64()).collect());
        table.row([
            width.to_string(),
            rate(&ours).to_string(),
            rate(&floors[0]).to_string(),
            Figure::ms(&ours).times(&Figure::ms(&floors[0])),
            rate(&floors[1]).to_string(),
            Figure::ms(&ours).times(&Figure::ms(&floors[1])),
            syncs(&state, width)?.map_or_else(|| "strace is missing".into(), |syncs| format!("{syncs:.2}")),
            format!("{:.2}", commits as f64 / RUNS as f64),
        ]);
    }
    Ok(vec![table])
}

fn settings(width: i64) -> serde_json::Value {
    json!({"limits": {"activeAttempts": width, "queuedRuns": 1000}})
}

fn floor_all(store: &Floor, supervised: bool, width: i64) -> Outcome<()> {
    let next = AtomicI64::new(0);
    std::thread::scope(|scope| {
        let worker = || -> Result<(), String> {
            loop {
                let run = next.fetch_add(1, Ordering::Relaxed);
                if run >= RUNS {
                    return Ok(());
                }
                store.run(run, supervised, None).map_err(|error| error.to_string())?;
            }
        };
        let workers: Vec<_> = (0..width).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("panicked".into())))
    })
    .map_err(Into::into)
}

/// Syncs a run, of the daemon and every supervisor.
fn syncs(state: &State, width: i64) -> Outcome<Option<f64>> {
    if !Path::new("/usr/bin/strace").exists() {
        return Ok(None);
    }
    let trace = state.folder.with_extension("trace");
    let name = trace.to_string_lossy();
    let daemon =
        state.serve_under(&["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-o", &name])?;
    let task = daemon.task("tiny")?;
    daemon.run_all(&task, COUNTED, width)?;
    daemon.stop()?;
    let syncs = std::fs::read_to_string(&trace)?.lines().filter(|line| line.contains("sync(")).count();
    Ok(Some(syncs as f64 / COUNTED as f64))
}
