//! The way of a task's output into its log, against `cat`.

use crate::Outcome;
use crate::daemon::State;
use crate::figure::{Figure, Table};
use crate::place::Place;
use crate::process::cpu_ms;
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const BYTES: u64 = 1 << 30;
const ROUNDS: usize = 5;

/// A gibibyte each time: a task's output to its capped log, and the same through two pipes of `cat`.
pub fn measure(place: &Place) -> Outcome<Vec<Table>> {
    let state = State::new(place, &json!({}))?;
    let daemon = state.serve()?;
    let words = ["/bin/sh", "-c", "head -c 1073741824 /dev/zero"].map(Path::new);
    let task = daemon.add_task("flood", &words)?;
    let mut rates: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let mut cpu: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let own = std::process::id();
    for _ in 0..ROUNDS {
        let (before, from) = (cpu_ms(daemon.pid(), true)?, Instant::now());
        daemon.run(&task)?;
        rates[0].push(rate(from));
        cpu[0].push((cpu_ms(daemon.pid(), true)? - before) as f64);
        let (before, from) = (cpu_ms(own, true)?, Instant::now());
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "head -c 1073741824 /dev/zero | cat >/dev/null"]).stdin(Stdio::null());
        if !shell.status()?.success() {
            return Err("cat failed".into());
        }
        rates[1].push(rate(from));
        cpu[1].push((cpu_ms(own, true)? - before) as f64);
    }
    daemon.stop()?;
    let mut table = Table::new(
        "Log path",
        &format!(
            "1 GiB of output, {ROUNDS} times in turn: through a task to its log, which keeps 4 MiB of it, and by hand through \
             a pipe and `cat` to /dev/null. The CPU is that of all processes, the writer's too."
        ),
        ["", "qinglet", "cat", "times cat"],
    );
    let [ours, cat] = rates.map(Figure::of);
    table.row(["MiB a second".into(), ours.to_string(), cat.to_string(), ours.times(&cat)]);
    let [ours, cat] = cpu.map(Figure::of);
    table.row(["CPU, ms".into(), ours.to_string(), cat.to_string(), ours.times(&cat)]);
    Ok(vec![table])
}

fn rate(from: Instant) -> f64 {
    (BYTES >> 20) as f64 / from.elapsed().as_secs_f64()
}
