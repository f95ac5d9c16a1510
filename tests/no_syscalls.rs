//! Kernels without newer system calls: each is taken away by a filter that answers ENOSYS, to the daemon, its shims,
//! the command line and the tasks alike, and the whole job is done without it.

mod support;

use std::process::Command;
use support::filter::Filter;
use support::{Bench, tree, until};

/// What is taken away, by number (the same on every architecture but renameat2 and statx).
const CALLS: &[(&str, &[i64])] = &[
    ("pidfd_open", &[libc::SYS_pidfd_open]),
    ("pidfd_send_signal", &[libc::SYS_pidfd_send_signal]),
    ("close_range", &[libc::SYS_close_range]),
    ("clone3", &[libc::SYS_clone3]),
    ("renameat2", &[libc::SYS_renameat2]),
    ("statx", &[libc::SYS_statx]),
    (
        "all of them",
        &[
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_send_signal,
            libc::SYS_close_range,
            libc::SYS_clone3,
            libc::SYS_renameat2,
            libc::SYS_statx,
        ],
    ),
];

/// Tells the child below that it is one.
const INSIDE: &str = "QINGLET_TEST_WITHOUT";

#[test]
fn everything_works_without_one_newer_call_or_all() {
    if std::env::var_os(INSIDE).is_some() {
        return;
    }
    for (name, calls) in CALLS {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_whole_job", "--nocapture"]).env(INSIDE, name);
        let done = match Filter::without(calls, libc::ENOSYS).around(&mut child).output() {
            Ok(done) => done,
            Err(e) => {
                return support::skip("everything_works_without_one_newer_call_or_all", &format!("no filters: {e}"));
            }
        };
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("the whole job is done"), "without {name}:\n{said}");
    }
}

/// Run by the test above, under its filter; by itself it has nothing to do.
#[test]
fn the_whole_job() {
    let Some(name) = std::env::var_os(INSIDE).and_then(|name| name.into_string().ok()) else { return };
    let gone = CALLS.iter().find(|(known, _)| *known == name).unwrap().1;
    // SAFETY: with these arguments each of them does nothing but fail.
    let refused = gone.iter().all(|call| unsafe { libc::syscall(*call, -1, -1, -1, -1, -1) } < 0);
    assert!(refused && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS), "they are gone");

    let mut bench = Bench::serving();
    bench.shell("hello", "echo hello");
    let (run, code) = bench.run_wait("hello");
    assert_eq!((code, run["status"].as_str()), (0, Some("succeeded")));
    bench.shell_with("deaf", &["--grace", "300ms"], "trap '' TERM; setsid sleep 1000 & while :; do sleep 1; done");
    let run = bench.start("deaf");
    let processes = until("the tree", || Some(tree::marked(&run)).filter(|all| all.len() >= 3));
    bench.ok(&["stop", &run]);
    bench.run_in(&run, "cancelled");
    assert!(!processes.iter().any(tree::is_alive), "a stop ends the whole tree");
    bench.shell_with("late", &["--timeout", "200ms", "--grace", "100ms"], "sleep 1000");
    let run = bench.start("late");
    bench.run_in(&run, "timed_out");

    bench.shell("outlives", "sleep 2; exit 5");
    bench.shell("stays", "sleep 1000");
    let (outlives, stays) = (bench.start("outlives"), bench.start("stays"));
    bench.run_in(&stays, "running");
    bench.run_in(&outlives, "running");
    bench.kill();
    bench.serve(&[]);
    let ended = bench.run_in(&outlives, "failed");
    assert_eq!(ended["latestAttempt"]["exitCode"], 5, "an adopted task's end is known: {ended}");
    bench.ok(&["stop", &stays]);
    bench.run_in(&stays, "cancelled");
    bench.ok(&["backup", bench.root().join("copy").to_str().unwrap()]);
    assert_eq!(bench.stop(), 0);
    println!("the whole job is done");
}
