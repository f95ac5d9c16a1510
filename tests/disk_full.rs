//! A full disk, everywhere it can be met, through the real daemon and its shims: each of the calls that
//! need space fails once, or from then on until there is space again. A start is refused with its
//! reason, or a log has a hole and the outcome is right, or the run is lost; nothing is ever said to
//! have succeeded that did not, nothing runs twice, and the daemon goes on.
//!
//! How: every call of a run is numbered by the kernel's own filter (see `support/refuse.rs`), and for
//! each number there is one run. Many daemons at once share the numbers, because a step that failed is
//! tried again only seconds later.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use support::refuse::Refusals;
use support::{Bench, tree, until};

/// Daemons that share the numbers.
const DAEMONS: u64 = 40;
/// More calls than any run needs.
const CALLS_MAX: u64 = 600;

/// One daemon on a disk that can be full, and how often user code has run.
struct Site {
    bench: Bench,
    disk: Refusals,
    starts: PathBuf,
    mutations: u64,
}

impl Site {
    fn new(test: &str) -> Option<Self> {
        let mut bench = Bench::ready();
        let disk = Refusals::below(test, &bench.state())?;
        disk.within(|| bench.serve(&[]).pid()).unwrap();
        let starts = bench.root().join("starts");
        for (task, exit) in [("well", 0), ("badly", 3)] {
            bench.shell(task, &format!("echo $QINGLET_RUN_ID >> '{}'; echo out; exit {exit}", starts.display()));
        }
        // So that all that is made once is there.
        assert_eq!(bench.run_wait("well").1, 0);
        Some(Self { bench, disk, starts, mutations: 0 })
    }

    /// How often a run's program was started, by its own word.
    fn started(&self, run: &str) -> usize {
        fs::read_to_string(&self.starts).unwrap_or_default().lines().filter(|line| *line == run).count()
    }

    fn starts(&self) -> usize {
        fs::read_to_string(&self.starts).unwrap_or_default().lines().count()
    }

    /// One run. An answer that shared a commit with what failed may have to be asked for again.
    fn run(&self, run: &str) -> Value {
        until("an answer", || {
            // Many daemons share the machine.
            thread::sleep(Duration::from_millis(20));
            let mut reply = self.bench.http("GET", &format!("/runs/{run}"), None);
            assert!(reply.status == 200 || reply.status == 503, "{reply:?}");
            Some(reply.body["run"].take()).filter(Value::is_object)
        })
    }

    /// Asks for a run over HTTP as often as it takes, always with the same mutation, and says what the
    /// first answer was. Space is back after it.
    fn ask(&mut self, task: &str, sticky: bool) -> (String, Option<(Value, Vec<String>)>) {
        self.mutations += 1;
        let number = self.mutations;
        let head = &self.bench.http("GET", &format!("/tasks/{task}"), None).body["task"];
        let body = json!({
            "schema": "qinglong/task-start@v1",
            "mutationId": format!("018f5e7a-9b1c-7def-8123-{number:012x}"),
            "expectedRevision": head["revision"], "expectedContentDigest": head["contentDigest"],
        });
        let path = format!("/tasks/{task}/runs");
        let before = self.starts();
        let reply = self.bench.http("POST", &path, Some(&body));
        if reply.status == 202 {
            return (reply.body["runId"].as_str().unwrap().to_owned(), None);
        }
        assert_eq!((reply.status, reply.code()), (503, "task_start_unavailable"), "{reply:?}");
        let refusal = reply.body.clone();
        let reason = refusal["reason"].as_str().unwrap_or_default();
        if sticky {
            // While it is full it says so again and again, and the rest is answered.
            let again = self.bench.http("POST", &path, Some(&body));
            // Or it finds that the commit has happened after all.
            let is_there = again.status == 200 && reason == "commit_unknown";
            assert!(is_there || (again.status, again.code()) == (503, "task_start_unavailable"), "{again:?}");
            assert_eq!(self.bench.http("GET", "/runs", None).status, 200);
        }
        assert!(reason == "commit_unknown" || self.starts() == before, "it was refused, and ran: {refusal}");
        let refused = self.disk.free();
        let reply = self.bench.http("POST", &path, Some(&body));
        let expected: &[u16] = if reason == "commit_unknown" { &[200, 202] } else { &[202] };
        assert!(expected.contains(&reply.status), "{reason}: {reply:?}");
        (reply.body["runId"].as_str().unwrap().to_owned(), Some((refusal, refused)))
    }

