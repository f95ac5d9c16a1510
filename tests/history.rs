//! Ten thousand finished runs and more, with their logs, on a small file system: retention brings all of
//! it below its caps while runs go on and everybody is answered in time.
//!
//! How: one run is made by the daemon, and while there is none its rows and files are copied as often
//! as it takes; so the history is what the daemon itself would have written, in seconds.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};
use serde_json::Value;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::mount::Mount;
use support::{BOUND, Bench, until};

/// More than are kept, by so many.
const RUNS: usize = 10_200;
const KEPT: i64 = 10_000;
/// Audit rows that are added.
const AUDIT: usize = 10_100;
/// The file system, in KiB. The history takes most of it.
const DISK_KIB: u64 = 144 * 1024;
/// What logs may take of it: a tenth. A round of housekeeping brings them below, and comes again when
/// half as much was written.
const SHARE: u64 = DISK_KIB * 1024 / 10;
/// The longest that any answer may take meanwhile.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest that a whole run may take meanwhile, started, ended and told of.
const RUN: Duration = Duration::from_secs(15);

/// A version 7 UUID, the `number`-th of a time long before now but of this program's own days.
fn uuid(kind: u8, number: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&1_750_000_000_000_u64.to_be_bytes()[2..]);
    (bytes[6], bytes[8], bytes[9]) = (0x70, 0x80, kind);
    bytes[10..].copy_from_slice(&(number as u64).to_be_bytes()[2..]);
    bytes
}

fn text(id: [u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(id));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// A table's rows that match, and its columns.
fn rows(db: &Connection, table: &str, filter: &str) -> (Vec<String>, Vec<Vec<Sql>>) {
    let mut query = db.prepare(&format!("SELECT * FROM {table} WHERE {filter}")).unwrap();
    let columns: Vec<String> = query.column_names().into_iter().map(str::to_owned).collect();
    let width = columns.len();
    let rows = query.query_map([], |row| (0..width).map(|at| row.get(at)).collect()).unwrap();
    (columns, rows.map(Result::unwrap).collect())
}

/// Adds a row again with some columns changed.
fn add(db: &Connection, table: &str, columns: &[String], row: &[Sql], changes: &[(&str, Sql)]) {
    let value = |(column, old): (&String, &Sql)| {
        changes.iter().find(|(name, _)| name == column).map_or_else(|| old.clone(), |(_, new)| new.clone())
    };
    let values: Vec<Sql> = columns.iter().zip(row).map(value).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let mut insert = db.prepare_cached(&format!("INSERT INTO {table} VALUES ({places})")).unwrap();
    insert.execute(params_from_iter(values)).unwrap();
}

fn blob(id: [u8; 16]) -> Sql {
    Sql::Blob(id.to_vec())
}

/// The database, which is nobody's now.
fn database(state: &Path) -> Connection {
    let files = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    Connection::open(files.into_iter().find(|path| path.extension().is_some_and(|e| e == "db")).unwrap()).unwrap()
}

/// Copies the one run there is, oldest first. Its log and what is said about that are copied too.
fn seed(bench: &Bench) {
    let mut db = database(&bench.state());
    let all = ["runs", "attempts", "run_events"].map(|table| (table, rows(&db, table, "true")));
    let [(_, (_, runs)), (_, (attempt_columns, attempts)), _] = &all;
    assert_eq!((runs.len(), attempts.len()), (1, 1), "one to copy");
    let field = |name: &str| &attempts[0][attempt_columns.iter().position(|column| column == name).unwrap()];
    let Sql::Text(template) = field("log_artifact").clone() else { panic!("a log") };
    let logs = bench.state().join("logs");
    let files: Vec<PathBuf> = fs::read_dir(logs.join(&template[6..8])).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "a log and what is said about it");
    let files: Vec<(String, Vec<u8>)> = files
        .iter()
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect();
    for shard in 0..256 {
        let _ = DirBuilder::new().mode(0o700).create(logs.join(format!("{shard:02x}")));
    }
    let tx = db.transaction().unwrap();
    // The template becomes the newest, so that it stays.
    tx.execute("UPDATE runs SET end_order = ?1", [RUNS as i64]).unwrap();
    for number in 1..RUNS {
        let (run, attempt) = (uuid(1, number), uuid(2, number));
        let artifact = format!("local-{:02x}{number:028x}", number % 256);
        for (table, (columns, rows)) in &all {
            for (at, row) in rows.iter().enumerate() {
                let changes = match *table {
                    "runs" => vec![
                        ("id", blob(run)),
                        ("end_order", Sql::Integer(number as i64)),
                        ("idempotency_key", Sql::Null),
                    ],
                    "attempts" => {
                        vec![("run", blob(run)), ("id", blob(attempt)), ("log_artifact", Sql::Text(artifact.clone()))]
                    }
                    _ => vec![("run", blob(run)), ("id", blob(uuid(3, number * 16 + at)))],
                };
                add(&tx, table, columns, row, &changes);
            }
        }
        for (name, bytes) in &files {
            let path = logs.join(&artifact[6..8]).join(name.replace(&template, &artifact));
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
            file.write_all(bytes).unwrap();
        }
    }
    let (columns, audit) = rows(&tx, "audit", "true");
    for number in 0..AUDIT {
        add(&tx, "audit", &columns, &audit[0], &[("id", blob(uuid(4, number)))]);
    }
    tx.commit().unwrap();
}

