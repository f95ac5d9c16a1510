//! The operating system as the protocol sees it. The real one is `linux.rs`; tests drive the same
//! protocol with a simulated one.
//!
//! Nothing here may block for longer than a file read: what takes time answers through a reply.

use super::board::WaitReason;
use crate::access::seal::Value;
use crate::model::command::{Command, Leftovers};
use crate::model::confinement::Confinement;
use crate::model::id::{AttemptId, RunId, Uuid};
use crate::model::name::Name;
use crate::model::record::End;
use crate::model::secret::{Envelope, SecretRef};
use crate::store::start::Cause;
use std::path::PathBuf;

/// The clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Epoch milliseconds; may jump.
    pub wall_ms: i64,
    /// Milliseconds since boot, suspend included; never jumps (`CLOCK_BOOTTIME`).
    pub boot_ms: u64,
}

/// A log that is there and empty or goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogGrant {
    /// Its artifact id.
    pub artifact: String,
    /// The private folder it lies in.
    pub folder: PathBuf,
    /// The most it may hold.
    pub bytes_max: u64,
}

/// Everything one launch needs. No `Debug`: it holds the token and the environment.
pub struct Launch {
    /// The Run.
    pub run: RunId,
    /// Its Attempt.
    pub attempt: AttemptId,
    /// The callback token in plain. It goes to the shim and into the receipt, nowhere else.
    pub token: [u8; 32],
    /// Where output goes.
    pub log: LogGrant,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Where to start; `/` when absent.
    pub working_directory: Option<String>,
    /// Between TERM and KILL for what the main process leaves behind.
    pub grace_ms: i64,
    /// What becomes of that when the main process ended by itself.
    pub leftovers: Leftovers,
    /// Which variables hold a secret: the variable's name and the secret's.
    pub secrets: Vec<(String, Name)>,
    /// Whether their values are replaced in the log.
    pub redact: bool,
    /// How it is held apart from the rest of the machine.
    pub confinement: Confinement,
}

/// Why this machine cannot run a task at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The machine word.
    pub code: &'static str,
    /// What is missing and why, in words.
    pub summary: String,
}

/// Why secrets could not be opened: what went wrong, and with which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The keyring cannot be used; the words say why and what to do.
    Keyring(String),
    /// The keyring has no key for this one; it may have been sealed anew a moment ago.
    UnknownKey(Name),
    /// This one is damaged.
    Damaged(Name),
}

/// A shim that has done everything that can fail and holds the user's program back. Dropping it
/// lets the shim end without running anything.
pub trait Hold: Send {
    /// The durable handle's text.
    fn handle(&self) -> String;
    /// The shim's pid, the same as the handle's.
    fn pid(&self) -> i32;
    /// Lets the user's program run. `false`: the shim is gone, nothing ran.
    fn release(self: Box<Self>) -> bool;
}

/// Why a launch failed before ownership: in words, without command, environment or path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFailure(pub String);

/// What is known about the process behind a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inspection {
    /// It lives and is the very same.
    Running,
    /// It is gone, or its pid belongs to another now.
    NotRunning,
    /// The handle cannot be read.
    Invalid,
    /// Nothing can be said.
    Unavailable,
}

/// What became of a signal to exactly one process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// The identity was verified and the signal was delivered.
    Sent,
    /// There was nothing left to signal.
    AlreadyExited,
    /// Not verified, so not signalled.
    Unknown,
}

/// The two steps of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM to the handle's group.
    Term,
    /// SIGKILL to the handle's group.
    Kill,
}

/// A receipt as far as the protocol needs it.
#[derive(Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The Run it names.
    pub run: RunId,
    /// The Attempt it names.
    pub attempt: AttemptId,
    /// Its sequence; 1 for the first.
    pub sequence: i64,
    /// The token it proves itself with.
    pub token: [u8; 32],
    /// When user code was released.
    pub started_at_ms: i64,
    /// When it had ended.
    pub finished_at_ms: i64,
    /// How it ended.
    pub end: End,
}

/// What a sweep after a killed shim gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// Nothing of it was left.
    Empty,
    /// Nothing was left to be killed, and something may have got away.
    Unproven,
    /// Something was left and is being killed: look again.
    Found,
    /// It could not be looked for.
    Unknown,
}

/// What reading a receipt gave.
#[derive(Clone, PartialEq, Eq)]
pub enum ReceiptRead {
    /// It is there and well formed.
    Found(Receipt),
    /// There is none.
    Absent,
    /// Something is there that is no receipt; the word says what.
    Invalid(&'static str),
    /// Reading failed for now.
    Unavailable,
}

/// What became of clearing a receipt away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleared {
    /// It was there and is deleted.
    Deleted,
    /// There was none.
    Absent,
    /// It could not be deleted.
    Failed,
}

/// The file system of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpace {
    /// Bytes that may still be written.
    pub free_bytes: u64,
    /// Bytes altogether.
    pub total_bytes: u64,
    /// All memory, when it is what the logs lie in.
    pub memory_bytes: Option<u64>,
}

/// What a log was before it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRemoved {
    /// How long it was; 0 when it was already gone.
    pub bytes: u64,
    /// What it took of the file system.
    pub taken_bytes: u64,
    /// Whether output had been cut at the cap; `None` when nobody had said.
    pub truncated: Option<bool>,
}

