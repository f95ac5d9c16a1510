//! Takes system calls away, by a filter (seccomp(2)) that answers them with an error: to a process, and to all that
//! it starts.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The instructions of a filter. Made before a fork, so that nothing is left to be made after it.
#[derive(Clone)]
pub struct Filter(Vec<libc::sock_filter>);

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

/// Where the low half of an argument is (`seccomp_data` of seccomp(2)), on machines that begin with it.
const fn argument(at: u32) -> u32 {
    16 + 8 * at
}

impl Filter {
    /// These calls, by number, fail with this error.
    pub fn without(calls: &[i64], error: i32) -> Self {
        let mut steps = vec![step(LOAD, 0, 0, 0)];
        for (at, call) in calls.iter().enumerate() {
            steps.push(step(EQUAL, (calls.len() - at) as u8, 0, *call as u32));
        }
        steps.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
        steps.push(refuse(error));
        Self(steps)
    }

    /// No file can be mapped so that its writes are seen by others, as on jffs2 or 9p.
    pub fn without_shared_maps() -> Self {
        Self(vec![
            step(LOAD, 0, 0, 0),
            step(EQUAL, 0, 6, libc::SYS_mmap as u32),
            step(LOAD, 0, 0, argument(3)),
            // Shared, under both of its names (MAP_SHARED, MAP_SHARED_VALIDATE).
            step(AND, 0, 0, 0x0d),
            step(EQUAL, 0, 3, libc::MAP_SHARED as u32),
            step(LOAD, 0, 0, argument(4)),
            step(EQUAL, 1, 0, u32::MAX),
            refuse(libc::ENODEV),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        ])
    }

    /// Puts it around a command. Starting that fails where there are no filters.
    pub fn around<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let mut filter = self.clone();
        // SAFETY: between fork and exec it makes two system calls and nothing else.
        unsafe { command.pre_exec(move || filter.install()) }
    }

    /// Whether this machine has filters; the error says why not.
    pub fn try_out(&self) -> io::Result<()> {
        self.around(&mut Command::new("true")).status().map(|_| ())
    }

    fn install(&mut self) -> io::Result<()> {
        let filter = libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_mut_ptr() };
        // SAFETY: integers, and a program that outlives the call, which copies it.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
        };
        if done { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

const fn refuse(error: i32) -> libc::sock_filter {
    step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32)
}
