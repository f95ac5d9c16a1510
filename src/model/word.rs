//! The machine words of refusals, in one table: code, HTTP status and what to do about it.
//!
//! Modules have error kinds of their own; at the edge each becomes one of these (design D18). The
//! command line turns a status into an exit code with [`exit_code`].

/// A refusal as the outside sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// The stable machine word.
    pub code: &'static str,
    /// Which of several causes, where the code has them.
    pub reason: Option<&'static str>,
    /// The HTTP status.
    pub status: u16,
}

const fn word(status: u16, code: &'static str) -> Word {
    Word { code, reason: None, status }
}

const fn fence(code: &'static str, reason: &'static str) -> Word {
    Word { code, reason: Some(reason), status: 409 }
}

/// The head is not HTTP, or breaks a rule of the surface.
pub const INVALID_REQUEST: Word = word(400, "invalid_request");
/// The query has an unknown, repeated, empty or malformed part.
pub const INVALID_QUERY: Word = word(400, "invalid_query");
/// The body is not the exact JSON shape of the route.
pub const INVALID_BODY: Word = word(400, "invalid_request_body");
/// No credential, or none that works. One answer for every cause.
pub const AUTHENTICATION_REQUIRED: Word = word(401, "authentication_required");
/// The credential works and the role does not allow it.
pub const FORBIDDEN: Word = word(403, "forbidden");
/// No such path.
pub const ROUTE_NOT_FOUND: Word = word(404, "route_not_found");
/// The path exists with other methods.
pub const METHOD_NOT_ALLOWED: Word = word(405, "method_not_allowed");
/// The request did not arrive in time.
pub const REQUEST_TIMEOUT: Word = word(408, "request_timeout");
/// A body must say how long it is.
pub const LENGTH_REQUIRED: Word = word(411, "length_required");
/// The body is longer than the route takes.
pub const BODY_TOO_LARGE: Word = word(413, "request_body_too_large");
/// The head is longer than 8 KiB.
pub const HEAD_TOO_LARGE: Word = word(431, "request_head_too_large");
/// No worker came free in time.
pub const SERVER_OVERLOADED: Word = word(503, "server_overloaded");
/// The daemon is stopping.
pub const SERVER_DRAINING: Word = word(503, "server_draining");
/// The credential could not be checked.
pub const AUTHENTICATION_UNAVAILABLE: Word = word(503, "authentication_unavailable");
/// The decision could not be made.
pub const AUTHORIZATION_UNAVAILABLE: Word = word(503, "authorization_unavailable");
/// The audit row could not be written, so nothing was done.
pub const AUDIT_UNAVAILABLE: Word = word(503, "audit_unavailable");
/// The store does not answer, so nobody can say how things stand.
pub const STATUS_UNAVAILABLE: Word = word(503, "status_unavailable");
/// The answer would be longer than an answer may be.
pub const ANSWER_UNAVAILABLE: Word = word(503, "answer_unavailable");

