//! Which process is meant, and whether it is still that one (design D5).

use super::handle::Handle;
use super::pidfd::PidFd;
use super::signals;
use super::stat::{self, Stat};
use crate::model::id::Uuid;
use std::io;
use std::sync::OnceLock;

/// What is known about a handle's process. Only the first two are evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inspection {
    /// Exactly this process lives.
    Running,
    /// It is gone: ended, its number belongs to another, or it was of another boot.
    NotRunning,
    /// The handle names nothing that we would have started.
    Invalid,
    /// The system does not say.
    Unavailable,
}

/// This boot's id. Constant while the process lives, so it is read once.
pub fn boot_id() -> io::Result<Uuid> {
    static BOOT: OnceLock<Uuid> = OnceLock::new();
    if let Some(id) = BOOT.get() {
        return Ok(*id);
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let id = Uuid::parse(text.trim_end()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(*BOOT.get_or_init(|| id))
}

/// Names a child of this process that leads its own session: the held shim. Anything else, or a
/// zombie, is refused, so that no handle ever names a process that is not ours.
pub fn capture(pid: i32) -> io::Result<Handle> {
    let boot_id = boot_id()?;
    let stat = stat::read(pid)?;
    let ours = stat.parent == std::process::id() as i32;
    let leads = stat.group == pid && stat.session == pid;
    if pid > 1 && ours && leads && !stat.has_ended() {
        return Ok(Handle { boot_id, pid, pgid: stat.group, start_ticks: stat.start_ticks });
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the process is not a session leader of ours"))
}

/// Looks whether the handle's process is still there. Sends nothing.
pub fn inspect(handle: &Handle) -> Inspection {
    if handle.pid <= 1 || handle.pgid != handle.pid {
        return Inspection::Invalid;
    }
    match boot_id() {
        Ok(boot) if boot != handle.boot_id => return Inspection::NotRunning,
        Ok(_) => {}
        Err(_) => return Inspection::Unavailable,
    }
    decide(handle, stat::read(handle.pid).map_err(|e| e.kind()), || is_absent(handle.pid))
}

/// What the facts say. `is_absent` is asked only when /proc shows nothing: under hidepid=2 that alone
/// proves nothing.
fn decide(handle: &Handle, seen: Result<Stat, io::ErrorKind>, is_absent: impl FnOnce() -> bool) -> Inspection {
    match seen {
        Ok(stat) => {
            let same = stat.start_ticks == handle.start_ticks && stat.group == handle.pgid;
            if same && !stat.has_ended() { Inspection::Running } else { Inspection::NotRunning }
        }
        Err(io::ErrorKind::NotFound) if is_absent() => Inspection::NotRunning,
        Err(_) => Inspection::Unavailable,
    }
}

/// Whether the kernel itself says that no such process lives, without /proc.
fn is_absent(pid: i32) -> bool {
    match signals::send(pid, 0) {
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => true,
        _ => PidFd::open(pid).is_some_and(|process| process.has_ended()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> Handle {
        Handle { boot_id: boot_id().unwrap(), pid: 500, pgid: 500, start_ticks: 77 }
    }

    fn seen() -> Stat {
        Stat { pid: 500, state: b'S', parent: 1, group: 500, session: 500, start_ticks: 77 }
    }

    #[test]
    fn only_the_whole_identity_is_running() {
        let decide = |stat: Stat| decide(&handle(), Ok(stat), || unreachable!());
        assert_eq!(decide(seen()), Inspection::Running);
        assert_eq!(decide(Stat { parent: 9, ..seen() }), Inspection::Running, "adopted by another parent");
        assert_eq!(decide(Stat { start_ticks: 78, ..seen() }), Inspection::NotRunning, "a reused number");
        assert_eq!(decide(Stat { group: 1, ..seen() }), Inspection::NotRunning);
        assert_eq!(decide(Stat { state: b'Z', ..seen() }), Inspection::NotRunning, "a zombie has ended");
    }

    #[test]
    fn an_empty_proc_proves_absence_only_with_the_kernels_word() {
        assert_eq!(decide(&handle(), Err(io::ErrorKind::NotFound), || true), Inspection::NotRunning);
        assert_eq!(decide(&handle(), Err(io::ErrorKind::NotFound), || false), Inspection::Unavailable);
        assert_eq!(decide(&handle(), Err(io::ErrorKind::PermissionDenied), || true), Inspection::Unavailable);
    }

    #[test]
    fn another_boot_is_gone_and_a_foreign_shape_is_invalid() {
        let me = stat::read(std::process::id() as i32).unwrap();
        let mut handle = Handle { boot_id: boot_id().unwrap(), pid: me.pid, pgid: me.pid, start_ticks: me.start_ticks };
        handle.boot_id = Uuid::from_bytes([7; 16]);
        assert_eq!(inspect(&handle), Inspection::NotRunning);
        handle.pgid += 1;
        assert_eq!(inspect(&handle), Inspection::Invalid);
        assert_eq!(inspect(&Handle { pid: 1, pgid: 1, ..handle }), Inspection::Invalid);
    }

    #[test]
    fn what_is_not_a_session_leader_of_ours_gets_no_handle() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(capture(child.id() as i32).is_err(), "a child, but of our session");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(capture(std::process::id() as i32).is_err());
        assert!(capture(1).is_err());
    }
}
