//! The state folder: who may look into it, and the one lock that keeps a second daemon out.
//!
//! Everything here is checked before the database is touched. Errors are plain sentences that say
//! what to do; nothing is repaired or replaced.

use super::folders;
use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Why the state cannot be used: a plain sentence with what to do. Every one means exit code 4.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateError(String);

impl StateError {
    /// An error with this sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StateError {}

fn refuse<T>(sentence: String) -> Result<T, StateError> {
    Err(StateError(sentence))
}

/// In a folder that a restore builds: it is not whole yet.
pub const UNFINISHED_MARK: &str = "unfinished";

/// Where a restore builds the state that is to take this place.
pub fn restoring(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".restoring");
    name.into()
}

/// The state folder: absolute, canonical, ours alone.
#[derive(Debug, Clone)]
pub struct StateDir {
    path: PathBuf,
    pub(super) logs: PathBuf,
    pub(super) runtime: PathBuf,
}

/// The lock on a state folder. Dropping it lets go.
#[derive(Debug)]
pub struct StateLock {
    // Kept open: the kernel's lock lives as long as the open file.
    _file: File,
    path: PathBuf,
}

impl StateDir {
    /// Makes the folder and those in it where they are missing, mode 0700, and checks them like
    /// [`open`](Self::open). Repeatable.
    pub fn create(path: &Path) -> Result<Self, StateError> {
        let path = absolute(path)?;
        if let Err(e) = fs::symlink_metadata(&path)
            && e.kind() == io::ErrorKind::NotFound
        {
            let restoring = restoring(&path);
            if restoring.is_dir() && !restoring.join(UNFINISHED_MARK).exists() {
                // Cut between two renames; an empty state in its place would hide both.
                let (from, to) = (restoring.display(), path.display());
                return refuse(format!("a restore was cut short: run `mv {from} {to}`, which finishes it"));
            }
            if let Some(parent) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(|e| cannot("make", parent, &e))?;
            }
            make_private(&path)?;
        }
        let state = Self::at(checked(&path, STATE)?);
        for folder in [state.run_dir(), state.logs_dir(), state.receipts_dir()] {
            make_private(&folder)?;
            check_folder(&folder)?;
        }
        Ok(state)
    }

    /// Opens a folder that [`create`](Self::create) made, and checks it: ours, 0700, no symbolic
    /// link at its end, no part of the path in another user's hands.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let path = absolute(path)?;
        if let Err(e) = fs::symlink_metadata(&path)
            && e.kind() == io::ErrorKind::NotFound
        {
            return refuse(format!("there is no state folder {}: run `qinglet init` first", path.display()));
        }
        let state = Self::at(checked(&path, STATE)?);
        for folder in [state.run_dir(), state.logs_dir(), state.receipts_dir()] {
            match fs::symlink_metadata(&folder) {
                Ok(_) => check_folder(&folder)?,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return refuse(format!("{} is missing: run `qinglet init` again", folder.display()));
                }
                Err(e) => return Err(cannot("look at", &folder, &e)),
            }
        }
        Ok(state)
    }

    fn at(path: PathBuf) -> Self {
        Self { logs: path.join("logs"), runtime: path.join(RUNTIME_NAME), path }
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where sockets and the address file stand.
    pub fn run_dir(&self) -> PathBuf {
        self.runtime.clone()
    }

    /// Where logs stand, unless the configuration says otherwise.
    pub fn logs_dir(&self) -> PathBuf {
        self.logs.clone()
    }

    /// Where completion receipts stand.
    pub fn receipts_dir(&self) -> PathBuf {
        self.path.join("receipts")
    }

    /// The first owner's token, which the command line uses.
    pub fn owner_token_path(&self) -> PathBuf {
        self.path.join("owner.token")
    }

    /// The key under which bearer secrets are digested.
    pub fn pepper_path(&self) -> PathBuf {
        self.path.join("pepper")
    }

    /// The keys that seal secrets.
    pub fn keyring_path(&self) -> PathBuf {
        self.path.join("keyring")
    }

    /// What lies in the folder itself and is not ours, and what of ours others may read or is no file, as
    /// sentences.
    pub fn strangers(&self) -> io::Result<Vec<String>> {
        // The last daemon's, should none run now.
        let runtime = folders::runtime_of(&self.path);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let put = [&self.logs, &self.runtime, &runtime].contains(&&entry.path());
            let folder = put || ["run", "logs", "receipts"].contains(&name.as_str());
            let plain = name.strip_suffix(".new").unwrap_or(&name);
            let file = ["lock", "pepper", "keyring", "owner.token", folders::POINTER].contains(&plain)
                || super::open::is_own_name(&name);
            let wrong = match fs::symlink_metadata(entry.path()) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
                Ok(_) if !folder && !file => Some(format!("{name} is not a file of qinglet: move it away")),
                Ok(_) if folder => check_folder(&entry.path()).err().map(|e| e.to_string()),
                Ok(meta) => check_file(&entry.path(), &meta).err().map(|e| e.to_string()),
            };
            found.extend(wrong);
        }
        found.sort();
        Ok(found)
    }

    /// Takes the folder's one lock, or says who holds it. `holder` is the command that takes it; it
    /// and our pid are written into the file for the next one's message.
    pub fn lock(&self, holder: &str) -> Result<StateLock, StateError> {
        take_lock(&self.path, holder, STATE)
    }
}