/// The body is not a canonical task start.
pub const INVALID_TASK_START: Word = word(400, "invalid_task_start_request");
/// No such task here.
pub const TASK_NOT_FOUND: Word = word(404, "task_not_found");
/// The store could not decide the start.
pub const TASK_START_UNAVAILABLE: Word = word(503, "task_start_unavailable");
/// The task could not be read.
pub const TASK_QUERY_UNAVAILABLE: Word = word(503, "task_query_unavailable");
/// The tasks could not be listed.
pub const TASK_LIST_UNAVAILABLE: Word = word(503, "task_list_unavailable");
/// The definition breaks a rule; the message names the field.
pub const INVALID_TASK_DEFINITION: Word = word(400, "invalid_task_definition");
/// The definition asks for something this version does not have.
pub const TASK_SPEC_UNSUPPORTED: Word = word(400, "TASK_SPEC_UNSUPPORTED");
/// The definition could not be stored.
pub const TASK_DEFINITION_UNAVAILABLE: Word = word(503, "task_definition_unavailable");
/// The body is not a canonical task deletion.
pub const INVALID_TASK_DELETION: Word = word(400, "invalid_task_deletion_request");
/// No such trigger here.
pub const TRIGGER_NOT_FOUND: Word = word(404, "trigger_not_found");
/// The trigger breaks a rule; the message names the field, and the place in an expression.
pub const INVALID_TRIGGER: Word = word(400, "invalid_trigger");
/// The trigger could not be stored.
pub const TRIGGER_UNAVAILABLE: Word = word(503, "trigger_unavailable");
/// The trigger could not be read.
pub const TRIGGER_QUERY_UNAVAILABLE: Word = word(503, "trigger_query_unavailable");
/// No such Run here.
pub const RUN_NOT_FOUND: Word = word(404, "run_not_found");
/// The Run has no Attempt of this number.
pub const ATTEMPT_NOT_FOUND: Word = word(404, "attempt_not_found");
/// The body is not a canonical cancellation.
pub const INVALID_RUN_CANCELLATION: Word = word(400, "invalid_run_cancellation_request");
/// The intent to end a Run could not be stored.
pub const RUN_CANCELLATION_UNAVAILABLE: Word = word(503, "run_cancellation_unavailable");
/// The body is not a canonical request to try a Run again.
pub const INVALID_RUN_RETRY: Word = word(400, "invalid_run_retry_request");
/// The Run has not ended badly; the reason is the state it is in.
pub const RUN_NOT_RETRYABLE: Word = word(409, "run_not_retryable");
/// This subject has tried too many Runs again within a minute.
pub const RUN_RETRY_LIMITED: Word = word(429, "run_retry_limited");
/// The store could not decide whether to try a Run again.
pub const RUN_RETRY_UNAVAILABLE: Word = word(503, "run_retry_unavailable");
/// The body is not a canonical resolution.
pub const INVALID_RUN_RESOLUTION: Word = word(400, "invalid_run_resolution_request");
/// The Run is not one that nobody can decide; the reason says what speaks against it.
pub const RUN_NOT_RESOLVABLE: Word = word(409, "run_not_resolvable");
/// The resolution could not be stored.
pub const RUN_RESOLUTION_UNAVAILABLE: Word = word(503, "run_resolution_unavailable");
/// The evidence could not be read.
pub const RUN_EVIDENCE_UNAVAILABLE: Word = word(503, "run_evidence_unavailable");
/// The Run could not be read.
pub const RUN_QUERY_UNAVAILABLE: Word = word(503, "run_query_unavailable");
/// The Runs could not be listed.
pub const RUN_LIST_UNAVAILABLE: Word = word(503, "run_list_unavailable");
/// The events could not be listed.
pub const RUN_EVENT_LIST_UNAVAILABLE: Word = word(503, "run_event_list_unavailable");
/// No such log here.
pub const ARTIFACT_NOT_FOUND: Word = word(404, "artifact_not_found");
/// The log was removed by retention.
pub const ARTIFACT_RETIRED: Word = word(410, "artifact_retired");
/// The log should be there and is not, or is not safe to read.
pub const ARTIFACT_UNAVAILABLE: Word = word(503, "artifact_unavailable");
/// The secret breaks a rule; the message names the field, never a value.
pub const INVALID_SECRET: Word = word(400, "invalid_secret");
/// No such secret here.
pub const SECRET_NOT_FOUND: Word = word(404, "secret_not_found");
/// The secret could not be stored, deleted or sealed anew.
pub const SECRET_UNAVAILABLE: Word = word(503, "secret_unavailable");
/// The secrets could not be read.
pub const SECRET_QUERY_UNAVAILABLE: Word = word(503, "secret_query_unavailable");
/// The access change breaks a rule; the message names the field.
pub const INVALID_ACCESS: Word = word(400, "invalid_access_request");
/// No such subject or credential.
pub const ACCESS_NOT_FOUND: Word = word(404, "access_not_found");
/// The subject has as many tokens as one may have.
pub const ACCESS_TOO_MANY: Word = word(409, "access_fence_rejected").because("too_many_tokens");
/// The access change could not be stored, or the listing read.
pub const ACCESS_UNAVAILABLE: Word = word(503, "access_unavailable");
/// The audit could not be read.
pub const AUDIT_QUERY_UNAVAILABLE: Word = word(503, "audit_query_unavailable");

/// Why a mutation's fences did not hold. One set for every mutation; the code says which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FenceReason {
    /// Project, role or credential is not what it was at admission.
    AuthorizationChanged,
    /// The task is not at the expected revision or digest.
    DefinitionChanged,
    /// The task is switched off.
    TaskDisabled,
    /// The task can never be executed here.
    TaskNotExecutable,
    /// The trigger belongs to another task and never moves.
    TaskFixed,
    /// The mutation id was used for something else.
    MutationConflict,
    /// The binding or credential is not at the expected version.
    VersionChanged,
    /// Nobody could manage the project any more.
    LastOwner,
}

