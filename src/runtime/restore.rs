//! `restore`: a new state is built whole beside the old one, then they change places. Nothing of the old one
//! is taken over but what the backup leaves out and fits it: the owner's token, and the keys of its secrets.
//! Its logs, receipts and sockets stay with it, so that nothing of it can be taken for the new one's; a log folder
//! outside of it stays where it is, for both.

use super::backup_file::Backup;
use crate::access::bootstrap::carry_owner_token;
use crate::access::carry;
use crate::access::keyring::Keyring;
use crate::execution::evidence::{Evidence, Look as _};
use crate::execution::host::Inspection;
use crate::execution::linux::Witness;
use crate::model::limits::{EDGE, RECOVERY_CANDIDATES_MAX, RESTORES_KEPT_MAX};
use crate::model::name::Name;
use crate::process::log::LogStore;
use crate::process::receipt::ReceiptStore;
use crate::process::{clock, crash, publish};
use crate::store::backup::FinishRestore;
use crate::store::evidence::ReadEvidence;
use crate::store::inspect::{ListNamedLogs, NamedLog};
use crate::store::open::{self, Initialised, Options};
use crate::store::start::ListInFlight;
use crate::store::state::{self, StateDir, StateLock};
use crate::store::verify;
use crate::store::{Store, StoreError};
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// What is to be restored.
pub struct Wanted<'a> {
    /// The state folder that is to be.
    pub state: &'a Path,
    /// Where its logs are to be.
    pub logs: &'a Path,
    /// The backup.
    pub file: &'a Path,
    /// Whether a state that is there is put aside.
    pub force: bool,
    /// A keyring's file, for a backup without one.
    pub keyring: Option<&'a Path>,
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// Where the old state is now.
    pub aside: Option<PathBuf>,
    /// The backup's store was older and was brought up to date.
    pub migrated: bool,
    /// When the backup was made.
    pub made_at_ms: i64,
    /// Keys that secrets need and nobody has, by id.
    pub missing_keys: Vec<String>,
    /// The owner's token works and is in its place.
    pub owner_token: bool,
}

/// Why nothing was restored.
#[derive(Debug)]
pub enum NotRestored {
    /// It may not be; the sentence says why.
    Refused(String),
    /// It could not be done.
    Failed(String),
}

fn failed(error: &dyn Display) -> NotRestored {
    NotRestored::Failed(error.to_string())
}

fn io_failed(what: &str, path: &Path, error: &io::Error) -> NotRestored {
    NotRestored::Failed(format!("cannot {what} {}: {error}", path.display()))
}

fn options() -> Options {
    // The profile's sizes do not change what is stored.
    Options { limits: &EDGE, clock_ms: clock::wall_ms, vfs: None }
}

/// Restores. Until the very last step the old state is where it was, whole.
pub fn restore(wanted: &Wanted<'_>) -> Result<Restored, NotRestored> {
    let path = std::path::absolute(wanted.state).map_err(|e| io_failed("use", wanted.state, &e))?;
    let mut backup = Backup::open(wanted.file).map_err(NotRestored::Failed)?;
    let needed = verify::verify(wanted.file, &EDGE).map_err(|e| failed(&e))?.key_ids;
    let old = Old::find(&path, wanted.force)?;
    let logs = logs_that_stay(&path, wanted.logs)?;
    let new = Building::begin(&path)?;
    let bytes = backup.label.database_bytes;
    let database = backup.database().map_err(|e| io_failed("read", wanted.file, &e))?;
    open::place(&new.state, &new.lock, database, bytes).map_err(|e| failed(&e))?;
    crash::at("restore.placed");
    let pepper = new.state.pepper_path();
    carry::write(&pepper, &backup.keys.pepper).map_err(|e| io_failed("write", &pepper, &e))?;
    let missing_keys = put_keyring(&new.state, &backup, old.as_ref(), wanted.keyring, &needed)?;
    let initialised = open::init(&new.state, &new.lock, &options()).map_err(|e| failed(&e))?;
    let store = Store::start(&new.state, &new.lock, options()).map_err(|e| failed(&e))?;
    let finished = finish(&store, logs.as_ref()).map_err(|_| "the restored store could not be written".to_owned());
    let owner_token = match &old {
        Some(old) => carry_owner_token(&old.state, &new.state, &store).map_err(|e| e.to_string()),
        None => Ok(false),
    };
    store.close();
    finished.map_err(NotRestored::Failed)?;
    let owner_token = owner_token.map_err(NotRestored::Failed)?;
    crash::at("restore.built");
    let aside = new.take_place(&path, old.is_some())?;
    Ok(Restored {
        aside,
        migrated: matches!(initialised, Initialised::Migrated { .. }),
        made_at_ms: backup.label.made_at_ms,
        missing_keys,
        owner_token,
    })
}

