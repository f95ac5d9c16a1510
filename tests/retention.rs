//! Retention through the real daemon: logs on a small file system stay within their share while runs
//! go on, and whoever asks for one that is gone is told so.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use support::mount::Mount;
use support::{Bench, until};

/// What logs may take of an 8 MiB file system: a tenth.
const SHARE: u64 = 8 * 1024 * 1024 / 10;
/// One log and what is said about it.
const LOG: u64 = 352 * 1024;

/// What lies below a folder, in bytes of the file system.
fn taken(folder: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => taken(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        // Removed meanwhile.
        Err(_) => 0,
    };
    fs::read_dir(folder).into_iter().flatten().flatten().map(of).sum()
}

fn log_of(bench: &Bench, run: &Value) -> support::http::Reply {
    let (id, attempt) = (run["id"].as_str().unwrap(), run["latestAttempt"]["id"].as_str().unwrap());
    bench.http("GET", &format!("/runs/{id}/attempts/{attempt}/log"), None)
}

#[test]
fn logs_stay_within_their_share_while_runs_go_on_and_a_removed_one_is_told() {
    const RUNS: usize = 40;
    let mut bench = Bench::ready();
    let test = "logs_stay_within_their_share_while_runs_go_on_and_a_removed_one_is_told";
    let logs = bench.state().join("logs");
    let Some(_disk) = Mount::new(test, &logs, 8192) else { return };
    bench.serve(&[]);
    bench.shell("much", "head -c 350000 /dev/zero");
    bench.shell("more", "head -c 1000000 /dev/zero");
    let first = bench.run_wait("more").0;
    let runs: Vec<Value> = (1..RUNS).map(|_| bench.run_wait("much").0).collect();
    // Without retention these would take 14 MiB, and the last would have had to wait for ever. A round
    // comes when half the share was written, so it is never passed by much.
    assert!(runs.iter().all(|run| run["status"] == "succeeded"));
    until("the logs to be within their share", || (taken(&logs) <= SHARE + 2 * LOG).then_some(()));
    let last = runs.last().unwrap();
    assert_eq!(log_of(&bench, last).status, 200, "the newest is there");
    assert_eq!(last["latestAttempt"]["logAvailable"], true);

    let gone = log_of(&bench, &first);
    assert_eq!((gone.status, gone.code()), (410, "artifact_retired"), "{gone:?}");
    let cap = 8 * 1024 * 1024 / 20;
    assert_eq!((&gone.body["byteLength"], &gone.body["truncated"]), (&json!(cap), &json!(true)), "{gone:?}");
    assert!(gone.body["retiredAtMs"].as_i64() >= first["finishedAtMs"].as_i64(), "{gone:?}");
    let id = first["id"].as_str().unwrap();
    let output = bench.cli(&["logs", id]);
    assert_eq!((output.code, output.stdout.as_str()), (3, ""), "{output:?}");
    assert!(output.stderr.contains(&format!("the log of run {id} was removed at 20")), "{output:?}");
    assert!(output.stderr.contains(&format!("it had {cap} bytes")), "{output:?}");
    assert_eq!(bench.cli(&["logs", id, "--follow"]).code, 3);
    assert_eq!(bench.run(id)["latestAttempt"]["logAvailable"], false);
    assert_eq!(bench.run(id)["status"], "succeeded", "the run itself is there");

    // A start counts them anew and brings them within the share for good.
    assert_eq!(bench.stop(), 0);
    bench.serve(&[]);
    until("the logs to be within their share", || (taken(&logs) <= SHARE).then_some(()));
    assert_eq!(bench.stop(), 0);
    let database = bench.db();
    let count = |sql: &str| database.query_one(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let kept = count("SELECT count(*) FROM attempts WHERE log_retired_at_ms IS NULL");
    let files = fs::read_dir(&logs).unwrap().flat_map(|shard| fs::read_dir(shard.unwrap().path()).unwrap());
    assert_eq!(files.count() as i64, 2 * kept, "a log and its fact for each that is kept, and nothing else");
    assert_eq!(count("SELECT count(*) FROM runs WHERE end_order IS NOT NULL"), RUNS as i64);
    assert_eq!(count("SELECT max(end_order) FROM runs"), RUNS as i64);
    assert_eq!(count("SELECT count(*) FROM clock"), i64::from(qinglet_boot_is_known()));
}

/// Whether the machine says which boot this is.
fn qinglet_boot_is_known() -> bool {
    fs::read("/proc/sys/kernel/random/boot_id").is_ok()
}