impl FenceReason {
    /// The stable machine word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AuthorizationChanged => "authorization_changed",
            Self::DefinitionChanged => "definition_changed",
            Self::TaskDisabled => "task_disabled",
            Self::TaskNotExecutable => "task_not_executable",
            Self::TaskFixed => "task_fixed",
            Self::MutationConflict => "mutation_conflict",
            Self::VersionChanged => "version_changed",
            Self::LastOwner => "last_owner",
        }
    }
}

/// A refused secret.
pub const fn secret_fence(reason: FenceReason) -> Word {
    fence("secret_fence_rejected", reason.word())
}

/// A refused task start.
pub const fn task_start_fence(reason: FenceReason) -> Word {
    fence("task_start_fence_rejected", reason.word())
}

/// A refused task definition.
pub const fn task_definition_fence(reason: FenceReason) -> Word {
    fence("task_definition_fence_rejected", reason.word())
}

/// A refused trigger.
pub const fn trigger_fence(reason: FenceReason) -> Word {
    fence("trigger_fence_rejected", reason.word())
}

/// A refused cancellation.
pub const fn run_cancellation_fence(reason: FenceReason) -> Word {
    fence("run_cancellation_fence_rejected", reason.word())
}

/// A refused request to try a Run again.
pub const fn run_retry_fence(reason: FenceReason) -> Word {
    fence("run_retry_fence_rejected", reason.word())
}

/// A refused resolution.
pub const fn run_resolution_fence(reason: FenceReason) -> Word {
    fence("run_resolution_fence_rejected", reason.word())
}

/// A refused access change.
pub const fn access_fence(reason: FenceReason) -> Word {
    fence("access_fence_rejected", reason.word())
}

impl Word {
    /// The same refusal, saying which of several causes.
    #[must_use]
    pub const fn because(self, reason: &'static str) -> Self {
        Self { reason: Some(reason), ..self }
    }
}

/// The command line's exit codes (design D18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The run did not succeed (`--wait`).
    RunFailed = 1,
    /// Wrong usage or invalid input.
    Usage = 2,
    /// Refused: not allowed, not found, changed meanwhile.
    Refused = 3,
    /// Unavailable: no daemon, no store, no space.
    Unavailable = 4,
}

/// The exit code for an HTTP status.
pub const fn exit_code(status: u16) -> Exit {
    match status {
        200..=299 => Exit::Done,
        400 | 411 | 413 | 431 => Exit::Usage,
        500..=599 | 408 => Exit::Unavailable,
        _ => Exit::Refused,
    }
}

// Codes of a Run or Attempt that ended badly (spec/execution section 13). They are stored and shown.

/// The launch failed before anything of the task ran.
pub const EXECUTOR_START_FAILED: &str = "EXECUTOR_START_FAILED";
/// What was to run is not stored whole.
pub const EXECUTION_REVISION_UNAVAILABLE: &str = "EXECUTION_REVISION_UNAVAILABLE";
/// A secret that the task uses is not there or cannot be opened.
pub const SECRET_NOT_OPENED: &str = "SECRET_UNAVAILABLE";
/// The process is gone and left no receipt.
pub const EXITED_WITHOUT_RECEIPT: &str = "RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT";
/// Ownership could not be stored; the process was stopped.
pub const OWNERSHIP_NOT_STORED: &str = "EXECUTOR_OWNERSHIP_NOT_STORED";
/// Nobody could decide it, and somebody called it lost.
pub const RESOLVED_LOST: &str = "RUN_RESOLVED_LOST";
/// It was lost, and nothing tries it again (spec/execution section 13).
pub const LOST_RETRY_DISABLED: &str = "RUN_LOST_RETRY_DISABLED";
/// The log has a hole because writing to it failed.
pub const LOG_WRITE_FAILED: &str = "LOG_WRITE_FAILED";
/// The machine cannot do what the task requires of it (seed 003 section 7).
pub const EXECUTOR_CAPABILITY_UNAVAILABLE: &str = "EXECUTOR_CAPABILITY_UNAVAILABLE";
/// The user or group that the task is to run as is not there.
pub const RUN_AS_UNKNOWN: &str = "RUN_AS_UNKNOWN";
/// The kernel killed something of the task because memory ran out.
pub const OUT_OF_MEMORY: &str = "OUT_OF_MEMORY";
