//! Every numbered step of a start, of a stop and of an `init`, cut off with signal 9: user code has run either
//! never or with the store saying so, the next start settles what was left, and nothing is started
//! twice. What comes of each cut stands in ARCHITECTURE.md; the tables there are the ones tested.

// The crash points are in debug builds only.
#![cfg(debug_assertions)]
// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use qinglet::process::crash::{POINTS, Side};
use rusqlite::Connection;
use std::fs;
use std::path::Path;
use support::hold::Hold;
use support::mount::Mount;
use support::{Bench, tree, until};

/// What comes of one cut.
#[derive(Debug, PartialEq, Eq)]
struct Cut<'a> {
    /// The crash point.
    point: &'a str,
    /// Who dies there.
    who: &'a str,
    /// Run and Attempt in the store at that moment.
    says: &'a str,
    /// Whether user code can have run.
    ran: &'a str,
    /// The Run's state after the next start.
    after: &'a str,
}

const fn cut(
    point: &'static str,
    who: &'static str,
    says: &'static str,
    ran: &'static str,
    after: &'static str,
) -> Cut<'static> {
    Cut { point, who, says, ran, after }
}

const STARTS: &[Cut<'static>] = &[
    cut("start.materialised", "daemon", "queued/claimed", "no", "succeeded"),
    cut("start.intent", "daemon", "dispatching/starting", "no", "lost"),
    cut("launch.forked", "daemon", "dispatching/starting", "no", "lost"),
    cut("launch.ordered", "daemon", "dispatching/starting", "no", "lost"),
    cut("shim.read", "shim", "dispatching/starting", "no", "failed"),
    cut("shim.prepared", "shim", "dispatching/starting", "no", "failed"),
    cut("start.held", "daemon", "dispatching/starting", "no", "lost"),
    cut("start.owned", "daemon", "running/running", "no", "lost"),
    cut("start.released", "daemon", "running/running", "yes", "succeeded"),
    cut("shim.released", "shim", "running/running", "no", "lost"),
    cut("shim.execed", "shim", "running/running", "yes", "lost"),
    cut("shim.exited", "shim", "running/running", "yes", "lost"),
    cut("shim.published", "shim", "running/running", "yes", "succeeded"),
    cut("finish.seen", "daemon", "running/running", "yes", "succeeded"),
    cut("finish.committed", "daemon", "ended", "yes", "succeeded"),
    cut("finish.deleted", "daemon", "ended", "yes", "succeeded"),
];

/// Crash points of a stop, all the daemon's: Run and Attempt in the store, and the Run's state after
/// the next start, when somebody asked and when its timeout did.
const STOPS: &[(&str, &str, &str)] = &[
    ("cancel.intent", "running/running", "cancelled or timed_out"),
    ("cancel.termed", "running/running", "cancelled or timed_out"),
    ("cancel.killed", "running/running", "cancelled or timed_out"),
];

/// Crash points of another Attempt, all the daemon's: Run and latest Attempt in the store, and what
/// becomes of the Run after the next start.
const RETRIES: &[(&str, &str, &str)] = &[
    ("retry.waiting", "retry_wait/failed", "succeeded, 2 attempts"),
    ("retry.armed", "retry_wait/failed", "succeeded, 2 attempts"),
    ("retry.queued", "queued/claimed", "succeeded, 2 attempts"),
];

/// Crash points of recovery, all the daemon's: Run and Attempt in the store, and the Run's end after the
/// next start.
const RECOVERS: &[(&str, &str, &str)] = &[
    ("recover.taken", "running/running", "succeeded"),
    ("recover.reconciled", "running/running", "succeeded"),
    ("recover.lost", "lost/lost", "lost"),
];

/// Crash points of runs that triggers make, all the daemon's.
const SCHEDULES: &[(&str, &str, &str)] = &[
    ("schedule.fired", "queued/claimed", "succeeded, one run"),
    ("schedule.booted", "queued/claimed", "succeeded, one run"),
];

/// Crash points of retention, all the daemon's: what the store says of a log, its files, and what a
/// reader is told after the next start.
const RETAINS: &[(&str, &str, &str, &str)] =
    &[("retain.removed", "kept", "gone", "removed"), ("retain.retired", "removed", "gone", "removed")];

