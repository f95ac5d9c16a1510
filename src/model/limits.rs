//! Every bound of the system, each with its reason. A number that limits something stands here or
//! it is a mistake. Sizes are bytes, times are milliseconds, unless the name says otherwise.

pub use super::profile::Profile;

/// KiB in bytes.
const KIB: u64 = 1024;
/// MiB in bytes.
const MIB: u64 = 1024 * KIB;
/// An hour in milliseconds.
const HOUR_MS: i64 = 3_600_000;
/// A day in milliseconds.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// What differs by profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Attempts that may be claimed, starting or running at once. Each costs a shim and the user's
    /// processes; 4 leave room in 64 PIDs (design D17).
    pub active_attempts: usize,
    /// Runs that may wait; beyond this a start is refused, so that a flood cannot fill the flash.
    pub queued_runs: usize,
    /// SQLite's page cache.
    pub cache_bytes: u64,
    /// The size a rollback journal or WAL is cut back to.
    pub journal_bytes: u64,
    /// Pages of 1 KiB in the WAL before a checkpoint writes them into the database: the more, the
    /// more often a page that changes with every Run is written once for many.
    pub checkpoint_pages: u32,
    /// Threads that run handlers, and connections kept to the HTTP library (design D12).
    pub http_workers: usize,
    /// Client connections open at once at the gate.
    pub connections: usize,
    /// The most one Attempt's log may hold; also bounded by the file system ([`LOG_SHARE_ATTEMPT`]).
    pub attempt_log_bytes: u64,
    /// Free space that must remain on the log file system, unless a tenth of it is less.
    pub log_floor_bytes: u64,
    /// All logs together, unless a tenth of the file system (a sixteenth of memory on tmpfs) is less.
    pub logs_bytes: u64,
    /// The most one log range answer carries.
    pub log_range_bytes: u32,
    /// What a log range answer carries when the caller does not say.
    pub log_range_default_bytes: u32,
    /// Runs the dispatcher reads in one page (spec/execution section 10).
    pub dispatch_page: usize,
    /// Runs whose next Attempt is made in one turn at most (spec/execution section 8.1).
    pub retry_page: usize,
    /// Occurrences of schedules that are decided in one turn at most (spec/execution section 11).
    pub schedule_page: usize,
    /// An occurrence is on time when it is late by no more than this.
    pub schedule_grace_ms: i64,
    /// One subject may try ended Runs again this often a minute (spec/execution section 1.4).
    pub manual_retries_per_minute: u32,
    /// Between two rounds of housekeeping (spec/execution section 4): rare enough not to be noticed
    /// on a router, often enough that one round finds little.
    pub housekeeping_ms: u64,
    /// Receipts or ended Runs that one step of a round takes up (spec/execution section 4).
    pub housekeeping_page: usize,
    /// Log files one turn deletes at most: each costs a sync of its folder, and the loop has
    /// timeouts to keep (spec/execution section 9).
    pub log_deletions: usize,
    /// How long an ended Attempt without a receipt is looked after for a late one, and how long a
    /// receipt that was put aside is kept for people (spec/execution section 4).
    pub receipt_wait_ms: i64,
    /// How long logs are kept when there is space (spec/execution section 9).
    pub log_age_ms: i64,
    /// Free space below which logs are kept for [`LOG_AGE_PRESSED_MS`] only, unless
    /// [`LOG_SHARE_PRESSURE`] of the file system is less (spec/execution section 9).
    pub log_pressure_bytes: u64,
    /// Ended Runs that are kept, the newest ones (design D11).
    pub runs_kept: i64,
    /// How long ended Runs are kept (design D11).
    pub run_age_ms: i64,
    /// Audit rows that are kept for each project, the newest ones (design D11).
    pub audit_kept: usize,
}

/// The router's numbers.
pub const EDGE: Limits = Limits {
    active_attempts: 4,
    queued_runs: 256,
    cache_bytes: MIB,
    journal_bytes: MIB,
    checkpoint_pages: 1024,
    http_workers: 4,
    connections: 32,
    attempt_log_bytes: 4 * MIB,
    log_floor_bytes: 32 * MIB,
    logs_bytes: 16 * MIB,
    log_range_bytes: 32 * 1024,
    log_range_default_bytes: 16 * 1024,
    dispatch_page: 4,
    retry_page: 2,
    schedule_page: 4,
    schedule_grace_ms: 30_000,
    manual_retries_per_minute: 4,
    housekeeping_ms: 5 * 60_000,
    housekeeping_page: 8,
    log_deletions: 2,
    receipt_wait_ms: DAY_MS,
    log_age_ms: 7 * DAY_MS,
    log_pressure_bytes: 64 * MIB,
    runs_kept: RUNS_KEPT,
    run_age_ms: RUN_AGE_MS,
    audit_kept: AUDIT_KEPT,
};

