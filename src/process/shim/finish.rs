//! The two files a shim leaves: the truncation fact and the receipt. Their room is taken before the
//! start; their text is written at the end.

use super::output::Output;
use super::watch::Watched;
use crate::model::id::{AttemptId, RunId};
use crate::process::fact::{self, Fact};
use crate::process::orders::OrdersView;
use crate::process::publish::Draft;
use crate::process::receipt::{self, OutOfMemory, Receipt};
use crate::process::step::{LaunchFailure, LaunchStep};
use crate::process::{clock, log, private};
use std::fs::File;
use std::path::PathBuf;

/// Wall clock and boottime may differ by this much over a run before somebody must have set the clock.
const STEP_MS: i64 = 1_000;

/// One moment on both clocks.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    wall_ms: i64,
    boottime_ms: i64,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self { wall_ms: clock::wall_ms(), boottime_ms: clock::boottime_ms() }
    }

    /// Whether somebody set the wall clock between the two, in either direction.
    const fn is_stepped_until(self, end: Self) -> bool {
        let drift = (end.wall_ms - self.wall_ms) - (end.boottime_ms - self.boottime_ms);
        drift.abs() > STEP_MS
    }
}

/// What is needed at the end. Dropped instead, both drafts are removed.
pub(super) struct End {
    run: RunId,
    attempt: AttemptId,
    sequence: i64,
    token: [u8; 32],
    artifact: String,
    receipt: Draft,
    receipt_name: PathBuf,
    fact: Draft,
    fact_name: PathBuf,
}

impl End {
    /// Opens the log and takes the room for both files.
    pub(super) fn prepare(orders: &OrdersView<'_>) -> Result<(File, Self), LaunchFailure> {
        let log_failed = |e: std::io::Error| LaunchFailure::of(LaunchStep::Log, &e);
        let artifact = orders.log_artifact.to_str().unwrap_or_default().to_owned();
        let path = orders.log_dir.join(log::file_name(&artifact));
        let log = private::options().append(true).open(path).map_err(log_failed)?;
        private::check(&log).map_err(log_failed)?;
        let fact = Draft::begin(orders.log_dir.join(fact::temp_name(&artifact)), fact::ROOM_BYTES);
        let receipt = Draft::begin(orders.receipt_dir.join(receipt::temp_name(orders.attempt)), receipt::ROOM_BYTES);
        let end = Self {
            run: orders.run,
            attempt: orders.attempt,
            sequence: orders.sequence,
            token: orders.token,
            fact_name: orders.log_dir.join(fact::file_name(&artifact)),
            artifact,
            fact: fact.map_err(log_failed)?,
            receipt: receipt.map_err(|e| LaunchFailure::of(LaunchStep::Receipt, &e))?,
            receipt_name: orders.receipt_dir.join(receipt::file_name(orders.attempt)),
        };
        Ok((log, end))
    }

    /// Publishes the fact, then the receipt, and returns the exit code. A publication that fails changes
    /// nothing: without a receipt the Attempt is lost, never guessed.
    pub(super) fn publish(
        self,
        start: Moment,
        watched: &Watched,
        start_error: Option<LaunchFailure>,
        output: &Output,
        out_of_memory: Option<OutOfMemory>,
    ) -> i32 {
        let mut fact = Fact::new(self.run, self.attempt, &self.artifact);
        fact.maximum_bytes = output.bytes_max;
        fact.quota_reached = output.is_capped;
        fact.dropped_bytes = output.dropped;
        fact.complete = output.is_complete;
        fact.observed_at_ms = clock::wall_ms();
        // Losing it to a power cut costs one flag, so it is not worth a sync.
        let _ = self.fact.publish(&self.fact_name, &fact.pack(), false);

        let elapsed_ms = (watched.at.boottime_ms - start.boottime_ms).max(0);
        let (exit_code, signal) = match start_error {
            Some(failure) => (failure.exit_code(), None),
            None => (watched.main.exit_code(), watched.main.signal()),
        };
        let receipt = Receipt {
            run: self.run,
            attempt: self.attempt,
            sequence: self.sequence,
            token: self.token,
            started_at_ms: start.wall_ms,
            finished_at_ms: watched.at.wall_ms.max(start.wall_ms),
            exit_code,
            signal,
            start_error,
            elapsed_ms,
            finished_boottime_ms: watched.at.boottime_ms,
            log_complete: output.is_complete,
            clock_stepped: start.is_stepped_until(watched.at),
            leftovers: u32::try_from(watched.leftovers).unwrap_or(u32::MAX),
            out_of_memory,
        };
        let _ = self.receipt.publish(&self.receipt_name, &receipt::pack(&receipt), true);
        exit_code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_shows_in_either_direction() {
        let start = Moment { wall_ms: 1_000_000, boottime_ms: 5_000 };
        let after = |wall: i64, boottime: i64| Moment { wall_ms: 1_000_000 + wall, boottime_ms: 5_000 + boottime };
        assert!(!start.is_stepped_until(after(60_000, 60_500)));
        assert!(start.is_stepped_until(after(3_600_000, 60_000)));
        assert!(start.is_stepped_until(after(-3_600_000, 60_000)));
    }
}