/// Crash points of `init`, and what the next one says it did about the owner.
const INITS: &[(&str, &str)] = &[
    ("bootstrap.pepper", "made"),
    ("bootstrap.token", "made"),
    ("bootstrap.commit", "finished"),
    ("bootstrap.publish", "existing"),
];

/// Crash points of `backup` and `restore`, and what is there afterwards (tests/backup.rs, tests/restore.rs).
const COPIES: &[(&str, &str)] = &[
    ("backup.written", "the older file"),
    ("restore.placed", "the old state"),
    ("restore.built", "the old state"),
    ("restore.whole", "the old state"),
    ("restore.exchanged", "the new state"),
];

/// The cells of ARCHITECTURE.md's table rows that have this many.
fn rows(cells: usize) -> Vec<Vec<String>> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md")).unwrap();
    let cells_of = |line: &str| -> Option<Vec<String>> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        Some(inner.split(" | ").map(|cell| cell.trim_matches('`').to_owned()).collect())
    };
    let is_point = |row: &Vec<String>| row.len() == cells && row[0].parse::<u32>().is_ok();
    text.lines().filter_map(cells_of).filter(is_point).collect()
}

#[test]
fn the_document_the_code_and_this_test_have_the_same_points() {
    let written = rows(7);
    let number = |at: usize| (at + 1).to_string();
    assert!(written.iter().enumerate().all(|(at, row)| row[0] == number(at)), "numbered in order: {written:?}");
    let starts: Vec<Cut<'_>> = written
        .iter()
        .map(|row| Cut { point: &row[1], who: &row[2], says: &row[4], ran: &row[5], after: &row[6] })
        .collect();
    assert_eq!(starts, STARTS);
    let written = rows(4);
    let inits: Vec<(&str, &str)> = written.iter().map(|row| (row[1].as_str(), row[3].as_str())).collect();
    assert_eq!(inits, INITS);
    let written = rows(3);
    let copies: Vec<(&str, &str)> = written.iter().map(|row| (row[1].as_str(), row[2].as_str())).collect();
    assert_eq!(copies, COPIES);
    let written = rows(6);
    let retains: Vec<(&str, &str, &str, &str)> =
        written.iter().map(|row| (row[1].as_str(), row[3].as_str(), row[4].as_str(), row[5].as_str())).collect();
    assert_eq!(retains, RETAINS);
    let written = rows(5);
    let steps: Vec<(&str, &str, &str)> =
        written.iter().map(|row| (row[1].as_str(), row[3].as_str(), row[4].as_str())).collect();
    assert_eq!(steps, [STOPS, RETRIES, RECOVERS, SCHEDULES].concat());

    let who = |point: &&'static str| match POINTS.iter().find(|known| known.name == *point).map(|known| known.side) {
        Some(Side::Daemon) => "daemon",
        Some(Side::Shim) => "shim",
        Some(Side::Init | Side::Copy) | None => "",
    };
    assert!(STARTS.iter().all(|cut| who(&cut.point) == cut.who));
    assert!(STOPS.iter().chain(RETRIES).chain(RECOVERS).chain(SCHEDULES).all(|step| who(&step.0) == "daemon"));
    assert!(RETAINS.iter().all(|retain| who(&retain.0) == "daemon"));
    let mut known: Vec<&str> = POINTS.iter().map(|point| point.name).collect();
    let starts = STARTS.iter().map(|cut| cut.point);
    let mut tested: Vec<&str> = starts
        .chain(STOPS.iter().chain(RETRIES).chain(RECOVERS).chain(SCHEDULES).map(|step| step.0))
        .chain(RETAINS.iter().map(|retain| retain.0))
        .chain(INITS.iter().chain(COPIES).map(|cut| cut.0))
        .collect();
    known.sort_unstable();
    tested.sort_unstable();
    assert_eq!(tested, known);
}

/// The one Run in the store as a daemon that is dead has left it.
struct Stored {
    says: String,
    events: Vec<String>,
    has_digest: bool,
    has_handle: bool,
}