/// The small server's numbers.
pub const STANDALONE: Limits = Limits {
    active_attempts: 32,
    queued_runs: 4096,
    cache_bytes: 8 * MIB,
    journal_bytes: 8 * MIB,
    checkpoint_pages: 4096,
    http_workers: 8,
    connections: 128,
    attempt_log_bytes: 64 * MIB,
    log_floor_bytes: 256 * MIB,
    logs_bytes: 1024 * MIB,
    log_range_bytes: 32 * 1024,
    log_range_default_bytes: 32 * 1024,
    dispatch_page: 16,
    retry_page: 16,
    schedule_page: 16,
    schedule_grace_ms: 300_000,
    manual_retries_per_minute: 16,
    housekeeping_ms: 60_000,
    housekeeping_page: 32,
    log_deletions: 8,
    receipt_wait_ms: HOUR_MS,
    log_age_ms: 30 * DAY_MS,
    log_pressure_bytes: 256 * MIB,
    runs_kept: RUNS_KEPT,
    run_age_ms: RUN_AGE_MS,
    audit_kept: AUDIT_KEPT,
};

// ---- Values on the wire -------------------------------------------------------------------------

/// JSON nesting: the deepest shape we have is 5 deep; 12 is what spec/control section 3 grants.
pub const JSON_DEPTH_MAX: usize = 12;
/// JSON values in one text. 256 variables of four values each beside 256 arguments take 1,300, so the
/// 1,024 of spec/control section 3 would keep a task from its own documented bounds.
pub const JSON_NODES_MAX: usize = 2048;
/// Entries in one list or object. Above every field's own bound, so that one entry too many is refused
/// by the field's name.
pub const JSON_ENTRIES_MAX: usize = 512;
/// One string. Above every field's own bound for the same reason.
pub const JSON_STRING_BYTES_MAX: usize = 64 * 1024;
/// A whole task spec in canonical form (spec/control section 3).
pub const SPEC_BYTES_MAX: usize = 64 * 1024;
/// Revisions count 1..=2147483647 (spec/control section 0).
pub const REVISION_MAX: i64 = 2_147_483_647;
/// Times are epoch milliseconds that a double still holds exactly (spec/control section 0).
pub const TIME_MS_MAX: i64 = (1 << 53) - 1;
/// A task's display name; two lines of a terminal.
pub const TITLE_BYTES_MAX: usize = 256;
/// A task's description; a paragraph.
pub const DESCRIPTION_BYTES_MAX: usize = 2048;
/// A schedule's expression: six fields with long lists fit.
pub const CRON_BYTES_MAX: usize = 256;
/// Instants that a preview shows at most.
pub const PREVIEW_MAX: usize = 1_000;
/// A zone's name or POSIX string.
pub const ZONE_BYTES_MAX: usize = 64;
/// Runs that may follow from one another, each started by the end of the one before (design D10).
pub const CHAIN_DEPTH_MAX: i64 = 8;
/// Labels of one task (spec/control section 3).
pub const LABELS_MAX: usize = 32;
/// One label's name.
pub const LABEL_NAME_BYTES_MAX: usize = 64;
/// One label's value (spec/control section 3).
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
/// A subject's id (spec/control section 0).
pub const SUBJECT_ID_BYTES_MAX: usize = 255;
/// An event's payload: identities, digests and codes only, so small.
pub const EVENT_PAYLOAD_BYTES_MAX: usize = 1024;

// ---- Commands -----------------------------------------------------------------------------------

