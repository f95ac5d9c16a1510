//! Output through the real daemon: however much, whatever bytes, and with no space for it.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::fs;
use support::hold::Hold;
use support::mount::Mount;
use support::{Bench, tree, until};

/// The edge profile's cap of one log, on a file system large enough.
const CAP: usize = 4 * 1024 * 1024;
/// What a flood of output may add to a process.
const GROWTH_KIB: u64 = 2048;

/// What the API says about a run's log, its bytes left out.
fn about(bench: &Bench, run: &Value) -> Value {
    let (id, attempt) = (run["id"].as_str().unwrap(), run["latestAttempt"]["id"].as_str().unwrap());
    let mut answer = bench.http("GET", &format!("/runs/{id}/attempts/{attempt}/log?offset=0&length=1"), None).body;
    answer["content"].take();
    answer
}

#[test]
fn two_hundred_megabytes_are_cut_at_the_cap_and_counted_in_constant_memory() {
    const SENT: usize = 200_000_000;
    let bench = Bench::serving();
    let (before, after) = (Hold::new(&bench, "before"), Hold::new(&bench, "after"));
    bench.shell("flood", &format!("{}; head -c {SENT} /dev/zero; {}; exit 3", before.text(), after.text()));
    let run = bench.start("flood");
    before.wait(1);
    let (daemon, shim) = (bench.pid(), tree::below(bench.pid())[0].pid);
    // One look at everything that is measured, so that it is in memory already.
    bench.run_in(&run, "running");
    bench.log(&run);
    let peaks = || (tree::peak_kib(daemon), tree::peak_kib(shim));
    let first = peaks();
    before.release(1);
    after.wait(1);
    bench.log(&run);
    let last = peaks();
    assert!(first.0 > 0 && first.1 > 0, "{first:?}");
    assert!(last.0 - first.0 < GROWTH_KIB && last.1 - first.1 < GROWTH_KIB, "{first:?} KiB became {last:?}");
    after.release(1);
    let run = bench.run_in(&run, "failed");
    let attempt = &run["latestAttempt"];
    assert_eq!((&attempt["exitCode"], &attempt["logComplete"]), (&json!(3), &json!(true)), "{run}");
    let about = about(&bench, &run);
    assert_eq!((&about["truncated"], &about["droppedBytes"]), (&json!(true), &json!(SENT - CAP)), "{about}");
    assert_eq!((&about["totalBytes"], &about["active"]), (&json!(CAP), &json!(false)), "{about}");
    let output = bench.cli(&["logs", run["id"].as_str().unwrap()]);
    assert!(output.bytes == vec![0; CAP], "{} bytes", output.bytes.len());
    let told = format!("(the log was cut at its size limit; {} bytes were dropped)\n", SENT - CAP);
    assert_eq!((output.code, output.stderr), (0, told));
}

#[test]
fn whatever_bytes_a_task_writes_come_back_equal() {
    let bench = Bench::serving();
    // Every byte value, no valid text, no newline at the end; then one line of 100 MB.
    let odd: Vec<u8> = (0..1_000_003_u64).map(|at| (at * at / 7 % 256) as u8).collect();
    let file = bench.root().join("odd");
    fs::write(&file, &odd).unwrap();
    let file = file.display();
    bench.shell("small", &format!("cat '{file}'; cat '{file}' >&2"));
    let (run, code) = bench.run_wait("small");
    assert_eq!(code, 0, "{run}");
    assert!(bench.log(run["id"].as_str().unwrap()) == [&odd[..], &odd].concat());
    let said = about(&bench, &run);
    assert_eq!((&said["truncated"], &said["droppedBytes"]), (&json!(false), &json!(0)), "{said}");
    bench.shell("long", &format!("cat '{file}'; head -c 100000000 /dev/zero | tr '\\0' x; echo"));
    let (run, code) = bench.run_wait("long");
    assert_eq!(code, 0, "{run}");
    let log = bench.log(run["id"].as_str().unwrap());
    assert!(log.len() == CAP && log[..odd.len()] == odd && log[odd.len()..].iter().all(|byte| *byte == b'x'));
    assert_eq!(about(&bench, &run)["droppedBytes"], json!(odd.len() + 100_000_001 - CAP));
}

#[test]
fn a_log_file_system_that_fills_up_costs_output_and_never_the_outcome() {
    let mut bench = Bench::ready();
    let test = "a_log_file_system_that_fills_up_costs_output_and_never_the_outcome";
    let Some(disk) = Mount::new(test, &bench.state().join("logs"), 8192) else { return };
    bench.serve(&[]);
    let hold = Hold::new(&bench, "hold");
    for (task, exit) in [("well", 0), ("badly", 7)] {
        bench.shell(task, &format!("echo before; {}; head -c 300000 /dev/zero; exit {exit}", hold.text()));
    }
    let runs = ["well", "badly"].map(|task| bench.start(task));
    hold.wait(2);
    until("what came before", || (bench.log(&runs[1]) == b"before\n").then_some(()));
    let ballast = disk.fill();
    // With nothing left a new run is not even begun.
    bench.shell("next", "echo out");
    let next = bench.start("next");
    until("the reason to wait", || (bench.run(&next)["waitReason"] == "disk").then_some(()));
    assert!(bench.ok(&["show", &next]).contains("waits: too little space is free"));
    hold.release(2);
    for (run, status, exit) in [(&runs[0], "succeeded", 0), (&runs[1], "failed", 7)] {
        let run = bench.run_in(run, status);
        let (id, attempt) = (run["id"].as_str().unwrap(), &run["latestAttempt"]);
        assert_eq!((&attempt["exitCode"], &attempt["signal"]), (&json!(exit), &Value::Null), "{run}");
        assert_eq!(
            (&attempt["logComplete"], &attempt["errorCode"]),
            (&json!(false), &json!("LOG_WRITE_FAILED")),
            "{run}"
        );
        assert!(bench.ok(&["show", id]).contains("LOG_WRITE_FAILED"));
        let about = about(&bench, &run);
        let kept = about["totalBytes"].as_u64().unwrap();
        assert_eq!(about["droppedBytes"].as_u64(), Some(300_007 - kept), "{about}");
        let output = bench.cli(&["logs", id]);
        assert!(output.bytes.starts_with(b"before\n"));
        assert!(output.stderr.contains("writing the log failed: it has a hole"), "{output:?}");
    }
    assert_eq!(bench.run(&next)["status"], "queued");
    fs::remove_file(ballast).unwrap();
    bench.run_in(&next, "succeeded");
    assert_eq!(bench.log(&next), b"out\n");
}
