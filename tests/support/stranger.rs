//! A process that is given the number of a dead one, and writes down every signal it gets.

use super::tree::{self, Process};
use super::until;
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The stranger: the leader of a session and of a group with its own number, with a child of its own.
pub struct Stranger {
    process: Process,
    child: Process,
    /// When it took the number; epoch milliseconds.
    pub came_ms: i64,
    signals: PathBuf,
}

/// What clone3(2) is told; the fields up to `set_tid_size` (Linux 5.5).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

impl Stranger {
    /// Takes the number as soon as it is free. Only root in a process id namespace of its own can.
    pub fn take(pid: i32, folder: &Path) -> Self {
        let (signals, ready) = (folder.join(format!("signals.{pid}")), folder.join(format!("stranger.{pid}")));
        let text = format!(
            "for s in TERM HUP INT QUIT USR1 USR2 CONT TSTP ALRM; do trap \"echo $s >> '{}'\" $s; done; \
             sleep 1000 & : > '{}'; while :; do wait; done",
            signals.display(),
            ready.display()
        );
        let words = ["/bin/sh", "-c", &text].map(|word| CString::new(word).unwrap());
        let (argv, envp) = (words.each_ref().map(|word| word.as_ptr()), [std::ptr::null::<libc::c_char>()]);
        let argv = [argv[0], argv[1], argv[2], std::ptr::null()];
        until(&format!("number {pid} to be free"), || {
            let told = CloneArgs {
                exit_signal: libc::SIGCHLD as u64,
                set_tid: (&raw const pid) as u64,
                set_tid_size: 1,
                ..CloneArgs::default()
            };
            // SAFETY: without flags this is a fork; the child makes system calls only, and all it reads
            // was made before.
            let child = unsafe { libc::syscall(libc::SYS_clone3, &raw const told, size_of::<CloneArgs>()) };
            if child == 0 {
                // SAFETY: as above; the lists end in null.
                unsafe {
                    libc::setsid();
                    libc::execve(argv[0], argv.as_ptr(), envp.as_ptr());
                    libc::_exit(127);
                }
            }
            let error = io::Error::last_os_error();
            assert!(child > 0 || error.raw_os_error() == Some(libc::EEXIST), "clone3: {error}");
            (child > 0).then_some(())
        });
        let came_ms = qinglet::process::clock::wall_ms();
        until("the stranger to be ready", || ready.exists().then_some(()));
        assert_eq!(tree::place(pid).map(|(_, group, session)| (group, session)), Some((pid, pid)));
        let child = tree::children(pid)[0];
        Self { process: tree::process(pid).unwrap(), child, came_ms, signals }
    }

    /// It and its child live, were not stopped, and it has heard nothing.
    pub fn assert_untouched(&self) {
        for process in [&self.process, &self.child] {
            assert!(tree::is_alive(process), "it was killed");
            assert!(tree::place(process.pid).is_some_and(|(state, ..)| state != 'T'), "it was stopped");
        }
        assert_eq!(fs::read_to_string(&self.signals).unwrap_or_default(), "", "it was signalled");
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        tree::end(&[self.process]);
    }
}