/// Arguments of one command, the program not counted (spec/execution section 3).
pub const ARGS_MAX: usize = 256;
/// One argument, or a shell's text (spec/control section 3: a string of a spec).
pub const ARG_BYTES_MAX: usize = 16 * 1024;
/// Program and arguments together, each with its NUL (spec/execution section 3).
pub const COMMAND_BYTES_MAX: usize = 64 * 1024;
/// Environment entries a task may define (spec/control section 3).
pub const ENV_ENTRIES_MAX: usize = 256;
/// Names and values a task may define, together (spec/control section 3).
pub const ENV_BYTES_MAX: usize = 64 * 1024;
/// One environment value (spec/control section 3: a string of a spec).
pub const ENV_VALUE_BYTES_MAX: usize = 16 * 1024;
/// An absolute path, NUL included (`PATH_MAX` of limits.h).
pub const PATH_BYTES_MAX: usize = 4096;
/// A timeout: 365 days (spec/execution section 3).
pub const TIMEOUT_MS_MAX: i64 = 365 * 86_400_000;
/// Between TERM and KILL when the task does not say (design D14).
pub const GRACE_MS_DEFAULT: i64 = 5_000;
/// Between TERM and KILL at most, so that a stop always ends (design D14).
pub const GRACE_MS_MAX: i64 = 300_000;
/// Attempts of one Run in all, at most (design D14): a Run that never works ends some day.
pub const ATTEMPTS_MAX: i64 = 10;
/// Before the second Attempt when the task does not say.
pub const RETRY_DELAY_MS_DEFAULT: i64 = 1_000;
/// Before another Attempt at most: whoever waits longer wants a schedule.
pub const RETRY_DELAY_MS_MAX: i64 = DAY_MS;
/// The smallest log a task may ask for (spec/execution section 9).
pub const LOG_BYTES_MIN: i64 = 64 * 1024;
/// The largest log a task may ask for (spec/execution section 9).
pub const LOG_BYTES_MAX: i64 = 1024 * 1024 * 1024;
/// What the shim is told in one piece: command, environment and paths, with room for lengths.
pub const ORDERS_BYTES_MAX: usize = 512 * 1024;

// ---- Processes ----------------------------------------------------------------------------------

/// From fork to `ready`. Only exec and a few system calls; a router with slow flash needs seconds.
pub const LAUNCH_MS_MAX: u64 = 10_000;
/// After the main process ends, how long output and leftovers may go on (design D6).
pub const DRAIN_GRACE_MS: u64 = 2_000;
/// After KILL, how long the end of a process is waited for (design D17).
pub const KILL_WAIT_MS: u64 = 2_000;
/// KILLs, each followed by [`KILL_WAIT_MS`], after which a process that stays is shown as unkillable and
/// tried more and more rarely: what KILL does not end waits in the kernel for a disk or a freezer.
pub const KILL_ROUNDS: u32 = 3;
/// Between two KILLs of something unkillable at most: soon enough once the kernel lets it go, and no load
/// on a router whose disk has died.
pub const KILL_PAUSE_MS_MAX: u64 = 60_000;
/// Sweeps after a killed shim, in quick succession, after which what stays is treated as unkillable: a
/// process that was just killed is gone in one of them.
pub const SWEEP_ROUNDS: u32 = 40;
/// Sweeps that must say one after the other that something may have got away, before that is believed: a
/// process that is just ending shows no environment either.
pub const UNPROVEN_ROUNDS: u32 = 3;
/// How long a daemon that is told to stop waits for its tasks, to end by themselves or in the grace
/// of their stop: less than the 90 s after which systemd kills a service unless its unit says otherwise.
pub const STOP_MS_MAX: u64 = 60_000;
/// From SIGTERM to the daemon's end at most: accepted requests, running tasks, their KILL, half-done
/// starts and what the store still has to write. Every init script waits longer before it kills.
pub const STOP_BOUND_MS: u64 = HTTP_DRAIN_MS + STOP_MS_MAX + 2 * KILL_WAIT_MS + LAUNCH_MS_MAX + STORE_WAIT_MS;
/// Looks at /proc for new descendants in one stop (design D6).
pub const CLOSURE_PASSES_MAX: usize = 20;
/// A durable handle's text (design D5).
pub const HANDLE_BYTES_MAX: usize = 128;
/// A receipt's text (spec/execution section 4).
pub const RECEIPT_BYTES_MAX: usize = 4096;
/// Launches waiting for the launcher; more than the active Attempts of either profile.
pub const LAUNCH_QUEUE: usize = 64;
/// Launches under way at once: as many as a router's active Attempts. Each is a fork of the daemon
/// whose shim is not yet held, with three descriptors.
pub const LAUNCHES_TOGETHER_MAX: usize = 4;
/// The launcher's stack: a fork and a few pipes, no recursion.
pub const LAUNCHER_STACK_BYTES: usize = 128 * 1024;
/// The stack of a shim's process until it executes: a few calls, the largest buffer a page of directory
/// entries. It lies on the launcher's.
pub const SHIM_STACK_BYTES: usize = 16 * 1024;
/// PIDs that must be free before a launch: shim, user process and a few of its own (design D17).
pub const PIDS_FREE_MIN: u64 = 8;
/// Descriptors that the daemon needs besides one for each client connection: its own files and sockets,
/// and the pipes of a start.
pub const DESCRIPTORS_OWN: u64 = 32;
/// Memory that must be free before a launch (design D17).
pub const MEMORY_FREE_MIN: u64 = 8 * MIB;
/// The space floor of the state folder, unless [`STATE_FLOOR_SHARE`] of it is more (design D11).
pub const STATE_FLOOR_BYTES: u64 = 512 * KIB;
/// One part in this many of the state's file system stays free (5 %, design D11).
pub const STATE_FLOOR_SHARE: u64 = 20;
/// The state's floor at most. A share of a big disk would keep a server that is 96 % full, with
/// gigabytes left, from running anything; what the state needs is bounded by its journal.
pub const STATE_FLOOR_BYTES_MAX: u64 = 64 * MIB;
/// One Attempt's log takes at most one part in this many of its file system (5 %, design D11).
pub const LOG_SHARE_ATTEMPT: u64 = 20;
/// The log floor is at most one part in this many of the log file system (10 %, design D11).
pub const LOG_SHARE_FLOOR: u64 = 10;
/// While something waits for pids, memory or disk, how often it is looked at again.
pub const WAIT_RECHECK_MS: u64 = 5_000;

