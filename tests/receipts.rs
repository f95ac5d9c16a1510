//! What lies in a receipt's place and is no receipt of ours, through the real daemon: put aside, never
//! believed, never waited for, and nothing outside the state is touched; found by the daemon that
//! started the run and by the next one. Receipts are changed while the daemon is stopped or gone, so
//! that it finds each as it was made here.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::hold::Hold;
use support::{Bench, folder, http, tree, until};

/// The longest that any answer may take while receipts are looked at.
const ANSWER: Duration = Duration::from_secs(10);

/// What is done to a receipt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Change {
    /// Nothing: the control.
    None,
    Emptied,
    Truncated,
    /// Sound JSON, and more of it than a receipt may have.
    Oversized,
    /// So much that nobody may read it.
    Vast,
    WrongToken,
    /// A sound receipt of another attempt.
    WrongAttempt,
    /// Its run is another.
    WrongRun,
    WrongSequence,
    /// A link to the sound receipt, outside.
    Symlink,
    /// A second name of the sound receipt, outside.
    HardLink,
    Fifo,
    Socket,
    Folder,
}

const ALL: [Change; 14] = [
    Change::None,
    Change::Emptied,
    Change::Truncated,
    Change::Oversized,
    Change::Vast,
    Change::WrongToken,
    Change::WrongAttempt,
    Change::WrongRun,
    Change::WrongSequence,
    Change::Symlink,
    Change::HardLink,
    Change::Fifo,
    Change::Socket,
    Change::Folder,
];

/// A run and where its receipt is expected.
struct Case {
    change: Change,
    run: String,
    attempt: String,
    receipt: PathBuf,
}

impl Case {
    fn of(bench: &Bench, change: Change, run: String) -> Self {
        let shown = bench.run_in(&run, "running");
        let attempt = shown["latestAttempt"]["id"].as_str().unwrap().to_owned();
        let receipt = receipt_of(bench, &attempt);
        Self { change, run, attempt, receipt }
    }

    /// Where it lies once it was put aside.
    fn aside(&self, bench: &Bench) -> PathBuf {
        let shard = self.receipt.parent().unwrap().file_name().unwrap();
        bench.state().join("receipts/.quarantine").join(shard).join(self.receipt.file_name().unwrap())
    }
}

fn receipt_of(bench: &Bench, attempt: &str) -> PathBuf {
    bench.state().join("receipts").join(&attempt[attempt.len() - 2..]).join(format!("{attempt}.json"))
}

/// Starts one run for each change; all of them wait.
fn begin(bench: &Bench, hold: &Hold) -> Vec<Case> {
    bench.shell("t", &format!("{}; exit 7", hold.text()));
    let runs: Vec<String> = ALL.iter().map(|_| bench.start("t")).collect();
    hold.wait(ALL.len());
    ALL.into_iter().zip(runs).map(|(change, run)| Case::of(bench, change, run)).collect()
}

/// Lets all of them end, and changes their receipts once they are there.
fn change_all(cases: &[Case], hold: &Hold, outside: &Path) {
    hold.release(cases.len());
    let texts: Vec<String> = cases
        .iter()
        .map(|case| until("a receipt", || fs::read_to_string(&case.receipt).ok().filter(|text| text.ends_with('}'))))
        .collect();
    for (at, case) in cases.iter().enumerate() {
        let other = &texts[(at + 1) % texts.len()];
        change(case, &texts[at], other, outside);
    }
}

fn change(case: &Case, text: &str, other: &str, outside: &Path) {
    let path = &case.receipt;
    let value = |field: &str, of: &str| serde_json::from_str::<Value>(of).unwrap()[field].as_str().unwrap().to_owned();
    let swap = |field: &str, to: &str| text.replace(&value(field, text), to);
    let clear = || fs::remove_file(path).unwrap();
    match case.change {
        Change::None => {}
        Change::Emptied => fs::write(path, "").unwrap(),
        Change::Truncated => fs::write(path, &text[..text.len() - 1]).unwrap(),
        Change::Oversized => fs::write(path, format!("{text}{}", " ".repeat(8192))).unwrap(),
        Change::Vast => fs::File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap(),
        Change::WrongToken => fs::write(path, swap("token", &"0".repeat(64))).unwrap(),
        Change::WrongAttempt => fs::write(path, other).unwrap(),
        Change::WrongRun => fs::write(path, swap("runId", &value("runId", other))).unwrap(),
        Change::WrongSequence => {
            let changed = text.replace("\"callbackSequence\":1", "\"callbackSequence\":2");
            assert_ne!(changed, text);
            fs::write(path, changed).unwrap();
        }
        Change::Symlink => {
            fs::rename(path, outside.join("target")).unwrap();
            symlink(outside.join("target"), path).unwrap();
        }
        Change::HardLink => fs::hard_link(path, outside.join("second")).unwrap(),
        Change::Fifo => {
            clear();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }
        Change::Socket => {
            clear();
            drop(std::os::unix::net::UnixListener::bind(path).unwrap());
        }
        Change::Folder => {
            clear();
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
            fs::write(path.join("inside"), text).unwrap();
        }
    }
}

