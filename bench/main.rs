//! What a run costs, beside the least that anything with the same promises must do. Every figure is a
//! ratio, or counted, or taken in turn with what it is compared with; nothing here passes or fails.
//!
//!   `make bench [BENCH="latency flash"] [BENCH_FULL=1]`
//!
//! Prints its tables, and with `--out FILE` writes them there, with the machine and the commit.

#![allow(clippy::cast_precision_loss)] // figures for people: no reading has 52 bits

mod daemon;
mod figure;
mod flash;
mod floor;
mod growth;
mod history;
mod latency;
mod logs;
mod machine;
mod memory;
mod place;
mod process;
mod throughput;

use figure::Table;
use place::Place;
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// What every part answers.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// Measures in a place.
type Part = fn(&Place) -> Outcome<Vec<Table>>;

/// The parts, in the order in which they are measured.
const PARTS: [(&str, Part); 6] = [
    ("latency", latency::measure),
    ("throughput", throughput::measure),
    ("flash", flash::measure),
    ("memory", memory::measure),
    ("growth", growth::measure),
    ("logs", logs::measure),
];

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Outcome<()> {
    let mut out: Option<PathBuf> = None;
    let mut wanted = Vec::new();
    let mut full = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bench" => {} // what cargo says to every bench
            "--full" => full = true,
            "--out" => out = Some(args.next().ok_or("--out needs a file")?.into()),
            part if PARTS.iter().any(|(name, _)| *name == part) => wanted.push(part.to_owned()),
            other => return Err(format!("{other:?} is not a part; there are {:?}", PARTS.map(|(name, _)| name)).into()),
        }
    }
    let place = Place::new(full)?;
    let mut report = machine::describe(&place)?;
    println!("{report}");
    for (name, part) in PARTS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let began = Instant::now();
        for table in part(&place).map_err(|error| format!("{name}: {error}"))? {
            println!("{table}");
            write!(report, "\n{table}")?;
        }
        eprintln!("bench: {name} took {} s", began.elapsed().as_secs());
    }
    if let Some(out) = out {
        std::fs::write(&out, report).map_err(|error| format!("{}: {error}", out.display()))?;
    }
    Ok(())
}