/// The logs, when they lie in a folder of their own: neither the state that is put aside nor the new one has them, and
/// their names cannot be taken for others'.
fn logs_that_stay(path: &Path, logs: &Path) -> Result<Option<LogStore>, NotRestored> {
    let logs = match fs::canonicalize(logs) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|e| io_failed("look at", logs, &e))?,
    };
    let is_below = fs::canonicalize(path).is_ok_and(|path| logs.starts_with(path));
    Ok((!is_below).then(|| LogStore::new(logs)))
}

/// Says in the store that it was restored, and which logs are gone.
fn finish(store: &Store, logs: Option<&LogStore>) -> Result<(), StoreError> {
    let Some(logs) = logs else { return store.call(FinishRestore { gone: None }) };
    let is_gone = |log: &NamedLog| {
        let looked = logs.read_range(&log.artifact, 0, 0);
        looked.is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    };
    let (mut gone, mut after, mut more) = (Vec::new(), None, true);
    while more {
        let page;
        (page, more) = store.call(ListNamedLogs { after })?;
        after = page.last().map(|log| (log.run, log.number));
        gone.extend(page.iter().filter(|log| !log.retired && is_gone(log)).map(|log| (log.run, log.number)));
    }
    store.call(FinishRestore { gone: Some(gone) })
}

/// The state that is there, held so that nobody begins to use it.
struct Old {
    state: StateDir,
    _lock: StateLock,
}

impl Old {
    fn find(path: &Path, force: bool) -> Result<Option<Self>, NotRestored> {
        match fs::read_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io_failed("look into", path, &e)),
            Ok(mut entries) => {
                if entries.next().is_none() {
                    return Ok(None);
                }
            }
        }
        if !force {
            return Err(NotRestored::Refused(format!(
                "there is a state in {} already; --force puts it aside, kept under another name",
                path.display()
            )));
        }
        let state = StateDir::open(path).map_err(|e| failed(&e))?;
        let lock = state.lock("restore").map_err(|e| failed(&e))?;
        let running = still_running(&state, &lock);
        if running > 0 {
            return Err(NotRestored::Refused(format!(
                "{running} runs of the state in {} are still running, and the restored one would know nothing of them: \
                 stop them first (`qinglet serve` and `qinglet stop RUN`), then the daemon",
                path.display()
            )));
        }
        Ok(Some(Self { state, _lock: lock }))
    }
}

/// How many Runs of a state provably run. A state that cannot be read, which is why it is replaced, has none.
fn still_running(state: &StateDir, lock: &StateLock) -> usize {
    let Ok((store, _)) = Store::look(state, lock, options()) else { return 0 };
    let witness = Witness(ReceiptStore::new(state.receipts_dir()));
    let list = ListInFlight { limit: RECOVERY_CANDIDATES_MAX };
    let runs = store.call(list).map_or_else(|_| Vec::new(), |(runs, _)| runs);
    let running = runs.into_iter().filter(|run| {
        let stored = store.call(ReadEvidence { project: Name::default_project(), run: run.run });
        let Ok(Some(stored)) = stored else { return false };
        let evidence = Evidence::gather(stored, &witness, None, false);
        evidence.stored.active.iter().any(|attempt| witness.look(attempt).process == Some(Inspection::Running))
    });
    let count = running.count();
    store.close();
    count
}

/// Puts the keys of secrets there: the backup's, the ones named, or the old state's; else says which are
/// missing. Where none is needed a new keyring is made.
fn put_keyring(
    new: &StateDir,
    backup: &Backup,
    old: Option<&Old>,
    named: Option<&Path>,
    needed: &[String],
) -> Result<Vec<String>, NotRestored> {
    let path = new.keyring_path();
    let fits =
        |bytes: &Zeroizing<Vec<u8>>| Keyring::parse(bytes).is_ok_and(|ring| needed.iter().all(|id| ring.has(id)));
    let named = named.map(|named| carry::read_keyring(named).map_err(|e| failed(&e))).transpose()?;
    if let Some(named) = &named
        && !fits(named)
    {
        let needed = needed.join(", ");
        return Err(NotRestored::Refused(format!("the keyring named has not every key that is needed: {needed}")));
    }
    let of_old = || carry::read_keyring(&old?.state.keyring_path()).ok().filter(fits);
    match named.or_else(|| backup.keys.keyring.clone().filter(fits)).or_else(of_old) {
        Some(bytes) => carry::write(&path, &bytes).map_err(|e| io_failed("write", &path, &e))?,
        None if needed.is_empty() => Keyring::create(&path).map_err(|e| failed(&e))?,
        None => return Ok(needed.to_vec()),
    }
    Ok(Vec::new())
}

