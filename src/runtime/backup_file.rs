//! A backup's file: the database as it is, so that any `SQLite` opens it, and behind its last page a trailer
//! with the keys that travel along and a digest of everything.
//!
//! ```text
//! database | "\nqinglet-backup@v1 " JSON "\n" | pepper | keyring | "\nsha256 " 64 hex " " 20 digits "\n"
//! ```
//!
//! The JSON is `{databaseBytes, keyIds, keyringBytes, madeAtMs, pepperBytes, version}`; the digest is of all
//! before the last line, the digits are the database's length. A file gets its name when it is whole, on the
//! disk, and read back.

use crate::access::carry::PEPPER_BYTES;
use crate::access::keyring::Keyring;
use crate::model::json;
use crate::model::limits::{BACKUP_TRAILER_BYTES_MAX, KEYRING_BYTES_MAX};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const MAGIC: &[u8] = b"\nqinglet-backup@v1 ";
const FOOTER_BYTES: u64 = 8 + 64 + 1 + 20 + 1;
const BLOCK_BYTES: usize = 64 * 1024;

/// What the trailer says in words.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Label {
    /// The database's length.
    pub database_bytes: u64,
    /// The keys that open its secrets, by id.
    pub key_ids: Vec<String>,
    /// The keyring's length; 0: it is not in it.
    pub keyring_bytes: usize,
    /// When it was made.
    pub made_at_ms: i64,
    /// The pepper's length.
    pub pepper_bytes: usize,
    /// The version of the program that made it.
    pub version: String,
}

/// The keys that travel along.
pub struct Keys {
    /// What tokens are digested under.
    pub pepper: Zeroizing<Vec<u8>>,
    /// The keyring's file, when it was asked for.
    pub keyring: Option<Zeroizing<Vec<u8>>>,
}

/// A backup that is being written. Dropped before it is published, it is gone.
pub struct Draft {
    target: PathBuf,
    part: PathBuf,
    file: File,
    sha: Sha256,
    bytes: u64,
}

/// Why a backup cannot be written there.
#[derive(Debug)]
pub enum NotWritten {
    /// There is something already; the sentence says what.
    Refused(String),
    /// The system could not do it.
    Failed(String),
}

impl Draft {
    /// Begins one beside its target, which must not be there unless `replace`.
    pub fn begin(target: &Path, replace: bool) -> Result<Self, NotWritten> {
        let part = part_of(target);
        may_become(target, replace)?;
        if let Ok(found) = fs::symlink_metadata(&part) {
            // Of a backup that was killed, or of one that is being made now.
            let same = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&part);
            let busy = same.as_ref().is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
            if busy || !found.is_file() {
                let part = part.display();
                return Err(NotWritten::Refused(format!("{part} is in the way: another backup is being made there")));
            }
            fs::remove_file(&part).map_err(|e| failed("replace", &part, &e))?;
        }
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&part);
        let file = file.map_err(|e| failed("make", &part, &e))?;
        let _ = file.try_lock();
        Ok(Self { target: target.to_owned(), part, file, sha: Sha256::new(), bytes: 0 })
    }

    /// Where it lies until it is published.
    pub fn path(&self) -> &Path {
        &self.part
    }

    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), NotWritten> {
        self.file.write_all(bytes).map_err(|e| failed("write", &self.part, &e))?;
        self.sha.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// The digest of what was added so far.
    pub fn sha256(&self) -> String {
        hex(&self.sha.clone().finalize())
    }

    /// Brings what was added to the disk.
    pub fn sync(&self) -> Result<(), NotWritten> {
        self.file.sync_all().map_err(|e| failed("write", &self.part, &e))
    }

    /// Adds the trailer, reads everything back, and gives it its name. The whole length and digest.
    pub fn publish(mut self, keys: &Keys, mut label: Label, replace: bool) -> Result<(u64, String), NotWritten> {
        label.database_bytes = self.bytes;
        label.pepper_bytes = keys.pepper.len();
        label.keyring_bytes = keys.keyring.as_ref().map_or(0, |keyring| keyring.len());
        let text = serde_json::to_value(&label).map(|value| json::canonical(&value));
        let text = text.map_err(|e| NotWritten::Failed(format!("cannot describe the backup: {e}")))?;
        for part in [MAGIC, text.as_bytes(), b"\n", &keys.pepper, keys.keyring.as_ref().map_or(&[][..], |k| k)] {
            self.add(part)?;
        }
        let sha = self.sha256();
        let footer = format!("\nsha256 {sha} {:020}\n", label.database_bytes);
        self.file.write_all(footer.as_bytes()).map_err(|e| failed("write", &self.part, &e))?;
        self.sync()?;
        // What was written is what can be read, or it is no backup.
        Backup::open(&self.part).map_err(NotWritten::Failed)?;
        may_become(&self.target, replace)?;
        crate::process::crash::at("backup.written");
        fs::rename(&self.part, &self.target).map_err(|e| failed("rename", &self.part, &e))?;
        let folder = folder_of(&self.target);
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| failed("sync", folder, &e))?;
        Ok((self.bytes + FOOTER_BYTES, sha))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After publishing there is nothing under this name any more.
        let _ = fs::remove_file(&self.part);
    }
}

