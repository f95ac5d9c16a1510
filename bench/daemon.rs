//! The program under measure: its daemon on a state of its own, spoken to over its socket as any
//! other program would.

use crate::Outcome;
use crate::place::Place;
use qinglet::model::id::IdSource;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long anything may take.
const BOUND: Duration = Duration::from_secs(120);

/// Runs of [`Daemon::warm`].
pub const WARM_RUNS: i64 = 960;

/// A state folder with its configuration.
pub struct State {
    binary: PathBuf,
    /// The folder.
    pub folder: PathBuf,
    config: PathBuf,
}

/// A daemon that serves it; ended when dropped.
pub struct Daemon<'a> {
    state: &'a State,
    child: Child,
    token: String,
}

/// A task as it is now, so that it can be started.
pub struct Task {
    path: String,
    revision: Value,
    digest: Value,
}

impl State {
    /// A new one with these settings, and a task for each of these names that runs these words.
    pub fn new(place: &Place, settings: &Value) -> Outcome<Self> {
        let folder = place.fresh("state");
        let config = folder.with_extension("json");
        std::fs::write(&config, settings.to_string())?;
        let state = Self { binary: place.binary.clone(), folder, config };
        state.say(&["init"])?;
        Ok(state)
    }

    /// Runs a command of the program to its end.
    pub fn say(&self, words: &[&str]) -> Outcome<()> {
        let out = self.command().args(words).output()?;
        if out.status.success() {
            return Ok(());
        }
        Err(format!("{words:?}: {}", String::from_utf8_lossy(&out.stderr)).into())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--state").arg(&self.folder).arg("--config").arg(&self.config);
        command
    }

    /// The database's path.
    pub fn database(&self) -> PathBuf {
        self.folder.join("qinglet.db")
    }