    /// One run whose n-th call is refused. What was refused, and what came of it in a few words;
    /// nothing refused: it needs no so many calls.
    fn one(&mut self, at: u64, sticky: bool) -> (Vec<String>, String) {
        let (task, exit) = [("well", 0), ("badly", 3)][(at / 2 % 2) as usize];
        self.disk.arm(at, sticky);
        let (run, refusal) = self.ask(task, sticky);
        if sticky && refusal.is_none() {
            // Full for a while, and then not any more.
            let settled = |shown: &Value| shown["finishedAtMs"].is_number();
            let mut looks = 0;
            until("a refusal", || {
                looks += 1;
                let over = !self.disk.refused().is_empty() || settled(&self.run(&run));
                (over || looks > 100).then_some(())
            });
            thread::sleep(Duration::from_millis(100));
        }
        // One that is refused once may still be to come.
        let early = if sticky { self.disk.free() } else { Vec::new() };
        let shown = until(&format!("the end of run {run} ({at} {sticky} {early:?} {refusal:?})"), || {
            Some(self.run(&run)).filter(|shown| shown["latestAttempt"]["finishedAtMs"].is_number())
        });
        let mut refused = [early, self.disk.free()].concat();
        let mut came = self.judge(&run, exit, &shown);
        if let Some((refusal, by)) = refusal {
            // Only after a sync that failed is it not known.
            let by_sync = by.first().is_some_and(|call| call.starts_with("sync"));
            assert_eq!(refusal["reason"], if by_sync { "commit_unknown" } else { "storage_full" }, "{by:?}");
            came = format!("refused: {}, then {came}", refusal["reason"]);
            refused.extend(by);
        }
        (refused, came)
    }

    /// What is said about a run is true.
    fn judge(&self, run: &str, exit: i64, shown: &Value) -> String {
        let (status, latest, started) = (shown["status"].as_str().unwrap(), &shown["latestAttempt"], self.started(run));
        let (error, complete) = (latest["errorCode"].as_str(), latest["logComplete"].as_bool());
        match (status, error) {
            ("succeeded", None | Some("LOG_WRITE_FAILED")) => {
                assert_eq!((started, exit, latest["exitCode"].as_i64()), (1, 0, Some(0)), "{shown}");
            }
            ("failed", None | Some("LOG_WRITE_FAILED")) => {
                assert_eq!((started, latest["exitCode"].as_i64()), (1, Some(exit)), "{shown}");
                assert_eq!(exit, 3, "{shown}");
            }
            ("failed", Some("EXECUTOR_START_FAILED")) => {
                assert_eq!(started, 0, "{shown}");
                assert!(
                    latest["errorSummary"].as_str().is_some_and(|text| text.to_lowercase().contains("no space")),
                    "{shown}"
                );
            }
            ("lost", Some("EXECUTOR_OWNERSHIP_NOT_STORED")) => assert_eq!(started, 0, "{shown}"),
            ("lost", Some(_)) => assert!(started <= 1, "{shown}"),
            _ => panic!("{shown}"),
        }
        if complete == Some(true) {
            assert_eq!((error, self.bench.log(run).as_slice()), (None, &b"out\n"[..]), "{shown}");
        } else if started == 1 && status != "lost" {
            assert_eq!(error, Some("LOG_WRITE_FAILED"), "{shown}");
        }
        assert_eq!(tree::marked(run), [], "{shown}");
        format!("{status} {}", error.unwrap_or_default())
    }
}

/// Nothing of a receipt is left, under whatever name.
fn receipts(state: &Path) -> Vec<PathBuf> {
    let shards = fs::read_dir(state.join("receipts")).unwrap().flatten();
    shards.flat_map(|shard| fs::read_dir(shard.path()).unwrap().flatten()).map(|entry| entry.path()).collect()
}

#[test]
fn each_call_of_a_run_that_needs_space_is_refused_in_turn() {
    let test = "each_call_of_a_run_that_needs_space_is_refused_in_turn";
    let Some(first) = Site::new(test) else { return };
    let share = |mut site: Site, from: u64| {
        let mut came = Vec::new();
        for at in (from..).step_by(DAEMONS as usize) {
            assert!(at < CALLS_MAX, "no end of calls");
            let refusals = [false, true].map(|sticky| (site.one(at, sticky), sticky));
            let over = refusals.iter().all(|((refused, _), _)| refused.is_empty());
            came.extend(refusals.map(|((refused, came), sticky)| (at, sticky, refused, came)));
            if over {
                break;
            }
        }
        assert_eq!(site.bench.run_wait("well").1, 0, "it goes on");
        until("no receipt to be left", || receipts(&site.bench.state()).is_empty().then_some(()));
        assert_eq!(site.bench.stop(), 0);
        came
    };
    let mut all: Vec<_> = thread::scope(|scope| {
        let mut first = Some(first);
        let shares: Vec<_> = (1..=DAEMONS)
            .map(|from| {
                let site = first.take();
                scope.spawn(move || share(site.unwrap_or_else(|| Site::new(test).unwrap()), from))
            })
            .collect();
        shares.into_iter().flat_map(|share| share.join().unwrap()).collect()
    });
    all.sort();
    for (at, sticky, refused, came) in &all {
        println!("{at:3} {} {}: {came}", if *sticky { "full" } else { "once" }, refused.first().map_or("-", |r| r));
    }
    // Every place was met.
    let met = |what: &str| all.iter().any(|(_, _, refused, _)| refused.iter().any(|text| text.contains(what)));
    for what in [
        "write to qinglet.db",
        "sync of qinglet.db",
        "new name logs/",
        "new name receipts/",
        "write to logs/",
        "write to receipts/",
    ] {
        assert!(met(what), "nothing was refused at {what}");
    }
    for what in ["succeeded ", "LOG_WRITE_FAILED", "EXECUTOR_START_FAILED", "lost ", "commit_unknown", "storage_full"] {
        assert!(all.iter().any(|(_, _, _, came)| came.contains(what)), "never {what}");
    }
}