/// What a checked folder is called in messages, and the flag that names another.
#[derive(Clone, Copy)]
pub(super) struct Named(pub(super) &'static str, pub(super) &'static str);

const STATE: Named = Named("state folder", "--state");

/// The runtime folder's own name below the state, when nothing else is set.
pub(super) const RUNTIME_NAME: &str = "run";

/// Takes a folder's lock, or says who holds it.
pub(super) fn take_lock(folder: &Path, holder: &str, named: Named) -> Result<StateLock, StateError> {
    let Named(noun, flag) = named;
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    // Not truncated on opening: until the lock is ours the text in it is another's.
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(&path).map_err(|e| cannot("open", &path, &e))?;
    check_file(&path, &file.metadata().map_err(|e| cannot("look at", &path, &e))?)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // The text only helps; the lock decides.
            let _ = (&mut file).take(256).read_to_string(&mut text);
            let by = match text.trim_end().split_once(' ') {
                Some((pid, command)) => format!("`qinglet {command}` (process {pid})"),
                None => "another process".into(),
            };
            return refuse(format!(
                "the {noun} {} is in use by {by}: stop that first, or use another folder with {flag}",
                folder.display()
            ));
        }
        Err(TryLockError::Error(e)) => return Err(cannot("lock", &path, &e)),
    }
    let text = format!("{} {holder}\n", std::process::id());
    let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(|e| cannot("write", &path, &e))?;
    Ok(StateLock { _file: file, path: folder.to_owned() })
}

impl StateLock {
    /// Fails unless this is the lock of `state`; a mistake in the caller, not of the user.
    pub(super) fn must_cover(&self, state: &StateDir) -> Result<(), StateError> {
        if self.path == state.path {
            return Ok(());
        }
        refuse(format!("the lock of {} does not cover {}", self.path.display(), state.path.display()))
    }
}

/// What could not be done to what, and the usual ways out.
pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> StateError {
    let way_out = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => ": run as the user it belongs to",
        Some(libc::EROFS) => ": the file system is read-only; mount it writable or use another folder with --state",
        Some(libc::ENOSPC | libc::EDQUOT) => ": the file system is full; free some space and try again",
        Some(libc::ELOOP) => ": it is a symbolic link; give the real path",
        Some(libc::ENOTDIR) => ": a part of the path is not a folder; give another one with --state",
        _ => ": look at the file system and try again",
    };
    StateError(format!("cannot {what} {} ({error}){way_out}", path.display()))
}

