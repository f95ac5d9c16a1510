//! What a process says to the kernel about itself: session, group, subreaper, dumpability.

use std::io;

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Leads a session of its own from here on.
pub(super) fn lead_session() -> io::Result<()> {
    // SAFETY: no pointer is passed.
    done(unsafe { libc::setsid() })
}

/// Leads a process group of its own from here on.
pub(super) fn lead_group() -> io::Result<()> {
    // SAFETY: no pointer is passed.
    done(unsafe { libc::setpgid(0, 0) })
}

/// One prctl whose arguments are numbers, each as wide as the kernel reads it.
fn tell(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    const NONE: libc::c_ulong = 0;
    // SAFETY: every option used here takes numbers only.
    done(unsafe { libc::prctl(option, value, NONE, NONE, NONE) })
}

/// Becomes the parent of every descendant whose own parent ends (prctl(2), Linux 3.4).
pub(super) fn adopt_orphans() -> io::Result<()> {
    tell(libc::PR_SET_CHILD_SUBREAPER, 1)
}

/// No core dump, no ptrace, no /proc/<pid>/mem and environ for others. Async-signal-safe.
pub(super) fn become_undumpable() -> io::Result<()> {
    tell(libc::PR_SET_DUMPABLE, 0)
}

/// No core dump of this process and of what it becomes, whatever its parent was allowed
/// (setrlimit(2)). Async-signal-safe.
pub(super) fn dump_no_core() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is valid for the call to read.
    done(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) })
}

/// The name shown by ps.
pub(super) fn take_name() {
    // SAFETY: the name is a NUL-terminated literal below 16 bytes; without it only ps is less helpful.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"qinglet-shim".as_ptr()) };
}

/// Dies by KILL when the parent does. A change of credentials clears it, so it comes after that.
pub(super) fn die_with_parent() -> io::Result<()> {
    tell(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
}

/// Becomes another user with exactly these groups, for good. Needs root's rights. Async-signal-safe.
pub(super) fn become_user(uid: u32, gid: u32, groups: &[u32]) -> io::Result<()> {
    // Groups first, the user last: with it goes the right to change the others.
    // SAFETY: `groups` is valid for its length, and gid_t is u32 on every Linux.
    done(unsafe { libc::setgroups(groups.len() as _, groups.as_ptr()) })?;
    // SAFETY: no pointer is passed.
    done(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: no pointer is passed.
    done(unsafe { libc::setresuid(uid, uid, uid) })
}

/// Gives the file behind a descriptor to another user (fchown(2)). Async-signal-safe.
pub(super) fn give(fd: i32, uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    done(unsafe { libc::fchown(fd, uid, gid) })
}

/// Takes a nice value (setpriority(2)), for itself or for the process with this number.
pub(super) fn set_nice(pid: i32, nice: i32) -> io::Result<()> {
    // SAFETY: no pointer is passed.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS as _, pid as libc::id_t, nice) })
}

/// How ready the out-of-memory killer is to take this process, and what it starts from here on
/// (`proc_pid_oom_score_adj(5)`).
pub(super) fn set_oom_score_adj(adj: i32) -> io::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", adj.to_string())
}

/// The effective user's and group's number.
pub(super) fn ids() -> (u32, u32) {
    // SAFETY: neither has preconditions, and neither can fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// The parent's number.
pub(super) fn parent() -> i32 {
    // SAFETY: getppid has no preconditions and cannot fail.
    unsafe { libc::getppid() }
}

/// The mode bits that new files do not get.
pub(super) fn set_umask(mask: u32) {
    // SAFETY: umask has no preconditions and cannot fail.
    unsafe { libc::umask(mask as libc::mode_t) };
}

/// Ends without running anything of the standard library's or libc's.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}
