//! The user's process between fork and release: prepared, and held on a pipe of its own.

use super::user;
use crate::process::cgroup::Group;
use crate::process::fork::{self, Fork};
use crate::process::orders::OrdersView;
use crate::process::step::{self, LaunchFailure, LaunchStep, REPORT_BYTES};
use crate::process::{fd, signals, wait};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};

/// A user's process that waits to be released.
pub(super) struct HeldUser {
    pub(super) pid: i32,
    hold: PipeWriter,
    report: PipeReader,
}

/// Forks the user's process and waits until it has done everything that can fail.
pub(super) fn fork(orders: &OrdersView<'_>, group: &Group, output: PipeWriter) -> Result<HeldUser, LaunchFailure> {
    let pipe_failed = |e: io::Error| LaunchFailure::of(LaunchStep::Pipe, &e);
    let (hold_read, hold) = io::pipe().map_err(pipe_failed)?;
    let (report, report_write) = io::pipe().map_err(pipe_failed)?;
    let null = File::open("/dev/null").map_err(|e| LaunchFailure::of(LaunchStep::User, &e))?;
    let shim = std::process::id() as i32;
    let pid = match fork::plain().map_err(|e| LaunchFailure::of(LaunchStep::ForkUser, &e))? {
        Fork::Child => {
            let fds = user::Descriptors {
                null: null.as_fd(),
                output: output.as_fd(),
                hold: hold_read.as_fd(),
                report: report_write.as_fd(),
            };
            user::become_user(orders, shim, group, &fds)
        }
        Fork::Parent(pid) => pid,
    };
    drop((hold_read, report_write, output));
    let user = HeldUser { pid, hold, report };
    match user.next_report() {
        Some(Ok(())) => Ok(user),
        Some(Err(failure)) => {
            user.abandon();
            Err(failure)
        }
        None => {
            user.abandon();
            // Killed by somebody; when it was the kernel for want of memory, that is a matter of the task's limit.
            Err(match group.oom_kills() {
                Some(_) => LaunchFailure { step: LaunchStep::Limits, errno: libc::ENOMEM },
                None => LaunchFailure { step: LaunchStep::User, errno: libc::ECHILD },
            })
        }
    }
}

impl HeldUser {
    /// What it reports; `None` when it closed the pipe: by exec, or because it ended.
    fn next_report(&self) -> Option<Result<(), LaunchFailure>> {
        let mut report = [0; REPORT_BYTES];
        match fd::read_full(self.report.as_raw_fd(), &mut report) {
            Ok(REPORT_BYTES) => step::read_report(report),
            _ => None,
        }
    }

    /// Lets it become the user's program. Why it could not, if so: it has ended then.
    pub(super) fn release(mut self) -> Option<LaunchFailure> {
        // A process that was killed meanwhile does not read it; its end will tell.
        let _ = self.hold.write_all(&[1]);
        self.next_report().and_then(Result::err)
    }

    /// Ends it without having run anything.
    pub(super) fn abandon(self) {
        // Not freed by anybody else, so its number is still its own.
        let _ = signals::send(self.pid, libc::SIGKILL);
        drop(self.hold);
        wait::until_gone(self.pid);
    }

    /// Whether somebody else ended it.
    pub(super) fn has_ended(&self) -> bool {
        wait::peek_one(self.pid)
    }
}