// ---- Store --------------------------------------------------------------------------------------

/// Requests waiting for the store thread; beyond this a caller is told it is busy (design D2).
pub const STORE_QUEUE: usize = 256;
/// Requests committed together (design D2).
pub const STORE_BATCH: usize = 16;
/// How long a caller waits for the store. Slow flash syncs take tens of milliseconds; a batch of
/// 16 behind a checkpoint takes seconds at worst.
pub const STORE_WAIT_MS: u64 = 15_000;
/// The store thread's stack: SQLite's parser and b-tree code and one JSON text; only touched pages count.
pub const STORE_STACK_BYTES: usize = 512 * 1024;
/// A database file up to this size is checked page by page at each start; a larger one would hold
/// up the boot of a router with slow flash, and is checked at its schema and as it is read.
pub const STORE_CHECK_BYTES_MAX: u64 = 8 * MIB;
/// SQL statements kept compiled: all that a Run's life needs, some fifty, about 120 KiB.
pub const STORE_STATEMENTS: usize = 64;
/// How long SQLite waits for a lock that it should never meet, because the state's lock is ours.
pub const STORE_BUSY_MS: u64 = 1_000;
/// Runs that may be dispatching or running at start (spec/execution section 7).
pub const RECOVERY_CANDIDATES_MAX: usize = 256;
/// How long the start may take to settle what was under way; the rest goes on by turns.
pub const RECOVERY_MS_MAX: u64 = 10_000;
/// Rows in one page of a list when the caller does not say (spec/control section 6).
pub const PAGE_DEFAULT: usize = 32;
/// Rows in one page of a list at most (spec/control section 6).
pub const PAGE_MAX: usize = 64;
/// Tokens that one subject may have at once: a few programs, and some being replaced. Fewer than a page
/// shows, so that a list never hides one that works.
pub const TOKENS_PER_SUBJECT_MAX: usize = 32;
/// Tokens whose use is noted on one day: more than a router has. Each id is kept in memory for the day.
pub const NOTED_TOKENS_MAX: usize = 1_024;
/// The shortest life of a token that expires.
pub const TOKEN_LIFE_MS_MIN: i64 = 1_000;
/// The longest life of a token that expires; longer is meant to be without end.
pub const TOKEN_LIFE_MS_MAX: i64 = 3_650 * DAY_MS;
/// Rows in one page of the audit at most (spec/control section 2).
pub const AUDIT_PAGE_MAX: usize = 64;
/// Receipts resolved along with one completion.
pub const RESOLVED_MAX: usize = 64;