impl Stored {
    fn of(database: &Connection) -> Self {
        let sql = "SELECT r.status || '/' || a.status, a.token_digest IS NOT NULL, a.handle IS NOT NULL
            FROM runs r JOIN attempts a ON a.run = r.id ORDER BY a.number DESC LIMIT 1";
        let one = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (says, has_digest, has_handle) = database.query_one(sql, [], one).unwrap();
        let mut query = database.prepare("SELECT type FROM run_events ORDER BY sequence").unwrap();
        let events = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        Self { says, events, has_digest, has_handle }
    }

    fn said_running(&self) -> bool {
        self.events.iter().any(|event| event == "run.running")
    }
}

fn is_sound(database: &Connection) -> bool {
    database.query_one("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap() == "ok"
}

/// Processes that work in this bench or name it, but for these.
fn left(bench: &Bench, except: &[u32]) -> Vec<String> {
    let others = tree::at_work_in(bench.root()).into_iter().map(|process| process.pid);
    let name = |pid: i32| format!("{pid} {}", fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default());
    others.filter(|pid| !except.contains(&(*pid as u32))).map(name).collect()
}

fn wait_until_nobody_is_left(bench: &Bench, except: &[u32]) {
    until("every process to end", || left(bench, except).is_empty().then_some(()));
}

/// Everything that lies below a folder and is no folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] }).collect()
}

/// How often user code ran.
fn marks(bench: &Bench) -> usize {
    fs::read_to_string(bench.root().join("marks")).unwrap_or_default().lines().count()
}

/// A bench whose daemon dies, or lets its shims die, at this point; with a task that leaves a mark.
fn told_to_die_at(point: &str) -> Bench {
    let mut bench = Bench::ready();
    bench.env("QINGLET_CRASH_AT", point).serve(&[]);
    bench.shell("mark", &format!("echo ran >> {}/marks", bench.root().display()));
    bench
}

fn check(cut: &Cut<'_>) {
    let mut bench = told_to_die_at(cut.point);
    // The client outlasts the daemon, and asks for the same start again if it got no answer.
    let mut client = bench.spawn(&["run", "mark", "--wait"], &bench.root().join("client"));
    let code = |after: &str| i32::from(after != "succeeded");
    if cut.who == "daemon" {
        assert_eq!(bench.ended(), -9, "the daemon died by itself");
    } else {
        assert_eq!(until("the run's end", || client.try_wait().unwrap()).code(), Some(code(cut.after)));
        bench.kill();
    }
    wait_until_nobody_is_left(&bench, &[client.id()]);

    let (ran, stored) = (marks(&bench), Stored::of(&bench.db()));
    assert!(ran <= usize::from(cut.ran == "yes"), "it ran {ran} times");
    assert!(ran == 0 || stored.said_running(), "user code ran and the store did not say so: {:?}", stored.events);
    match (cut.who, cut.says) {
        ("daemon", "ended") => assert_eq!(stored.says, "succeeded/succeeded"),
        ("daemon", says) => assert_eq!(stored.says, says),
        (_, says) => assert_eq!(stored.said_running(), says == "running/running"),
    }

    bench.no_env("QINGLET_CRASH_AT").serve(&[]);
    assert_eq!(until("the run's end", || client.try_wait().unwrap()).code(), Some(code(cut.after)));
    let runs = bench.json_lines(&["runs"]);
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &cut.after.into()));
    let now = marks(&bench);
    assert!(now == ran || cut.says == "queued/claimed" && now == 1, "it ran {ran} times, then {now}");
    assert!(cut.after != "succeeded" || now == 1, "it succeeded and ran {now} times");
    assert_eq!(bench.run_wait("mark").1, 0, "a new run works");
    assert_eq!(marks(&bench), now + 1);
    assert_eq!(bench.stop(), 0);
    wait_until_nobody_is_left(&bench, &[]);
    assert!(is_sound(&bench.db()));
    assert_eq!(files(&bench.state().join("receipts")), Vec::<String>::new());
}

