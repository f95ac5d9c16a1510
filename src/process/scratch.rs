//! Folders for this module's unit tests.

use std::path::PathBuf;

/// A fresh private folder, named by the test and this process.
pub(super) fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("qinglet-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    super::private::folder(&path).unwrap();
    path
}