// ---- Retention ----------------------------------------------------------------------------------

/// How long logs are kept when space is short (spec/execution section 9).
pub const LOG_AGE_PRESSED_MS: i64 = DAY_MS;
/// Space is short at the latest when one part in this many is free (20 %): a little before a start
/// would have to wait, which needs [`LOG_SHARE_FLOOR`] and [`LOG_SHARE_ATTEMPT`] of it.
pub const LOG_SHARE_PRESSURE: u64 = 5;
/// All logs together take at most one part in this many of their file system (10 %, design D11).
pub const LOG_SHARE_TOTAL: u64 = 10;
/// In memory they take at most one part in this many of all memory (design D11).
pub const LOG_SHARE_MEMORY: u64 = 16;
/// Ended Runs whose logs are looked at in one step; a look is two system calls a log.
pub const LOG_PAGE: usize = 64;
/// Ended Runs that are kept, the newest ones, when nothing else is set (design D11).
pub const RUNS_KEPT: i64 = 10_000;
/// How long ended Runs are kept when nothing else is set (design D11).
pub const RUN_AGE_MS: i64 = 90 * DAY_MS;
/// Lost Runs that stay lost, the newest ones: nobody may ever settle them, and each keeps its rows and its
/// log. Those beyond are closed as failed, so that they age like every ended Run.
pub const LOST_RUNS_KEPT: usize = 256;
/// Audit rows that are kept for each project when nothing else is set, the newest ones (design D11).
pub const AUDIT_KEPT: usize = 10_000;
/// Audit rows that one transaction removes.
pub const AUDIT_TRIM_PAGE: usize = 64;
/// No clock is right that stands before this: long before this was written. A build may know better, see
/// `schedule::trust`.
pub const WRITTEN_AT_MS: i64 = 1_735_689_600_000;
/// A clock that nobody vouches for is believed so long after boot (design D9): a time server that is
/// there has answered by then.
pub const CLOCK_SETTLED_MS: u64 = 10 * 60_000;
/// The wall clock may step so far without being doubted: a day's and a time zone's mistake (design D9).
pub const CLOCK_STEP_MS_MAX: i64 = 25 * HOUR_MS;
/// After a wider step forward nothing is deleted for its age so long (design D9).
pub const CLOCK_PAUSE_MS: u64 = 24 * 3_600_000;
/// A wall clock that is set back by less than this repeats nothing: schedules wait until it has caught
/// up, as cron(8) does. By more, it was wrong before, and they are computed anew.
pub const CLOCK_SET_BACK_MS: i64 = 3 * HOUR_MS;
/// Between two looks whether a wall clock that is not believed has been put right.
pub const CLOCK_UNTRUSTED_RECHECK_MS: u64 = 10_000;

// ---- HTTP ---------------------------------------------------------------------------------------

