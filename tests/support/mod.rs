//! A bench for tests against the real binary: a throw-away state, its daemon, the command line and
//! raw HTTP, so that a test is a few lines. Dropping it ends its own daemon and tasks, and nothing
//! else on the machine.

// Each test file is a crate of its own and uses what it needs; here a panic is how a test fails.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

pub mod filter;
pub mod folder;
pub mod hold;
pub mod http;
pub mod inside;
pub mod mount;
pub mod older;
pub mod peer;
pub mod refuse;
pub mod stranger;
pub mod tree;

use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tree::Process;

/// The longest any single wait may take, on the slowest machine.
pub const BOUND: Duration = Duration::from_secs(60);

/// One state with, perhaps, a daemon.
pub struct Bench {
    root: PathBuf,
    state: PathBuf,
    env: Vec<(String, String)>,
    daemon: Option<Child>,
    binary: PathBuf,
    /// Whose processes they are, when not the test's own user's.
    user: Option<u32>,
    /// Shell text that the daemon is started from.
    from: Option<String>,
    /// Shims of daemons that were killed; their tasks go on.
    orphans: Vec<Process>,
}

/// What the command line wrote and returned.
#[derive(Debug)]
pub struct Output {
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    /// The standard output, byte for byte.
    pub bytes: Vec<u8>,
    /// The standard output as text.
    pub stdout: String,
    /// The standard error as text.
    pub stderr: String,
}

