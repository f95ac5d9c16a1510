//! A small system in a folder, with busybox as its only userland, to be entered by chroot from a test that is
//! already in namespaces of its own (`support::inside`). Everything in it ends with those.

// Each test file is a crate of its own and uses what it needs; here a panic is how a test fails.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]

use crate::support::filter::Filter;
use crate::support::{self, Bench, Output, older, until};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The project's folder.
pub const TOP: &str = env!("CARGO_MANIFEST_DIR");

/// The system.
pub struct Router {
    root: PathBuf,
    // Owns the folder.
    bench: Bench,
    /// Where its state is, as seen from inside.
    state: String,
    /// How the program enters the system; everything else does with all of root's rights.
    enters: String,
    /// What nobody in it may call.
    filter: Option<Filter>,
}

/// Enters namespaces of the test's own, unless busybox is missing. `false`: there is nothing to do here.
pub fn enter(test: &str) -> bool {
    if busybox().is_none() {
        support::skip(test, "no static busybox here; on Debian: apt-get install busybox-static");
        return false;
    }
    support::inside::enter(test, "")
}

/// Debian's busybox-static; another busybox would need its libraries in there.
fn busybox() -> Option<PathBuf> {
    let found = ["/bin/busybox", "/usr/bin/busybox"].map(PathBuf::from).into_iter().find(|path| path.exists())?;
    let said = Command::new("ldd").arg(&found).output().ok()?;
    (!said.status.success()).then_some(found)
}

impl Router {
    /// A system with nothing of ours but the program's libraries, its state to be at `state`.
    pub fn new(state: &str) -> Self {
        let bench = Bench::new();
        let root = bench.root().join("root");
        for folder in ["bin", "sbin", "etc/init.d", "etc/rc.d", "dev", "proc", "usr/bin", "usr/sbin", "lib", "root"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let world = |path: &Path| fs::DirBuilder::new().mode(0o1777).recursive(true).create(path).unwrap();
        world(&root.join("tmp"));
        fs::set_permissions(root.join("tmp"), Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        fs::copy(busybox().unwrap(), root.join("bin/busybox")).unwrap();
        let list = Command::new(busybox().unwrap()).arg("--list").output().unwrap();
        for applet in String::from_utf8(list.stdout).unwrap().lines().filter(|name| *name != "busybox") {
            symlink("/bin/busybox", root.join("bin").join(applet)).unwrap();
        }
        let router = Self { root, bench, state: state.to_owned(), enters: "chroot".to_owned(), filter: None };
        router.libraries();
        let mounts = "mount -t proc proc proc && mount -t tmpfs tmpfs dev && mknod -m 666 dev/null c 1 3 && \
                      mknod -m 666 dev/zero c 1 5 && mknod -m 666 dev/urandom c 1 9";
        let done = Command::new("sh").args(["-ec", mounts]).current_dir(&router.root).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        router
    }

    /// Has its state somewhere else from now on.
    pub fn state_at(&mut self, state: &str) {
        state.clone_into(&mut self.state);
    }

    /// Lets daemon and command line be this user's from now on.
    pub fn run_as(&mut self, uid: u32) {
        self.enters = format!("chroot --userspec={uid}:{uid} --groups={uid}");
    }

    /// Takes a capability from daemon and command line, which stay root's.
    pub fn run_without(&mut self, capability: &str) {
        self.enters = format!("setpriv --bounding-set=-{capability} chroot");
    }

    /// Takes system calls away from everybody in it.
    pub fn filter(&mut self, filter: Filter) {
        self.filter = Some(filter);
    }

    /// The test's binary is linked against the C library, the released ones are not.
    fn libraries(&self) {
        let said = Command::new("ldd").arg(env!("CARGO_BIN_EXE_qinglet")).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        for library in said.split_whitespace().filter(|word| word.starts_with('/')) {
            self.put(Path::new(library), library, 0o755);
        }
    }

    /// The system's root folder, from outside.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder outside of the system for what the test makes.
    pub fn outside(&self) -> &Path {
        self.bench.root()
    }

    /// A path in the system, from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside.trim_start_matches('/'))
    }

    /// What a file in the system says; empty when it is not there.
    pub fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap_or_default()
    }