/// A folder outside the state, with something in it that must stay as it is.
fn outside(bench: &Bench) -> PathBuf {
    let outside = bench.root().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("innocent"), "as it was").unwrap();
    outside
}

/// Asks the daemon for an answer again and again while something is done; the longest it took.
fn while_asking(bench: &Bench, act: impl FnOnce()) {
    let (state, done) = (bench.state(), AtomicBool::new(false));
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut longest, mut count) = (Duration::ZERO, 0);
            while !done.load(Ordering::Relaxed) {
                let begun = Instant::now();
                let reply = http::get(&state, "/api/health").unwrap();
                assert_eq!(reply.status, 200, "{reply:?}");
                longest = longest.max(begun.elapsed());
                count += 1;
                thread::sleep(Duration::from_millis(10));
            }
            (longest, count)
        });
        // Also when it fails: the other thread must end for the failure to be seen.
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        done.store(true, Ordering::Relaxed);
        let (longest, count) = asking.join().unwrap();
        if let Err(panic) = acted {
            std::panic::resume_unwind(panic);
        }
        assert!(longest < ANSWER && count > 0, "{longest:?} for one of {count} answers");
    });
}

/// What lies in a place: its kind, how long it is, and for a link where it leads.
fn what(path: &Path) -> Option<(u32, u64, Option<PathBuf>)> {
    let meta = path.symlink_metadata().ok()?;
    let length = if meta.is_dir() { 0 } else { meta.len() };
    Some((meta.mode(), length, fs::read_link(path).ok()))
}

/// Waits until each is settled, and looks at how.
fn assert_settled(bench: &Bench, cases: &[Case], changed: &BTreeMap<Change, (u32, u64, Option<PathBuf>)>) {
    for case in cases {
        let Case { change, run, attempt, receipt } = case;
        let shown = until(&format!("{change:?} to be settled"), || {
            Some(bench.run(run)).filter(|shown| shown["latestAttempt"]["finishedAtMs"].is_number())
        });
        let latest = &shown["latestAttempt"];
        assert_eq!(latest["id"], attempt.as_str());
        if *change == Change::None {
            assert_eq!((&latest["status"], &latest["exitCode"]), (&"failed".into(), &7.into()), "{shown}");
            until("its receipt to go", || what(receipt).is_none().then_some(()));
            assert_eq!(what(&case.aside(bench)), None);
            continue;
        }
        assert_eq!((&latest["status"], &latest["exitCode"]), (&"lost".into(), &Value::Null), "{change:?}: {shown}");
        assert_eq!(latest["errorCode"], "RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT", "{change:?}");
        assert_eq!(what(receipt), None, "{change:?} lies where it lay");
        assert_eq!(what(&case.aside(bench)).as_ref(), Some(&changed[change]), "{change:?} was put aside as it was");
    }
}

fn seen(cases: &[Case]) -> BTreeMap<Change, (u32, u64, Option<PathBuf>)> {
    cases.iter().map(|case| (case.change, what(&case.receipt).unwrap())).collect()
}

#[test]
fn what_is_no_receipt_is_put_aside_by_the_daemon_that_started_the_run() {
    let mut bench = Bench::ready();
    bench.serve(&["--profile", "standalone"]);
    let (hold, outside) = (Hold::new(&bench, "hold"), outside(&bench));
    let cases = begin(&bench, &hold);
    tree::signal(bench.pid(), libc::SIGSTOP);
    change_all(&cases, &hold, &outside);
    let (before, changed) = (folder::snapshot(&outside), seen(&cases));
    tree::signal(bench.pid(), libc::SIGCONT);
    while_asking(&bench, || assert_settled(&bench, &cases, &changed));
    folder::assert_unchanged(&outside, &before);
    bench.shell("next", "echo on");
    assert_eq!(bench.run_wait("next").1, 0, "it goes on");
    assert_eq!(bench.stop(), 0);
}