fn part_of(target: &Path) -> PathBuf {
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn may_become(target: &Path, replace: bool) -> Result<(), NotWritten> {
    let shown = target.display();
    match fs::symlink_metadata(target) {
        Ok(found) if !found.is_file() => Err(NotWritten::Refused(format!("{shown} is there and is not a plain file"))),
        Ok(_) if !replace => Err(NotWritten::Refused(format!("{shown} is there already; --force replaces it"))),
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(failed("look at", target, &e)),
        _ => Ok(()),
    }
}

fn failed(what: &str, path: &Path, error: &io::Error) -> NotWritten {
    let way_out = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; its file system is full: free some space, or name another place"
        }
        _ => "",
    };
    NotWritten::Failed(format!("cannot {what} {}: {error}{way_out}", path.display()))
}

/// A backup that was read through: its digest is right.
pub struct Backup {
    file: File,
    /// What it says of itself.
    pub label: Label,
    /// The keys in it.
    pub keys: Keys,
}

impl Backup {
    /// Opens and reads everything. The error is a sentence.
    pub fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let damaged = |what: &str| format!("the backup {shown} is damaged ({what}): use another one");
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let mut file = file.map_err(|e| format!("cannot open {shown}: {e}"))?;
        let found = file.metadata().map_err(|e| format!("cannot look at {shown}: {e}"))?;
        if !found.is_file() {
            return Err(format!("{shown} is not a file"));
        }
        let foreign = || format!("{shown} is not a backup of qinglet, or it ends too early");
        let body_bytes = found.size().checked_sub(FOOTER_BYTES).ok_or_else(foreign)?;
        let mut footer = [0; FOOTER_BYTES as usize];
        file.read_exact_at(&mut footer, body_bytes).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let footer = std::str::from_utf8(&footer).ok().and_then(|text| {
            let (sha, digits) = text.strip_prefix("\nsha256 ")?.strip_suffix('\n')?.split_once(' ')?;
            Some((sha.to_owned(), digits.parse::<u64>().ok()?))
        });
        let (sha, database_bytes) = footer.ok_or_else(foreign)?;
        if digest(&mut file, body_bytes).map_err(|e| format!("cannot read {shown}: {e}"))? != sha {
            return Err(damaged("its digest is not right"));
        }
        let trailer_bytes = body_bytes.checked_sub(database_bytes).ok_or_else(|| damaged("its lengths"))? as usize;
        if trailer_bytes > BACKUP_TRAILER_BYTES_MAX {
            return Err(damaged("its lengths"));
        }
        let mut trailer = Zeroizing::new(vec![0; trailer_bytes]);
        file.read_exact_at(&mut trailer, database_bytes).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let (label, keys) = take_apart(&trailer).map_err(&damaged)?;
        if label.database_bytes != database_bytes {
            return Err(damaged("its lengths"));
        }
        Ok(Self { file, label, keys })
    }

    /// The database, from its beginning on.
    pub fn database(&mut self) -> io::Result<impl io::Read> {
        self.file.seek(SeekFrom::Start(0))?;
        Ok(io::Read::by_ref(&mut self.file).take(self.label.database_bytes))
    }
}

fn digest(file: &mut File, bytes: u64) -> io::Result<String> {
    file.seek(SeekFrom::Start(0))?;
    let mut sha = Sha256::new();
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let wanted = left.min(BLOCK_BYTES as u64) as usize;
        file.read_exact(&mut block[..wanted])?;
        sha.update(&block[..wanted]);
        left -= wanted as u64;
    }
    Ok(hex(&sha.finalize()))
}

fn take_apart(trailer: &[u8]) -> Result<(Label, Keys), &'static str> {
    let text = trailer.strip_prefix(MAGIC).ok_or("its trailer")?;
    let end = text.iter().position(|byte| *byte == b'\n').ok_or("its trailer")?;
    let label: Label = json::parse_as(&text[..end]).map_err(|_| "its label")?;
    let rest = &text[end + 1..];
    let sound = label.pepper_bytes == PEPPER_BYTES
        && label.keyring_bytes <= KEYRING_BYTES_MAX
        && rest.len() == label.pepper_bytes + label.keyring_bytes;
    if !sound {
        return Err("its keys");
    }
    let (pepper, keyring) = rest.split_at(label.pepper_bytes);
    let keyring = (!keyring.is_empty()).then(|| Zeroizing::new(keyring.to_vec()));
    if keyring.as_ref().is_some_and(|keyring| Keyring::parse(keyring).is_err()) {
        return Err("its keyring");
    }
    Ok((label, Keys { pepper: Zeroizing::new(pepper.to_vec()), keyring }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