#[test]
fn s70_7_cut_at_any_step_a_start_ran_at_most_once_with_the_store_saying_so_and_comes_to_its_end() {
    let mut wrong = Vec::new();
    // A few at a time, because most of a cut is waiting.
    for some in STARTS.chunks(4) {
        std::thread::scope(|scope| {
            let named =
                |cut| std::thread::Builder::new().name(cut_name(cut)).spawn_scoped(scope, || check(cut)).unwrap();
            let threads: Vec<_> = some.iter().map(|cut| (cut.point, named(cut))).collect();
            wrong.extend(threads.into_iter().filter_map(|(point, thread)| thread.join().err().map(|_| point)));
        });
    }
    assert!(wrong.is_empty(), "wrong at {wrong:?}; see above");
}

#[test]
fn another_attempt_cut_at_any_step_is_made_once_by_the_next_start() {
    for (point, says, after) in RETRIES {
        let mut bench = Bench::ready();
        bench.env("QINGLET_CRASH_AT", point).serve(&[]);
        let marks = bench.root().join("marks");
        let text = format!("echo $QINGLET_ATTEMPT >> {}; test $QINGLET_ATTEMPT = 2", marks.display());
        bench.shell_with("flaky", &["--retry", "5", "--retry-delay", "300ms"], &text);
        let run = bench.start("flaky");
        assert_eq!(bench.ended(), -9, "the daemon died by itself at {point}");
        assert_eq!(Stored::of(&bench.db()).says, *says, "{point}");
        assert_eq!(fs::read_to_string(&marks).unwrap(), "1\n", "{point}");
        bench.no_env("QINGLET_CRASH_AT").serve(&[]);
        let ended = bench.run_in(&run, "succeeded");
        assert_eq!(format!("succeeded, {} attempts", ended["latestAttempt"]["number"]), *after);
        assert_eq!(fs::read_to_string(&marks).unwrap(), "1\n2\n", "each started once, cut at {point}");
        assert_eq!(bench.stop(), 0);
        assert!(is_sound(&bench.db()));
        assert_eq!(files(&bench.state().join("receipts")), Vec::<String>::new());
    }
}

#[test]
fn an_occurrence_cut_after_its_commit_has_one_run_whatever_starts_next() {
    for (point, says, after) in SCHEDULES {
        let mut bench = Bench::ready();
        bench.serve(&["--clock", "always"]);
        let marks = bench.root().join("marks");
        bench.shell("task", &format!("echo ran >> {}", marks.display()));
        let form: &[&str] =
            if *point == "schedule.fired" { &["--cron", "0 0 1 1 *", "--zone", "UTC"] } else { &["--on", "boot"] };
        bench.ok(&[&["trigger", "set", "x", "--task", "task"], form].concat());
        assert_eq!(bench.stop(), 0);
        // As if it had been due a second ago, and made in an earlier boot.
        let file = fs::read_dir(bench.state()).unwrap().map(|entry| entry.unwrap().path());
        let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "db")).unwrap();
        let due = "UPDATE trigger_schedules SET last_boot = zeroblob(16), next_fire_at_ms = CASE
            WHEN next_fire_at_ms IS NOT NULL THEN ?1 END";
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Connection::open(file).unwrap().execute(due, [now.as_millis() as i64 - 1000]).unwrap();
        bench.env("QINGLET_CRASH_AT", point).launch(&["--clock", "always"]);
        assert_eq!(bench.ended(), -9, "the daemon died by itself at {point}");
        let stored = Stored::of(&bench.db());
        assert_eq!(stored.says, *says, "{point}");
        let instant = "SELECT coalesce(scheduled_for_ms, -1) FROM runs";
        let first: i64 = bench.db().query_one(instant, [], |row| row.get(0)).unwrap();
        bench.no_env("QINGLET_CRASH_AT").serve(&["--clock", "always"]);
        let made = bench.json_lines(&["runs"]).pop().unwrap();
        let ended = bench.run_in(made["id"].as_str().unwrap(), "succeeded");
        assert_eq!(format!("{}, one run", ended["status"].as_str().unwrap()), *after);
        assert_eq!(bench.stop(), 0);
        let same = format!("SELECT count(*) FROM runs WHERE coalesce(scheduled_for_ms, -1) = {first}");
        let one: i64 = bench.db().query_one(&same, [], |row| row.get(0)).unwrap();
        assert_eq!(one, 1, "{point}: one run for the occurrence");
        assert!(is_sound(&bench.db()));
    }
}

