//! The real host: the process side behind the protocol's trait.

use super::board::WaitReason;
use super::environment::{Person, Surroundings, environment};
use super::evidence::{Look, ReceiptSeen, Seen};
use super::files::{Files, LogListing, ReceiptListing};
use super::host::{
    Cleared, EnvironmentOf, Hold, Host, Inspection, Launch, LaunchFailure, LaunchReply, LogGrant, LogRemoved, LogSpace,
    NotOpened, Now, Receipt, ReceiptRead, Signalled, Stop, Swept, Unfit,
};
use super::logs::{LogRead, LogReadError, LogSlice};
use super::token;
use crate::access::keyring::Keyring;
use crate::access::seal::{self, Value};
use crate::model::capability::Capability;
use crate::model::command::Command;
use crate::model::confinement::Confinement;
use crate::model::id::{AttemptId, RunId, Uuid};
use crate::model::life::AttemptState;
use crate::model::limits::{self, Limits};
use crate::model::record::End;
use crate::model::secret::Envelope;
use crate::model::size;
use crate::model::word::{EXECUTOR_CAPABILITY_UNAVAILABLE, LOG_WRITE_FAILED, OUT_OF_MEMORY, RUN_AS_UNKNOWN};
use crate::process::account::Account;
use crate::process::adopted::Adopted;
use crate::process::handle::Handle;
use crate::process::launch::{Held, Launcher};
use crate::process::log::{LogStore, artifact_of};
use crate::process::machine::Machine;
pub use crate::process::open_path::open_path;
use crate::process::orders::{Confined, Orders};
use crate::process::published::Published;
use crate::process::reap::Children;
use crate::process::receipt::ReceiptStore;
use crate::process::{self, clock, crash, identity, room};
use crate::store::evidence::ActiveAttempt;
use crate::store::state::StateDir;
use std::path::PathBuf;
use std::sync::Arc;

/// What the host works with.
pub struct Linux {
    /// Starts shims.
    pub launcher: Launcher,
    /// Whose children they are.
    pub children: Arc<Children>,
    /// Shims of an earlier daemon.
    pub adopted: Arc<Adopted>,
    /// Receipts that come while their shims stay.
    pub published: Arc<Published>,
    /// Where receipts lie.
    pub receipts: ReceiptStore,
    /// Where logs lie.
    pub logs: LogStore,
    /// The folder the logs lie in, for its space.
    pub logs_dir: PathBuf,
    /// The state folder, for its space.
    pub state_dir: PathBuf,
    /// Where the keys of secrets are.
    pub keyring: PathBuf,
    /// What the machine adds to environments.
    pub around: Surroundings,
    /// What the machine can do for a task.
    pub machine: Machine,
    /// The numbers in force.
    pub limits: Limits,
}

impl Linux {
    /// What the shim is told about a confinement. The error says what has gone since it was looked at.
    fn confined(&self, attempt: AttemptId, confinement: &Confinement) -> Result<Confined, String> {
        let account = confinement.run_as.as_ref().map(Account::find).transpose()?.filter(|account| !account.is_own());
        Ok(Confined {
            groups: self.machine.groups.plan(attempt, &confinement.requires),
            account: account.map(|account| (account.uid, account.gid, account.groups)),
            nice: confinement.nice,
            oom_score_adj: confinement.oom_score_adj,
        })
    }

    /// The cap of one log: the task's own wish below the profile's, and at most a share of the device.
    fn log_cap(&self, wanted_bytes: Option<i64>, total_bytes: u64) -> u64 {
        let profile = self.limits.attempt_log_bytes.min(total_bytes / limits::LOG_SHARE_ATTEMPT);
        wanted_bytes.and_then(|bytes| u64::try_from(bytes).ok()).map_or(profile, |wanted| wanted.min(profile))
    }
}

/// This boot's identity; `None`: it cannot be read.
pub fn boot() -> Option<Uuid> {
    identity::boot_id().ok()
}

impl Host for Linux {
    fn now(&self) -> Now {
        Now { wall_ms: clock::wall_ms(), boot_ms: clock::boottime_ms().unsigned_abs() }
    }

    fn random(&self, buffer: &mut [u8]) -> bool {
        getrandom::fill(buffer).is_ok()
    }

    fn room(&self) -> Result<(), WaitReason> {
        let room = room::Room::here();
        if room.pids_free() < limits::PIDS_FREE_MIN {
            return Err(WaitReason::Pids);
        }
        if !room.has_memory(limits::MEMORY_FREE_MIN) {
            return Err(WaitReason::Memory);
        }
        let state = room::space(&self.state_dir).map_err(|_| WaitReason::Disk)?;
        let share = state.total_bytes / limits::STATE_FLOOR_SHARE;
        let floor = share.clamp(limits::STATE_FLOOR_BYTES, limits::STATE_FLOOR_BYTES_MAX);
        if state.free_bytes < floor { Err(WaitReason::Disk) } else { Ok(()) }
    }

