//! Stored records as the rest of the system sees them.

use super::digest::Digest;
use super::event::EventType;
use super::id::{AttemptId, EventId, RunId};
use super::life::{AttemptState, CancelReason, RunState};
use super::name::Name;
use super::policy::{Role, Subject};
use super::task::{Definition, TaskRef};
use super::trigger::Trigger;

/// A task's current revision, without what it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHead {
    /// Which task.
    pub task: Name,
    /// Its current revision and digest.
    pub task_ref: TaskRef,
    /// What people call it.
    pub title: String,
    /// Whether it may be started.
    pub enabled: bool,
    /// When the first revision was stored.
    pub created_at_ms: i64,
    /// When the current revision was stored.
    pub updated_at_ms: i64,
}

/// A task's current revision, whole.
#[derive(Clone)]
pub struct Task {
    /// Its head.
    pub head: TaskHead,
    /// Its definition, checked against the stored digest.
    pub definition: Definition,
}

/// One Run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Which task.
    pub task: Name,
    /// Which revision of it, pinned at admission.
    pub task_ref: TaskRef,
    /// Where it is.
    pub state: RunState,
    /// Counts every change.
    pub version: i64,
    /// Counts every event.
    pub event_sequence: i64,
    /// Higher goes first.
    pub priority: i64,
    /// `manual`, later also schedules.
    pub origin: String,
    /// The trigger that made it, if one did.
    pub trigger: Option<String>,
    /// When it was admitted.
    pub created_at_ms: i64,
    /// When it was queued.
    pub queued_at_ms: Option<i64>,
    /// When ownership was stored.
    pub started_at_ms: Option<i64>,
    /// When it ended.
    pub finished_at_ms: Option<i64>,
    /// When somebody asked it to end.
    pub cancel_requested_at_ms: Option<i64>,
    /// Why.
    pub cancel_reason: Option<CancelReason>,
    /// What went wrong, as a machine word.
    pub error_code: Option<String>,
    /// When its next Attempt is due, as the wall clock stood when that was decided.
    pub next_attempt_at_ms: Option<i64>,
    /// The ended Run that somebody tried again with it.
    pub retry_of: Option<RunId>,
    /// Its latest Attempt.
    pub attempt: Option<Attempt>,
}

/// One Attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// 1, 2, ...
    pub number: i64,
    /// Where it is.
    pub state: AttemptState,
    /// When it was made.
    pub created_at_ms: i64,
    /// When ownership was stored.
    pub started_at_ms: Option<i64>,
    /// When it ended.
    pub finished_at_ms: Option<i64>,
    /// Its log's artifact id, once there is one.
    pub log_artifact: Option<String>,
    /// The durable handle of its shim, once owned.
    pub handle: Option<String>,
    /// How it ended, once it did.
    pub end: End,
}

/// When an Attempt's time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// On the wall clock, for people.
    pub at_ms: i64,
    /// The boot in which `boot_ms` counts.
    pub boot: super::id::Uuid,
    /// Milliseconds since that boot; it decides, because the wall clock may jump (design D9).
    pub boot_ms: i64,
}

/// How an Attempt ended, as far as it is known. All `None` while it has not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// 0..=255; 128 + n for signal n.
    pub exit_code: Option<i32>,
    /// The signal's number, when a signal ended it.
    pub signal: Option<i32>,
    /// What went wrong, as a machine word.
    pub error_code: Option<String>,
    /// What went wrong, in words: step and system error, never a command or a value.
    pub error_summary: Option<String>,
    /// Whether the whole output is in the log or knowingly cut at its cap.
    pub log_complete: Option<bool>,
    /// How many descendants were left when the main process ended and had to be ended.
    pub leftovers: Option<i64>,
    /// Its supervisor was killed, and something of it may have got away (design D6).
    pub unproven: bool,
}

/// One event as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// 1, 2, ... within its Run, without holes.
    pub sequence: i64,
    /// What happened.
    pub kind: EventType,
    /// The actor's type word.
    pub actor_type: String,
    /// When.
    pub created_at_ms: i64,
}

/// A role binding's current version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Who.
    pub subject: Subject,
    /// As what; `None` = revoked.
    pub role: Option<Role>,
    /// Counts every grant and revocation.
    pub version: i64,
    /// When this version was stored.
    pub changed_at_ms: i64,
}

