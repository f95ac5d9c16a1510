//! Bytes that a run makes the kernel write, with three page sizes, and what each table and index costs.

use crate::Outcome;
use crate::daemon::{self, Daemon};
use crate::figure::{Figure, Table};
use crate::floor::Floor;
use crate::history;
use crate::place::Place;
use crate::process::written;
use rusqlite::Connection;
use std::collections::BTreeMap;

const RUNS: i64 = 200;
const ROUNDS: usize = 3;

/// Both.
pub fn measure(place: &Place) -> Outcome<Vec<Table>> {
    Ok(vec![pages(place)?, tables(place)?])
}

fn pages(place: &Place) -> Outcome<Table> {
    let mut table = Table::new(
        "Bytes to flash",
        &format!(
            "KiB a run, of {RUNS} runs, {ROUNDS} times: what the daemon and all its supervisors made the kernel write \
             (`write_bytes`, whole pages of the file system), checkpoints included, receipts and logs too. The database \
             has 10,000 past runs."
        ),
        ["page size", "one at a time", "4 at a time", "database grows by"],
    );
    for bytes in [1024, 2048, 4096] {
        let state = history::made(place, 10_000, &[&place.tiny])?;
        let conn = Connection::open(state.database())?;
        conn.execute_batch(&format!("PRAGMA journal_mode = DELETE; PRAGMA page_size = {bytes}; VACUUM"))?;
        let before = kib(&conn)?;
        drop(conn);
        let daemon = state.serve()?;
        let task = daemon.task("tiny")?;
        daemon.warm(&task)?;
        let alone = kib_a_run(&daemon, || (0..RUNS).try_for_each(|_| daemon.run(&task)))?;
        let together = kib_a_run(&daemon, || daemon.run_all(&task, RUNS, 4))?;
        let name = if bytes == 1024 { "1 KiB (chosen)".into() } else { format!("{} KiB", bytes / 1024) };
        daemon.stop()?;
        let grown = kib(&Connection::open(state.database())?)? - before;
        let runs = daemon::WARM_RUNS + 2 * RUNS * ROUNDS as i64;
        table.row([name, alone.to_string(), together.to_string(), format!("{:.2}", grown / runs as f64)]);
    }
    let store = Floor::new(place)?;
    let own = std::process::id();
    let mut run = 0;
    let mut readings = Vec::new();
    for _ in 0..ROUNDS {
        let before = written(own)?;
        for _ in 0..RUNS {
            run += 1;
            store.run(run, false, None)?;
        }
        readings.push((written(own)? - before) as f64 / 1024.0 / RUNS as f64);
    }
    store.close();
    table.row(["the floor, 1 KiB".into(), Figure::of(readings).to_string(), "-".into(), "-".into()]);
    Ok(table)
}

