//! State and logs together on a small file system that is full to the last byte for a while: with 8 MiB,
//! as on a router's flash, and with 60 MiB. What is asked for then is refused with its reason or waits
//! with its reason, what runs then keeps its outcome, readers are answered; with space again it all goes
//! on, without a restart, and after a kill in the middle of it with one.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use support::hold::Hold;
use support::http::Reply;
use support::mount::Mount;
use support::{BOUND, Bench, until};

/// So much is left where starts have to wait and the store has room: less than any floor.
const SPARE: u64 = 300 * 1024;
/// Starts that are asked for while it is full.
const ASKED: usize = 12;

/// A bench on a small disk.
struct Small {
    bench: Bench,
    disk: Mount,
    hold: Hold,
    starts: PathBuf,
    mutations: u64,
}

/// What became of what was asked for while it was full.
#[derive(Default)]
struct Asked {
    accepted: Vec<String>,
    refused: Vec<(Value, Reply)>,
}

impl Small {
    fn new(test: &str, kib: u64) -> Option<Self> {
        let mut bench = Bench::new();
        let disk = Mount::new(test, &bench.state(), kib)?;
        bench.init();
        bench.serve(&[]);
        let (hold, starts) = (Hold::new(&bench, "hold"), bench.root().join("starts"));
        let count = format!("echo $QINGLET_RUN_ID >> '{}'", starts.display());
        bench.shell("much", &format!("{count}; {}; head -c 9000000 /dev/zero; exit 3", hold.text()));
        bench.shell("quiet", &format!("{count}; {}; exit 4", hold.text()));
        bench.shell("next", &format!("{count}; echo on"));
        Some(Self { bench, disk, hold, starts, mutations: 0 })
    }

    fn started(&self, run: &str) -> usize {
        fs::read_to_string(&self.starts).unwrap_or_default().lines().filter(|line| *line == run).count()
    }

    /// One run. While the disk is full an answer that shared a commit with what failed has to be asked
    /// for again.
    fn run(&self, run: &str) -> Value {
        until("an answer", || {
            let mut reply = self.bench.http("GET", &format!("/runs/{run}"), None);
            assert!(reply.status == 200 || reply.status == 503, "{reply:?}");
            Some(reply.body["run"].take()).filter(Value::is_object)
        })
    }

    fn post(&self, body: &Value) -> Reply {
        self.bench.http("POST", "/tasks/next/runs", Some(body))
    }

    /// Asks for several runs while it is full.
    fn ask(&mut self) -> Asked {
        let head = until("the task", || {
            let reply = self.bench.http("GET", "/tasks/next", None);
            (reply.status == 200).then(|| reply.body["task"].clone())
        });
        let mut asked = Asked::default();
        for _ in 0..ASKED {
            self.mutations += 1;
            let body = json!({
                "schema": "qinglong/task-start@v1",
                "mutationId": format!("018f5e7a-9b1c-7def-8123-{:012x}", self.mutations),
                "expectedRevision": head["revision"], "expectedContentDigest": head["contentDigest"],
            });
            let reply = self.post(&body);
            if reply.status == 202 {
                asked.accepted.push(reply.body["runId"].as_str().unwrap().to_owned());
            } else {
                // Reading the credential may share the commit that finds no space.
                assert!(reply.status == 503 && reply.code().ends_with("_unavailable"), "{reply:?}");
                let reason = reply.body["reason"].as_str().unwrap_or_default();
                assert!(["storage_full", "commit_unknown"].contains(&reason), "{reply:?}");
                asked.refused.push((body, reply));
            }
        }
        asked
    }

    /// What was accepted runs once, what was refused has not run and can be asked for again.
    fn assert_goes_on(&self, asked: &Asked) {
        for (body, refusal) in &asked.refused {
            let again = self.post(body);
            // One of unknown outcome may have been stored: then the same request finds it.
            let unknown = refusal.body["reason"] == "commit_unknown";
            assert!(again.status == 202 || unknown && again.status == 200, "{refusal:?} then {again:?}");
            self.bench.run_in(again.body["runId"].as_str().unwrap(), "succeeded");
        }
        for run in &asked.accepted {
            let ended = until("an end", || {
                let shown = self.run(run);
                ["succeeded", "failed", "lost"].contains(&shown["status"].as_str().unwrap()).then_some(shown)
            });
            // Otherwise only where its start could not be stored, which is then said: nothing of it ran.
            let said = ended["errorCode"].as_str().unwrap_or_default();
            assert!(ended["status"] == "succeeded" || said.starts_with("EXECUTOR_") || said.starts_with("RECOVERY_"));
            let ran = usize::from(ended["status"] == "succeeded");
            assert_eq!(self.started(run), ran, "{ended}");
            // It ran while there was no space: its log may have a hole, and then says so.
            let whole = ended["latestAttempt"]["logComplete"] == true;
            assert!(ran == 0 || !whole || self.bench.log(run) == b"on\n", "{ended}");
        }
        let runs = fs::read_to_string(&self.starts).unwrap();
        let once = runs.lines().all(|run| self.started(run) == 1);
        assert!(once, "something ran twice: {runs}");
    }