impl Bench {
    /// An empty bench. The state folder does not exist yet.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // A run of tests that was killed leaves its folders, and its process ids come again.
        let root = loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let root = std::env::temp_dir().join(format!("qinglet-test-{}-{count}", std::process::id()));
            match fs::DirBuilder::new().mode(0o700).create(&root) {
                Ok(()) => break root,
                Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::AlreadyExists, "{}: {e}", root.display()),
            }
        };
        Self {
            state: root.join("state"),
            // The machine's own configuration is none of a test's business.
            env: vec![("QINGLET_DEFAULT_CONFIG".into(), root.join("config.json").to_str().unwrap().into())],
            root,
            daemon: None,
            binary: env!("CARGO_BIN_EXE_qinglet").into(),
            user: None,
            from: None,
            orphans: Vec::new(),
        }
    }

    /// An empty bench with its state somewhere else, for instance below a very long path.
    pub fn at(state: &Path) -> Self {
        let mut bench = Self::new();
        state.clone_into(&mut bench.state);
        bench
    }

    /// A bench with an initialised state.
    pub fn ready() -> Self {
        let bench = Self::new();
        bench.init();
        bench
    }

    /// A bench with a daemon on its socket.
    pub fn serving() -> Self {
        let mut bench = Self::ready();
        bench.serve(&[]);
        bench
    }

    /// Writes the configuration file that is read when none is named, and gives its path.
    pub fn config(&self, text: &str) -> PathBuf {
        let path = self.root.join("config.json");
        fs::write(&path, text).unwrap();
        path
    }

    /// The folder the bench may use as it likes; the state is below it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The state folder.
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The owner's token.
    pub fn token(&self) -> String {
        fs::read_to_string(self.state().join("owner.token")).unwrap().trim().to_owned()
    }

    /// Sets an environment variable for everything started from now on. `QINGLET_CRASH_AT` names a
    /// crash point.
    pub fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.env.retain(|(known, _)| known != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Uses another binary from now on, for instance a copy that is about to be replaced.
    pub fn program(&mut self, path: &Path) -> &mut Self {
        path.clone_into(&mut self.binary);
        self
    }

    /// Lets everything started from now on be this user's, and the bench's folder with it. Only root
    /// can do so.
    pub fn run_as(&mut self, uid: u32) -> &mut Self {
        // Where the project was built may be nobody else's business.
        self.binary = self.root.join("qinglet");
        copy_program(&self.binary);
        chown(&self.root, Some(uid), Some(uid)).unwrap();
        self.user = Some(uid);
        self
    }

    /// Lets daemons be started by a shell that has done this before, so that they inherit what it made.
    pub fn start_from(&mut self, text: &str) -> &mut Self {
        self.from = Some(text.to_owned());
        self
    }

    /// Unsets it.
    pub fn no_env(&mut self, name: &str) -> &mut Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// The command line, ready to be started.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let state = self.state();
        let mut all = vec![OsStr::new("--state"), state.as_os_str()];
        all.extend(args.iter().map(AsRef::as_ref));
        self.command_alone(&all)
    }

    /// The command line without the state, which it has to find by itself.
    pub fn command_alone<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(args).stdin(Stdio::null());
        command.env_remove("QINGLET_TOKEN_FILE").envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(uid) = self.user {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Runs the command line to its end.
    pub fn cli<S: AsRef<OsStr>>(&self, args: &[S]) -> Output {
        Output::of(&mut self.command(args))
    }

    /// Runs the command line, which must succeed, and gives its standard output without the newline.
    pub fn ok<S: AsRef<OsStr>>(&self, args: &[S]) -> String {
        let output = self.cli(args);
        assert_eq!(output.code, 0, "{output:?}");
        output.stdout.trim_end().to_owned()
    }

    /// Runs the command line with `--json`; it must succeed and print one value.
    pub fn json<S: AsRef<OsStr>>(&self, args: &[S]) -> Value {
        let lines = self.json_lines(args);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.into_iter().next().unwrap()
    }

    /// Runs the command line with `--json`; it must succeed and print one value a line.
    pub fn json_lines<S: AsRef<OsStr>>(&self, args: &[S]) -> Vec<Value> {
        let mut all: Vec<&OsStr> = vec!["--json".as_ref()];
        all.extend(args.iter().map(AsRef::as_ref));
        let text = self.ok(&all);
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    /// Starts the command line without waiting for it; its output goes to a file.
    pub fn spawn<S: AsRef<OsStr>>(&self, args: &[S], output: &Path) -> Child {
        let out = File::create(output).unwrap();
        self.command(args).stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap()
    }

    /// Creates or migrates the state.
    pub fn init(&self) {
        self.ok(&["init"]);
    }

    /// Starts the daemon and waits until it answers.
    pub fn serve(&mut self, args: &[&str]) -> &mut Self {
        self.launch(args);
        until("the daemon to answer", || {
            self.check_daemon_lives();
            http::get(&self.state(), "/api/health").ok().filter(|reply| reply.status == 200)
        });
        self
    }

    /// Starts the daemon without waiting for it: for one that must refuse, crash or have no API.
    pub fn launch(&mut self, args: &[&str]) -> &mut Self {
        assert!(self.daemon.is_none(), "there is a daemon already");
        // What an earlier daemon left; the next one writes it again when it listens.
        let _ = fs::remove_file(self.state().join("run/address"));
        let log = OpenOptions::new().create(true).append(true).open(self.daemon_log()).unwrap();
        let mut all = vec!["serve"];
        all.extend(args);
        let mut command = self.command(&all);
        if let Some(text) = &self.from {
            command = self.through_shell(text, &command);
        }
        self.daemon = Some(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        self
    }

    fn through_shell(&self, text: &str, command: &Command) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &format!("{text}\nexec \"$0\" \"$@\"")]).arg(command.get_program()).args(command.get_args());
        shell.stdin(Stdio::null()).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(uid) = self.user {
            shell.uid(uid).gid(uid);
        }
        shell
    }

    /// The file with everything the daemons of this bench wrote.
    pub fn daemon_log(&self) -> PathBuf {
        self.root.join("daemon.log")
    }

    /// The daemon's process id.
    pub fn pid(&self) -> i32 {
        self.daemon.as_ref().expect("a daemon").id() as i32
    }

    /// The TCP address of a daemon started with `--listen`.
    pub fn address(&self) -> SocketAddr {
        until("the address file", || fs::read_to_string(self.state().join("run/address")).ok()?.trim().parse().ok())
    }

    fn check_daemon_lives(&mut self) {
        let status = self.daemon.as_mut().and_then(|daemon| daemon.try_wait().unwrap());
        if let Some(status) = status {
            self.daemon = None;
            panic!("the daemon ended ({status}): {}", fs::read_to_string(self.daemon_log()).unwrap_or_default());
        }
    }

    /// Whether there is a daemon that has not ended by itself. Once it has, there is none.
    pub fn is_served(&mut self) -> bool {
        let ended = self.daemon.as_mut().is_none_or(|daemon| daemon.try_wait().unwrap().is_some());
        if ended {
            self.daemon = None;
        }
        !ended
    }

    /// Waits for the daemon to end by itself; its exit code, or minus the signal.
    pub fn ended(&mut self) -> i32 {
        self.remember_tasks();
        // It stays the bench's own until it has ended, so that one that does not is ended with the bench.
        let daemon = self.daemon.as_mut().expect("a daemon");
        let status = until("the daemon to end", || daemon.try_wait().unwrap());
        self.daemon = None;
        status.into_code()
    }

    /// Asks the daemon to stop and waits for it; its exit code.
    pub fn stop(&mut self) -> i32 {
        // Once it ends, its tasks are nobody's children that could be found.
        self.remember_tasks();
        tree::signal(self.pid(), libc::SIGTERM);
        self.ended()
    }

    /// Kills the daemon with SIGKILL. Its tasks go on.
    pub fn kill(&mut self) {
        self.remember_tasks();
        let mut daemon = self.daemon.take().expect("a daemon");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Remembers the tasks there are now, so that they end with the bench even if the daemon loses
    /// them.
    pub fn remember_tasks(&mut self) {
        if let Some(daemon) = &self.daemon {
            self.orphans.extend(tree::below(daemon.id() as i32));
        }
    }

    /// Adds a task that runs a shell text.
    pub fn shell(&self, task: &str, text: &str) {
        self.ok(&["task", "add", task, "--shell", text]);
    }

    /// Adds a task that runs a shell text, with options of `task add`.
    pub fn shell_with(&self, task: &str, options: &[&str], text: &str) {
        self.ok(&[&["task", "add", task, "--shell", text][..], options].concat());
    }

    /// Starts a task and waits for its end. The whole Run as `show` prints it, and the exit code.
    pub fn run_wait(&self, task: &str) -> (Value, i32) {
        let output = self.cli(&["run", task, "--wait"]);
        assert!(output.code <= 1, "{output:?}");
        (self.run(output.stdout.trim()), output.code)
    }

    /// Starts a task; the Run's id.
    pub fn start(&self, task: &str) -> String {
        self.ok(&["run", task])
    }

    /// One Run as the wire shows it.
    pub fn run(&self, run: &str) -> Value {
        self.json(&["show", run])["run"].take()
    }

    /// Waits until a Run is in this state.
    pub fn run_in(&self, run: &str, status: &str) -> Value {
        until(&format!("run {run} to be {status}"), || Some(self.run(run)).filter(|run| run["status"] == status))
    }

    /// A Run's log, byte for byte.
    pub fn log(&self, run: &str) -> Vec<u8> {
        let output = self.cli(&["logs", run]);
        assert_eq!(output.code, 0, "{output:?}");
        output.bytes
    }

    /// A read-only look at a copy of the database. The daemon must have stopped.
    pub fn db(&self) -> rusqlite::Connection {
        assert!(self.daemon.is_none(), "stop the daemon first");
        let copy = self.root.join("copy");
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        let mut database = None;
        // Opening and closing the file itself would be a trap for its locks, and its name is the
        // store's own business, so it is known by its first bytes.
        for entry in fs::read_dir(self.state()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() {
                let to = copy.join(entry.file_name());
                fs::copy(entry.path(), &to).unwrap();
                if fs::read(&to).unwrap().starts_with(b"SQLite format 3\0") {
                    database = Some(to);
                }
            }
        }
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let database = rusqlite::Connection::open_with_flags(database.expect("a database"), flags).unwrap();
        database.pragma_update(None, "query_only", true).unwrap();
        database
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.remember_tasks();
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        tree::end(&self.orphans);
        if std::thread::panicking() {
            let log = fs::read_to_string(self.daemon_log()).unwrap_or_default();
            eprintln!("the daemon of {} wrote:\n{log}", self.root.display());
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Output {
    /// Runs a command to its end, at most [`BOUND`].
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let watch = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::copy(&mut err, &mut bytes).unwrap();
            bytes
        });
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            let late = waits.recv_timeout(BOUND) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if late {
                tree::signal(pid, libc::SIGKILL);
            }
            late
        });
        let mut bytes = Vec::new();
        std::io::copy(&mut out, &mut bytes).unwrap();
        let stderr = watch.join().unwrap();
        // The pid is not waited for before the guard is gone, so it cannot name anything else.
        drop(done);
        assert!(!guard.join().unwrap(), "{command:?} took longer than {BOUND:?}");
        let code = child.wait().unwrap().into_code();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code, stdout: text(&bytes), stderr: text(&stderr), bytes }
    }
}

trait IntoCode {
    fn into_code(self) -> i32;
}

impl IntoCode for std::process::ExitStatus {
    fn into_code(self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        self.code().unwrap_or_else(|| -self.signal().unwrap_or(0))
    }
}

/// Waits until `look` finds something; fails after [`BOUND`] saying what was waited for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Copies the binary. By a process of its own, because a file that any process has open for writing
/// cannot be executed, and a test beside this one may be forking just now.
pub fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_qinglet")).arg(to).status().unwrap().success());
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

/// Says that a test is skipped and why; `make test` prints it, and as root refuses it unless it
/// stands in tests/skips.allow.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}\n");
    eprint!("{line}");
    if let Some(file) = std::env::var_os("QINGLET_SKIPS") {
        let mut file = OpenOptions::new().create(true).append(true).open(file).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