/// The size of a database.
fn kib(conn: &Connection) -> Outcome<f64> {
    let sql = "SELECT page_count * page_size / 1024.0 FROM pragma_page_count, pragma_page_size";
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

fn kib_a_run(daemon: &Daemon<'_>, mut runs: impl FnMut() -> Outcome<()>) -> Outcome<Figure> {
    let mut readings = Vec::new();
    for _ in 0..ROUNDS {
        let before = written(daemon.pid())?;
        runs()?;
        readings.push((written(daemon.pid())? - before) as f64 / 1024.0 / RUNS as f64);
    }
    Ok(Figure::of(readings))
}

/// Which pages the journal was given for a run, by the b-tree they belong to.
fn tables(place: &Place) -> Outcome<Table> {
    const COUNTED: i64 = 100;
    let mut table = Table::new(
        "Where they go",
        &format!(
            "Pages of 1 KiB that {COUNTED} runs, one at a time, put into the journal, by table and index, and how many \
             different ones of each: those a checkpoint writes once more."
        ),
        ["table or index", "pages a run", "different, a run"],
    );
    let state = history::made(place, 10_000, &[&place.tiny])?;
    // Large enough that no checkpoint begins the journal anew while it is looked at.
    let daemon = state.serve()?;
    let task = daemon.task("tiny")?;
    let journal = state.database().with_extension("db-wal");
    let mut pages: BTreeMap<u32, u32> = BTreeMap::new();
    let mut runs = 0;
    while runs < COUNTED {
        let before = frames(&std::fs::read(&journal).unwrap_or_default());
        daemon.run(&task)?;
        let after = frames(&std::fs::read(&journal)?);
        // A journal that was begun anew during the run does not tell what it had before.
        if after.len() > before.len() && after.starts_with(&before) {
            runs += 1;
            for page in &after[before.len()..] {
                *pages.entry(page.0).or_default() += 1;
            }
        }
    }
    daemon.stop()?;
    let conn = Connection::open(state.database())?;
    let mut sums: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (tree, numbers) in trees(&conn)? {
        for number in numbers {
            if let Some(count) = pages.remove(&number) {
                let sum = sums.entry(tree.clone()).or_default();
                *sum = (sum.0 + count, sum.1 + 1);
            }
        }
    }
    for (number, count) in pages {
        let sum = sums.entry(if number == 1 { "page 1" } else { "free or other" }.into()).or_default();
        *sum = (sum.0 + count, sum.1 + 1);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let total = rows.iter().fold((0, 0), |sum, (_, row)| (sum.0 + row.0, sum.1 + row.1));
    rows.push(("all".into(), total));
    for (name, (count, different)) in rows {
        let a_run = |count: u32| format!("{:.2}", f64::from(count) / COUNTED as f64);
        table.row([name, a_run(count), a_run(different)]);
    }
    Ok(table)
}

/// The pages of a journal's frames that are of its present generation, in order, with their salt.
fn frames(bytes: &[u8]) -> Vec<(u32, [u8; 8])> {
    const HEAD: usize = 32;
    const FRAME: usize = 24 + 1024;
    let Some(salt) = bytes.get(16..24) else { return Vec::new() };
    let frames = bytes[HEAD..].chunks_exact(FRAME).take_while(|frame| &frame[8..16] == salt);
    let number = |frame: &[u8]| frame[..4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    frames.map(|frame| (number(frame), salt.try_into().unwrap_or_default())).collect()
}

/// The pages of every b-tree, walked from its root as the file format tells (sqlite.org/fileformat2).
fn trees(conn: &Connection) -> Outcome<Vec<(String, Vec<u32>)>> {
    let mut query = conn.prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0")?;
    let roots = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?)))?;
    let roots = roots.collect::<Result<Vec<_>, _>>()?;
    let path = conn.path().ok_or("a database without a path")?.to_owned();
    let file = std::fs::read(path)?;
    let page = |number: u32| file.get((number as usize - 1) * 1024..).and_then(|rest| rest.get(..1024));
    let mut all = Vec::new();
    for (name, root) in roots {
        let (mut pages, mut left) = (Vec::new(), vec![root]);
        while let Some(number) = left.pop() {
            let Some(bytes) = page(number) else { continue };
            pages.push(number);
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
            let half = |at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
            let (head, inner) = match bytes[0] {
                2 | 5 => (12, true),
                10 | 13 => (8, false),
                _ => continue,
            };
            for cell in 0..half(3) {
                let at = half(head + 2 * cell);
                if inner {
                    left.push(word(at));
                }
                if let Some(overflow) = overflow(bytes, at) {
                    pages.extend(chain(&page, overflow));
                }
            }
            if inner {
                left.push(word(8));
            }
        }
        all.push((name, pages));
    }
    Ok(all)
}

/// The first overflow page of a cell, if it has one.
fn overflow(page: &[u8], at: usize) -> Option<u32> {
    const USABLE: usize = 1024;
    let kind = page[0];
    let mut at = at + if matches!(kind, 2 | 5) { 4 } else { 0 };
    if kind == 5 {
        return None;
    }
    let payload = varint(page, &mut at);
    if kind == 13 {
        varint(page, &mut at);
    }
    let most = if kind == 13 { USABLE - 35 } else { (USABLE - 12) * 64 / 255 - 23 };
    if payload <= most {
        return None;
    }
    let least = (USABLE - 12) * 32 / 255 - 23;
    let kept = least + (payload - least) % (USABLE - 4);
    let kept = if kept > most { least } else { kept };
    Some(u32::from_be_bytes(page.get(at + kept..at + kept + 4)?.try_into().ok()?))
}

fn varint(page: &[u8], at: &mut usize) -> usize {
    let mut value = 0;
    for _ in 0..9 {
        let byte = page[*at];
        *at += 1;
        value = value << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn chain<'a>(page: &impl Fn(u32) -> Option<&'a [u8]>, first: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = first;
    while next != 0 && all.len() < 1000 {
        all.push(next);
        let Some(bytes) = page(next) else { break };
        next = u32::from_be_bytes(bytes[..4].try_into().unwrap_or_default());
    }
    all
}
