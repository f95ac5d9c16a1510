//! What a killed shim leaves behind (design D6). Its tree hangs at pid 1 then, so it is found by the
//! session the shim led; a killed shim is the only case in which this is needed.

use super::handle::Handle;
use super::identity;
use super::stat::{self, Stat};
use super::tree::{self, Process};
use crate::model::limits;
use std::fs::File;
use std::io::{self, Read as _};

/// All a task may define and as much of its own making: a shell passes its environment on in an
/// order of its own.
const ENVIRON_BYTES_MAX: u64 = 2 * limits::ENV_BYTES_MAX as u64;

/// What a sweep found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Swept {
    /// So many of the session were alive and got KILL. Only a later sweep can tell that they are gone.
    Found(usize),
    /// Nothing that could be told to be this Run's lives.
    Empty,
    /// Nothing is left to be killed, and yet something may be this Run's: see [`sweep`].
    Unproven,
}

/// Kills what is left of the session that the handle's shim led. `mark` is the `NAME=value` that every
/// process of this Run was started with: a session's number can be given again once it is empty, so
/// the number alone proves nothing.
///
/// With nothing left to kill the answer is [`Unproven`](Swept::Unproven) when one of these holds:
/// - /proc did not show every process: an entry could not be read, or process 1 is hidden (hidepid);
/// - a live process of the session bears no mark, or does not show whether it does. Its program may
///   have been started with a clean environment, or the session's number be another's by now;
/// - a live process bears the mark outside the session: it left, and is not killed on its mark alone;
/// - a live process of our own user that is no older than the shim hides its environment, and is no
///   other shim.
///
/// What both left the session and dropped the mark, or became another user's out of an ordinary
/// user's task, cannot be told from a stranger, and no answer speaks of it.
pub fn sweep(handle: &Handle, mark: &str) -> io::Result<Swept> {
    // Every process of another boot is gone.
    if identity::boot_id()? != handle.boot_id {
        return Ok(Swept::Empty);
    }
    let (all, mut is_whole) = snapshot()?;
    is_whole &= all.iter().any(|stat| stat.pid == 1);
    let (mut found, mut doubts) = (0, 0);
    for stat in all.iter().filter(|stat| is_younger(stat, handle)) {
        match (stat.session == handle.pid, bears(stat.pid, mark)) {
            (true, Mark::Borne) => {
                found += 1;
                let process = Process { pid: stat.pid, start_ticks: stat.start_ticks, has_ended: false };
                tree::signal(&process, libc::SIGKILL);
            }
            (true, Mark::Missing | Mark::Hidden) | (false, Mark::Borne) => doubts += 1,
            (false, Mark::Hidden) if is_of_our_user(stat.pid) && !is_shim(stat.pid) => doubts += 1,
            (false, Mark::Missing | Mark::Hidden) | (_, Mark::Gone) => {}
        }
    }
    Ok(match (found, doubts, is_whole) {
        (0, 0, true) => Swept::Empty,
        (0, ..) => Swept::Unproven,
        (found, ..) => Swept::Found(found),
    })
}

/// Every process, and whether none was hidden from us. One that ends meanwhile is not there.
fn snapshot() -> io::Result<(Vec<Stat>, bool)> {
    let (mut all, mut is_whole) = (Vec::new(), true);
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match stat::read(pid) {
            Ok(stat) => all.push(stat),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(_) => is_whole = false,
        }
    }
    Ok((all, is_whole))
}

fn is_younger(stat: &Stat, handle: &Handle) -> bool {
    stat.pid != handle.pid && stat.start_ticks >= handle.start_ticks && !stat.has_ended()
}

/// Whether a process was started with an environment entry.
enum Mark {
    Borne,
    Missing,
    /// It does not say.
    Hidden,
    /// It has ended meanwhile.
    Gone,
}