/// A state that is being built beside the place it will have. Dropped before it took it, it is gone.
struct Building {
    state: StateDir,
    lock: StateLock,
    done: bool,
}

impl Building {
    fn begin(path: &Path) -> Result<Self, NotRestored> {
        let folder = state::restoring(path);
        if folder.join(state::UNFINISHED_MARK).symlink_metadata().is_ok() {
            fs::remove_dir_all(&folder).map_err(|e| io_failed("remove", &folder, &e))?;
        } else if folder.symlink_metadata().is_ok() {
            // Whole: a state that was to take its place, or one that had just lost it. Nothing of either is thrown away.
            let aside = free_name(path)?;
            fs::rename(&folder, &aside).map_err(|e| io_failed("rename", &folder, &e))?;
        }
        fs::DirBuilder::new()
            .recursive(true)
            .create(folder.parent().unwrap_or(Path::new("/")))
            .map_err(|e| io_failed("make", folder.parent().unwrap_or(Path::new("/")), &e))?;
        let mut private = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.create(&folder).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => NotRestored::Failed(format!(
                "cannot make {} ({e}): the state is built beside its place; run this as a user who may write there, or \
                 restore to another folder with --state",
                folder.display()
            )),
            _ => io_failed("make", &folder, &e),
        })?;
        File::create(folder.join(state::UNFINISHED_MARK)).map_err(|e| {
            let _ = fs::remove_dir(&folder);
            io_failed("write in", &folder, &e)
        })?;
        let made = StateDir::create(&folder).and_then(|state| state.lock("restore").map(|lock| (state, lock)));
        match made {
            Ok((state, lock)) => Ok(Self { state, lock, done: false }),
            Err(e) => {
                let _ = fs::remove_dir_all(&folder);
                Err(failed(&e))
            }
        }
    }

    /// Changes places with what is there, in one step where the file system can. Where the old one is now.
    fn take_place(mut self, path: &Path, replaces: bool) -> Result<Option<PathBuf>, NotRestored> {
        let own = self.state.path().to_owned();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let sync = |folder: &Path| File::open(folder).and_then(|folder| folder.sync_all());
        for folder in [self.state.run_dir(), self.state.logs_dir(), self.state.receipts_dir(), own.clone()] {
            sync(&folder).map_err(|e| io_failed("sync", &folder, &e))?;
        }
        let mark = own.join(state::UNFINISHED_MARK);
        let aside = if replaces { Some(free_name(path)?) } else { None };
        fs::remove_file(&mark).and_then(|()| sync(&own)).map_err(|e| io_failed("remove", &mark, &e))?;
        // Without the mark it is whole, and is not thrown away any more.
        self.done = true;
        crash::at("restore.whole");
        let moved = match &aside {
            None => fs::rename(&own, path),
            Some(aside) => match publish::exchange(&own, path) {
                Ok(()) => {
                    crash::at("restore.exchanged");
                    fs::rename(&own, aside)
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP)) => {
                    fs::rename(path, aside).and_then(|()| fs::rename(&own, path))
                }
                Err(e) => Err(e),
            },
        };
        if let Err(e) = moved {
            let (own, path) = (own.display(), path.display());
            let why = match e.raw_os_error() {
                Some(libc::EBUSY) => "; is it where a file system is mounted? Restore to a folder below".to_owned(),
                // An overlay copies files up, never folders (its redirect_dir is off).
                Some(libc::EXDEV) => format!(
                    "; the old state came with the firmware, below an overlay: finish with \
                     `mv {path} {path}.old && mv {own} {path}`"
                ),
                _ => String::new(),
            };
            return Err(NotRestored::Failed(format!(
                "cannot rename {own} to {path} ({e}){why}; the restored state is in the first, whole"
            )));
        }
        sync(parent).map_err(|e| io_failed("sync", parent, &e))?;
        Ok(aside)
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_dir_all(self.state.path());
        }
    }
}

/// A name beside the state folder that nobody has.
fn free_name(path: &Path) -> Result<PathBuf, NotRestored> {
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".before-restore-{number}"));
        PathBuf::from(name)
    };
    (1..=RESTORES_KEPT_MAX).map(named).find(|name| name.symlink_metadata().is_err()).ok_or_else(|| {
        NotRestored::Refused(format!("too many old states are kept beside {}: remove some", path.display()))
    })
}