    fn allocate_log(&self, run: RunId, attempt: AttemptId, wanted_bytes: Option<i64>) -> Option<LogGrant> {
        let space = room::space(&self.logs_dir).ok()?;
        let bytes_max = self.log_cap(wanted_bytes, space.total_bytes);
        let floor = self.limits.log_floor_bytes.min(space.total_bytes / limits::LOG_SHARE_FLOOR);
        if space.free_bytes < floor + bytes_max {
            return None;
        }
        let place = self.logs.allocate(run, attempt).ok()?;
        Some(LogGrant { artifact: place.artifact, folder: place.shard_dir, bytes_max })
    }

    fn unfit(&self, command: &Command) -> Option<Unfit> {
        let confinement = &command.confinement;
        let here = &self.machine.capabilities;
        let missing = confinement.needs().find_map(|need| Some((need, here.why_missing(need)?)));
        let account = match confinement.run_as.as_ref().map(Account::find) {
            Some(Err(why)) => return Some(Unfit { code: RUN_AS_UNKNOWN, summary: why }),
            other => other.and_then(Result::ok),
        };
        let missing = missing.or_else(|| {
            account.filter(|account| !account.is_own())?;
            Some((Capability::RunAs, here.why_missing(Capability::RunAs)?))
        });
        missing.map(|(need, why)| Unfit {
            code: EXECUTOR_CAPABILITY_UNAVAILABLE,
            summary: format!("the task needs {}, which is missing here: {why}", need.word()),
        })
    }

    fn clear_groups(&self, is_known: &dyn Fn(AttemptId) -> bool) {
        self.machine.groups.remove_stale(is_known);
    }

    fn environment(&self, of: &EnvironmentOf<'_>) -> Vec<(String, String)> {
        let account = of.command.confinement.run_as.as_ref().and_then(|run_as| Account::find(run_as).ok());
        let person = account.as_ref();
        let person = person.map(|user| Person { name: &user.name, home: &user.home, shell: &user.shell });
        environment(&self.around, person, of)
    }

    fn open_secrets(&self, envelopes: &[Envelope]) -> Result<Vec<Value>, NotOpened> {
        let ring = Keyring::load(&self.keyring).map_err(|e| NotOpened::Keyring(e.to_string()))?;
        let open = |envelope: &Envelope| {
            seal::open(&ring, envelope).map_err(|e| match e {
                seal::NotOpened::UnknownKey => NotOpened::UnknownKey(envelope.name.clone()),
                seal::NotOpened::Damaged => NotOpened::Damaged(envelope.name.clone()),
            })
        };
        envelopes.iter().map(open).collect()
    }

    fn launch(&self, launch: Launch, reply: LaunchReply) {
        let receipt_dir = match self.receipts.shard_dir(launch.attempt) {
            Ok(folder) => folder,
            Err(error) => return reply(Err(LaunchFailure(format!("the receipt's folder could not be made: {error}")))),
        };
        let confined = match self.confined(launch.attempt, &launch.confinement) {
            Ok(confined) => confined,
            Err(why) => return reply(Err(LaunchFailure(why))),
        };
        let redact = if launch.redact { &*launch.secrets } else { &[] };
        let redact = redact.iter().filter_map(|(variable, secret)| {
            let at = launch.environment.iter().position(|(name, _)| name == variable)?;
            Some((at, secret.to_string()))
        });
        let redact = redact.collect();
        let orders = Orders {
            run: launch.run,
            attempt: launch.attempt,
            sequence: 1,
            token: launch.token,
            receipt_dir,
            log_dir: launch.log.folder,
            log_artifact: launch.log.artifact,
            log_bytes_max: launch.log.bytes_max,
            argv: launch.argv,
            env: launch.environment,
            cwd: launch.working_directory,
            grace_ms: launch.grace_ms.unsigned_abs(),
            drain_grace_ms: limits::DRAIN_GRACE_MS,
            leftovers: launch.leftovers,
            has_secrets: !launch.secrets.is_empty(),
            redact,
            confined,
        };
        let reply = move |outcome: Result<Held, process::launch::LaunchFailure>| {
            reply(match outcome {
                Ok(held) => Ok(Box::new(held) as Box<dyn Hold>),
                Err(failure) => Err(LaunchFailure(failure.to_string())),
            });
        };
        self.launcher.launch(orders, Box::new(reply));
    }

