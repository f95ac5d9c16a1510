//! What a killed shim leaves behind (design D6). Its tree hangs at pid 1 then, so it is found by the
//! session the shim led; a killed shim is the only case in which this is needed.

use super::handle::Handle;
use super::identity;
use super::stat::Stat;
use super::tree::{self, Process};
use crate::model::limits;
use std::fs::File;
use std::io::{self, Read as _};

/// All a task may define and as much of its own making: a shell passes its environment on in an
/// order of its own.
const ENVIRON_BYTES_MAX: u64 = 2 * limits::ENV_BYTES_MAX as u64;

/// Kills what is left of the session that the handle's shim led; how many were found alive. Only zero
/// means that nothing is left. `mark` is the `NAME=value` that every process of this Run was started
/// with: a session's number can be given again once it is empty, so the number alone proves nothing.
///
/// A task's process that left the session, or started its program without the mark, is not found.
pub fn sweep(handle: &Handle, mark: &str) -> io::Result<usize> {
    // Every process of another boot is gone.
    if identity::boot_id()? != handle.boot_id {
        return Ok(0);
    }
    let mut found = 0;
    for stat in tree::snapshot()? {
        if belongs(&stat, handle) && is_marked(stat.pid, mark) {
            found += 1;
            let process = Process { pid: stat.pid, start_ticks: stat.start_ticks, has_ended: false };
            tree::signal(&process, libc::SIGKILL);
        }
    }
    Ok(found)
}

fn belongs(stat: &Stat, handle: &Handle) -> bool {
    stat.session == handle.pid && stat.pid != handle.pid && stat.start_ticks >= handle.start_ticks && !stat.has_ended()
}

/// Whether a process was started with this environment entry. One that cannot be read is not ours:
/// we run as its user or as root.
fn is_marked(pid: i32, mark: &str) -> bool {
    let mut bytes = Vec::new();
    let read =
        File::open(format!("/proc/{pid}/environ")).and_then(|f| f.take(ENVIRON_BYTES_MAX).read_to_end(&mut bytes));
    read.is_ok() && bytes.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::stat;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    const MARK: &str = "QINGLET_SWEEP_TEST=1";

    /// A child in the session of this test's process, as a shim's is in its own.
    fn child(mark: &str) -> Child {
        let (name, value) = mark.split_once('=').unwrap();
        Command::new("sleep").arg("100").env_clear().env(name, value).process_group(0).spawn().unwrap()
    }

    fn leader(own: &Stat) -> Handle {
        Handle { boot_id: identity::boot_id().unwrap(), pid: own.session, pgid: own.session, start_ticks: 0 }
    }

    #[test]
    fn only_marked_processes_of_the_same_session_and_boot_are_ended() {
        let (mut ours, mut other) = (child(MARK), child("QINGLET_SWEEP_TEST=2"));
        let handle = leader(&stat::read(ours.id() as i32).unwrap());
        let mut elsewhere = handle;
        elsewhere.pid = std::process::id() as i32 + 1;
        let mut earlier = handle;
        earlier.boot_id = crate::model::id::Uuid::parse("018f5e7a-9b1c-7def-8123-456789abcdef").unwrap();
        let mut younger = handle;
        younger.start_ticks = u64::MAX;
        for handle in [elsewhere, earlier, younger] {
            assert_eq!(sweep(&handle, MARK).unwrap(), 0);
        }
        assert!(ours.try_wait().unwrap().is_none());
        // The program may still be the test's own between fork and exec; then it bears no mark yet.
        while sweep(&handle, MARK).unwrap() == 0 {}
        ours.wait().unwrap();
        assert_eq!(sweep(&handle, MARK).unwrap(), 0);
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