/// Request line and headers (design D12).
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// A whole request, head and body (design D12).
pub const REQUEST_BYTES_MAX: usize = 128 * 1024;
/// From accept to the end of the head (design D12).
pub const HEAD_MS_MAX: u64 = 5_000;
/// From accept to the end of the body (design D12).
pub const REQUEST_MS_MAX: u64 = 15_000;
/// All of the gate's buffers together (design D12).
pub const GATE_BYTES_MAX: usize = 1024 * 1024;
/// A whole request waits this long for a worker, then 503 (design D12).
pub const UPSTREAM_WAIT_MS: u64 = 2_000;
/// A worker may take this long to answer; longer than the store's own bound.
pub const ANSWER_MS_MAX: u64 = 30_000;
/// A client may take this long to read its answer (design D12: slow readers are bounded).
pub const DELIVER_MS_MAX: u64 = 15_000;
/// After an early answer, how long what the client still sends is thrown away, so that closing does
/// not reset the connection under the answer (RFC 9112 section 9.6).
pub const LINGER_MS_MAX: u64 = 2_000;
/// What is thrown away at most in that time.
pub const LINGER_BYTES_MAX: usize = 256 * 1024;
/// One read or write of the gate; the only buffer that is not a connection's own.
pub const GATE_CHUNK_BYTES: usize = 16 * 1024;
/// What the kernel may hold of an answer to a TCP client that does not read (it doubles this).
pub const SEND_BUFFER_BYTES: u16 = 16 * 1024;
/// Connections taken from one listener in a turn, so that those already here are read in between.
pub const ACCEPTS_PER_TURN: usize = 16;
/// After accept failed for want of descriptors or memory, how long the listeners rest.
pub const ACCEPT_PAUSE_MS: u64 = 100;
/// Between two tries to reopen a broken connection to the HTTP library.
pub const REOPEN_MS: u64 = 1_000;
/// The head of a worker's answer: a status line and five short headers.
pub const UPSTREAM_HEAD_BYTES_MAX: usize = 1024;
/// The stack of a thread that runs handlers: JSON of bounded depth and no recursion besides.
pub const HTTP_STACK_BYTES: usize = 256 * 1024;
/// The gate's stack: one chunk and shallow calls.
pub const GATE_STACK_BYTES: usize = 128 * 1024;
/// At the end of serving, how long accepted requests may finish (design D17).
pub const HTTP_DRAIN_MS: u64 = 5_000;
/// An answer's body (spec/execution section 12).
pub const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// The body of task.start and run.cancel (seed 376).
pub const MUTATION_BODY_BYTES_MAX: usize = 512;
/// The body of a task PUT: a spec, its description and labels, with JSON's escapes.
pub const TASK_BODY_BYTES_MAX: usize = 112 * 1024;
/// The body of an access change: a subject's id with every character escaped as `\u0000`, and room
/// for the rest.
pub const ACCESS_BODY_BYTES_MAX: usize = 2048;
/// One part of a query: a subject of 266 bytes as base64url, the longest cursor, takes 355.
pub const QUERY_VALUE_BYTES_MAX: usize = 400;
/// What is left of [`RESPONSE_BYTES_MAX`] for the items of a page, or one record, after what stands
/// around them.
pub const RESPONSE_ITEMS_BYTES_MAX: usize = RESPONSE_BYTES_MAX - 1024;
/// The words of a refusal. They repeat names from the request, which can be long.
pub const MESSAGE_BYTES_MAX: usize = 512;
/// A rejection of one reason is written at most this often (design D13).
pub const REJECTION_FOLD_MS: u64 = 60_000;

// ---- Schedules ----------------------------------------------------------------------------------

/// A file of the system's zone data; the largest there are have 4 KiB.
pub const ZONE_FILE_BYTES_MAX: u64 = 64 * KIB;
/// Changes of offset that are looked back at to know which local times were already there when an
/// offset began. Two within two days have never happened; a POSIX string can ask for more.
pub const ZONE_LOOK_BACK: usize = 8;

// ---- The command line ---------------------------------------------------------------------------

/// How long the command line waits for one answer; longer than a worker may take, so that the
/// daemon's own refusal arrives first.
pub const CLI_ANSWER_MS_MAX: u64 = ANSWER_MS_MAX + 10_000;
/// How long `--wait` and `--follow` outlast a daemon that is away or overloaded: a restart with
/// recovery on slow flash.
pub const CLI_PATIENCE_MS: u64 = 60_000;
/// How often a read is sent that is cut off while it is sent: the daemon lets connections beyond its bound go
/// unread, and places come free in milliseconds.
pub const CLI_CUT_READS_MAX: u32 = 5;
/// The first pause between two looks at a Run; a short task is reported at once.
pub const CLI_POLL_MS_MIN: u64 = 20;
/// The longest pause between two looks at a Run.
pub const CLI_POLL_MS_MAX: u64 = 500;
/// A token file; a token has about 100 bytes.
pub const CLI_TOKEN_BYTES_MAX: u64 = 1024;
/// A task file given to `task apply`: what a PUT takes, with room for layout.
pub const CLI_TASK_FILE_BYTES_MAX: u64 = 256 * KIB;
/// A crontab given to `import`: hundreds of long lines; busybox crond itself reads 256 lines of a user.
pub const CRONTAB_BYTES_MAX: u64 = 256 * KIB;
/// Lines of a crontab that become tasks: each costs a few requests and rows for good.
pub const CRONTAB_JOBS_MAX: usize = 500;
/// So far ahead a change of the clocks is looked for that a crontab's line would be affected by.
pub const CRONTAB_CHANGE_MS_MAX: i64 = 400 * DAY_MS;
/// Rows of `runs` and `audit` when the caller does not say: one screen.
pub const CLI_ROWS_DEFAULT: usize = 20;
/// Rows of `runs` and `audit` at most: a page costs a request.
pub const CLI_ROWS_MAX: usize = 10_000;
/// Columns of one cell in a table for people.
pub const CELL_COLUMNS_MAX: usize = 60;

