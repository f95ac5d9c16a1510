//! Log files: one per Attempt, private, written by the shim alone, read by ranges (design D11).

use super::fact::{self, Fact};
use super::private;
use crate::model::id::{AttemptId, RunId};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

const PREFIX: &str = "local-";
/// Hexadecimal digits after the prefix: 36 characters together (spec/execution section 9).
const DIGITS: usize = 30;

/// A log that is ready to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogPlaceOnDisk {
    /// Its name, for the store and for reading.
    pub artifact: String,
    /// The private folder it lies in, for the orders.
    pub shard_dir: PathBuf,
}

/// One range of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRange {
    /// Where it starts; the log's length when the asked offset is past its end.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The log's length at the time of reading.
    pub total: u64,
    /// The bytes as they were written; not necessarily text.
    pub bytes: Vec<u8>,
    /// Whether output was cut at the cap; `None` while nobody has said.
    pub truncated: Option<bool>,
    /// How many bytes were dropped; `None` while nobody has said.
    pub dropped_bytes: Option<u64>,
    /// False when writing the log failed; `None` while nobody has said.
    pub complete: Option<bool>,
}

/// A log that was removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// How long it was; 0 when it was already gone.
    pub bytes: u64,
    /// What it and its fact took of the file system.
    pub taken_bytes: u64,
    /// Whether output had been cut at the cap; `None` when nobody had said.
    pub truncated: Option<bool>,
}

/// The logs under one root.
#[derive(Clone, Debug)]
pub struct LogStore {
    root: PathBuf,
}

/// The file of a log in its shard.
pub(super) fn file_name(artifact: &str) -> String {
    format!("{artifact}.log")
}