#[test]
fn retention_cut_between_files_and_store_is_taken_up_by_the_next_start() {
    for (point, says, files_are, after) in RETAINS {
        let mut bench = Bench::ready();
        let test = "retention_cut_between_files_and_store_is_taken_up_by_the_next_start";
        let logs = bench.state().join("logs");
        // 8 MiB: logs may take 800 KiB of it.
        let Some(_disk) = Mount::new(test, &logs, 8192) else { return };
        bench.serve(&[]);
        bench.shell("much", "head -c 350000 /dev/zero");
        let first = bench.run_wait("much").0;
        (0..2).for_each(|_| drop(bench.run_wait("much")));
        assert_eq!(bench.stop(), 0);
        bench.env("QINGLET_CRASH_AT", point).launch(&[]);
        assert_eq!(bench.ended(), -9, "the daemon died by itself");
        let sql = "SELECT log_artifact, log_retired_at_ms IS NULL FROM attempts ORDER BY id LIMIT 1";
        let (artifact, kept): (String, bool) =
            bench.db().query_one(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(if kept { "kept" } else { "removed" }, *says);
        let there = files(&logs).iter().any(|file| file.contains(&artifact));
        assert_eq!(if there { "there" } else { "gone" }, *files_are);
        bench.no_env("QINGLET_CRASH_AT").serve(&[]);
        let id = first["id"].as_str().unwrap();
        let told = until("the log to be told gone", || {
            let output = bench.cli(&["logs", id]);
            (!output.stderr.contains("missing")).then_some(output)
        });
        assert!(*after == "removed" && told.stderr.contains("was removed at"), "{told:?}");
        assert_eq!(bench.stop(), 0);
        assert!(is_sound(&bench.db()));
    }
}

/// A run that a dead daemon has left, alive or with its supervisor killed, and a daemon that dies at this
/// point of taking it up.
#[test]
fn recovery_cut_at_any_step_is_done_by_the_next_daemon_and_written_down_once() {
    for (point, says, after) in RECOVERS {
        let mut bench = Bench::serving();
        let hold = Hold::new(&bench, "hold");
        bench.shell("long", &format!("echo ran >> {}/marks; {}", bench.root().display(), hold.text()));
        let run = bench.start("long");
        hold.wait(1);
        bench.run_in(&run, "running");
        let processes = tree::below(bench.pid());
        bench.kill();
        if *after == "lost" {
            tree::signal(processes[0].pid, libc::SIGKILL);
        }
        bench.env("QINGLET_CRASH_AT", point).launch(&[]);
        assert_eq!(bench.ended(), -9, "{point}: the daemon died by itself");
        assert_eq!(Stored::of(&bench.db()).says, *says, "{point}");
        bench.no_env("QINGLET_CRASH_AT").serve(&[]);
        let events = |kind: &str| bench.json_lines(&["events", &run]).iter().filter(|e| e["type"] == kind).count();
        if *after != "lost" {
            assert_eq!((bench.run(&run)["status"].as_str(), events("run.reconciled")), (Some("running"), 1), "{point}");
            hold.release(1);
        }
        bench.run_in(&run, after);
        assert_eq!((events(&format!("run.{after}")), marks(&bench)), (1, 1), "{point}");
        assert_eq!(bench.stop(), 0);
        wait_until_nobody_is_left(&bench, &[]);
        assert!(is_sound(&bench.db()), "{point}");
    }
}

fn cut_name(cut: &Cut<'_>) -> String {
    format!("cut at {}", cut.point)
}

/// A run that ignores TERM and has a process outside its group and session, asked to end by `stop` or
/// by its timeout, its daemon dying at this point of the stop.
fn check_stop((point, says, after): (&str, &str, &str), by_timeout: bool) {
    let mut bench = Bench::ready();
    bench.env("QINGLET_CRASH_AT", point).serve(&[]);
    let text = format!(
        "echo ran >> {}/marks; setsid sleep 1000 & trap '' TERM; while :; do sleep 1; done",
        bench.root().display()
    );
    let options: &[&str] = if by_timeout { &["--grace", "300ms", "--timeout", "2s"] } else { &["--grace", "300ms"] };
    bench.shell_with("deaf", options, &text);
    let run = bench.start("deaf");
    // Outlasts the daemon and asks again; what it asked for before is not asked for twice.
    let asks = || {
        bench.run_in(&run, "running");
        until("the task to be ready", || (tree::marked(&run).len() >= 3).then_some(()));
        bench.spawn(&["stop", &run], &bench.root().join("client"))
    };
    let client = (!by_timeout).then(asks);
    assert_eq!(bench.ended(), -9, "the daemon died by itself");
    let stored = Stored::of(&bench.db());
    assert_eq!(stored.says, says);

    bench.no_env("QINGLET_CRASH_AT").serve(&[]);
    let (stopped, timed_out) = after.split_once(" or ").unwrap();
    let ended = bench.run_in(&run, if by_timeout { timed_out } else { stopped });
    assert_eq!(tree::marked(&run), [], "nothing of it is left");
    assert_eq!(ended["latestAttempt"]["signal"], libc::SIGKILL, "its receipt says so: {ended}");
    if let Some(mut client) = client {
        assert_eq!(until("the client to end", || client.try_wait().unwrap()).code(), Some(0));
    }
    let asked = bench.json_lines(&["events", &run]).iter().filter(|e| e["type"] == "run.cancel_requested").count();
    assert_eq!((asked, marks(&bench)), (1, 1), "asked for once, run once");
    assert_eq!(bench.stop(), 0);
    wait_until_nobody_is_left(&bench, &[]);
    assert!(is_sound(&bench.db()));
    assert_eq!(files(&bench.state().join("receipts")), Vec::<String>::new());
}

#[test]
fn cut_at_any_step_a_stop_is_finished_by_the_next_daemon_and_nothing_is_left() {
    for by_timeout in [false, true] {
        std::thread::scope(|scope| {
            let threads: Vec<_> = STOPS.iter().map(|stop| scope.spawn(move || check_stop(*stop, by_timeout))).collect();
            let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            let wrong: Vec<_> =
                STOPS.iter().zip(ended).filter(|(_, end)| end.is_err()).map(|(stop, _)| stop.0).collect();
            assert!(wrong.is_empty(), "wrong at {wrong:?}, by timeout: {by_timeout}; see above");
        });
    }
}

#[test]
fn s70_1_at_the_fork_the_store_says_dispatching_starting_with_the_digest_and_two_events() {
    let mut bench = told_to_die_at("launch.forked");
    let mut client = bench.spawn(&["run", "mark"], &bench.root().join("client"));
    assert_eq!(bench.ended(), -9);
    let stored = Stored::of(&bench.db());
    assert_eq!(stored.says, "dispatching/starting");
    assert!(stored.has_digest && !stored.has_handle);
    assert!(stored.events.ends_with(&["run.dispatching".into(), "attempt.starting".into()]), "{:?}", stored.events);
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn cut_at_any_step_an_init_is_finished_by_the_next_and_its_token_works() {
    for (point, owner) in INITS {
        let mut bench = Bench::new();
        assert_eq!(bench.env("QINGLET_CRASH_AT", point).cli(&["init"]).code, -9, "{point}");
        assert_eq!(bench.no_env("QINGLET_CRASH_AT").json(&["init"])["owner"], *owner, "{point}");
        bench.serve(&[]).shell("works", "true");
        assert_eq!(bench.run_wait("works").1, 0, "{point}");
        assert_eq!(bench.stop(), 0);
        assert!(is_sound(&bench.db()), "{point}");
    }
}

#[test]
fn a_run_outlives_its_daemon_and_the_next_one_learns_how_it_ended() {
    let mut bench = Bench::serving();
    let gate = bench.root().join("gate");
    bench.shell("long", &format!("until [ -e {} ]; do sleep 0.05; done; exit 7", gate.display()));
    let run = bench.start("long");
    bench.run_in(&run, "running");
    bench.kill();
    bench.serve(&[]);
    assert_eq!(bench.run(&run)["status"], "running");
    bench.kill();
    fs::write(&gate, "").unwrap();
    wait_until_nobody_is_left(&bench, &[]);
    bench.serve(&[]);
    assert_eq!(bench.run_in(&run, "failed")["latestAttempt"]["exitCode"], 7);
}