#[test]
fn what_is_no_receipt_is_put_aside_by_the_next_daemon() {
    let mut bench = Bench::ready();
    bench.serve(&["--profile", "standalone"]);
    let (hold, outside) = (Hold::new(&bench, "hold"), outside(&bench));
    let cases = begin(&bench, &hold);
    bench.kill();
    change_all(&cases, &hold, &outside);
    let (before, changed) = (folder::snapshot(&outside), seen(&cases));
    bench.serve(&["--profile", "standalone"]);
    while_asking(&bench, || assert_settled(&bench, &cases, &changed));
    folder::assert_unchanged(&outside, &before);
    bench.shell("next", "echo on");
    assert_eq!(bench.run_wait("next").1, 0, "it goes on");
    assert_eq!(bench.stop(), 0);
}

/// Whatever else may stand in a receipt's place before the shim wants it.
fn plant(path: &Path, outside: &Path, kind: usize) {
    match kind {
        0 => fs::write(path, "{}").unwrap(),
        1 => symlink(outside.join("innocent"), path).unwrap(),
        2 => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        _ => fs::create_dir(path).unwrap(),
    }
}

#[test]
fn a_place_that_is_taken_costs_the_outcome_and_a_restart_before_the_end_gives_it_back() {
    let mut bench = Bench::serving();
    let (hold, outside) = (Hold::new(&bench, "hold"), outside(&bench));
    let before = folder::snapshot(&outside);
    bench.shell("t", &format!("{}; exit 7", hold.text()));
    for restarts in [false, true] {
        let came = hold.came();
        let runs: Vec<String> = (0..4).map(|_| bench.start("t")).collect();
        hold.wait(came + 4);
        let cases: Vec<Case> = runs.into_iter().map(|run| Case::of(&bench, Change::None, run)).collect();
        for (kind, case) in cases.iter().enumerate() {
            plant(&case.receipt, &outside, kind);
        }
        if restarts {
            bench.kill();
            bench.serve(&[]);
            // They run: nothing is known about them but that, and what lay there is out of the way.
            for case in &cases {
                until("it to be put aside", || what(&case.receipt).is_none().then_some(()));
                assert!(what(&case.aside(&bench)).is_some());
                assert_eq!(bench.run(&case.run)["status"], "running");
            }
        }
        while_asking(&bench, || {
            hold.release(4);
            for case in &cases {
                let shown = until("its end", || {
                    Some(bench.run(&case.run)).filter(|run| run["latestAttempt"]["finishedAtMs"].is_number())
                });
                let latest = &shown["latestAttempt"];
                let expected = if restarts { ("failed", Value::from(7)) } else { ("lost", Value::Null) };
                assert_eq!((latest["status"].as_str().unwrap(), &latest["exitCode"]), (expected.0, &expected.1));
                assert!(what(&case.aside(&bench)).is_some(), "{shown}");
            }
        });
    }
    folder::assert_unchanged(&outside, &before);
}

#[test]
fn what_cannot_be_put_aside_stays_undecided_until_it_can() {
    let mut bench = Bench::serving();
    let (hold, outside) = (Hold::new(&bench, "hold"), outside(&bench));
    let quarantine = bench.state().join("receipts/.quarantine");
    symlink(&outside, &quarantine).unwrap();
    let before = folder::snapshot(&outside);
    bench.shell("t", &format!("{}; exit 7", hold.text()));
    bench.shell("next", "echo on");
    let run = bench.start("t");
    hold.wait(1);
    let case = Case::of(&bench, Change::None, run);
    plant(&case.receipt, &outside, 0);
    hold.release(1);
    until("the supervisor to end", || tree::below(bench.pid()).is_empty().then_some(()));
    while_asking(&bench, || assert_eq!(bench.run_wait("next").1, 0, "others run"));
    assert_eq!(bench.run(&case.run)["status"], "running", "nobody can tell");
    bench.kill();
    bench.serve(&[]);
    while_asking(&bench, || assert_eq!(bench.run_wait("next").1, 0, "others run"));
    assert_eq!(bench.run(&case.run)["status"], "running", "nor can the next");
    assert_eq!(fs::read(&case.receipt).unwrap(), b"{}");
    folder::assert_unchanged(&outside, &before);
    fs::remove_file(&quarantine).unwrap();
    let shown =
        until("its end", || Some(bench.run(&case.run)).filter(|run| run["latestAttempt"]["finishedAtMs"].is_number()));
    assert_eq!(shown["latestAttempt"]["status"], "lost", "{shown}");
    assert_eq!(fs::read(case.aside(&bench)).unwrap(), b"{}");
}