/// What lies below a folder, in bytes of the file system, and how many files.
fn taken(folder: &Path) -> (u64, usize) {
    let (mut bytes, mut count) = (0, 0);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => {
                let (below, files) = taken(&entry.path());
                (bytes, count) = (bytes + below, count + files);
            }
            Ok(meta) => (bytes, count) = (bytes + meta.blocks() * 512, count + 1),
            // Removed meanwhile.
            Err(_) => {}
        }
    }
    (bytes, count)
}

fn count(db: &Connection, sql: &str) -> i64 {
    db.query_one(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn ten_thousand_runs_and_their_logs_are_brought_below_the_caps_while_runs_go_on() {
    let test = "ten_thousand_runs_and_their_logs_are_brought_below_the_caps_while_runs_go_on";
    let mut bench = Bench::new();
    let Some(_disk) = Mount::new(test, &bench.state(), DISK_KIB) else { return };
    bench.init();
    bench.serve(&[]);
    bench.shell("t", "echo out");
    let (template, _) = bench.run_wait("t");
    assert_eq!(bench.stop(), 0);
    seed(&bench);
    let logs = bench.state().join("logs");
    let (before, files) = taken(&logs);
    assert!(before > 5 * SHARE && files == 2 * RUNS, "{before} bytes in {files} files");

    let begun = Instant::now();
    bench.serve(&[]);
    let (mut answer, mut whole, mut made) = (Duration::ZERO, Duration::ZERO, 0);
    let oldest = text(uuid(1, 1));
    // While it is at work: answers, and whole runs, and not so many of them that it is they who are measured.
    while taken(&logs).0 > SHARE + SHARE / 2 || bench.http("GET", &format!("/runs/{oldest}"), None).status == 200 {
        for path in ["/runs", "/status", "/api/health"] {
            let asked = Instant::now();
            assert_eq!(bench.http("GET", path, None).status, 200, "{path}");
            answer = answer.max(asked.elapsed());
        }
        let asked = Instant::now();
        assert_eq!(bench.run_wait("t").1, 0);
        whole = whole.max(asked.elapsed());
        made += 1;
        assert!(begun.elapsed() < 2 * BOUND, "not done: {} bytes of logs", taken(&logs).0);
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{:?} for all, {answer:?} for an answer, {whole:?} for one of {made} runs", begun.elapsed());
    assert!(answer < ANSWER && whole < RUN && made > 1, "{answer:?} {whole:?} {made}");

    // Logs: the newest are there, of the others it is said when they went.
    let log = |run: &Value| {
        let (id, attempt) = (run["id"].as_str().unwrap(), run["latestAttempt"]["id"].as_str().unwrap());
        bench.http("GET", &format!("/runs/{id}/attempts/{attempt}/log"), None)
    };
    assert_eq!(log(&bench.run_wait("t").0).status, 200);
    assert_eq!(bench.run(template["id"].as_str().unwrap())["latestAttempt"]["logAvailable"], true);
    let early = bench.run(&text(uuid(1, RUNS - KEPT as usize + made + 100)));
    assert_eq!((log(&early).status, &early["status"]), (410, &"succeeded".into()), "{early}");

    // Runs and audit: by count. What is added meanwhile goes with the next round; a start makes one.
    let totals = until("the counts to be below their caps", || {
        assert_eq!(bench.stop(), 0);
        let db = bench.db();
        let totals = [count(&db, "SELECT count(*) FROM runs"), count(&db, "SELECT count(*) FROM audit")];
        let kept = count(&db, "SELECT count(*) FROM attempts WHERE log_retired_at_ms IS NULL");
        let events = "SELECT count(*) FROM runs WHERE event_sequence <>
            (SELECT count(*) FROM run_events WHERE run = runs.id)";
        assert_eq!(count(&db, events), 0, "a run has all of its events or is gone");
        let verdict: String = db.query_one("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
        assert_eq!(taken(&logs).1 as i64, 2 * kept, "files and rows say the same");
        let done = totals[0] <= KEPT && totals[1] <= KEPT;
        if !done {
            bench.serve(&[]);
            std::thread::sleep(Duration::from_millis(500));
        }
        done.then_some(totals)
    });
    assert_eq!(totals[0], KEPT, "and not more than need be");
    // What runs have written since the last round comes on top of the cap until the next one.
    assert!(taken(&logs).0 <= SHARE + 1024 * 1024, "{} bytes", taken(&logs).0);
}