    /// Two runs that wait in the middle: one that will write much, one that will write nothing.
    fn two(&self) -> [String; 2] {
        let came = self.hold.came();
        let runs = ["much", "quiet"].map(|task| self.bench.start(task));
        self.hold.wait(came + 2);
        runs
    }

    /// How they ended, once they have: the outcome is theirs, and of the log it is said that it has a hole.
    fn assert_kept(&self, [much, quiet]: &[String; 2]) {
        for (run, exit) in [(much, 3), (quiet, 4)] {
            let shown = self.bench.run_in(run, "failed");
            assert_eq!(shown["latestAttempt"]["exitCode"], exit, "{shown}");
        }
        let latest = &self.bench.run(much)["latestAttempt"];
        assert_eq!((&latest["logComplete"], &latest["errorCode"]), (&json!(false), &json!("LOG_WRITE_FAILED")));
        let latest = &self.bench.run(quiet)["latestAttempt"];
        assert_eq!((&latest["logComplete"], &latest["errorCode"]), (&json!(true), &Value::Null), "it wrote nothing");
    }
}

fn full_for_a_while(test: &str, kib: u64) {
    let Some(mut small) = Small::new(test, kib) else { return };
    assert_eq!(small.bench.run_wait("next").1, 0);
    let runs = small.two();
    // Short of space, but with enough of it for the store: what is asked for waits.
    let ballast = small.disk.fill();
    fs::File::options()
        .write(true)
        .open(&ballast)
        .unwrap()
        .set_len(fs::metadata(&ballast).unwrap().len() - SPARE)
        .unwrap();
    let waiting = small.ask();
    assert_eq!(waiting.refused.len(), 0, "{:?}", waiting.refused.first());
    small.disk.fill();
    let asked = small.ask();
    small.hold.release(2);
    for run in waiting.accepted.iter().chain(&asked.accepted) {
        // The store may cut its journal back meanwhile, which is room for a start: that one is not waiting
        // any more, and how it ends is looked at below.
        let waits = until("the reason to wait", || {
            let shown = small.run(run);
            let waits = shown["waitReason"] == "disk";
            (waits || shown["status"] != "queued").then_some(waits)
        });
        assert!(!waits || small.started(run) == 0);
    }
    println!("{kib} KiB: {} accepted, {} refused", asked.accepted.len(), asked.refused.len());
    // Nobody is told that one of these succeeded, now or later; readers are answered.
    until("the task's own end", || {
        let shown = runs.each_ref().map(|run| small.run(run)["status"].as_str().unwrap().to_owned());
        assert!(shown.iter().all(|status| status == "running" || status == "failed"), "{shown:?}");
        support::tree::below(small.bench.pid()).is_empty().then_some(())
    });
    until("the list", || (small.bench.http("GET", "/runs", None).status == 200).then_some(()));
    fs::remove_file(ballast).unwrap();
    small.assert_kept(&runs);
    small.assert_goes_on(&waiting);
    small.assert_goes_on(&asked);

    // Once more, and killed in the middle. A daemon may refuse to begin on a full disk, saying so.
    let runs = small.two();
    let ballast = small.disk.fill();
    let asked = small.ask();
    small.bench.kill();
    small.hold.release(2);
    small.bench.launch(&[]);
    let begun = Instant::now();
    let serves = loop {
        if !small.bench.is_served() {
            break false;
        }
        if support::http::get(&small.bench.state(), "/api/health").is_ok_and(|reply| reply.status == 200) {
            break true;
        }
        assert!(begun.elapsed() < BOUND, "neither serves nor refuses");
        thread::sleep(Duration::from_millis(5));
    };
    println!("{kib} KiB: {} accepted, {} refused; serves: {serves}", asked.accepted.len(), asked.refused.len());
    if serves {
        for run in &runs {
            let status = small.run(run)["status"].as_str().unwrap().to_owned();
            assert!(status == "running" || status == "failed", "{status}");
        }
    } else {
        let log = fs::read_to_string(small.bench.daemon_log()).unwrap();
        assert!(log.contains("is full: free some space and try again"), "{log}");
    }
    fs::remove_file(ballast).unwrap();
    if !serves {
        small.bench.serve(&[]);
    }
    small.assert_kept(&runs);
    small.assert_goes_on(&asked);
    assert_eq!(small.bench.stop(), 0);
    let verdict: String = small.bench.db().query_one("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
fn eight_mebibytes_that_are_full_for_a_while() {
    full_for_a_while("eight_mebibytes_that_are_full_for_a_while", 8 * 1024);
}

#[test]
fn sixty_mebibytes_that_are_full_for_a_while() {
    full_for_a_while("sixty_mebibytes_that_are_full_for_a_while", 60 * 1024);
}