/// A credential's current version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// The id in the token.
    pub id: Box<str>,
    /// Whom it proves.
    pub subject: Subject,
    /// Counts issue and revocation.
    pub version: i64,
    /// Whether it works.
    pub active: bool,
    /// HMAC-SHA-256 of id and secret under the pepper.
    pub secret_digest: [u8; 32],
    /// When this version was stored.
    pub changed_at_ms: i64,
    /// From when on it does not work any more, in epoch milliseconds; `None` = it works until it is
    /// revoked.
    pub expires_at_ms: Option<i64>,
}

/// One audit row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Its id.
    pub id: EventId,
    /// What was asked for, as the route table names it.
    pub operation: String,
    /// `allowed`, `denied`, `authentication_rejected`, `refused`.
    pub outcome: String,
    /// Why, as a machine word.
    pub reason: Option<String>,
    /// Who, unless authentication was rejected.
    pub subject: Option<Subject>,
    /// The credential used.
    pub credential_id: Option<String>,
    /// What it was about: a task, a run, a subject.
    pub target: Option<String>,
    /// How many alike this row stands for.
    pub count: i64,
    /// When.
    pub at_ms: i64,
}

/// A trigger's current revision and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerHead {
    /// Which trigger.
    pub id: Name,
    /// Its current revision.
    pub revision: i64,
    /// The revision's content digest.
    pub digest: Digest,
    /// What it is.
    pub trigger: Trigger,
    /// Whether the task it pins is still what it was.
    pub pin: PinState,
    /// When the first revision was stored.
    pub created_at_ms: i64,
    /// When the current revision was stored.
    pub updated_at_ms: i64,
    /// How far it has come.
    pub schedule: Schedule,
}

/// How the task that a trigger pins stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinState {
    /// At the pinned revision, and switched on.
    Good,
    /// At another revision: nothing is started until the trigger is set anew.
    Stale,
    /// Switched off: nothing is started.
    TaskDisabled,
    /// Deleted: nothing is started.
    TaskDeleted,
}

impl PinState {
    /// The machine word of what keeps it from starting anything.
    pub const fn word(self) -> Option<&'static str> {
        match self {
            Self::Good => None,
            Self::Stale => Some("pin_stale"),
            Self::TaskDisabled => Some("task_disabled"),
            Self::TaskDeleted => Some("task_deleted"),
        }
    }
}

/// How far a trigger has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Counts every change.
    pub version: i64,
    /// When it is due next; `None`: not by time; 0: still to be computed.
    pub next_fire_at_ms: Option<i64>,
    /// The last instant that was decided.
    pub last_scheduled_at_ms: Option<i64>,
    /// The last run it made.
    pub last_run: Option<RunId>,
    /// How many occurrences were skipped.
    pub skipped: i64,
    /// The last one that was.
    pub last_skipped_at_ms: Option<i64>,
    /// Why, as a machine word.
    pub last_skip_reason: Option<String>,
}

/// Where a Run's log is, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// The Attempt has no log yet.
    Pending,
    /// It is, or was, in this file.
    File {
        /// The artifact id.
        artifact: String,
        /// Whether the Attempt may still write.
        active: bool,
    },
    /// It was removed by retention.
    Retired(LogRetired),
}

/// What is left of a log that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRetired {
    /// When.
    pub at_ms: i64,
    /// How long it was; 0 when its file was already gone.
    pub bytes: u64,
    /// Whether it had been cut at its cap; `None` when nobody had said.
    pub truncated: Option<bool>,
}

/// What is remembered of the wall clock, to notice steps (design D9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockWatch {
    /// The boot that the other two belong to.
    pub boot: super::id::Uuid,
    /// The wall clock less the boot clock, in milliseconds, when it was last taken as it was.
    pub anchor_ms: i64,
    /// Nothing is deleted for its age before this, in milliseconds since that boot.
    pub paused_until_ms: u64,
}

/// What a receipt proves about an Attempt's end, in the store's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which Run.
    pub run: RunId,
    /// Which Attempt.
    pub attempt: AttemptId,
    /// SHA-256 of the token in the receipt.
    pub token_digest: Digest,
    /// The receipt's sequence; 1 for the first.
    pub sequence: i64,
    /// When user code was released.
    pub started_at_ms: i64,
    /// When the last process had ended.
    pub finished_at_ms: i64,
    /// How it ended. `exit_code` is always there.
    pub end: End,
}
