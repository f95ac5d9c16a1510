//! The log and runtime folders, where a setting puts them: often in memory, so each start makes them
//! anew. They are checked like the state folder; receipts never leave that.
//!
//! Whoever knows the state folder only finds the runtime folder by a file in it, so that a command line
//! needs no second option to reach a daemon.

use super::state::{
    Named, RUNTIME_NAME, StateDir, StateError, StateLock, absolute, cannot, checked, make_private, take_lock,
};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const LOGS: Named = Named("log folder", "--logs");
const RUNTIME: Named = Named("runtime folder", "--runtime");
/// The file in the state folder that says where the runtime folder is.
pub(super) const POINTER: &str = "runtime";

impl StateDir {
    /// Puts the log folder there: made, private and ours.
    pub fn put_logs(&mut self, path: &Path) -> Result<(), StateError> {
        self.logs = made(path, LOGS)?;
        self.apart()
    }

    /// Looks for logs there, and makes nothing: a folder in memory is gone after a boot.
    pub fn find_logs(&mut self, path: &Path) -> Result<(), StateError> {
        let path = absolute(path)?;
        self.logs = match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => path,
            _ => checked(&path, LOGS)?,
        };
        self.apart()
    }

    /// Puts the runtime folder there: made, private and ours alone, as long as the lock lives. Says so
    /// to whoever knows the state folder only. `None`: it is the state's own, which has its lock.
    pub fn put_runtime(&mut self, path: &Path, holder: &str) -> Result<Option<StateLock>, StateError> {
        self.runtime = made(path, RUNTIME)?;
        self.apart()?;
        if self.runtime == self.path().join(RUNTIME_NAME) {
            remove(&self.path().join(POINTER))?;
            return Ok(None);
        }
        let lock = take_lock(&self.runtime, holder, RUNTIME)?;
        point(self.path(), &self.runtime)?;
        Ok(Some(lock))
    }

    /// Where each folder really is decides; two names may lead to one.
    fn apart(&self) -> Result<(), StateError> {
        let all = [self.path(), &self.logs, &self.runtime, &self.receipts_dir()].map(Path::to_path_buf);
        let twice = all.iter().enumerate().find(|(at, path)| all[..*at].contains(path));
        twice.map_or(Ok(()), |(_, path)| {
            let path = path.display();
            Err(StateError::new(format!("{path} cannot be two of state, log, runtime and receipts folder at once")))
        })
    }
}

/// Where the daemon of this state has its socket and its address, as far as that can be read.
pub fn runtime_of(state: &Path) -> PathBuf {
    let own = state.join(RUNTIME_NAME);
    let mut bytes = Vec::new();
    let opened =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(state.join(POINTER));
    let read = opened.and_then(|file| file.take(libc::PATH_MAX as u64).read_to_end(&mut bytes));
    match (read, bytes.strip_suffix(b"\n")) {
        (Ok(_), Some(path)) if path.starts_with(b"/") => PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())),
        _ => own,
    }
}

fn made(path: &Path, named: Named) -> Result<PathBuf, StateError> {
    let path = &absolute(path)?;
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(|e| cannot("make", parent, &e))?;
    }
    make_private(path)?;
    checked(path, named)
}

/// Writes only when it says something else than before: flash wears.
fn point(state: &Path, runtime: &Path) -> Result<(), StateError> {
    if runtime_of(state) == runtime {
        return Ok(());
    }
    let (pointer, new) = (state.join(POINTER), state.join("runtime.new"));
    remove(&new)?;
    let text = [runtime.as_os_str().as_bytes(), b"\n"].concat();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, &pointer));
    written.map_err(|e| cannot("write", &pointer, &e))
}

fn remove(path: &Path) -> Result<(), StateError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot("remove", path, &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_that_is_none_leads_to_the_states_own_folder() {
        let state = std::env::temp_dir().join(format!("qinglet-pointer-{}", std::process::id()));
        fs::create_dir_all(&state).unwrap();
        let pointer = state.join(POINTER);
        for (text, leads) in [
            ("/tmp/x\n", PathBuf::from("/tmp/x")),
            ("/tmp/x", state.join("run")),
            ("tmp/x\n", state.join("run")),
            ("", state.join("run")),
        ] {
            fs::write(&pointer, text).unwrap();
            assert_eq!(runtime_of(&state), leads, "{text:?}");
        }
        fs::remove_file(&pointer).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &pointer).unwrap();
        assert_eq!(runtime_of(&state), state.join("run"));
        fs::remove_dir_all(&state).unwrap();
    }
}
