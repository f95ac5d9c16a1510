//! Reads of Runs, Attempts and events.

use super::thread::Operation;
use crate::model::id::{AttemptId, RunId};
use crate::model::life::RunState;
use crate::model::name::Name;
use crate::model::record::{Event, LogPlace, Run};

/// Reads one Run with its latest Attempt, or with Attempt `number`. `None`: no such Run in the project.
pub struct GetRun {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
    /// Which Attempt; the latest when `None`.
    pub attempt_number: Option<i64>,
}

impl Operation for GetRun {
    type Out = Option<Run>;
}

/// Where a page of Runs goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunCursor {
    /// The last Run's creation time.
    pub created_at_ms: i64,
    /// The last Run's id.
    pub run: RunId,
}

/// Reads one page of Runs, newest first. Attempts are not read.
pub struct ListRuns {
    /// The project.
    pub project: Name,
    /// Only this task's.
    pub task: Option<Name>,
    /// Only those in this state.
    pub state: Option<RunState>,
    /// Only older ones than this.
    pub after: Option<RunCursor>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListRuns {
    /// The page and whether there are more.
    type Out = (Vec<Run>, bool);
}

/// Reads one page of a Run's events in order. `None`: no such Run in the project.
pub struct ListEvents {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
    /// Only sequences greater than this.
    pub after_sequence: i64,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListEvents {
    /// The page and whether there are more.
    type Out = Option<(Vec<Event>, bool)>;
}

/// Finds an Attempt's log. `None`: no such Attempt of that Run in the project.
pub struct LocateLog {
    /// The project.
    pub project: Name,
    /// Which Run.
    pub run: RunId,
    /// Which Attempt.
    pub attempt: AttemptId,
}

impl Operation for LocateLog {
    type Out = Option<LogPlace>;
}

/// Counts Runs by state, for `status`: queued, dispatching or running, lost.
pub struct CountRuns;

/// How many Runs are where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunCounts {
    /// Waiting for a place.
    pub queued: usize,
    /// Dispatching or running.
    pub active: usize,
    /// Lost and not settled.
    pub lost: usize,
}

impl Operation for CountRuns {
    type Out = RunCounts;
}
