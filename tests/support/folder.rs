//! What a folder holds, to be compared with what it holds later.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Mode, owner and, for files, links and folders alike, what is in it.
pub type Entry = (u32, u32, Vec<u8>);

/// Everything below a path, itself included. The lock is left out: it may be taken and names its
/// holder. Sockets count by their names only.
pub fn snapshot(path: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut found = BTreeMap::new();
    add(path, &mut found);
    found
}

fn add(path: &Path, found: &mut BTreeMap<PathBuf, Entry>) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let kind = meta.file_type();
    let content = if kind.is_symlink() {
        fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
    } else if kind.is_file() && !path.ends_with("lock") {
        fs::read(path).unwrap()
    } else {
        Vec::new()
    };
    found.insert(path.to_owned(), (meta.mode(), meta.uid(), content));
    if kind.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            add(&entry.unwrap().path(), found);
        }
    }
}

/// Fails, naming the entry, when what is below a path is not what it was.
pub fn assert_unchanged(path: &Path, before: &BTreeMap<PathBuf, Entry>) {
    let now = snapshot(path);
    for (name, entry) in before {
        let same = now.get(name) == Some(entry);
        assert!(same, "{} was changed or removed", name.display());
    }
    let new: Vec<_> = now.keys().filter(|name| !before.contains_key(*name)).collect();
    assert!(new.is_empty(), "new: {new:?}");
}