    /// Copies a file into the system.
    pub fn put(&self, from: &Path, inside: &str, mode: u32) {
        let to = self.path(inside);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, &to).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
        fs::set_permissions(to, Permissions::from_mode(mode)).unwrap();
    }

    /// The mode and owner of a file in the system.
    pub fn mode(&self, inside: &str) -> (u32, u32) {
        let about = fs::symlink_metadata(self.path(inside)).unwrap_or_else(|e| panic!("{inside}: {e}"));
        (about.mode() & 0o7777, about.uid())
    }

    fn command(&self, enters: &str, text: &str) -> Command {
        let mut words = enters.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(&self.root).args(["/bin/sh", "-c", text]).stdin(Stdio::null());
        command.env_clear().env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        if let Some(filter) = &self.filter {
            filter.around(&mut command);
        }
        command
    }

    /// Runs a shell text in the system to its end. What it leaves running keeps none of its output.
    pub fn sh(&self, text: &str) -> Output {
        self.sh_through("chroot", text)
    }

    fn sh_through(&self, enters: &str, text: &str) -> Output {
        let out = self.outside().join("sh.out");
        let err = self.outside().join("sh.err");
        let mut command = self.command(enters, text);
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let code = command.status().unwrap().code().unwrap_or(-1);
        let bytes = fs::read(&out).unwrap();
        let stderr = fs::read_to_string(&err).unwrap();
        Output { code, stdout: String::from_utf8_lossy(&bytes).into_owned(), stderr, bytes }
    }

    /// The same; it must succeed.
    #[track_caller]
    pub fn ok(&self, text: &str) -> String {
        let done = self.sh(text);
        assert_eq!(done.code, 0, "{text}: {done:?}\n{}", self.read("/tmp/logd"));
        done.stdout.trim_end().to_owned()
    }

    /// Starts something that stays; it ends with the process id namespace it is in.
    pub fn background(&self, text: &str) {
        self.background_through("chroot", text);
    }

    #[allow(clippy::zombie_processes)]
    fn background_through(&self, enters: &str, text: &str) {
        self.command(enters, text).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    }

    fn line(&self, text: &str) -> String {
        format!("exec qinglet --state {} {text}", self.state)
    }

    /// The command line in the system.
    pub fn cli(&self, text: &str) -> Output {
        self.sh_through(&self.enters, &self.line(text))
    }

    /// The same; it must succeed. What it prints.
    #[track_caller]
    pub fn qinglet(&self, text: &str) -> String {
        let done = self.cli(text);
        assert_eq!(done.code, 0, "{text}: {done:?}");
        done.stdout.trim_end().to_owned()
    }

    /// One Run as the wire shows it.
    pub fn run(&self, run: &str) -> Value {
        serde_json::from_str::<Value>(&self.qinglet(&format!("--json show {run}"))).unwrap()["run"].take()
    }

    /// Waits until a Run is in this state.
    pub fn run_in(&self, run: &str, status: &str) -> Value {
        until(&format!("run {run} to be {status}"), || Some(self.run(run)).filter(|run| run["status"] == status))
    }

    /// Waits until the daemon answers.
    pub fn served(&self) {
        until("the daemon to answer", || (self.cli("status").code == 0).then_some(()));
    }

    /// Runs a shell text after which another daemon must serve than before, and waits until that one answers: where
    /// something looks after daemons, the text may come to its end before the old one does.
    #[track_caller]
    pub fn exchanges(&self, text: &str) {
        let holder = || self.read(&format!("{}/lock", self.state));
        let old = holder();
        self.ok(text);
        until("another daemon", || (!holder().is_empty() && holder() != old).then_some(()));
        self.served();
    }

    /// Starts a daemon with nothing to look after it, and waits until it answers.
    pub fn serve(&self) {
        self.background_through(&self.enters, &self.line("serve"));
        self.served();
    }

    /// Ends that daemon with a signal, and waits until it has let go of the state.
    fn end(&self, signal: &str) {
        let holder = self.read(&format!("{}/lock", self.state));
        let pid = holder.strip_suffix(" serve\n").unwrap_or_else(|| panic!("{holder:?} holds the state"));
        self.ok(&format!("kill -{signal} {pid}"));
        let gone = || (self.cli("status").code == 4 && self.cli("check").code != 4).then_some(());
        until("the daemon to end", gone);
    }

    /// Asks that daemon to stop.
    pub fn stop(&self) {
        self.end("TERM");
    }

    /// Kills that daemon; its tasks go on.
    pub fn kill(&self) {
        self.end("KILL");
    }

    /// Starts a task of a few seconds, and gives its Run once it runs.
    pub fn few_seconds(&self) -> String {
        let text = "echo begun; for i in 1 2 3 4 5 6 7 8; do sleep 0.5; done; echo done; exit 7";
        let _ = self.cli(&format!("task add few --shell '{text}'"));
        let run = self.qinglet("run few");
        self.run_in(&run, "running");
        until("the task to begin", || (self.qinglet(&format!("logs {run}")) == "begun").then_some(()));
        run
    }

    /// That Run must end by itself, known with its exit code and all of its output, and never have been begun again.
    #[track_caller]
    pub fn lived(&self, run: &str) {
        let ended = self.run_in(run, "failed");
        let attempt = &ended["latestAttempt"];
        assert_eq!((&attempt["exitCode"], &attempt["number"]), (&7.into(), &1.into()), "{ended}");
        assert_eq!(self.qinglet(&format!("logs {run}")), "begun\ndone");
    }

    /// Puts a store of the first schema in place of this state's, with the same owner and tasks; its daemon must not
    /// run.
    pub fn make_older(&self) {
        let state = self.path(&self.state);
        let is_store = |path: &PathBuf| path.is_file() && fs::read(path).unwrap().starts_with(b"SQLite format 3\0");
        let new = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).find(is_store).unwrap();
        older::make_older(&new, &self.outside().join("older"));
    }

    /// The copies of older stores in the state.
    pub fn copies(&self) -> usize {
        let entries = fs::read_dir(self.path(&self.state)).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().contains(".before-")).count()
    }
}

/// The test's binary without what only a debugger reads, under the name of each triple, and their checksums.
pub fn binaries(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let text = "cp \"$1\" qinglet && strip qinglet 2>/dev/null
        for triple in x86_64-unknown-linux-musl aarch64-unknown-linux-musl armv7-unknown-linux-musleabihf; do
            ln qinglet qinglet-$triple
        done
        rm qinglet && sha256sum qinglet-* >SHA256SUMS";
    let mut command = Command::new("sh");
    command.args(["-c", text, "sh", env!("CARGO_BIN_EXE_qinglet")]).current_dir(folder);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}
