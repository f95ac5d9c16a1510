//! Shims of an earlier daemon. They are not our children, so no SIGCHLD tells of their end; a pidfd
//! does, where the kernel has them (design D7).

use super::handle::Handle;
use super::identity::{self, Inspection};
use super::pidfd::PidFd;
use super::poll;
use crate::model::id::AttemptId;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The adopted shims whose ends are told of. Shared by the host and the control loop's poll.
#[derive(Debug, Default)]
pub struct Adopted(Mutex<Vec<(AttemptId, PidFd)>>);

impl Adopted {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    fn shims(&self) -> MutexGuard<'_, Vec<(AttemptId, PidFd)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a shim in. `false`: there is no pidfd for it, or it is not proven to be the one; then
    /// nobody will tell of its end and it has to be looked at.
    pub fn watch(&self, attempt: AttemptId, handle: &Handle) -> bool {
        // Opened first: what is verified after it is what is watched.
        let Some(pidfd) = PidFd::open(handle.pid) else { return false };
        if identity::inspect(handle) != Inspection::Running {
            return false;
        }
        let mut shims = self.shims();
        if shims.iter().all(|(known, _)| *known != attempt) {
            shims.push((attempt, pidfd));
        }
        true
    }

    /// Adds what must be polled for input. The descriptors stay open until [`ended`](Self::ended)
    /// takes them out.
    pub fn poll_with(&self, look: &mut Vec<libc::pollfd>) {
        look.extend(self.shims().iter().map(|(_, pidfd)| poll::readable(pidfd.as_fd())));
    }

    /// Takes out the shims that have ended and names their Attempts, each once.
    pub fn ended(&self) -> Vec<AttemptId> {
        let mut ended = Vec::new();
        self.shims().retain(|(attempt, pidfd)| {
            let gone = pidfd.has_ended();
            if gone {
                ended.push(*attempt);
            }
            !gone
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::Uuid;
    use crate::process::stat;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    #[test]
    fn the_end_of_exactly_the_named_process_is_told_of_once() {
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let pid = child.id() as i32;
        let start_ticks = stat::read(pid).unwrap().start_ticks;
        let handle = Handle { boot_id: identity::boot_id().unwrap(), pid, pgid: pid, start_ticks };
        let attempt = AttemptId(Uuid::from_bytes([7; 16]));
        let adopted = Adopted::new();
        assert!(!adopted.watch(attempt, &Handle { start_ticks: start_ticks + 1, ..handle }), "a reused number");
        // A kernel without pidfds tells of none; they are looked at instead.
        let told = usize::from(adopted.watch(attempt, &handle) && adopted.watch(attempt, &handle));
        assert_eq!(told == 1, PidFd::open(pid).is_some());
        let mut look = Vec::new();
        adopted.poll_with(&mut look);
        assert_eq!((look.len(), poll::wait(&mut look, Some(0)).unwrap(), adopted.ended()), (told, 0, Vec::new()));
        child.kill().unwrap();
        assert_eq!(poll::wait(&mut look, Some(10_000)).unwrap(), told);
        assert_eq!((adopted.ended(), adopted.ended()), (vec![attempt; told], Vec::new()));
        child.wait().unwrap();
    }
}
