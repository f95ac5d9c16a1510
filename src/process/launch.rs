//! The launcher: one thread that forks shims, and hands back each one held and identified (design D3). No user code runs before [`Held::release`].

use super::handle::Handle;
use super::open_path::open_path;
use super::orders::{self, Manner, Orders};
use super::reap::Children;
use super::step::{self, REPORT_BYTES};
pub use super::step::{LaunchFailure, LaunchStep};
use super::{clock, crash, fd, fork, identity, poll, signals};
use crate::model::limits;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::iter;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What a launcher needs.
pub struct LauncherOptions {
    /// The binary to execute as the shim.
    pub exe: File,
    /// The table of children, shared with the control loop.
    pub children: Arc<Children>,
    /// Whether shims stay dumpable; `None` finds out what this system needs.
    pub dumpable: Option<bool>,
    /// How long one launch may take, from fork to ready.
    pub launch_ms: u64,
    /// Where every shim shall die; for tests.
    #[cfg(debug_assertions)]
    pub crash_at: Option<&'static str>,
}

impl LauncherOptions {
    /// With this binary as the shim.
    pub fn new(exe: File, children: Arc<Children>) -> Self {
        Self {
            exe,
            children,
            dumpable: None,
            launch_ms: limits::LAUNCH_MS_MAX,
            #[cfg(debug_assertions)]
            crash_at: crash::told().filter(|point| point.side == crash::Side::Shim).map(|point| point.name),
        }
    }
}

/// The binary this process runs, held open, so that it stays the same one when an upgrade replaces or
/// removes the file. To be called once, at the start.
pub fn own_exe() -> io::Result<File> {
    open_exe(Path::new("/proc/self/exe"))
}

/// A binary to be executed later; it need not be readable.
pub fn open_exe(path: &Path) -> io::Result<File> {
    open_path(path, 0)
}

/// What tasks read from and shims write to. A system that is set up by hand may lack it.
fn open_null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null").map_err(|e| {
        io::Error::new(e.kind(), format!("cannot open /dev/null ({e}): make it with `mknod -m 666 /dev/null c 1 3`"))
    })
}

type Reply = Box<dyn FnOnce(Result<Held, LaunchFailure>) + Send>;
type Job = (Orders, Reply);

/// A handle on the launcher's thread. Dropped, it finishes what it is at and ends.
pub struct Launcher {
    jobs: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    dumpable: bool,
}

impl Launcher {
    /// Starts the thread `launcher`.
    pub fn start(options: LauncherOptions) -> io::Result<Self> {
        let dumpable = match options.dumpable {
            Some(dumpable) => dumpable,
            None => !fork::can_see_undumpable_children()?,
        };
        let null = open_null()?;
        let (jobs, queue) = sync_channel(limits::LAUNCH_QUEUE);
        let work = Work { options, null, dumpable };
        let thread = std::thread::Builder::new()
            .name("launcher".into())
            .stack_size(limits::LAUNCHER_STACK_BYTES)
            .spawn(move || work.serve(&queue))?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)), dumpable })
    }

    /// Whether shims stay dumpable, because this /proc hides undumpable processes from their own parent.
    pub const fn leaves_shims_dumpable(&self) -> bool {
        self.dumpable
    }

    /// Launches in turn and answers through `reply`: on the launcher's thread, so it must be short, or
    /// at once on the caller's when too many wait or the launcher has stopped.
    pub fn launch(&self, orders: Orders, reply: Reply) {
        let refused = |step| Err(LaunchFailure { step, errno: 0 });
        let Some(jobs) = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return reply(refused(LaunchStep::Stopped));
        };
        match jobs.try_send((orders, reply)) {
            Ok(()) => {}
            Err(TrySendError::Full((_, reply))) => reply(refused(LaunchStep::Busy)),
            Err(TrySendError::Disconnected((_, reply))) => reply(refused(LaunchStep::Stopped)),
        }
    }

    /// Finishes what is queued and ends the thread; idempotent.
    pub fn stop(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A shim that has prepared everything and waits. Dropped, it ends and nothing has run.
pub struct Held {
    /// Its durable name.
    pub handle: Handle,
    /// Its number, the same as in the handle.
    pub pid: i32,
    orders: PipeWriter,
}

impl Held {
    /// Lets the user's program run: the one thing that does. To be called after the commit that says so.
    /// An error means that the shim is gone and nothing ran.
    pub fn release(mut self) -> io::Result<()> {
        self.orders.write_all(&[RELEASE])
    }
}

/// The byte that releases.
pub(super) const RELEASE: u8 = b'!';

struct Work {
    options: LauncherOptions,
    null: File,
    dumpable: bool,
}

impl Work {
    /// Begins all that wait, up to a bound, before it waits for the first one's report: most of a launch
    /// is the shim's own work, and what is reported together is committed together.
    fn serve(&self, queue: &Receiver<Job>) {
        while let Ok(first) = queue.recv() {
            let jobs = iter::once(first).chain(queue.try_iter()).take(limits::LAUNCHES_TOGETHER_MAX);
            let begun: Vec<_> = jobs.map(|(orders, reply)| (self.begin(&orders), reply)).collect();
            for (shim, reply) in begun {
                reply(shim.and_then(|shim| self.finish(shim)));
            }
        }
    }

    fn manner(&self) -> Manner<'_> {
        Manner {
            dumpable: self.dumpable,
            #[cfg(debug_assertions)]
            crash_at: self.options.crash_at.unwrap_or_default(),
            #[cfg(not(debug_assertions))]
            crash_at: "",
        }
    }

    /// Forks a shim and hands it its orders.
    fn begin(&self, orders: &Orders) -> Result<Shim, LaunchFailure> {
        let packed = orders::pack(orders, self.manner())?;
        let begun = self.fork(orders.attempt).and_then(|mut shim| {
            crash::at("launch.forked");
            match shim.send(&packed) {
                Ok(()) => Ok(shim),
                Err(failure) => Err(self.give_up(shim, failure)),
            }
        });
        orders::wipe(packed);
        begun
    }

    /// Waits until a shim has reported that it is held, and names it.
    fn finish(&self, mut shim: Shim) -> Result<Held, LaunchFailure> {
        crash::at("launch.ordered");
        let captured = shim
            .report()
            .and_then(|()| identity::capture(shim.pid).map_err(|e| LaunchFailure::of(LaunchStep::Identity, &e)));
        match captured {
            Ok(handle) => {
                self.options.children.let_go(shim.pid);
                Ok(Held { handle, pid: shim.pid, orders: shim.orders })
            }
            Err(failure) => Err(self.give_up(shim, failure)),
        }
    }

    fn give_up(&self, shim: Shim, failure: LaunchFailure) -> LaunchFailure {
        shim.end(&self.options.children);
        failure
    }

    fn fork(&self, attempt: crate::model::id::AttemptId) -> Result<Shim, LaunchFailure> {
        let pipe_failed = |e: io::Error| LaunchFailure::of(LaunchStep::Pipe, &e);
        let (orders_read, orders) = io::pipe().map_err(pipe_failed)?;
        let (status, status_write) = io::pipe().map_err(pipe_failed)?;
        fd::set_nonblocking(orders.as_fd()).map_err(pipe_failed)?;
        fd::set_nonblocking(status.as_fd()).map_err(pipe_failed)?;
        let fork =
            || fork::shim(self.options.exe.as_fd(), self.null.as_fd(), orders_read.as_fd(), status_write.as_fd());
        let pid = self.options.children.enter(attempt, fork).map_err(|e| LaunchFailure::of(LaunchStep::Fork, &e))?;
        let deadline_ms = clock::boottime_ms() + self.options.launch_ms as i64;
        Ok(Shim { pid, orders, status, deadline_ms })
    }
}