    fn inspect(&self, handle: &str, pid: i32) -> Inspection {
        inspect(handle, pid)
    }

    fn boot(&self) -> Option<Uuid> {
        boot()
    }

    fn kill_descendants(&self, handle: &str) -> Option<usize> {
        Handle::parse(handle).and_then(|handle| process::stop::kill_descendants(&handle))
    }

    fn signal(&self, handle: &str, stop: Stop) -> Signalled {
        let Some(handle) = Handle::parse(handle) else { return Signalled::Unknown };
        let signal = match stop {
            Stop::Term => libc::SIGTERM,
            Stop::Kill => libc::SIGKILL,
        };
        match process::stop::signal_exact(&handle, signal) {
            process::stop::Signalled::Sent => {
                if stop == Stop::Term {
                    let _ = process::stop::signal_exact(&handle, libc::SIGCONT);
                }
                Signalled::Sent
            }
            process::stop::Signalled::AlreadyExited => Signalled::AlreadyExited,
            process::stop::Signalled::Unknown => Signalled::Unknown,
        }
    }

    fn sweep(&self, handle: &str, run: RunId) -> Swept {
        let Some(handle) = Handle::parse(handle) else { return Swept::Unknown };
        match process::sweep::sweep(&handle, &format!("QINGLET_RUN_ID={run}")) {
            Ok(process::sweep::Swept::Empty) => Swept::Empty,
            Ok(process::sweep::Swept::Unproven) => Swept::Unproven,
            Ok(process::sweep::Swept::Found(_)) => Swept::Found,
            Err(_) => Swept::Unknown,
        }
    }

    fn watch(&self, attempt: AttemptId, handle: &str) -> bool {
        Handle::parse(handle).is_some_and(|handle| self.adopted.watch(attempt, &handle))
    }

    fn reap(&self) -> Vec<AttemptId> {
        let mut ended = self.children.reap();
        ended.extend(self.adopted.ended());
        ended
    }

    fn watch_receipt(&self, attempt: AttemptId) -> bool {
        self.published.watch(attempt)
    }

    fn forget_receipt(&self, attempt: AttemptId) {
        self.published.forget(attempt);
    }

    fn published(&self) -> Vec<AttemptId> {
        self.published.published()
    }

    fn read_receipt(&self, attempt: AttemptId) -> ReceiptRead {
        use process::receipt::ReceiptRead as Read;
        match self.receipts.read(attempt) {
            Read::Found(receipt) => ReceiptRead::Found(translate(&receipt)),
            Read::Absent => ReceiptRead::Absent,
            Read::Invalid(why) => ReceiptRead::Invalid(why),
            Read::Unavailable(_) => ReceiptRead::Unavailable,
        }
    }

    fn delete_receipt(&self, attempt: AttemptId) -> bool {
        self.receipts.delete(attempt).is_ok()
    }

    fn quarantine_receipt(&self, attempt: AttemptId) -> bool {
        self.receipts.quarantine(attempt).is_ok()
    }

    fn clock_synchronised(&self) -> bool {
        clock::is_synchronised()
    }

    fn clear_receipt(&self, attempt: AttemptId) -> Cleared {
        match self.receipts.delete(attempt) {
            Ok(true) => Cleared::Deleted,
            Ok(false) => Cleared::Absent,
            Err(_) => Cleared::Failed,
        }
    }

    fn purge_receipt(&self, attempt: AttemptId) -> bool {
        self.receipts.purge(attempt).is_ok()
    }

    fn log_space(&self) -> Option<LogSpace> {
        let space = room::space(&self.logs_dir).ok()?;
        let memory_bytes = space.is_tmpfs.then(room::memory_total);
        Some(LogSpace { free_bytes: space.free_bytes, total_bytes: space.total_bytes, memory_bytes })
    }

    fn log_taken_bytes(&self, artifact: &str) -> Option<u64> {
        self.logs.taken_bytes(artifact)
    }

    fn discard_log(&self, run: RunId, attempt: AttemptId) {
        let _ = self.logs.discard(run, attempt);
    }

    fn remove_log(&self, artifact: &str) -> Option<LogRemoved> {
        let removed = self.logs.retire(artifact).ok()?;
        Some(LogRemoved { bytes: removed.bytes, taken_bytes: removed.taken_bytes, truncated: removed.truncated })
    }

    fn crash_point(&self, name: &'static str) {
        crash::at(name);
    }
}

fn inspect(handle: &str, pid: i32) -> Inspection {
    match Handle::parse(handle) {
        Some(handle) if handle.pid == pid => match identity::inspect(&handle) {
            identity::Inspection::Running => Inspection::Running,
            identity::Inspection::NotRunning => Inspection::NotRunning,
            identity::Inspection::Unavailable => Inspection::Unavailable,
            identity::Inspection::Invalid => Inspection::Invalid,
        },
        _ => Inspection::Invalid,
    }
}

