//! The least that anything must do that promises what a run promises here: to spawn only after a
//! durable intent, to release only after durable ownership, and to know the end after any crash. Four
//! durable commits of as many rows as ours, a fork, an exec, and one receipt that survives a power cut;
//! in the same journal mode, with the same pages, on the same file system.

use crate::Outcome;
use crate::place::Place;
use rusqlite::{Connection, params};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// What a commit writes, in the order of the protocol: rows of about the sizes of ours.
#[derive(Clone, Copy)]
enum Step {
    /// Run, attempt, two events, audit.
    Admit,
    /// Both changed, two events, the journal's row.
    Intend,
    /// Both changed, two events.
    Own,
    /// Both changed, two events, the journal's row gone.
    Complete,
}

/// A commit that somebody waits for.
struct Wish {
    run: i64,
    step: Step,
    done: SyncSender<()>,
}

/// The bare store: one thread with one connection, which commits together what waits together.
pub struct Floor {
    wishes: Option<SyncSender<Wish>>,
    keeper: Option<JoinHandle<u64>>,
    folder: PathBuf,
    tiny: PathBuf,
    supervisor: PathBuf,
}

impl Floor {
    /// Makes one.
    pub fn new(place: &Place) -> Outcome<Self> {
        let folder = place.fresh("floor");
        std::fs::create_dir(&folder)?;
        let conn = Connection::open(folder.join("floor.db"))?;
        conn.execute_batch(
            "PRAGMA page_size = 1024; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1024; PRAGMA cache_size = -1024;
             CREATE TABLE runs (id INTEGER PRIMARY KEY, state INTEGER, rest BLOB);
             CREATE TABLE attempts (id INTEGER PRIMARY KEY, state INTEGER, rest BLOB);
             CREATE TABLE events (id INTEGER PRIMARY KEY, rest BLOB);
             CREATE TABLE audit (id INTEGER PRIMARY KEY, rest BLOB);
             CREATE TABLE journal (id INTEGER PRIMARY KEY, rest BLOB)",
        )?;
        let (wishes, queue) = sync_channel(64);
        let keeper = std::thread::spawn(move || keep(&conn, &queue));
        Ok(Self {
            wishes: Some(wishes),
            keeper: Some(keeper),
            folder,
            tiny: place.tiny.clone(),
            supervisor: place.supervisor.clone(),
        })
    }

    /// One run, from its admission to its outcome, below a supervisor or not. `fifo` is told when its program begins.
    pub fn run(&self, run: i64, supervised: bool, fifo: Option<&Path>) -> Outcome<()> {
        self.commit(run, Step::Admit)?;
        self.commit(run, Step::Intend)?;
        let (log, receipt) = (self.folder.join(format!("{run}.log")), self.folder.join(format!("{run}.json")));
        let output = File::create(log)?;
        let mut command = Command::new(if supervised { &self.supervisor } else { &self.tiny });
        command
            .args(supervised.then_some(&self.tiny))
            .args(fifo)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        self.commit(run, Step::Own)?;
        let status = command.status()?;
        let draft = receipt.with_extension("tmp");
        let mut file = File::create(&draft)?;
        writeln!(file, "{:400}", status.code().unwrap_or(-1))?;
        file.sync_all()?;
        std::fs::rename(&draft, &receipt)?;
        File::open(&self.folder)?.sync_all()?;
        self.commit(run, Step::Complete)?;
        std::fs::remove_file(receipt)?;
        Ok(())
    }

    fn commit(&self, run: i64, step: Step) -> Outcome<()> {
        let (done, is_done) = sync_channel(1);
        self.wishes.as_ref().ok_or("closed")?.send(Wish { run, step, done }).map_err(|_| "the store has ended")?;
        Ok(is_done.recv()?)
    }

    /// Ends it: how many commits there were.
    pub fn close(mut self) -> u64 {
        self.wishes = None;
        self.keeper.take().map_or(0, |keeper| keeper.join().unwrap_or(0))
    }
}

/// Fork, exec and wait, and nothing else.
pub fn bare(tiny: &Path, fifo: Option<&Path>) -> Outcome<()> {
    Command::new(tiny).args(fifo).stdin(Stdio::null()).status()?;
    Ok(())
}

fn keep(conn: &Connection, queue: &Receiver<Wish>) -> u64 {
    let mut commits = 0;
    while let Ok(first) = queue.recv() {
        let batch: Vec<Wish> = std::iter::once(first).chain(queue.try_iter()).collect();
        if let Err(error) = write(conn, &batch) {
            eprintln!("bench: the floor's store: {error}");
            return commits;
        }
        commits += 1;
        for wish in batch {
            let _ = wish.done.send(());
        }
    }
    commits
}

fn write(conn: &Connection, batch: &[Wish]) -> rusqlite::Result<()> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for &Wish { run, step, .. } in batch {
        let event =
            |bytes: i64| conn.prepare_cached("INSERT INTO events (rest) VALUES (zeroblob(?1))")?.execute([bytes]);
        if matches!(step, Step::Admit) {
            conn.prepare_cached("INSERT INTO runs VALUES (?1, 0, zeroblob(190))")?.execute([run])?;
            conn.prepare_cached("INSERT INTO attempts VALUES (?1, 0, zeroblob(210))")?.execute([run])?;
            conn.prepare_cached("INSERT INTO audit (rest) VALUES (zeroblob(80))")?.execute([])?;
            event(180)?;
        } else {
            for sql in ["UPDATE runs SET state = ?2 WHERE id = ?1", "UPDATE attempts SET state = ?2 WHERE id = ?1"] {
                conn.prepare_cached(sql)?.execute(params![run, step as i64])?;
            }
            event(70)?;
        }
        event(70)?;
        match step {
            Step::Intend => conn.prepare_cached("INSERT INTO journal VALUES (?1, zeroblob(40))")?.execute([run])?,
            Step::Complete => conn.prepare_cached("DELETE FROM journal WHERE id = ?1")?.execute([run])?,
            Step::Admit | Step::Own => 0,
        };
    }
    conn.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

/// A FIFO into which programs tell when they began.
pub struct Began {
    /// Where it is.
    pub path: PathBuf,
    instants: Receiver<i64>,
}

impl Began {
    /// Makes one and listens to it until the process ends.
    pub fn new(place: &Place) -> Outcome<Self> {
        let path = place.fresh("began");
        if !Command::new("mkfifo").arg(&path).status()?.success() {
            return Err("mkfifo failed".into());
        }
        // Also open for writing, so that a writer's end is not the end.
        let mut fifo = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
        let (heard, instants) = channel();
        std::thread::spawn(move || {
            let mut ns = [0; 8];
            while std::io::Read::read_exact(&mut fifo, &mut ns).is_ok() && heard.send(i64::from_ne_bytes(ns)).is_ok() {}
        });
        Ok(Self { path, instants })
    }

    /// Forgets those that nobody has asked for.
    pub fn forget(&self) {
        self.instants.try_iter().for_each(drop);
    }

    /// When the next program began, on the monotonic clock.
    pub fn next_ns(&self) -> Outcome<i64> {
        Ok(self.instants.recv_timeout(std::time::Duration::from_secs(60))?)
    }
}