// ---- Configuration ------------------------------------------------------------------------------

/// The configuration file. All of its keys with long paths take 10 KiB.
pub const CONFIG_BYTES_MAX: usize = 64 * 1024;
/// A folder's path in the configuration: a quarter of what the kernel takes, so that files below it fit.
pub const FOLDER_BYTES_MAX: usize = 1024;
/// How long one look of `doctor` may take. A dead network file system never answers.
pub const DOCTOR_LOOK_MS: u64 = 3_000;
/// How long all of them may take together.
pub const DOCTOR_MS: u64 = 10_000;

// What must hold between the numbers, so that a changed one cannot break another unseen.
const _: () = {
    assert!(HEAD_BYTES_MAX + TASK_BODY_BYTES_MAX <= REQUEST_BYTES_MAX);
    assert!(SPEC_BYTES_MAX <= TASK_BODY_BYTES_MAX);
    assert!(ACCESS_BODY_BYTES_MAX >= SUBJECT_ID_BYTES_MAX * 6 + 256);
    assert!(QUERY_VALUE_BYTES_MAX > (SUBJECT_ID_BYTES_MAX + 11) * 4 / 3);
    assert!(REQUEST_BYTES_MAX * 4 <= GATE_BYTES_MAX);
    assert!(GATE_CHUNK_BYTES * 4 <= GATE_STACK_BYTES);
    assert!(COMMAND_BYTES_MAX + RESOLVED_ENV_BYTES_MAX + ENV_BYTES_MAX + INHERITED_ENV_BYTES_MAX <= ORDERS_BYTES_MAX);
    assert!(SECRET_BODY_BYTES_MAX <= REQUEST_BYTES_MAX);
    assert!(STORE_BATCH <= STORE_QUEUE);
    assert!(STANDALONE.active_attempts <= LAUNCH_QUEUE);
    assert!(STORE_WAIT_MS < ANSWER_MS_MAX);
    assert!(HEAD_MS_MAX < REQUEST_MS_MAX);
    assert!(PAGE_DEFAULT <= PAGE_MAX);
    assert!(TOKENS_PER_SUBJECT_MAX < PAGE_MAX);
    assert!(STANDALONE.housekeeping_page <= RESOLVED_MAX);
    assert!(LOG_AGE_PRESSED_MS <= EDGE.log_age_ms);
    assert!(LOG_SHARE_PRESSURE < LOG_SHARE_FLOOR);
    assert!(ANSWER_MS_MAX < CLI_ANSWER_MS_MAX);
    assert!(EDGE.active_attempts < EDGE.queued_runs);
    assert!(EDGE.http_workers < EDGE.connections);
    assert!(STANDALONE.http_workers < STANDALONE.connections);
    assert!(EDGE.log_range_bytes as usize * 4 / 3 + 1024 < RESPONSE_BYTES_MAX);
};

// ---- Secrets ------------------------------------------------------------------------------------

/// A secret's value (spec/control section 5). It has to fit one environment variable.
pub const SECRET_BYTES_MAX: usize = 16 * 1024;
/// Secrets of one project; a router's tasks use a handful.
pub const SECRETS_MAX: usize = 256;
/// Versions kept of one secret: the current one, and a few that tasks may still name.
pub const SECRET_VERSIONS_MAX: i64 = 4;
/// Secrets one task may use (spec/control section 5).
pub const SECRET_REFS_MAX: usize = 64;
/// A value shorter than this is not looked for in output: it would blot out ordinary words.
pub const REDACT_BYTES_MIN: usize = 6;
/// An environment with its secrets put in (spec/control section 3).
pub const RESOLVED_ENV_BYTES_MAX: usize = 256 * 1024;
/// The keyring's file (spec/control section 5).
pub const KEYRING_BYTES_MAX: usize = 16 * 1024;
/// Keys in the keyring (spec/control section 5).
pub const KEYRING_KEYS_MAX: usize = 16;
/// Envelopes sealed anew in one transaction: at most 256 KiB of values.
pub const REKEY_PAGE: usize = 16;
/// The body that carries a secret: every character of the value escaped, and what stands around it.
pub const SECRET_BODY_BYTES_MAX: usize = 6 * SECRET_BYTES_MAX + 1024;

