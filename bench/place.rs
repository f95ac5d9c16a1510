//! Where everything is measured: one folder on one file system, with the tiny program in it.

use crate::Outcome;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder, removed at the end, and what is measured there.
pub struct Place {
    /// The folder.
    pub folder: PathBuf,
    /// The program under measure.
    pub binary: PathBuf,
    /// The least that a task can be, static, of this machine's own C compiler and library.
    pub tiny: PathBuf,
    /// The least that a supervisor can be: linked like the program under measure, or of the same compiler as `tiny`
    /// where the tools for that are missing.
    pub supervisor: PathBuf,
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
        let place = Self { tiny: folder.join("tiny"), supervisor: folder.join("supervisor"), folder, binary, full };
        if !compiles(&mut Command::new("cc"), &root.join("bench/tiny.c"), &place.tiny) {
            return Err("cc cannot build bench/tiny.c".into());
        }
        let source = root.join("bench/supervisor.c");
        let mut zig = Command::new(root.join("targets/zigcc"));
        zig.env("ZIG_TARGET", format!("{}-linux-musl", std::env::consts::ARCH))
            .env("ZIG_CPU", "")
            .stderr(Stdio::null());
        if !compiles(&mut zig, &source, &place.supervisor) {
            eprintln!("bench: the floor's supervisor is of cc, whose static programs may begin more slowly");
            if !compiles(&mut Command::new("cc"), &source, &place.supervisor) {
                return Err("cc cannot build bench/supervisor.c".into());
            }
        }
        Ok(place)
    }

    /// A path in the folder that nobody has used.
    pub fn fresh(&self, name: &str) -> PathBuf {
        (0..10_000).map(|n| self.folder.join(format!("{name}-{n}"))).find(|path| !path.exists()).unwrap_or_default()
    }
}

fn compiles(compiler: &mut Command, source: &Path, program: &Path) -> bool {
    compiler.args(["-O2", "-static", "-o"]).arg(program).arg(source);
    compiler.status().is_ok_and(|status| status.success())
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
