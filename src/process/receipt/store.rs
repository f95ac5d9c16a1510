//! Where receipts lie: one file per Attempt, in a private shard named by the id's last two digits (its
//! first ones are a time and would put everything of a day together).

use super::codec::{Receipt, unpack};
use crate::model::id::AttemptId;
use crate::model::limits;
use crate::process::{private, publish};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Receipts put aside lie under this name in the root.
const QUARANTINE: &str = ".quarantine";

/// What looking for a receipt found.
#[derive(Debug)]
pub enum ReceiptRead {
    /// A sound one. Whether it belongs to the Attempt is for its reader to prove by the token.
    Found(Receipt),
    /// None (yet).
    Absent,
    /// Something that is no receipt of ours, and what is wrong with it. It must be put aside, never repaired.
    Invalid(&'static str),
    /// It could not be looked for; try again later.
    Unavailable(io::Error),
}

/// The receipts under one root.
#[derive(Clone, Debug)]
pub struct ReceiptStore {
    root: PathBuf,
}

/// A published receipt's name in its shard.
pub(in crate::process) fn file_name(attempt: AttemptId) -> String {
    format!("{attempt}.json")
}

/// An unpublished receipt's name in its shard.
pub(in crate::process) fn temp_name(attempt: AttemptId) -> String {
    format!(".{attempt}.tmp")
}

fn shard_name(attempt: AttemptId) -> String {
    format!("{:02x}", attempt.0.as_bytes()[15])
}

impl ReceiptStore {
    /// The receipts under `root`, a private folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The Attempt's shard, made if it is missing: for the orders, before the launch.
    pub fn shard_dir(&self, attempt: AttemptId) -> io::Result<PathBuf> {
        let shard = self.root.join(shard_name(attempt));
        private::folder(&shard)?;
        Ok(shard)
    }

    fn shard(&self, attempt: AttemptId) -> PathBuf {
        self.root.join(shard_name(attempt))
    }

    /// Whether anything lies where this Attempt's receipt would.
    pub fn is_there(&self, attempt: AttemptId) -> bool {
        self.shard(attempt).join(file_name(attempt)).symlink_metadata().is_ok()
    }

    /// Looks for exactly this Attempt's receipt.
    pub fn read(&self, attempt: AttemptId) -> ReceiptRead {
        let shard = self.shard(attempt);
        let path = shard.join(file_name(attempt));
        let text = match load(&path, || publish::finish(&shard.join(temp_name(attempt)), &path)) {
            Ok(Loaded::Text(text)) => text,
            Ok(Loaded::Unfit(why)) => return ReceiptRead::Invalid(why),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return ReceiptRead::Absent,
            Err(e) if private::is_unsafe(&e) => return ReceiptRead::Invalid(private::NOT_REGULAR),
            Err(e) => return ReceiptRead::Unavailable(e),
        };
        match unpack(&text) {
            Ok(receipt) if receipt.attempt == attempt => ReceiptRead::Found(receipt),
            Ok(_) => ReceiptRead::Invalid("it names another attempt"),
            Err(why) => ReceiptRead::Invalid(why),
        }
    }

    /// Deletes the Attempt's receipt, published or begun; only ever after the commit of what it says.
    /// `true` when a published one was there.
    pub fn delete(&self, attempt: AttemptId) -> io::Result<bool> {
        let shard = self.shard(attempt);
        remove(&shard.join(temp_name(attempt)))?;
        remove(&shard.join(file_name(attempt)))
    }

    /// Deletes what was put aside for the Attempt, whatever it is; nothing there counts as deleted.
    pub fn purge(&self, attempt: AttemptId) -> io::Result<()> {
        let path = self.root.join(QUARANTINE).join(shard_name(attempt)).join(file_name(attempt));
        match path.symlink_metadata() {
            // Follows no link on its way down.
            Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(&path),
            _ => remove(&path).map(drop),
        }
    }

    /// Puts the Attempt's receipt aside, replacing nothing, and returns where it lies, relative to the
    /// root. Done again it changes nothing and says the same.
    pub fn quarantine(&self, attempt: AttemptId) -> io::Result<PathBuf> {
        let aside = self.root.join(QUARANTINE);
        let shard = aside.join(shard_name(attempt));
        private::folder(&aside)?;
        private::folder(&shard)?;
        let target = shard.join(file_name(attempt));
        match publish::rename_new(&self.shard(attempt).join(file_name(attempt)), &target) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && target.symlink_metadata().is_ok() => {}
            done => done?,
        }
        Ok(Path::new(QUARANTINE).join(shard_name(attempt)).join(file_name(attempt)))
    }
}

