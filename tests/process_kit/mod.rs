//! A rig around the real launcher, the real shim and real folders, so that a test is a few lines.

#![allow(dead_code)] // each test file uses its part
#![allow(clippy::unwrap_used, clippy::panic)] // a rig that cannot be built fails its test

use qinglet::model::command::Leftovers;
use qinglet::model::id::{AttemptId, IdSource, RunId};
use qinglet::process::clock::wall_ms;
use qinglet::process::launch::{Held, LaunchFailure, Launcher, LauncherOptions, open_exe};
use qinglet::process::log::{LogPlaceOnDisk, LogRange, LogStore};
use qinglet::process::orders::{Confined, Orders};
use qinglet::process::pidfd::PidFd;
use qinglet::process::poll;
use qinglet::process::reap::Children;
use qinglet::process::receipt::{Receipt, ReceiptRead, ReceiptStore};
use std::fs::DirBuilder;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// No wait in a test is longer.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Rig {
    pub root: PathBuf,
    pub receipts: ReceiptStore,
    pub logs: LogStore,
    pub children: Arc<Children>,
    pub launcher: Launcher,
    ids: Mutex<IdSource>,
}

/// How a run ended, as a reader sees it.
pub struct Finished {
    pub receipt: Receipt,
    pub log: LogRange,
}

impl Finished {
    pub fn text(&self) -> String {
        String::from_utf8(self.log.bytes.clone()).unwrap()
    }
}

/// The names that find a run again.
#[derive(Clone)]
pub struct Names {
    pub attempt: AttemptId,
    pub artifact: String,
    pub log_path: PathBuf,
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut LauncherOptions)) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("qinglet-rig-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for folder in ["", "receipts", "logs", "work"] {
            DirBuilder::new().mode(0o700).create(root.join(folder)).unwrap();
        }
        let children = Arc::new(Children::new());
        let exe = open_exe(&exe()).unwrap();
        let mut options = LauncherOptions::new(exe, Arc::clone(&children));
        change(&mut options);
        Self {
            receipts: ReceiptStore::new(root.join("receipts")),
            logs: LogStore::new(root.join("logs")),
            launcher: Launcher::start(options).unwrap(),
            children,
            root,
            ids: Mutex::default(),
        }
    }

    /// A file of this rig's, for the task to touch.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join("work").join(name)
    }

    /// Orders for these words, with everything else as a daemon would give it.
    pub fn orders(&self, argv: &[&str]) -> (Orders, Names) {
        let id = || {
            let mut random = [0; 10];
            getrandom::fill(&mut random).unwrap();
            self.ids.lock().unwrap().next(wall_ms(), random)
        };
        let (run, attempt) = (RunId(id()), AttemptId(id()));
        let LogPlaceOnDisk { artifact, shard_dir } = self.logs.allocate(run, attempt).unwrap();
        let log_path = shard_dir.join(format!("{artifact}.log"));
        let orders = Orders {
            run,
            attempt,
            sequence: 1,
            token: [0x5a; 32],
            receipt_dir: self.receipts.shard_dir(attempt).unwrap(),
            log_dir: shard_dir,
            log_artifact: artifact.clone(),
            log_bytes_max: 1024 * 1024,
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            env: vec![("PATH".into(), "/usr/sbin:/usr/bin:/sbin:/bin".into())],
            cwd: None,
            grace_ms: 500,
            drain_grace_ms: 300,
            leftovers: Leftovers::Kill,
            has_secrets: false,
            redact: Vec::new(),
            confined: Confined::default(),
        };
        (orders, Names { attempt, artifact, log_path })
    }

    /// Orders for a shell text.
    pub fn shell(&self, text: &str) -> (Orders, Names) {
        self.orders(&["/bin/sh", "-c", text])
    }

    pub fn launch(&self, orders: Orders) -> Result<Held, LaunchFailure> {
        let (sender, receiver) = mpsc::channel();
        self.launcher.launch(orders, Box::new(move |result| drop(sender.send(result))));
        receiver.recv_timeout(PATIENCE).unwrap()
    }

    /// Launches and releases; the shim's number.
    pub fn start(&self, orders: Orders) -> i32 {
        let held = self.launch(orders).map_err(|e| e.to_string()).unwrap();
        let pid = held.pid;
        held.release().unwrap();
        pid
    }

    /// Waits for the shim's end, then reads what it left.
    pub fn finish(&self, shim: i32, names: &Names) -> Finished {
        wait_for_end(shim);
        let receipt = match self.receipts.read(names.attempt) {
            ReceiptRead::Found(receipt) => receipt,
            other => panic!("{other:?}"),
        };
        let log = self.logs.read_range(&names.artifact, 0, 4 * 1024 * 1024).unwrap();
        Finished { receipt, log }
    }

    /// Launches, releases and waits.
    pub fn run(&self, (orders, names): (Orders, Names)) -> Finished {
        let shim = self.start(orders);
        self.finish(shim, &names)
    }

    /// Asserts that no receipt, published or begun, and no fact was left.
    pub fn assert_nothing_ran(&self, names: &Names) {
        assert!(matches!(self.receipts.read(names.attempt), ReceiptRead::Absent));
        let shard = self.receipts.shard_dir(names.attempt).unwrap();
        assert_eq!(std::fs::read_dir(shard).unwrap().count(), 0, "nothing begun is left");
        assert_eq!(std::fs::metadata(&names.log_path).unwrap().len(), 0);
        assert_eq!(self.logs.read_range(&names.artifact, 0, 1).unwrap().truncated, None);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

/// The binary under test; a copy when this is a rerun.
pub fn exe() -> PathBuf {
    std::env::var_os(COPY).map_or_else(|| env!("CARGO_BIN_EXE_qinglet").into(), PathBuf::from)
}

const COPY: &str = "QINGLET_TEST_COPY";

pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Copies a file by another process: one that this process has open for writing may just be inherited by
/// a fork on another thread, and then it cannot be executed (ETXTBSY).
pub fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// A file to be executed.
pub fn write_program(path: &Path, text: &str, mode: u32) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, text).unwrap();
    copy(&draft, path);
    std::fs::remove_file(draft).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

