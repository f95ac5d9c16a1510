//! Where everything is measured: one folder on one file system, with the tiny program in it.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder, removed at the end, and what is measured there.
pub struct Place {
    /// The folder.
    pub folder: PathBuf,
    /// The program under measure.
    pub binary: PathBuf,
    /// The least that a task can be, static.
    pub tiny: PathBuf,
    /// Also what takes long.
    pub full: bool,
}

impl Place {
    /// Makes the folder: below `QINGLET_BENCH_DIR`, else below the target folder. The program is
    /// `QINGLET`, which `make bench` sets.
    pub fn new(full: bool) -> Outcome<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let binary = std::env::var_os("QINGLET").ok_or("QINGLET does not name the program; say `make bench`")?;
        let binary = std::path::absolute(binary)?;
        let under = std::env::var_os("QINGLET_BENCH_DIR").map_or_else(|| root.join("target/bench"), PathBuf::from);
        let folder = std::path::absolute(under)?.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder)?;
        let tiny = folder.join("tiny");
        let place = Self { folder, binary, tiny, full };
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-static", "-o"]).arg(&place.tiny).arg(root.join("bench/tiny.c"));
        if !cc.status().map_err(|error| format!("cc: {error}"))?.success() {
            return Err("cc cannot build bench/tiny.c".into());
        }
        Ok(place)
    }

    /// A path in the folder that nobody has used.
    pub fn fresh(&self, name: &str) -> PathBuf {
        (0..10_000).map(|n| self.folder.join(format!("{name}-{n}"))).find(|path| !path.exists()).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
