//! What a daemon does not have: no TCP without an address, no API when it is off, no thread beyond
//! the documented number, and never a second one on the same state.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::fs::{self, File};
use support::{Bench, http, tree, until};

/// Inodes of the sockets a process has open.
fn sockets(pid: i32) -> BTreeSet<String> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())).collect()
}

/// Lines of one of the kernel's socket tables whose inode, in this column, is one of the process's.
fn table(pid: i32, name: &str, column: usize) -> Vec<String> {
    let own = sockets(pid);
    // A kernel without IPv6 has no such table.
    let text = fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let is_own = |line: &&str| line.split_whitespace().nth(column).is_some_and(|inode| own.contains(inode));
    text.lines().filter(is_own).map(str::to_owned).collect()
}

fn tcp(pid: i32) -> Vec<String> {
    ["tcp", "tcp6", "udp", "udp6"].iter().flat_map(|name| table(pid, name, 9)).collect()
}

fn thread_names(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    tasks.map(|task| fs::read_to_string(task.path().join("comm")).unwrap().trim_end().to_owned()).collect()
}

fn wait_until_it_says(bench: &Bench, what: &str) {
    until(what, || fs::read_to_string(bench.daemon_log()).unwrap().contains(what).then_some(()));
}

/// A daemon started like this; one without an API is waited for by what it says.
fn started(args: &[&str]) -> Bench {
    let mut bench = Bench::ready();
    if args.contains(&"off") {
        bench.launch(args);
        wait_until_it_says(&bench, "no API");
    } else {
        bench.serve(args);
    }
    bench
}

#[test]
fn s376_4_without_an_address_there_is_no_tcp_socket() {
    let bench = started(&[]);
    assert_eq!(tcp(bench.pid()), Vec::<String>::new());
    assert!(!bench.state().join("run/address").exists());
    assert!(!table(bench.pid(), "unix", 6).is_empty(), "the local socket is there, so the tables can be read");
    bench.shell("a", "true");
    assert_eq!(bench.run_wait("a").1, 0);
    assert_eq!(tcp(bench.pid()), Vec::<String>::new(), "nor after work");
}

#[test]
fn with_an_address_exactly_that_one_is_listened_on() {
    let bench = started(&["--listen", "127.0.0.1:0"]);
    let port = bench.address().port();
    let lines = tcp(bench.pid());
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].split_whitespace().nth(1).unwrap(), format!("0100007F:{port:04X}"));
}

#[test]
fn s376_4_with_the_api_off_there_is_no_thread_and_no_socket_of_it() {
    let mut bench = started(&["--api", "off"]);
    // A thread has its name only from its own first moment on.
    until("three named threads", || {
        let mut names = thread_names(bench.pid());
        names.sort();
        assert_eq!(names.len(), 3, "{names:?}");
        (names == ["launcher", "qinglet", "store"]).then_some(())
    });
    assert_eq!((tcp(bench.pid()), table(bench.pid(), "unix", 6)), (Vec::new(), Vec::new()));
    assert_eq!(fs::read_dir(bench.state().join("run")).unwrap().count(), 0);
    assert_eq!(bench.cli(&["runs"]).code, 4);
    assert_eq!(bench.stop(), 0);
}

// The crash points are in debug builds only.
#[cfg(debug_assertions)]
#[test]
fn with_the_api_off_what_was_admitted_before_is_still_run() {
    // Admitted, and cut off before it was started.
    let mut bench = Bench::ready();
    let done = bench.root().join("done");
    bench.env("QINGLET_CRASH_AT", "start.materialised").serve(&[]);
    bench.shell("a", &format!("echo ran >> {}", done.display()));
    let mut client = bench.spawn(&["run", "a"], &bench.root().join("client"));
    assert_eq!(bench.ended(), -9);
    client.kill().unwrap();
    client.wait().unwrap();
    bench.no_env("QINGLET_CRASH_AT").launch(&["--api", "off"]);
    until("the run", || done.exists().then_some(()));
    until("its end", || tree::below(bench.pid()).is_empty().then_some(()));
    assert_eq!(bench.stop(), 0);
}

/// The numbers of README's table of threads: mode, edge, standalone.
fn documented() -> Vec<(String, usize, usize)> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let section = text.split("### Threads").nth(1).unwrap().split("\n#").next().unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [mode, edge, standalone] = cells[..] else { return None };
        Some((mode.replace('`', ""), edge.parse().ok()?, standalone.parse().ok()?))
    };
    section.lines().filter_map(row).collect()
}

#[test]
fn the_threads_of_every_mode_are_as_many_as_documented_and_named() {
    let modes = documented();
    let words: Vec<&str> = modes.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(words, ["--api off", "socket only", "with --listen"]);
    let architecture = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).unwrap();
    let together = format!("| together, edge | | {} | {} |", modes[0].1, modes[1].1);
    assert!(architecture.contains(&together), "ARCHITECTURE.md does not say {together}");
    assert_eq!(modes[1].1, modes[2].1, "it has one column for both");

    let lines = [&["--api", "off"][..], &[], &["--listen", "127.0.0.1:0"]];
    for ((mode, edge, standalone), line) in modes.iter().zip(lines) {
        for (profile, count) in [("edge", edge), ("standalone", standalone)] {
            let mut bench = started(&[&["--profile", profile], line].concat());
            let names = thread_names(bench.pid());
            assert_eq!(names.len(), *count, "{mode}, {profile}: {names:?}");
            assert_eq!(bench.stop(), 0);
        }
    }
}

#[test]
fn work_makes_no_thread() {
    let bench = started(&["--listen", "127.0.0.1:0"]);
    let idle = tree::threads(bench.pid());
    bench.shell("a", "true");
    let runs: Vec<String> = (0..50).map(|_| bench.start("a")).collect();
    for run in runs {
        bench.run_in(&run, "succeeded");
        assert_eq!(tree::threads(bench.pid()), idle);
    }
    for count in 0..200 {
        let path = if count % 2 == 0 { "/runs" } else { "/tasks" };
        let bytes = http::request(&bench.token(), "GET", path, None);
        let reply = http::Reply::of(&http::raw_tcp(&bench, &bytes).unwrap());
        assert_eq!((reply.status, tree::threads(bench.pid())), (200, idle), "{count}: {reply:?}");
    }
}

#[test]
fn a_second_daemon_is_refused_and_names_the_first() {
    let bench = Bench::serving();
    let refused = || {
        let output = bench.cli(&["serve"]);
        assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{output:?}");
        let holder = format!("in use by `qinglet serve` (process {})", bench.pid());
        assert!(output.stderr.contains(&holder), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    };
    refused();
    // POSIX locks are gone when any descriptor of the file is closed; the state's lock must not be.
    for entry in fs::read_dir(bench.state()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            drop(File::options().read(true).write(true).open(entry.path()).unwrap());
        }
    }
    refused();
    bench.shell("a", "true");
    assert_eq!(bench.run_wait("a").1, 0, "the first goes on");
}

#[test]
fn a_daemon_that_was_killed_is_in_nobodys_way() {
    let mut bench = Bench::serving();
    bench.kill();
    bench.serve(&[]).shell("a", "true");
    assert_eq!(bench.run_wait("a").1, 0);
    assert_eq!(bench.stop(), 0);
}