    /// Starts a daemon and waits until it answers.
    pub fn serve(&self) -> Outcome<Daemon<'_>> {
        self.serve_under(&[])
    }

    /// The same, as the last argument of another program.
    pub fn serve_under(&self, wrapper: &[&str]) -> Outcome<Daemon<'_>> {
        let own = self.command();
        let mut words = wrapper.iter().map(std::ffi::OsStr::new).chain([own.get_program()]).chain(own.get_args());
        let mut command = Command::new(words.next().unwrap_or_default());
        let errors = File::create(self.folder.with_extension("err"))?;
        let child = command.args(words).arg("serve").stdin(Stdio::null()).stderr(errors).spawn()?;
        let token = std::fs::read_to_string(self.folder.join("owner.token"))?.trim().to_owned();
        let daemon = Daemon { state: self, child, token };
        let until = Instant::now() + BOUND;
        loop {
            match daemon.get("/api/health") {
                Ok(_) => return Ok(daemon),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Daemon<'_> {
    /// Its process id, or its wrapper's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Adds a task that runs these words.
    pub fn add_task(&self, name: &str, words: &[&Path]) -> Outcome<Task> {
        let mut command = self.state.command();
        command.args(["task", "add", name, "--"]).args(words);
        let out = command.output()?;
        if !out.status.success() {
            return Err(format!("task add: {}", String::from_utf8_lossy(&out.stderr)).into());
        }
        self.task(name)
    }

    /// Looks a task up.
    pub fn task(&self, name: &str) -> Outcome<Task> {
        let path = format!("/tasks/{name}");
        let mut task = self.get(&path)?["task"].take();
        Ok(Task { path: path + "/runs", revision: task["revision"].take(), digest: task["contentDigest"].take() })
    }

    /// Adds so many tasks that run these words.
    pub fn add_tasks(&self, count: i64, like: &str) -> Outcome<()> {
        let spec = self.get(&format!("/tasks/{like}"))?["task"]["spec"].take();
        for n in 0..count {
            let body = json!({"schema": "qinglong/task-definition@v1", "mutationId": mutation()?, "expectedRevision": null,
                "name": "more", "kind": "command", "spec": spec, "labels": {}, "enabled": true});
            self.send("PUT", &format!("/tasks/more-{n}"), Some(&body))?;
        }
        Ok(())
    }

    /// Starts a task; its run's id.
    pub fn start(&self, task: &Task) -> Outcome<String> {
        let body = json!({"schema": "qinglong/task-start@v1", "mutationId": mutation()?,
            "expectedRevision": task.revision, "expectedContentDigest": task.digest});
        let answer = self.send("POST", &task.path, Some(&body))?;
        answer["runId"].as_str().map(str::to_owned).ok_or_else(|| format!("not started: {answer}").into())
    }

    /// Waits until a run is over, looking again and again. It must succeed.
    pub fn wait(&self, run: &str) -> Outcome<()> {
        let until = Instant::now() + BOUND;
        loop {
            let answer = self.get(&format!("/runs/{run}"))?;
            match answer["run"]["status"].as_str() {
                Some("succeeded") => return Ok(()),
                Some("failed" | "lost" | "timed_out" | "cancelled") => return Err(answer.to_string().into()),
                _ if Instant::now() > until => return Err("a run does not end".into()),
                _ => std::thread::sleep(Duration::from_micros(500)),
            }
        }
    }

    /// Starts a task and waits for its end.
    pub fn run(&self, task: &Task) -> Outcome<()> {
        self.wait(&self.start(task)?)
    }

    /// So many clients start so many runs together, none waiting for one before it starts the next; then waits
    /// until the last has ended.
    pub fn run_all(&self, task: &Task, runs: i64, clients: i64) -> Outcome<()> {
        let client = |runs: i64| (0..runs).map(|_| self.start(task).map_err(|e| e.to_string())).collect();
        let started: Result<Vec<Vec<String>>, String> = std::thread::scope(|scope| {
            let share = |n: i64| runs * (n + 1) / clients - runs * n / clients;
            let all: Vec<_> = (0..clients).map(|n| scope.spawn(move || client(share(n)))).collect();
            all.into_iter().map(|client| client.join().unwrap_or_else(|_| Err("panicked".into()))).collect()
        });
        // They end in about the order they were started in, so nearly every look but the first finds an end.
        started?.iter().flatten().rev().try_for_each(|run| self.wait(run))
    }

    /// Goes on until every folder that logs and receipts are spread over is there: each is synced once, in the
    /// first some hundred runs of a state.
    pub fn warm(&self, task: &Task) -> Outcome<()> {
        // In parts, because the queue has a bound.
        (0..4).try_for_each(|_| self.run_all(task, WARM_RUNS / 4, 1))
    }

    /// Reads a path below the project.
    pub fn get(&self, path: &str) -> Outcome<Value> {
        self.send("GET", path, None)
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Outcome<Value> {
        let mut stream = UnixStream::connect(self.state.folder.join("run/api.sock"))?;
        stream.set_read_timeout(Some(BOUND))?;
        let prefix = if path.starts_with("/api/") { "" } else { "/api/v3/projects/default" };
        let body = body.map_or_else(String::new, Value::to_string);
        let (length, token) = (body.len(), &self.token);
        let request = format!(
            "{method} {prefix}{path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("an answer without a head")?;
        let json: Value = serde_json::from_slice(&answer[end + 4..])?;
        if !answer.starts_with(b"HTTP/1.1 2") {
            return Err(format!("{method} {path}: {json}").into());
        }
        Ok(json)
    }

    /// Ends it as a service manager would, and waits.
    pub fn stop(mut self) -> Outcome<()> {
        self.end()
    }

    fn end(&mut self) -> Outcome<()> {
        // SIGTERM by the daemon's own pid: a wrapper would not pass it on.
        let daemon = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid()))?;
        let pid = if self.is_wrapped() { daemon.trim().to_owned() } else { self.pid().to_string() };
        Command::new("kill").arg(pid).status()?;
        self.child.wait()?;
        Ok(())
    }

    fn is_wrapped(&self) -> bool {
        let exe = std::fs::read_link(format!("/proc/{}/exe", self.pid()));
        exe.is_ok_and(|exe| exe != self.state.binary)
    }
}

/// A name for a mutation that rises with time, as the program's own commands make them.
fn mutation() -> Outcome<String> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    Ok(IdSource::default().next(now_ms, random).to_string())
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}
