//! The user's process, from fork to exec. Everything that can fail happens here, in its own context,
//! before it reports; afterwards it only waits and becomes the program.

use super::program;
use crate::process::cgroup::Group;
use crate::process::fd::{self, Place};
use crate::process::orders::OrdersView;
use crate::process::step::{self, LaunchFailure, LaunchStep};
use crate::process::{fork, own, signals};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What it is given.
pub(super) struct Descriptors<'a> {
    pub(super) null: BorrowedFd<'a>,
    pub(super) output: BorrowedFd<'a>,
    /// The byte that releases it, or the end that ends it.
    pub(super) hold: BorrowedFd<'a>,
    /// Where it reports; closed by exec.
    pub(super) report: BorrowedFd<'a>,
}

const OUTPUT: RawFd = 1;
const HOLD: RawFd = 3;
const REPORT: RawFd = 4;
/// What files it makes do not get: no write for group and others.
const UMASK: u32 = 0o022;

/// Never returns: it becomes the program or ends. `shim` is the parent it must not outlive.
pub(super) fn become_user(orders: &OrdersView<'_>, shim: i32, group: &Group, fds: &Descriptors<'_>) -> ! {
    // Into the group first: whatever follows counts as the task's own. Its doors close with the rest.
    let entered = group.join().map_err(|errno| LaunchFailure { step: LaunchStep::Limits, errno });
    let placed = entered.and_then(|()| place(fds).map_err(|errno| LaunchFailure { step: LaunchStep::User, errno }));
    if let Err(failure) = placed {
        let _ = fd::write_all(fds.report.as_raw_fd(), &step::report(Err(failure)));
        own::exit_now(failure.exit_code());
    }
    let prepared = prepare(orders, shim);
    let reported = fd::write_all(REPORT, &step::report(prepared));
    if let Err(failure) = prepared {
        own::exit_now(failure.exit_code());
    }
    let mut byte = [0];
    if reported.is_err() || fd::read_full(HOLD, &mut byte) != Ok(1) {
        own::exit_now(0);
    }
    let program = orders.argv.first().copied().unwrap_or_default();
    let failure = LaunchFailure { step: LaunchStep::Exec, errno: fork::exec(program, &orders.argv, &orders.env) };
    let _ = fd::write_all(REPORT, &step::report(Err(failure)));
    own::exit_now(failure.exit_code())
}

fn place(fds: &Descriptors<'_>) -> Result<(), i32> {
    let place = |fd: BorrowedFd<'_>, until_exec| Place { from: fd.as_raw_fd(), until_exec };
    fd::place(&[
        place(fds.null, false),
        place(fds.output, false),
        place(fds.output, false),
        place(fds.hold, true),
        place(fds.report, true),
    ])?;
    fd::close_from(REPORT + 1);
    Ok(())
}

fn prepare(orders: &OrdersView<'_>, shim: i32) -> Result<(), LaunchFailure> {
    let user_failed = |e: io::Error| LaunchFailure::of(LaunchStep::User, &e);
    own::lead_group().map_err(user_failed)?;
    signals::restore_defaults();
    own::set_umask(UMASK);
    if orders.has_secrets {
        own::dump_no_core().map_err(user_failed)?;
    }
    confine(orders)?;
    // What follows is seen with the rights the program will have.
    let as_path = |text: &'_ CStr| Path::new(OsStr::from_bytes(text.to_bytes())).to_path_buf();
    std::env::set_current_dir(as_path(orders.cwd)).map_err(|e| LaunchFailure::of(LaunchStep::Directory, &e))?;
    program::check(&as_path(orders.argv.first().copied().unwrap_or_default()))?;
    own::die_with_parent().map_err(user_failed)?;
    if own::parent() != shim {
        // It died before the request above: nobody is left to report to.
        own::exit_now(0);
    }
    Ok(())
}

/// Weights and user, while this process still has the shim's rights.
fn confine(orders: &OrdersView<'_>) -> Result<(), LaunchFailure> {
    if let Some(nice) = orders.nice {
        own::set_nice(0, nice).map_err(|e| LaunchFailure::of(LaunchStep::Priority, &e))?;
    }
    // A task does not stand behind the daemon when memory runs out, unless it says so. Back to 0 is always
    // allowed from where the daemon has put itself; where it was not allowed to, there is nothing to undo.
    match (orders.oom_score_adj, own::set_oom_score_adj(orders.oom_score_adj.unwrap_or(0))) {
        (Some(_), Err(e)) => return Err(LaunchFailure::of(LaunchStep::OomScore, &e)),
        (Some(_), Ok(())) | (None, _) => {}
    }
    if let Some((uid, gid, groups)) = &orders.account {
        let failed = |e: io::Error| LaunchFailure::of(LaunchStep::Account, &e);
        // So that `echo > /dev/stderr`, which opens the pipe by its name, is its own user's right.
        own::give(OUTPUT, *uid, *gid).map_err(failed)?;
        own::become_user(*uid, *gid, groups).map_err(failed)?;
    }
    Ok(())
}