fn bears(pid: i32, mark: &str) -> Mark {
    let mut bytes = Vec::new();
    let read =
        File::open(format!("/proc/{pid}/environ")).and_then(|f| f.take(ENVIRON_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) => Mark::Borne,
        Ok(_) => Mark::Missing,
        Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ESRCH) => Mark::Gone,
        Err(_) => Mark::Hidden,
    }
}

/// Whether it calls itself a shim; those hide their environment from everybody but root.
fn is_shim(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"qinglet\0shim\0")
}

/// Whether a process that hides its environment was started by our user: its real user id says so, or
/// says nothing. A kernel's thread and other people's processes are not what a task started.
fn is_of_our_user(pid: i32) -> bool {
    let real = |pid: &str| -> Option<u32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()
    };
    let theirs = real(&pid.to_string());
    theirs.is_none() || theirs == real("self")
}

#[cfg(test)]
mod tests {
    use super::*;
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
            assert!(!matches!(sweep(&handle, MARK).unwrap(), Swept::Found(_)));
        }
        assert!(ours.try_wait().unwrap().is_none());
        // The program may still be the test's own between fork and exec; then it bears no mark yet.
        while !matches!(sweep(&handle, MARK).unwrap(), Swept::Found(1)) {}
        ours.wait().unwrap();
        assert!(!matches!(sweep(&handle, MARK).unwrap(), Swept::Found(_)));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// A child that leads a session of its own, as a shim would, and what lives in it.
    fn session(mark: &str, text: &str) -> (Child, Handle) {
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", text]).env_clear().env("PATH", "/usr/bin:/bin").env(name, value);
        let child = command.spawn().unwrap();
        let pid = child.id() as i32;
        let start_ticks = stat::read(pid).unwrap().start_ticks;
        (child, Handle { boot_id: identity::boot_id().unwrap(), pid, pgid: pid, start_ticks })
    }

    /// Sweeps until it says so; everything that begins or ends takes its time.
    fn until(handle: &Handle, mark: &str, want: Swept) {
        for _ in 0..2000 {
            if sweep(handle, mark).unwrap() == want {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{want:?} did not come: {:?}", sweep(handle, mark));
    }

    #[test]
    fn an_unmarked_process_of_the_session_is_left_alone_and_said() {
        let mark = "QINGLET_SWEEP_TEST=3";
        // The shell that leads is the "shim"; the sweep is for what lives beside it.
        let (mut shim, handle) = session(mark, "env -i sleep 100 & sleep 100 & wait");
        // Until then even the one that drops the mark bears the shell's.
        let sleeps =
            |stat: &Stat| std::fs::read(format!("/proc/{}/cmdline", stat.pid)).is_ok_and(|l| l == b"sleep\x00100\0");
        let begun = || tree::snapshot().unwrap().iter().filter(|s| s.session == handle.pid && sleeps(s)).count() == 2;
        for _ in 0..2000 {
            if begun() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        until(&handle, mark, Swept::Found(1));
        until(&handle, mark, Swept::Unproven);
        assert!(shim.try_wait().unwrap().is_none());
        let left: Vec<Stat> =
            tree::snapshot().unwrap().into_iter().filter(|s| s.session == handle.pid && s.pid != handle.pid).collect();
        assert_eq!(left.iter().filter(|stat| !stat.has_ended()).count(), 1, "{left:?}");
        for stat in left {
            let _ = crate::process::signals::send(stat.pid, libc::SIGKILL);
        }
        shim.wait().unwrap();
        until(&handle, mark, Swept::Empty);
    }

    #[test]
    fn a_marked_process_that_left_the_session_is_left_alone_and_said() {
        let mark = "QINGLET_SWEEP_TEST=4";
        let (mut shim, handle) = session(mark, "exec sleep 100");
        let (mut away, its) = session(mark, "exec sleep 100");
        until(&handle, mark, Swept::Unproven);
        assert!(away.try_wait().unwrap().is_none());
        for child in [&mut away, &mut shim] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        until(&handle, mark, Swept::Empty);
        until(&its, mark, Swept::Empty);
    }
}
