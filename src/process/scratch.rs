//! Folders for this module's unit tests, gone when the test's thread ends.

use std::cell::RefCell;
use std::path::PathBuf;

struct Made(RefCell<Vec<PathBuf>>);

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.0.take() {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

thread_local! {
    /// What the test of this thread has made.
    static MADE: Made = const { Made(RefCell::new(Vec::new())) };
}

/// A fresh private folder, named by the test and this process.
pub(super) fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("qinglet-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    super::private::folder(&path).unwrap();
    MADE.with(|made| made.0.borrow_mut().push(path.clone()));
    path
}