/// Our effective user: the owner of our own folder in /proc (proc(5)).
fn own_uid() -> Result<u32, StateError> {
    let proc = Path::new("/proc/self");
    fs::metadata(proc).map(|found| found.uid()).map_err(|_| StateError("cannot read /proc: mount it first".into()))
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, StateError> {
    std::path::absolute(path).map_err(|e| cannot("use", path, &e))
}

pub(super) fn make_private(path: &Path) -> Result<(), StateError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(cannot("make", path, &e)),
        _ => Ok(()),
    }
}

/// Checks every part of an absolute path and returns its canonical form. A symbolic link on the way
/// (`/var` on a router) is fine while nobody but root and we could turn it elsewhere.
pub(super) fn checked(path: &Path, named: Named) -> Result<PathBuf, StateError> {
    let Named(noun, flag) = named;
    let own = own_uid()?;
    let mut prefix = PathBuf::new();
    for part in path.components() {
        prefix.push(part);
        let found = fs::symlink_metadata(&prefix).map_err(|e| cannot("look at", &prefix, &e))?;
        if found.is_symlink() && found.uid() != 0 && found.uid() != own {
            return refuse(format!(
                "{} is a symbolic link of user id {}, who could turn it elsewhere: give the real path with {flag}",
                prefix.display(),
                found.uid()
            ));
        }
    }
    let found = fs::symlink_metadata(path).map_err(|e| cannot("look at", path, &e))?;
    if found.is_symlink() {
        return refuse(format!(
            "the {noun} {} is a symbolic link: give the folder it points to with {flag}",
            path.display()
        ));
    }
    let canonical = path.canonicalize().map_err(|e| cannot("look at", path, &e))?;
    for parent in canonical.ancestors().skip(1) {
        let found = fs::symlink_metadata(parent).map_err(|e| cannot("look at", parent, &e))?;
        if found.uid() != 0 && found.uid() != own {
            return refuse(format!(
                "{} belongs to user id {}, who could exchange what is below it: use another folder with {flag}",
                parent.display(),
                found.uid()
            ));
        }
        let sticky = found.mode() & 0o1000 != 0;
        if found.mode() & 0o002 != 0 && !sticky {
            return refuse(format!(
                "anybody may exchange what is below {}: run `chmod o-w {}` or use another folder with {flag}",
                parent.display(),
                parent.display()
            ));
        }
    }
    check_folder(&canonical)?;
    Ok(canonical)
}

fn check_folder(path: &Path) -> Result<(), StateError> {
    let found = fs::symlink_metadata(path).map_err(|e| cannot("look at", path, &e))?;
    if !found.is_dir() {
        return refuse(format!("{} is not a folder: move it away and run `qinglet init`", path.display()));
    }
    check_owner(path, &found)?;
    match found.mode() & 0o777 {
        0o700 => Ok(()),
        mode => refuse(format!("{} has mode {mode:04o}: run `chmod 700 {}`", path.display(), path.display())),
    }
}

/// Checks a file of the state: regular, ours, one name, 0600.
pub(super) fn check_file(path: &Path, found: &Metadata) -> Result<(), StateError> {
    if found.is_symlink() {
        return refuse(format!("{} is a symbolic link: put the real file in its place", path.display()));
    }
    if !found.is_file() {
        return refuse(format!("{} is not a regular file: move it away", path.display()));
    }
    check_owner(path, found)?;
    if found.nlink() != 1 {
        return refuse(format!("{} has {} names: remove the other hard links", path.display(), found.nlink()));
    }
    match found.mode() & 0o777 {
        0o600 => Ok(()),
        mode => refuse(format!("{} has mode {mode:04o}: run `chmod 600 {}`", path.display(), path.display())),
    }
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), StateError> {
    let own = own_uid()?;
    if found.uid() == own {
        return Ok(());
    }
    refuse(format!(
        "{} belongs to user id {}, and this runs as {own}: run as that user, or `chown {own} {}`",
        path.display(),
        found.uid(),
        path.display()
    ))
}
