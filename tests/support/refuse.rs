//! A kernel that refuses: the n-th thing that a daemon or its shims write below a folder fails as on a
//! full disk. From outside, by seccomp(2): a thread gets a filter, what it starts inherits it, and
//! every system call that needs space asks us first. Neither root nor anything in the product is needed.
//!
//! Each is one call: a write, a sync, a truncation, or a new name (a file, a folder, a rename).

use super::skip;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

/// What is refused from now on.
#[derive(Default)]
struct Plan {
    count: u64,
    /// 0: nothing.
    at: u64,
    sticky: bool,
    refused: Vec<String>,
}

/// A disk below one folder that is full when it is told to be.
pub struct Refusals {
    root: PathBuf,
    plan: Arc<Mutex<Plan>>,
}

#[cfg(target_arch = "x86_64")]
const OLD_NAMES: [i64; 4] = [libc::SYS_open, libc::SYS_mkdir, libc::SYS_rename, libc::SYS_link];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: [i64; 4] = [-1; 4];

/// By a descriptor, the first argument.
const BY_FD: [i64; 8] = [
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev2,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
];

/// By a path, the second argument, and of two paths the fourth.
const BY_NAME: [i64; 4] = [libc::SYS_openat, libc::SYS_mkdirat, libc::SYS_renameat2, libc::SYS_linkat];

impl Refusals {
    /// Refusals below `root`. `None`: this kernel has no such filters, and the skip has been said.
    pub fn below(test: &str, root: &Path) -> Option<Self> {
        let root = root.to_owned();
        let new = Self { root, plan: Arc::default() };
        match new.within(|| ()) {
            Ok(()) => Some(new),
            Err(error) => {
                skip(test, &format!("the kernel does not let a process answer system calls ({error})"));
                None
            }
        }
    }

    /// Counts from zero and refuses the n-th, with `sticky` all after it too, until [`free`](Self::free).
    pub fn arm(&self, at: u64, sticky: bool) {
        *self.plan.lock().unwrap() = Plan { at, sticky, ..Plan::default() };
    }

    /// Refuses nothing any more. What was refused since it was armed.
    pub fn free(&self) -> Vec<String> {
        std::mem::take(&mut *self.plan.lock().unwrap()).refused
    }

    /// What was refused since it was armed.
    pub fn refused(&self) -> Vec<String> {
        self.plan.lock().unwrap().refused.clone()
    }

    /// Does something on a thread under the filter; so are the processes that it starts, for ever.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let (go, gone) = mpsc::channel::<()>();
            let acting = scope.spawn(move || {
                let listener = install();
                let works = listener.is_ok();
                tell.send(listener).unwrap();
                // The one who answers is there before the first question.
                gone.recv().ok().filter(|()| works).map(|()| act())
            });
            let listener = told.recv().unwrap()?;
            let (plan, root) = (self.plan.clone(), self.root.clone());
            // Ends by itself with the last process under the filter.
            thread::spawn(move || answer(&listener, &plan, &root));
            go.send(()).unwrap();
            acting.join().unwrap().ok_or_else(|| io::Error::other("nothing was done"))
        })
    }
}

impl Plan {
    /// Whether this one is refused.
    fn judge(&mut self, what: impl FnOnce() -> String) -> bool {
        if self.at == 0 {
            return false;
        }
        self.count += 1;
        let refused = self.count == self.at || self.sticky && self.count > self.at;
        if refused {
            self.refused.push(what());
        }
        refused
    }
}

/// Puts the filter on this thread; the descriptor at which the kernel asks.
fn install() -> io::Result<OwnedFd> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let numbers: Vec<i64> = [&BY_FD[..], &BY_NAME, &OLD_NAMES].concat().into_iter().filter(|nr| *nr >= 0).collect();
    let step = |code, jt, k| libc::sock_filter { code, jt, jf: 0, k };
    // The number of the call is the first word of what a filter sees.
    let mut program = vec![step(LOAD, 0, 0)];
    for (at, number) in numbers.iter().enumerate() {
        program.push(step(EQUAL, (numbers.len() - at) as u8, *number as u32));
    }
    program.push(step(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    program.push(step(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | WAIT_KILLABLE;
    // SAFETY: prctl takes integers here, and concerns this thread only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program outlives the call, which copies it.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us, closed on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// No signal interrupts a call that we are looking at, or it would be counted twice.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

fn answer(listener: &OwnedFd, plan: &Mutex<Plan>, root: &Path) {
    loop {
        let mut look = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, valid for the call.
        if unsafe { libc::poll(&raw mut look, 1, -1) } < 0 || look.revents & libc::POLLIN == 0 {
            // The last one under the filter is gone.
            return;
        }
        // SAFETY: all-zero is a valid value, and the kernel demands it.
        let mut asked: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the request's own structure, for the kernel to fill.
        if unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut asked) } != 0 {
            // It died before it was looked at.
            continue;
        }
        let target = target(&asked).filter(|path| path.starts_with(root));
        let refused = target.is_some_and(|path| {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            plan.lock().unwrap().judge(|| format!("{} {name}", word(i64::from(asked.data.nr))))
        });
        let (error, flags) = if refused { (-libc::ENOSPC, 0) } else { (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE) };
        let mut reply = libc::seccomp_notif_resp { id: asked.id, val: 0, error, flags: flags as u32 };
        // SAFETY: as above. It fails when the asker is gone meanwhile, which needs no answer.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut reply) };
    }
}

/// Where the call would take space; `None` when it takes none.
fn target(asked: &libc::seccomp_notif) -> Option<PathBuf> {
    let (number, args, pid) = (i64::from(asked.data.nr), &asked.data.args, asked.pid);
    if BY_FD.contains(&number) {
        return fs::read_link(format!("/proc/{pid}/fd/{}", args[0] as i32)).ok();
    }
    let creates = |flags: u64| flags as i32 & libc::O_CREAT != 0;
    let at = match number {
        libc::SYS_openat if creates(args[2]) => args[1],
        libc::SYS_mkdirat => args[1],
        libc::SYS_renameat2 | libc::SYS_linkat => args[3],
        _ if number == OLD_NAMES[0] && creates(args[1]) => args[0],
        _ if number == OLD_NAMES[1] => args[0],
        _ if number == OLD_NAMES[2] || number == OLD_NAMES[3] => args[1],
        _ => return None,
    };
    let path = text(pid, at)?;
    // What is there already needs no space for its name.
    let opens = number == libc::SYS_openat || number == OLD_NAMES[0];
    Some(path).filter(|path| !opens || path.symlink_metadata().is_err())
}

/// The text at this address of a process.
fn text(pid: u32, at: u64) -> Option<PathBuf> {
    let mut bytes = vec![0; 4096];
    let got = File::open(format!("/proc/{pid}/mem")).ok()?.read_at(&mut bytes, at).ok()?;
    bytes.truncate(got);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(OsString::from_vec(bytes).into())
}

fn word(number: i64) -> &'static str {
    match number {
        libc::SYS_fsync | libc::SYS_fdatasync => "sync of",
        libc::SYS_ftruncate | libc::SYS_fallocate => "resizing of",
        _ if BY_FD.contains(&number) => "write to",
        _ => "new name",
    }
}
