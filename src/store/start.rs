//! The transactions of a Run's start and end: T1 to T6 of spec/execution section 2. This is their
//! face; `admit`, `advance`, `candidate` and `journal` do them.

use crate::model::command::Command;
use crate::model::digest::Digest;
use crate::model::id::{AttemptId, MutationId, RunId};
use crate::model::life::RunState;
use crate::model::name::Name;
use crate::model::policy::Authority;
use crate::model::record::{Completion, Deadline};
use crate::model::task::TaskRef;
use crate::model::word::FenceReason;

/// T1: admits a Run of a task (seed 376, the fixed order of its one transaction), with its
/// `allowed` audit row in the same transaction.
pub struct AdmitStart {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which task.
    pub task: Name,
    /// The mutation's name.
    pub mutation: MutationId,
    /// The revision and digest the caller has seen.
    pub expected: TaskRef,
}

/// What became of a task start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// A new Run is queued.
    Accepted(Admitted),
    /// The same mutation was admitted before; this is what it made.
    Existing(Admitted),
    /// No such task in this project.
    TaskNotFound,
    /// A fence did not hold.
    Refused(FenceReason),
    /// The queue of waiting Runs is full, or a record needed for the decision is missing or
    /// damaged: 503 with this machine word as reason.
    Unavailable(&'static str),
}

/// Tries an ended Run again: a new Run, pinned to the same revision, with its `allowed` audit row.
pub struct AdmitRetry {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// The Run that has ended.
    pub run: RunId,
    /// The mutation's name.
    pub mutation: MutationId,
}

/// What became of trying a Run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retried {
    /// A new Run is queued.
    Accepted(Admitted),
    /// The same mutation was admitted before; this is what it made.
    Existing(Admitted),
    /// No such Run in this project.
    NotFound,
    /// Its task was deleted.
    TaskNotFound,
    /// It has not ended badly: it is in this state.
    NotEnded(RunState),
    /// This subject has tried too many again within a minute.
    TooMany,
    /// A fence did not hold.
    Refused(FenceReason),
    /// 503 with this machine word as reason, as for a start.
    Unavailable(&'static str),
}

/// The identities of an admitted Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The Run.
    pub run: RunId,
    /// Its first Attempt.
    pub attempt: AttemptId,
    /// The task.
    pub task: Name,
    /// The pinned revision.
    pub task_ref: TaskRef,
    /// When it was queued.
    pub queued_at_ms: i64,
}

/// A queued Run whose claimed Attempt may be started, with its immutable inputs read and checked.
#[derive(Clone)]
pub struct Candidate {
    /// The Run.
    pub run: RunId,
    /// Its latest, claimed Attempt.
    pub attempt: AttemptId,
    /// 1, 2, ...
    pub attempt_number: i64,
    /// The project.
    pub project: Name,
    /// The task.
    pub task: Name,
    /// The trigger that made it, if one did.
    pub trigger: Option<String>,
    /// The instant it was scheduled for, if it was.
    pub scheduled_for_ms: Option<i64>,
    /// The Run whose end started it, if one did.
    pub cause: Option<Cause>,
    /// What to run; `None` when the pinned execution revision or recipe is missing or does not
    /// match its digest: the Run must be failed with a reason, not started.
    pub command: Option<Command>,
}

/// The Run whose end started another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The Run.
    pub run: RunId,
    /// Its task.
    pub task: Name,
    /// How it ended.
    pub outcome: RunState,
    /// Its last Attempt's exit code, if there was one.
    pub exit_code: Option<i32>,
}

/// Reads one page of candidates: runtime-owned queued Runs without a cancel intent whose latest
/// Attempt is claimed; priority descending, then age, then attempt id (spec/execution section 10).
pub struct ListCandidates {
    /// At most so many.
    pub limit: usize,
    /// Runs to leave out, because their start is under way already.
    pub except: Vec<RunId>,
}

/// T2: the authority to spawn, before any spawn. Run queued -> dispatching, Attempt claimed ->
/// starting, with digest, log artifact and the receipt journal's row. Said again with the same token
/// digest it is `Done` and writes nothing, so that a commit of unknown outcome can be asked for.
pub struct BeginStart {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
    /// SHA-256 of the callback token.
    pub token_digest: Digest,
    /// The log's artifact id.
    pub log_artifact: String,
    /// When its time is up, if ever.
    pub deadline: Option<Deadline>,
    /// Journal rows whose receipts are deleted, resolved along with this commit.
    pub resolved: Vec<AttemptId>,
}