impl Hold for Held {
    fn handle(&self) -> String {
        self.handle.to_string()
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn release(self: Box<Self>) -> bool {
        (*self).release().is_ok()
    }
}

/// A receipt in the protocol's terms. A start that failed after the release is an end with a code
/// of its own; a log with a hole says so beside whatever the exit was.
fn translate(receipt: &process::receipt::Receipt) -> Receipt {
    let start_error = receipt.start_error.as_ref();
    let oom = receipt.out_of_memory;
    let error_code = match (start_error, oom, receipt.log_complete) {
        (Some(_), ..) => Some(crate::model::word::EXECUTOR_START_FAILED.to_owned()),
        (None, Some(_), _) => Some(OUT_OF_MEMORY.to_owned()),
        (None, None, false) => Some(LOG_WRITE_FAILED.to_owned()),
        (None, None, true) => None,
    };
    let oom = oom.map(|oom| format!("out of memory, its limit was {}", size::text(oom.limit_bytes)));
    Receipt {
        run: receipt.run,
        attempt: receipt.attempt,
        sequence: receipt.sequence,
        token: receipt.token,
        started_at_ms: receipt.started_at_ms,
        finished_at_ms: receipt.finished_at_ms,
        end: End {
            exit_code: Some(receipt.exit_code),
            signal: receipt.signal,
            error_code,
            error_summary: start_error.map(ToString::to_string).or(oom),
            log_complete: Some(receipt.log_complete),
            leftovers: Some(i64::from(receipt.leftovers)),
            unproven: false,
        },
    }
}

/// Looks at evidence for whoever asks, beside the engine: only looks.
pub struct Witness(pub ReceiptStore);

impl Look for Witness {
    fn look(&self, stored: &ActiveAttempt) -> Seen {
        use process::receipt::ReceiptRead as Read;
        let receipt = match self.0.read(stored.id) {
            Read::Found(receipt) if stored.token_digest == Some(token::digest(&receipt.token)) => ReceiptSeen::Found,
            Read::Found(_) | Read::Invalid(_) => ReceiptSeen::Invalid,
            Read::Absent => ReceiptSeen::Absent,
            Read::Unavailable(_) => ReceiptSeen::Unavailable,
        };
        let process = match (&stored.handle, stored.pid) {
            (Some(handle), pid) => Some(inspect(handle, pid.unwrap_or_default())),
            (None, _) if stored.state == AttemptState::Running => Some(Inspection::Invalid),
            (None, _) => None,
        };
        Seen { receipt, process }
    }
}

/// Reads logs for the HTTP side.
pub struct LogFiles(pub LogStore);

impl LogRead for LogFiles {
    fn read(&self, artifact: &str, offset: u64, length: u32) -> Result<LogSlice, LogReadError> {
        let range = self.0.read_range(artifact, offset, length).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LogReadError::Missing,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::InvalidData => LogReadError::Unsafe,
            _ => LogReadError::Io,
        })?;
        Ok(LogSlice {
            bytes: range.bytes,
            start: range.start,
            total: range.total,
            truncated: range.truncated,
            dropped_bytes: range.dropped_bytes,
        })
    }
}

/// The files of a state folder, for `check` and `backup`.
pub struct StateFiles {
    /// The state folder.
    pub state: StateDir,
    /// Its logs.
    pub logs: LogStore,
    /// Its receipts.
    pub receipts: ReceiptStore,
}

impl Files for StateFiles {
    fn space_left(&self) -> Option<u64> {
        let space = room::space(self.state.path()).ok()?;
        let share = space.total_bytes / limits::STATE_FLOOR_SHARE;
        let floor = share.clamp(limits::STATE_FLOOR_BYTES, limits::STATE_FLOOR_BYTES_MAX);
        Some(space.free_bytes.saturating_sub(floor))
    }

    fn logs(&self, part: u8) -> std::io::Result<LogListing> {
        let (artifacts, strangers, cut) = self.logs.list(part, limits::CHECK_FILES_MAX)?;
        Ok(LogListing { artifacts, strangers, cut })
    }

    fn artifact(&self, run: RunId, attempt: AttemptId) -> String {
        artifact_of(run, attempt)
    }

    fn receipts(&self) -> std::io::Result<ReceiptListing> {
        let (attempts, strangers, cut) = self.receipts.list(limits::CHECK_FILES_MAX)?;
        Ok(ReceiptListing { attempts, strangers, cut })
    }

    fn strangers(&self) -> std::io::Result<Vec<String>> {
        self.state.strangers()
    }
}