const NOBODY: u32 = 65_534;

/// Runs this whole test file again as a user without rights, when root runs it; `except` is the caller.
pub fn rerun_as_nobody(except: &str) {
    use std::os::unix::process::CommandExt as _;
    if is_root() {
        rerun(|tests| {
            let mut command = std::process::Command::new(tests);
            command.args(["--skip", except]).uid(NOBODY).gid(NOBODY);
            command
        });
    }
}

/// Runs a copy of this test file in a place that user can enter, the way `command` says.
pub fn rerun(command: impl FnOnce(&Path) -> std::process::Command) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let root = std::env::temp_dir().join(format!("qinglet-rerun-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
    let (tests, binary) = (root.join("tests"), root.join("qinglet"));
    copy(&std::env::current_exe().unwrap(), &tests);
    copy(&exe(), &binary);
    let output = command(&tests).current_dir("/").env(COPY, binary).env("TMPDIR", &root).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!said.contains("running 0 tests"), "{said}");
    std::fs::remove_dir_all(root).unwrap();
}

/// Waits until a child of ours has ended; it is not freed.
pub fn wait_for_end(pid: i32) {
    let Some(pidfd) = PidFd::open(pid) else { return };
    let mut look = [poll::readable(pidfd.as_fd())];
    let ready = poll::wait(&mut look, Some(PATIENCE.as_millis() as u64)).unwrap();
    assert_eq!(ready, 1, "process {pid} did not end");
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number written to a file by a task, once it is whole.
pub fn number_in(path: &Path) -> i32 {
    let mut number = None;
    until("a number in a file", || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        number = text.strip_suffix('\n').and_then(|text| text.parse().ok());
        number.is_some()
    });
    number.unwrap()
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: i32) -> bool {
    qinglet::process::stat::read(pid).is_ok_and(|stat| !stat.has_ended())
}

pub fn kill(pid: i32, signal: i32) {
    let sent = std::process::Command::new("kill").arg(format!("-{signal}")).arg("--").arg(pid.to_string()).status();
    assert!(sent.unwrap().success());
}