/// Whether a step of a start still applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It did and is committed.
    Done,
    /// The Run or Attempt has moved on; nothing was written.
    Raced,
}

/// T3: ownership. Attempt starting -> running with handle, pid and time; Run dispatching -> running.
/// The fence is the token digest of T2, because that names exactly one start. A cancel intent that
/// came in meanwhile does not stop it; control acts on the running Attempt.
pub struct TakeOwnership {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
    /// The digest stored by T2.
    pub token_digest: Digest,
    /// The durable handle's text.
    pub handle: String,
    /// The shim's pid, equal to the handle's.
    pub pid: i32,
}

/// T4: the launch failed before ownership, nothing of the task ran. Both -> failed. Also used for a
/// candidate that cannot be materialised at all (`from` queued: claimed Attempt and queued Run move
/// through dispatching/starting in the same transaction, so that every event is there).
pub struct FailStart {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
    /// The machine word.
    pub error_code: &'static str,
    /// Step and system error in words; no command, environment or path.
    pub error_summary: String,
}

/// T5 and every other loss: Attempt starting or running -> lost, Run -> lost. Only after proof that
/// no process of it lives.
pub struct Lose {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
    /// The machine word.
    pub error_code: &'static str,
    /// Something of it may have got away when its supervisor was killed; such an Attempt is never
    /// followed by another one by itself (design D6).
    pub unproven: bool,
}

/// T6: applies a receipt. Attempt and Run to their end by spec/execution 8.2.
pub struct Complete {
    /// What the receipt proves.
    pub completion: Completion,
    /// Journal rows whose receipts are deleted, resolved along with this commit.
    pub resolved: Vec<AttemptId>,
}

/// What became of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The Run is now in this state.
    Applied(RunState),
    /// It had ended before; the receipt changes nothing and may be deleted.
    AlreadyTerminal,
    /// The receipt does not belong to this Attempt: quarantine it. The word says why.
    Invalid(&'static str),
}

/// A Run that has authority or ownership and whose end is not known (spec/execution section 7).
#[derive(Clone, Debug)]
pub struct InFlight {
    /// The Run.
    pub run: RunId,
    /// Its state: dispatching or running.
    pub run_state: RunState,
    /// Its version, for the final proof.
    pub run_version: i64,
    /// The pid stored beside the handle; one that the handle does not name makes it invalid.
    pub pid: Option<i32>,
    /// Its active Attempts; anything but one is ambiguous.
    pub active_attempts: usize,
    /// The latest Attempt.
    pub attempt: crate::model::record::Attempt,
    /// The digest stored by T2.
    pub token_digest: Option<Digest>,
    /// When its time is up, if ever.
    pub deadline: Option<Deadline>,
    /// Between TERM and KILL, as the task says.
    pub grace_ms: i64,
    /// Whether its shim may stay after its receipt, as the task says; assumed when nobody can say.
    pub keeps: bool,
}

/// Reads every dispatching or running Run, by Run id, at most `limit`; one more is fetched to tell
/// whether there are more.
pub struct ListInFlight {
    /// At most so many.
    pub limit: usize,
}

/// Counts Attempts that are starting or running.
pub struct CountActive;

/// Lists journal rows of ended Attempts, by Attempt, for clearing away receipts: those that a crash
/// left behind, those that came late, and those that were put aside.
pub struct ListResolvable {
    /// Only Attempts after this one.
    pub after: Option<AttemptId>,
    /// At most so many.
    pub limit: usize,
}

/// A journal row of an ended Attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolvable {
    /// The Attempt.
    pub attempt: AttemptId,
    /// Its receipt was put aside.
    pub quarantined: bool,
    /// Since when it waits for a receipt that may still come, or is kept for people. `None`: its
    /// receipt was taken in or there never can be one, so that nothing is waited for.
    pub since_ms: Option<i64>,
}

/// Marks a receipt that is not to be believed, before its file is moved to quarantine, so that a
/// crash in between finds it again (spec/execution section 4). `Raced`: there is no pending row.
pub struct QuarantineReceipt {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
}

/// Resolves journal rows whose receipts are deleted.
pub struct Resolve {
    /// The Attempts.
    pub attempts: Vec<AttemptId>,
}