/// A shim that has not reported yet.
struct Shim {
    pid: i32,
    orders: PipeWriter,
    status: PipeReader,
    deadline_ms: i64,
}

impl Shim {
    /// Hands the orders over. A shim that reports or dies meanwhile ends it: its report says why.
    fn send(&mut self, mut packed: &[u8]) -> Result<(), LaunchFailure> {
        while !packed.is_empty() {
            match self.orders.write(packed) {
                Ok(wrote) => packed = packed.get(wrote..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let mut look = [poll::writable(self.orders.as_fd()), poll::readable(self.status.as_fd())];
                    self.wait(&mut look)?;
                    let [_, status] = look;
                    if status.revents != 0 {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(e) => return Err(LaunchFailure::of(LaunchStep::Orders, &e)),
            }
        }
        Ok(())
    }

    /// Waits for the report.
    fn report(&mut self) -> Result<(), LaunchFailure> {
        let mut report = [0; REPORT_BYTES];
        loop {
            match self.status.read(&mut report) {
                // Six bytes through a pipe are never split.
                Ok(REPORT_BYTES) => {
                    return step::read_report(report)
                        .unwrap_or(Err(LaunchFailure { step: LaunchStep::Died, errno: 0 }));
                }
                Ok(_) => return Err(LaunchFailure { step: LaunchStep::Died, errno: 0 }),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(&mut [poll::readable(self.status.as_fd())])?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(LaunchFailure::of(LaunchStep::Died, &e)),
            }
        }
    }

    fn wait(&self, look: &mut [libc::pollfd]) -> Result<(), LaunchFailure> {
        let left = self.deadline_ms - clock::boottime_ms();
        if left <= 0 {
            return Err(LaunchFailure { step: LaunchStep::Timeout, errno: libc::ETIMEDOUT });
        }
        poll::wait(look, Some(left as u64)).map_err(|e| LaunchFailure::of(LaunchStep::Died, &e)).map(drop)
    }

    /// Ends a shim that will never be released. Its number is still ours, because nobody else frees it.
    fn end(self, children: &Children) {
        // The closed pipe lets it remove what it began; it has a moment for that.
        drop(self.orders);
        if is_freed(self.pid, children, ABANDON_MS) {
            return;
        }
        let _ = signals::send(self.pid, libc::SIGKILL);
        if !is_freed(self.pid, children, limits::KILL_WAIT_MS) {
            // In the kernel's hands (D state); the reaper will see it end.
            children.let_go(self.pid);
        }
    }
}

fn is_freed(pid: i32, children: &Children, wait_ms: u64) -> bool {
    let end = clock::boottime_ms() + wait_ms as i64;
    while !children.free(pid) {
        if clock::boottime_ms() > end || poll::wait(&mut [], Some(1)).is_err() {
            return false;
        }
    }
    true
}

/// How long an abandoned shim may take to remove what it began.
const ABANDON_MS: u64 = 200;