/// The name of an Attempt's log.
pub fn artifact_of(run: RunId, attempt: AttemptId) -> String {
    let digest = Sha256::new_with_prefix(b"qinglet.log.v1\0");
    let digest = digest.chain_update(run.0.as_bytes()).chain_update(attempt.0.as_bytes()).finalize();
    let mut name = String::from(PREFIX);
    for byte in digest.iter().take(DIGITS / 2) {
        // Writing to a String cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// The shard of a log; `None` when this is no name of ours, so that no path can be smuggled in.
fn shard_of(artifact: &str) -> Option<&str> {
    let digits = artifact.strip_prefix(PREFIX)?;
    let sound = digits.len() == DIGITS && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    digits.get(..2).filter(|_| sound)
}

impl LogStore {
    /// The logs under `root`, a private folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes the Attempt's log, empty. What is there already is of a start that never was, or of one that a
    /// restored store knows nothing of.
    pub fn allocate(&self, run: RunId, attempt: AttemptId) -> io::Result<LogPlaceOnDisk> {
        let artifact = artifact_of(run, attempt);
        let shard_dir = self.root.join(shard_of(&artifact).ok_or(io::ErrorKind::InvalidInput)?);
        private::folder(&shard_dir)?;
        self.delete(&artifact)?;
        let file = private::options().append(true).create(true).open(shard_dir.join(file_name(&artifact)))?;
        private::check(&file)?;
        Ok(LogPlaceOnDisk { artifact, shard_dir })
    }

    /// At most `length` bytes from `offset`. Errors: `NotFound`; `InvalidData` when the file is not the
    /// private regular one it should be, or shrank while it was read; otherwise the system's own.
    pub fn read_range(&self, artifact: &str, offset: u64, length: u32) -> io::Result<LogRange> {
        let shard = self.shard(artifact)?;
        let file = match private::options().read(true).open(shard.join(file_name(artifact))) {
            Err(e) if private::is_unsafe(&e) => return Err(io::ErrorKind::InvalidData.into()),
            opened => opened?,
        };
        // The fact is read before the size: once it is there the size is final.
        let fact = Fact::read(&shard.join(fact::file_name(artifact)), artifact);
        let total = private::check(&file)?.len();
        let start = offset.min(total);
        let wanted = (total - start).min(u64::from(length));
        let mut bytes = vec![0; wanted as usize];
        file.read_exact_at(&mut bytes, start).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => io::ErrorKind::InvalidData.into(),
            _ => e,
        })?;
        Ok(LogRange {
            start,
            end: start + wanted,
            total,
            bytes,
            truncated: fact.as_ref().map(|fact| fact.quota_reached),
            dropped_bytes: fact.as_ref().map(|fact| fact.dropped_bytes),
            complete: fact.as_ref().map(|fact| fact.complete),
        })
    }

    /// What a log and its fact take of the file system, whatever they are; blocks, not bytes, because a
    /// line of output takes a page of a file system in memory. `None`: there is no log.
    pub fn taken_bytes(&self, artifact: &str) -> Option<u64> {
        // Blocks of stat(2) have 512 bytes on every file system.
        let taken = |path: PathBuf| path.symlink_metadata().map(|meta| meta.blocks().saturating_mul(512));
        let shard = self.shard(artifact).ok()?;
        let log = taken(shard.join(file_name(artifact))).ok()?;
        Some(log + taken(shard.join(fact::file_name(artifact))).unwrap_or(0))
    }

    /// Removes a log that nobody writes any more, then its fact, and syncs their folder, so that no
    /// power cut brings them back after the store has said that they are gone. One that is already gone
    /// counts as removed. `InvalidData`: it is not the private regular file it should be, and stays.
    pub fn retire(&self, artifact: &str) -> io::Result<Removed> {
        let shard = self.shard(artifact)?;
        let fact = Fact::read(&shard.join(fact::file_name(artifact)), artifact);
        let taken_bytes = self.taken_bytes(artifact).unwrap_or(0);
        let bytes = match private::options().read(true).open(shard.join(file_name(artifact))) {
            Ok(file) => private::check(&file)?.len(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) if private::is_unsafe(&e) => return Err(io::ErrorKind::InvalidData.into()),
            Err(e) => return Err(e),
        };
        self.delete(artifact)?;
        match File::open(&shard) {
            Ok(folder) => folder.sync_all()?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        Ok(Removed { bytes, taken_bytes, truncated: fact.map(|fact| fact.quota_reached) })
    }

    /// Deletes a log and its fact; `false` when there was no log.
    pub fn delete(&self, artifact: &str) -> io::Result<bool> {
        let shard = self.shard(artifact)?;
        let deleted = remove(&shard.join(file_name(artifact)))?;
        remove(&shard.join(fact::file_name(artifact)))?;
        remove(&shard.join(fact::temp_name(artifact)))?;
        Ok(deleted)
    }

    /// Deletes the log that [`allocate`](Self::allocate) has made for an Attempt that is never started;
    /// `false` when there was none.
    pub fn discard(&self, run: RunId, attempt: AttemptId) -> io::Result<bool> {
        self.delete(&artifact_of(run, attempt))
    }

    /// The logs in one of 16 parts (by the first digit of their shard), and what lies there and is none, as
    /// paths below the root; together at most `at_most`. `true`: there is more.
    pub fn list(&self, part: u8, at_most: usize) -> io::Result<(Vec<String>, Vec<String>, bool)> {
        let (mut logs, mut strangers) = (Vec::new(), Vec::new());
        let is_shard = |name: &str| name.len() == 2 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        for shard in std::fs::read_dir(&self.root)? {
            let shard = shard?;
            let name = shard.file_name().to_string_lossy().into_owned();
            if !is_shard(&name) || !shard.file_type()?.is_dir() {
                // Told of once, by the first part.
                if part == 0 {
                    strangers.push(name);
                }
                continue;
            }
            if u8::from_str_radix(&name[..1], 16) != Ok(part) {
                continue;
            }
            for entry in std::fs::read_dir(shard.path())? {
                if logs.len() + strangers.len() >= at_most {
                    return Ok((logs, strangers, true));
                }
                let entry = entry?;
                let file = entry.file_name().to_string_lossy().into_owned();
                let artifact = file.strip_suffix(".log").filter(|artifact| shard_of(artifact) == Some(&name));
                match artifact {
                    Some(artifact) if entry.file_type()?.is_file() => logs.push(artifact.to_owned()),
                    _ if fact::is_name(&file) => {}
                    _ => strangers.push(format!("{name}/{file}")),
                }
            }
        }
        Ok((logs, strangers, false))
    }

    fn shard(&self, artifact: &str) -> io::Result<PathBuf> {
        shard_of(artifact).map(|shard| self.root.join(shard)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const RUN: &str = "0197d2a4-1b2c-7def-8123-456789abcdef";

    fn place(store: &LogStore) -> LogPlaceOnDisk {
        store.allocate(RunId::parse(RUN).unwrap(), AttemptId::parse(RUN).unwrap()).unwrap()
    }

    #[test]
    fn the_same_attempt_gets_the_same_name_and_begins_anew() {
        let store = LogStore::new(crate::process::scratch::folder("logs"));
        let first = place(&store);
        assert_eq!(first.artifact.len(), 36);
        let path = first.shard_dir.join(file_name(&first.artifact));
        let fact = first.shard_dir.join(fact::file_name(&first.artifact));
        std::fs::write(&path, "of before").unwrap();
        std::fs::write(&fact, "of before").unwrap();
        assert_eq!(place(&store), first);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert!(!fact.exists());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let discard = || store.discard(RunId::parse(RUN).unwrap(), AttemptId::parse(RUN).unwrap()).unwrap();
        assert!(discard() && !path.exists());
        assert!(!discard());
    }

    #[test]
    fn ranges_are_bytes_and_never_reach_past_the_end() {
        let store = LogStore::new(crate::process::scratch::folder("log-ranges"));
        let LogPlaceOnDisk { artifact, shard_dir } = place(&store);
        std::fs::write(shard_dir.join(file_name(&artifact)), b"a\0\xff\x91cd").unwrap();
        let read = |offset, length| store.read_range(&artifact, offset, length).unwrap();
        let middle = read(1, 3);
        assert_eq!((middle.start, middle.end, middle.total), (1, 4, 6));
        assert_eq!(middle.bytes, b"\0\xff\x91");
        assert_eq!((middle.truncated, middle.dropped_bytes, middle.complete), (None, None, None));
        assert_eq!(read(4, 100).bytes, b"cd");
        let past = read(u64::MAX, 10);
        assert_eq!((past.start, past.end, past.bytes.len()), (6, 6, 0));
        let mut fact = Fact::new(RunId::parse(RUN).unwrap(), AttemptId::parse(RUN).unwrap(), &artifact);
        (fact.quota_reached, fact.dropped_bytes) = (true, 5);
        std::fs::write(shard_dir.join(fact::file_name(&artifact)), fact.pack()).unwrap();
        let told = read(0, 1);
        assert_eq!((told.truncated, told.dropped_bytes, told.complete), (Some(true), Some(5), Some(true)));
    }

    #[test]
    fn a_log_is_retired_with_its_fact_and_what_is_no_log_stays() {
        let store = LogStore::new(crate::process::scratch::folder("log-retire"));
        let LogPlaceOnDisk { artifact, shard_dir } = place(&store);
        let (path, beside) = (shard_dir.join(file_name(&artifact)), shard_dir.join(fact::file_name(&artifact)));
        std::fs::write(&path, "12345").unwrap();
        let mut fact = Fact::new(RunId::parse(RUN).unwrap(), AttemptId::parse(RUN).unwrap(), &artifact);
        fact.quota_reached = true;
        std::fs::write(&beside, fact.pack()).unwrap();
        std::fs::hard_link(&path, shard_dir.join("other")).unwrap();
        assert_eq!(store.retire(&artifact).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(path.exists() && beside.exists());
        std::fs::remove_file(shard_dir.join("other")).unwrap();
        let taken = store.taken_bytes(&artifact).unwrap();
        assert!(taken >= 1024, "two blocks at least: {taken}");
        let removed = store.retire(&artifact).unwrap();
        assert_eq!(removed, Removed { bytes: 5, taken_bytes: taken, truncated: Some(true) });
        assert_eq!(std::fs::read_dir(&shard_dir).unwrap().count(), 0);
        assert_eq!(store.retire(&artifact).unwrap(), Removed::default(), "again");
        assert_eq!(store.taken_bytes(&artifact), None);
        std::fs::remove_dir(&shard_dir).unwrap();
        assert_eq!(store.retire(&artifact).unwrap(), Removed::default(), "not even a shard");
        assert!(store.retire("../../etc/passwd").is_err());
    }

    #[test]
    fn links_and_smuggled_names_are_refused() {
        let store = LogStore::new(crate::process::scratch::folder("log-unsafe"));
        let LogPlaceOnDisk { artifact, shard_dir } = place(&store);
        let kind = |artifact: &str| store.read_range(artifact, 0, 1).unwrap_err().kind();
        for name in ["", "local-", "../../etc/passwd", "local-../aaaaaaaaaaaaaaaaaaaaaaaaaaa", &artifact.to_uppercase()]
        {
            assert_eq!(kind(name), io::ErrorKind::NotFound, "{name:?}");
        }
        let path = shard_dir.join(file_name(&artifact));
        std::fs::hard_link(&path, shard_dir.join("other")).unwrap();
        assert_eq!(kind(&artifact), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(kind(&artifact), io::ErrorKind::NotFound);
        symlink("/etc/passwd", &path).unwrap();
        assert_eq!(kind(&artifact), io::ErrorKind::InvalidData);
    }
}
