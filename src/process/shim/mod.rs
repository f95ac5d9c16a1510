//! The shim: one small process that supervises one Attempt and outlives the daemon (design D4).
//!
//! It leads a session of its own, takes its orders from a pipe, prepares everything that can fail,
//! holds the user's process, reports, and waits for one byte. Then it copies output, frees what ends,
//! ends what is left over (or keeps it, as ordered) and publishes the receipt. It never talks to the daemon again: no pipe, no
//! socket, so neither a crash nor a stop of the daemon touches output or outcome.

mod finish;
mod hold;
mod memory;
mod output;
mod program;
mod redact;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub use redact::redacted;
mod user;
mod watch;

use super::cgroup::Group;
use super::memory::SecretMap;
use super::orders::{self, HEADER_BYTES, OrdersView};
use super::signals::{Signal, Signals};
use super::step::{self, LaunchFailure, LaunchStep};
use super::{crash, fd, fork, launch, own, poll};
use hold::HeldUser;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

/// The exit code when the shim itself could not go on; nothing ran.
const NOTHING_RAN: i32 = 125;

/// The hidden command `shim`. Its exit code is the user's, or 125 when nothing ran.
pub fn main() -> ! {
    let Some((orders, status)) = fork::inherited_pipes() else {
        eprintln!("qinglet shim is started by the daemon only; see `qinglet --help`");
        own::exit_now(2);
    };
    let code = match prepare(&orders) {
        Ok(prepared) => {
            crash::at("shim.prepared");
            report(status, Ok(()));
            run(prepared, &orders)
        }
        Err(failure) => {
            report(status, Err(failure));
            NOTHING_RAN
        }
    };
    own::exit_now(code)
}

/// Reports and closes the pipe.
fn report(status: OwnedFd, result: Result<(), LaunchFailure>) {
    // A daemon that is gone does not read it; the orders pipe will say so.
    let _ = File::from(status).write_all(&step::report(result));
}

/// What is ready when the shim reports.
struct Prepared {
    secrets: SecretMap,
    signals: Signals,
    held: Held,
}

/// What is ready when the user's process waits.
struct Held {
    user: HeldUser,
    end: finish::End,
    output: output::Output,
    patience: watch::Patience,
    group: Group,
    memory_bytes: Option<i64>,
}

fn prepare(orders: &File) -> Result<Prepared, LaunchFailure> {
    let session_failed = |e: io::Error| LaunchFailure::of(LaunchStep::Session, &e);
    own::lead_session().map_err(session_failed)?;
    let signals = Signals::block_all().map_err(session_failed)?;
    own::adopt_orphans().map_err(session_failed)?;
    own::take_name();
    std::env::set_current_dir("/").map_err(session_failed)?;

    let secrets = receive(orders)?;
    let view = orders::unpack(&secrets).map_err(|_| not_understood())?;
    #[cfg(debug_assertions)]
    crash::tell(view.crash_at.to_str().unwrap_or_default());
    crash::at("shim.read");
    let held = hold_user(&view)?;
    Ok(Prepared { secrets, signals, held })
}

fn hold_user(view: &OrdersView<'_>) -> Result<Held, LaunchFailure> {
    let (log, end) = finish::End::prepare(view)?;
    let (read, write) = io::pipe().map_err(|e| LaunchFailure::of(LaunchStep::Pipe, &e))?;
    fd::set_nonblocking(read.as_fd()).map_err(|e| LaunchFailure::of(LaunchStep::Pipe, &e))?;
    let redactor = redact::Redactor::new(view.redact.iter().map(|(value, name)| (*value, name.to_bytes())));
    let output = output::Output::new(read, log, view.log_bytes_max, redactor)
        .map_err(|e| LaunchFailure::of(LaunchStep::Log, &e))?;
    let group = Group::make(&view.groups).map_err(|e| LaunchFailure::of(LaunchStep::Limits, &e))?;
    let user = hold::fork(view, &group, write)?;
    let patience =
        watch::Patience { drain_ms: view.drain_grace_ms, grace_ms: view.grace_ms, leftovers: view.leftovers };
    Ok(Held { user, end, output, patience, group, memory_bytes: memory::limit(&view.groups) })
}

const fn not_understood() -> LaunchFailure {
    LaunchFailure { step: LaunchStep::Orders, errno: libc::EPROTO }
}

/// Reads the orders into memory of their own, undumpable before the first secret byte.
fn receive(mut orders: &File) -> Result<SecretMap, LaunchFailure> {
    let failed = |e: io::Error| LaunchFailure::of(LaunchStep::Orders, &e);
    let mut header = [0; HEADER_BYTES];
    orders.read_exact(&mut header).map_err(failed)?;
    let (dumpable, length) = orders::unpack_header(header).ok_or_else(not_understood)?;
    if !dumpable {
        own::become_undumpable().map_err(|e| LaunchFailure::of(LaunchStep::Session, &e))?;
    }
    let mut secrets = SecretMap::new(length).map_err(failed)?;
    orders.read_exact(&mut secrets).map_err(failed)?;
    Ok(secrets)
}

/// From the report to the receipt. The exit code.
fn run(prepared: Prepared, orders: &File) -> i32 {
    let Prepared { secrets, signals, held } = prepared;
    let Held { user, end, mut output, patience, mut group, memory_bytes } = held;
    if !is_released(orders, &signals, &user) {
        // Dropping `end` removes what was begun: there is no receipt for what never ran.
        user.abandon();
        return NOTHING_RAN;
    }
    crash::at("shim.released");
    let start = finish::Moment::now();
    let main = user.pid;
    let start_error = user.release();
    if start_error.is_none() {
        crash::at("shim.execed");
    }
    drop(secrets);
    let mut watch = watch::Watch::new(main, &signals, patience);
    let watched = watch.until_over(&mut output);
    output.finish();
    crash::at("shim.exited");
    let out_of_memory = memory::judge(group.oom_kills(), &watched, memory_bytes);
    // Before the end is known, so that who knows of it finds no group any more; what is kept stays in its own.
    if !watched.kept {
        group.remove();
    }
    let code = end.publish(start, &watched, start_error, &output, out_of_memory);
    crash::at("shim.published");
    if watched.kept {
        // The run is over. Whoever is kept still writes to a pipe that somebody must read, and must
        // not become an orphan that nobody could find again.
        output.discard();
        watch.until_empty(&mut output);
    }
    code
}

/// Waits for the release. Anything else is none: the pipe's end (the daemon is gone or gave up), an
/// order to stop, or the end of the held process by somebody else's hand.
fn is_released(mut orders: &File, signals: &Signals, user: &HeldUser) -> bool {
    loop {
        let mut look = [poll::readable(orders.as_fd()), poll::readable(signals.as_fd())];
        if poll::wait(&mut look, None).is_err() {
            return false;
        }
        let [released, signalled] = look;
        // The release is looked at first: given before an order to stop, it is a start and then a stop.
        if released.revents != 0 {
            let mut byte = [0];
            return matches!(orders.read(&mut byte), Ok(1)) && byte == [launch::RELEASE];
        }
        if signalled.revents != 0 && is_stopped(signals, user) {
            return false;
        }
    }
}

fn is_stopped(signals: &Signals, user: &HeldUser) -> bool {
    while let Ok(Some(signal)) = signals.take() {
        match signal {
            Signal::Child if !user.has_ended() => {}
            _ => return true,
        }
    }
    false
}