// ---- What a task may ask of the machine ---------------------------------------------------------

/// The least memory a task may be held to: a shell needs about this much to say that it has too little.
pub const TASK_MEMORY_BYTES_MIN: i64 = 1024 * 1024;
/// The most, far beyond any machine; what is more would be no limit.
pub const TASK_MEMORY_BYTES_MAX: i64 = 1 << 50;
/// The most processes and threads a task may be held to: what Linux can count (`PID_MAX_LIMIT`).
pub const TASK_PIDS_MAX: i64 = 4_194_304;
/// The most processor time a task may be held to, in percent of one core: 1,024 cores.
pub const TASK_CPU_PERCENT_MAX: i64 = 102_400;
/// Over this time a share of the processor is counted: the kernel's own default.
pub const CPU_PERIOD_US: i64 = 100_000;
/// A user's or group's name: what `useradd` takes is 32, a directory service may have longer ones.
pub const ACCOUNT_BYTES_MAX: usize = 64;
/// Further groups of a user that a task runs as; who is in more keeps these (`NGROUPS_MAX` was 32 once).
pub const SUPPLEMENTARY_GROUPS_MAX: usize = 64;
/// The daemon's own environment, as far as a task may inherit it.
pub const INHERITED_ENV_BYTES_MAX: usize = 64 * 1024;
/// How ready the out-of-memory killer is to take the daemon and its shims (-1000..=1000): after
/// everything else, and still not never, because one that has gone wrong should be taken then.
pub const OWN_OOM_SCORE_ADJ: i32 = -900;
/// Groups of Attempts that are gone, looked at in one go of housekeeping.
pub const STALE_GROUPS_PAGE: usize = 64;
/// How often a group that has just become empty is tried to be removed: the kernel may take a moment.
pub const GROUP_REMOVE_TRIES: u32 = 20;
/// Between two such tries.
pub const GROUP_REMOVE_PAUSE_MS: u64 = 5;

// ---- Backup and check ---------------------------------------------------------------------------

/// Pages copied at once: 64 KiB, so that whoever wants the store waits for a few milliseconds at most.
pub const BACKUP_STEP_PAGES: i32 = 64;
/// Pages that a copy's target keeps in memory, in KiB.
pub const BACKUP_CACHE_KIB: u32 = 256;
/// Bytes of a copy in one answer; base64 makes 60 KiB of them.
pub const BACKUP_PIECE_BYTES: usize = 45 * 1024;
/// A copy that nobody has asked for since is given up, and its space with it.
pub const BACKUP_IDLE_MS: u64 = 60_000;
/// What stands behind the database in a backup: the keyring, and 4 KiB of words.
pub const BACKUP_TRAILER_BYTES_MAX: usize = KEYRING_BYTES_MAX + 4 * 1024;
/// Old states kept beside a restored one: names are counted up to this.
pub const RESTORES_KEPT_MAX: u32 = 1_000;
/// Rows that one step of a check reads; a definition may have 64 KiB.
pub const CHECK_PAGE: usize = 32;
/// Logs that one step of a check looks for.
pub const CHECK_LOGS_PAGE: usize = 256;
/// Files of one part of the log folder that a check holds in memory: more are not looked at, and it says so.
pub const CHECK_FILES_MAX: usize = 65_536;
/// After so long a step of a check begins nothing more.
pub const CHECK_STEP_MS: u64 = 100;
/// Findings that one step tells of one by one; the rest is counted.
pub const CHECK_FINDINGS_MAX: usize = 16;
/// The largest store whose pages are read through while it is served: a table at once, and nobody else
/// comes to the store meanwhile. A router reads 16 MiB in about a second.
pub const CHECK_SERVED_BYTES_MAX: u64 = 16 * MIB;

const _: () = {
    assert!(BACKUP_PIECE_BYTES * 4 / 3 + 1024 < RESPONSE_BYTES_MAX);
    // A text of base64 must end with its piece.
    assert!(BACKUP_PIECE_BYTES.is_multiple_of(3));
};
