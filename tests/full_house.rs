//! A router's worth of a machine, 128 MiB and 64 process ids, with everything going on at once: every
//! place taken by a task that eats its limit, one of them a fork bomb, and a flood of requests beside.
//! Needs root and control groups of version 1 that may be made here; without, it skips.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Bench, http, skip, tree};

/// Longer than everything in here takes together, even beside other tests.
const ALL_MS: u64 = 25_000;

/// A group of version 1 for a daemon and all that it starts.
struct Box1 {
    folders: Vec<PathBuf>,
}

impl Box1 {
    /// `None`: no such group can be made here.
    fn new() -> Option<Self> {
        let mut made = Self { folders: Vec::new() };
        let bytes = (128 << 20).to_string();
        let memory = [("memory.limit_in_bytes", bytes.as_str()), ("memory.memsw.limit_in_bytes", &bytes)];
        made.add("memory", &memory)?;
        made.add("pids", &[("pids.max", "64")])?;
        made.add("cpu", &[])?;
        Some(made)
    }

    fn add(&mut self, controller: &str, settings: &[(&str, &str)]) -> Option<()> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.split_once(&format!(":{controller}:")))?.1;
        let name = format!("house-{}", std::process::id());
        let folder = Path::new("/sys/fs/cgroup").join(controller).join(path.trim_start_matches('/')).join(name);
        fs::create_dir(&folder).ok()?;
        self.folders.push(folder.clone());
        for (file, value) in settings {
            // Where swap is not counted there is no file for it.
            let set = fs::write(folder.join(file), value);
            if !file.contains("memsw") {
                set.ok()?;
            }
        }
        Some(())
    }

    /// Shell text that takes the shell into it.
    fn door(&self) -> String {
        let into = self.folders.iter().map(|folder| format!("echo $$ >{}/cgroup.procs", folder.display()));
        into.collect::<Vec<_>>().join("; ")
    }

    fn number(&self, file: &str, name: &str) -> Option<u64> {
        let text = self.folders.iter().find_map(|folder| fs::read_to_string(folder.join(file)).ok())?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

impl Drop for Box1 {
    fn drop(&mut self) {
        for folder in &self.folders {
            for _ in 0..200 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Requests without a pause from several clients, good ones, bad ones and halves of one, until told.
fn flood(bench: &Bench, until: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<usize>> {
    let client = |number: usize| {
        let (state, until) = (bench.state(), until.clone());
        let request = http::request(&bench.token(), "GET", "/api/v3/projects/default/runs", None);
        std::thread::spawn(move || {
            let mut asked = 0;
            let mut halves = Vec::new();
            while !until.load(Ordering::Relaxed) {
                match (number + asked) % 3 {
                    0 => drop(http::raw(&state, &request)),
                    1 => drop(http::raw(
                        &state,
                        b"GET /api/v3/projects/default/tasks HTTP/1.1\r\nAuthorization: x\r\n\r\n",
                    )),
                    _ => {
                        halves.truncate(4);
                        if let Ok(mut half) = http::connect(&state) {
                            let _ = std::io::Write::write_all(&mut half, b"POST /api/v3/projects/de");
                            halves.insert(0, half);
                        }
                    }
                }
                asked += 1;
            }
            asked
        })
    };
    (0..6).map(client).collect()
}

const EAT: &str = "i=0; while [ $i -lt 6 ]; do i=$((i+1)); \
                   /bin/sh -c 'x=0123456789abcdef; while :; do x=$x$x; done'; done; echo full";
const BURN: &str = "x=0123456789abcdef; i=0; while [ $i -lt 16 ]; do x=$x$x; i=$((i+1)); done; \
                    end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done; echo burnt";
// The first shell makes one process only, so that no refused fork ends the whole.
const BOMB: &str = "bomb() { while :; do ( bomb ) & done; }; bomb 2>/dev/null & while :; do :; done";

#[test]
fn full_house() {
    let begun = Instant::now();
    let Some(house) = Box1::new() else {
        return skip("full_house", "control groups of version 1 that may be made");
    };
    let mut bench = Bench::ready();
    bench.start_from(&house.door()).serve(&[]);
    let daemon = bench.pid();
    let limits = ["--memory", "16MiB", "--pids", "12", "--cpu", "40"];
    bench.shell_with("eater", &limits, EAT);
    bench.shell_with("glutton", &limits, EAT);
    bench.shell_with("burner", &limits, BURN);
    bench.shell_with("bomb", &[&limits[..], &["--timeout", "4s", "--grace", "200ms"]].concat(), BOMB);
    bench.shell("quiet", "echo well");

    let done = Arc::new(AtomicBool::new(false));
    let clients = flood(&bench, &done);
    let house_runs = ["eater", "glutton", "burner", "bomb"].map(|task| bench.start(task));
    let others = [(); 3].map(|()| bench.start("quiet"));
    let (mut answers, mut refused, mut slowest) = (0, 0, Duration::ZERO);
    let mut ended = Vec::new();
    while ended.len() < house_runs.len() + others.len() {
        assert!(begun.elapsed() < Duration::from_millis(ALL_MS), "{ended:?} ended; the house does not empty");
        let asked = Instant::now();
        match http::get(&bench.state(), "/api/health") {
            Ok(reply) if reply.status == 200 => answers += 1,
            // A gate that is full says so; what counts is that it says something.
            _ => refused += 1,
        }
        slowest = slowest.max(asked.elapsed());
        for id in house_runs.iter().chain(&others) {
            let over =
                |run: &serde_json::Value| !["queued", "dispatching", "running"].iter().any(|s| run["status"] == *s);
            if !ended.contains(id) && over(&bench.run(id)) {
                ended.push(id.clone());
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    done.store(true, Ordering::Relaxed);
    let asked: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert!(answers > refused && slowest < Duration::from_secs(5), "{answers} answers, {refused} refused, {slowest:?}");
    assert!(asked > 100, "a flood, not {asked} requests");

    let run = |id: &String| bench.run(id);
    for id in &house_runs[..2] {
        let run = run(id);
        assert_eq!(
            (run["status"].as_str(), run["errorCode"].as_str()),
            (Some("succeeded"), Some("OUT_OF_MEMORY")),
            "{run}"
        );
        assert_eq!(bench.log(id).strip_suffix(b"full\n").map(|_| ()), Some(()));
    }
    assert_eq!(run(&house_runs[2])["status"], "succeeded", "{}", run(&house_runs[2]));
    assert_eq!(run(&house_runs[3])["status"], "timed_out", "{}", run(&house_runs[3]));
    for id in &others {
        assert_eq!(run(id)["status"], "succeeded", "{}", run(id));
    }
    // The group itself holds the daemon and the shims, the tasks are in groups below it.
    assert_eq!(house.number("memory.oom_control", "oom_kill ").unwrap_or(0), 0, "nothing of ours was killed");
    assert_eq!(bench.pid(), daemon);
    assert!(bench.is_served() && tree::below(daemon).is_empty());
    assert_eq!(bench.stop(), 0);
    assert!(begun.elapsed() < Duration::from_millis(ALL_MS), "{:?}", begun.elapsed());
}