/// Answers a launch; may be called from another thread.
pub type LaunchReply = Box<dyn FnOnce(Result<Box<dyn Hold>, LaunchFailure>) + Send>;

/// The operating system.
pub trait Host {
    /// Reads the clocks.
    fn now(&self) -> Now;
    /// Fills a buffer with random bytes. `false`: there are none, so nothing may start.
    fn random(&self, buffer: &mut [u8]) -> bool;
    /// Whether one more task fits: PIDs, memory, space.
    fn room(&self) -> Result<(), WaitReason>;
    /// Why a task cannot be run here; `None`: it can. A host that has everything says nothing.
    fn unfit(&self, _: &Command) -> Option<Unfit> {
        None
    }
    /// Removes what limited Attempts that nobody knows any more.
    fn clear_groups(&self, _is_known: &dyn Fn(AttemptId) -> bool) {}
    /// Makes an Attempt's log, or finds it again; checks space first. `None`: no space for it now.
    fn allocate_log(&self, run: RunId, attempt: AttemptId, wanted_bytes: Option<i64>) -> Option<LogGrant>;
    /// The environment of one launch (design D14).
    fn environment(&self, candidate: &EnvironmentOf<'_>) -> Vec<(String, String)>;
    /// Opens what is sealed, in the order given. Reads the keyring anew each time.
    fn open_secrets(&self, envelopes: &[Envelope]) -> Result<Vec<Value>, NotOpened>;
    /// Starts a shim up to its hold.
    fn launch(&self, launch: Launch, reply: LaunchReply);
    /// Looks at a handle's process; never signals.
    fn inspect(&self, handle: &str, pid: i32) -> Inspection;
    /// This boot's identity. `None`: it cannot be read, and no deadline outlives the daemon.
    fn boot(&self) -> Option<Uuid>;
    /// Verifies a handle's whole identity, then ends everything below its process, but not itself:
    /// how many were ended; `None`: not verified or nothing to be seen.
    fn kill_descendants(&self, handle: &str) -> Option<usize>;
    /// Verifies a handle's whole identity, then signals its group; after TERM also CONT, so that a
    /// stopped one hears it.
    fn signal(&self, handle: &str, stop: Stop) -> Signalled;
    /// Ends what is left of the session that a handle's process led, after that process was proven
    /// gone.
    fn sweep(&self, handle: &str, run: RunId) -> Swept;
    /// From now on [`reap`](Self::reap) also tells of the end of this process, which an earlier daemon
    /// started. `false`: it cannot, so the process has to be looked at.
    fn watch(&self, attempt: AttemptId, handle: &str) -> bool;
    /// Reaps children and tells whose shims they were, and which watched processes have ended.
    fn reap(&self) -> Vec<AttemptId>;
    /// From now on [`published`](Self::published) tells of this Attempt's receipt; one that is there
    /// already has to be read after this. `false`: it cannot, so the receipt has to be looked for.
    fn watch_receipt(&self, attempt: AttemptId) -> bool;
    /// Tells of this Attempt's receipt no more.
    fn forget_receipt(&self, attempt: AttemptId);
    /// Tells whose receipts have come that were to be told of.
    fn published(&self) -> Vec<AttemptId>;
    /// Reads an Attempt's receipt.
    fn read_receipt(&self, attempt: AttemptId) -> ReceiptRead;
    /// Deletes an Attempt's receipt; one that is not there counts as deleted.
    fn delete_receipt(&self, attempt: AttemptId) -> bool;
    /// Moves what lies in a receipt's place out of the way.
    fn quarantine_receipt(&self, attempt: AttemptId) -> bool;
    /// Whether something keeps the wall clock right, as far as the kernel knows.
    fn clock_synchronised(&self) -> bool;
    /// Deletes an ended Attempt's receipt, published or begun, and says whether one was there.
    fn clear_receipt(&self, attempt: AttemptId) -> Cleared;
    /// Deletes what was put aside for an Attempt. `false`: it could not be done now.
    fn purge_receipt(&self, attempt: AttemptId) -> bool;
    /// The space where the logs lie. `None`: it cannot be told now.
    fn log_space(&self) -> Option<LogSpace>;
    /// What a log takes of its file system. `None`: it is not there.
    fn log_taken_bytes(&self, artifact: &str) -> Option<u64>;
    /// Removes the log of an Attempt that will never be started, which no row knows of. What cannot be
    /// removed stays, empty.
    fn discard_log(&self, run: RunId, attempt: AttemptId);
    /// Removes an ended Attempt's log for good. `None`: it could not be done, and it stays.
    fn remove_log(&self, artifact: &str) -> Option<LogRemoved>;
    /// Dies here when a test asked for it; debug builds only.
    fn crash_point(&self, name: &'static str);
}

/// What an environment depends on.
pub struct EnvironmentOf<'a> {
    /// The Run.
    pub run: RunId,
    /// 1, 2, ...
    pub attempt_number: i64,
    /// The task.
    pub task: &'a Name,
    /// The trigger, if one made the Run.
    pub trigger: Option<&'a str>,
    /// The instant it was scheduled for.
    pub scheduled_for_ms: Option<i64>,
    /// The Run whose end started it, if one did.
    pub cause: Option<&'a Cause>,
    /// The task's command with its own entries.
    pub command: &'a Command,
    /// The secrets it uses, opened.
    pub secrets: &'a [(SecretRef, Value)],
}