enum Loaded {
    Text(Vec<u8>),
    Unfit(&'static str),
}

fn load(path: &Path, finish: impl FnOnce() -> io::Result<bool>) -> io::Result<Loaded> {
    let file = private::options().read(true).open(path)?;
    let mut meta = file.metadata()?;
    if private::fault(&meta) == Some(private::LINKED) && finish()? {
        meta = file.metadata()?;
    }
    if let Some(why) = private::fault(&meta) {
        return Ok(Loaded::Unfit(why));
    }
    read_bounded(file)
}

fn read_bounded(file: File) -> io::Result<Loaded> {
    let mut text = Vec::new();
    file.take(limits::RECEIPT_BYTES_MAX as u64 + 1).read_to_end(&mut text)?;
    Ok(if text.len() > limits::RECEIPT_BYTES_MAX { Loaded::Unfit("it is too large") } else { Loaded::Text(text) })
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
    use super::super::codec::pack;
    use super::*;
    use crate::model::id::RunId;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    fn receipt() -> Receipt {
        Receipt {
            run: RunId::parse("0197d2a4-1b2c-7def-8123-456789abcdef").unwrap(),
            attempt: AttemptId::parse("0197d2a4-1b2c-7def-8123-456789abcd7e").unwrap(),
            sequence: 1,
            token: [7; 32],
            started_at_ms: 1,
            finished_at_ms: 1,
            exit_code: 0,
            signal: None,
            start_error: None,
            elapsed_ms: 0,
            finished_boottime_ms: 1,
            log_complete: true,
            clock_stepped: false,
            leftovers: 0,
            out_of_memory: None,
        }
    }

    fn is_invalid(read: &ReceiptRead) -> bool {
        matches!(read, ReceiptRead::Invalid(_))
    }

    #[test]
    fn a_receipt_is_found_by_its_attempt_and_deleted_once() {
        let store = ReceiptStore::new(crate::process::scratch::folder("receipts"));
        let receipt = receipt();
        assert!(matches!(store.read(receipt.attempt), ReceiptRead::Absent), "not even a shard");
        let shard = store.shard_dir(receipt.attempt).unwrap();
        assert!(shard.ends_with("7e"));
        assert_eq!(std::fs::metadata(&shard).unwrap().mode() & 0o777, 0o700);
        assert!(matches!(store.read(receipt.attempt), ReceiptRead::Absent));
        std::fs::write(shard.join(temp_name(receipt.attempt)), "begun").unwrap();
        assert!(matches!(store.read(receipt.attempt), ReceiptRead::Absent), "a draft is no receipt");
        std::fs::write(shard.join(file_name(receipt.attempt)), pack(&receipt)).unwrap();
        assert!(matches!(store.read(receipt.attempt), ReceiptRead::Found(found) if found == receipt));
        assert!(store.delete(receipt.attempt).unwrap());
        assert!(!store.delete(receipt.attempt).unwrap());
        assert_eq!(std::fs::read_dir(shard).unwrap().count(), 0);
    }

    #[test]
    fn links_fifos_folders_foreign_and_oversized_files_are_invalid_and_never_hang() {
        let store = ReceiptStore::new(crate::process::scratch::folder("receipts-unsafe"));
        let receipt = receipt();
        let shard = store.shard_dir(receipt.attempt).unwrap();
        let path = shard.join(file_name(receipt.attempt));
        let real = shard.join("real");
        std::fs::write(&real, pack(&receipt)).unwrap();

        symlink(&real, &path).unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "a symlink");
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&real, &path).unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "a second name that is not ours");
        std::fs::remove_file(&path).unwrap();
        std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "a fifo");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "a folder");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, vec![b' '; limits::RECEIPT_BYTES_MAX + 1]).unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "too large");
        std::fs::write(&path, "{}").unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "not a receipt");
        let other =
            Receipt { attempt: AttemptId::parse("0197d2a4-1b2c-7def-8123-456789abcd7f").unwrap(), ..receipt.clone() };
        std::fs::write(&path, pack(&other)).unwrap();
        assert!(is_invalid(&store.read(receipt.attempt)), "another attempt's");
    }

    #[test]
    fn a_publication_that_was_cut_in_two_is_finished_by_its_reader() {
        let store = ReceiptStore::new(crate::process::scratch::folder("receipts-cut"));
        let receipt = receipt();
        let shard = store.shard_dir(receipt.attempt).unwrap();
        let temp = shard.join(temp_name(receipt.attempt));
        std::fs::write(&temp, pack(&receipt)).unwrap();
        std::fs::hard_link(&temp, shard.join(file_name(receipt.attempt))).unwrap();
        assert!(matches!(store.read(receipt.attempt), ReceiptRead::Found(_)));
        assert!(!temp.exists());
    }

    #[test]
    fn quarantine_moves_once_and_replaces_nothing() {
        let root = crate::process::scratch::folder("receipts-aside");
        let store = ReceiptStore::new(&root);
        let receipt = receipt();
        assert_eq!(store.quarantine(receipt.attempt).unwrap_err().kind(), io::ErrorKind::NotFound);
        let path = store.shard_dir(receipt.attempt).unwrap().join(file_name(receipt.attempt));
        std::fs::write(&path, "bad").unwrap();
        let place = store.quarantine(receipt.attempt).unwrap();
        assert_eq!(std::fs::read(root.join(&place)).unwrap(), b"bad");
        assert_eq!(std::fs::metadata(root.join(QUARANTINE)).unwrap().mode() & 0o777, 0o700);
        assert!(matches!(store.read(receipt.attempt), ReceiptRead::Absent));
        assert_eq!(store.quarantine(receipt.attempt).unwrap(), place, "again");
        std::fs::write(&path, "worse").unwrap();
        assert_eq!(store.quarantine(receipt.attempt).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(root.join(&place)).unwrap(), b"bad");
        store.purge(receipt.attempt).unwrap();
        assert!(!root.join(&place).exists());
        store.purge(receipt.attempt).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("in"), "it").unwrap();
        store.quarantine(receipt.attempt).unwrap();
        store.purge(receipt.attempt).unwrap();
        assert!(!root.join(&place).exists(), "a folder in its place");
    }
}
