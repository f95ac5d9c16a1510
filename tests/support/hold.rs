//! A place where tasks wait until the test lets them go on, without turning in circles.

use super::{Bench, until};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The place. Each task that comes to it leaves a mark; each byte given lets one of them go on.
pub struct Hold {
    folder: PathBuf,
    pipe: File,
}

impl Hold {
    /// A place below the bench's folder.
    pub fn new(bench: &Bench, name: &str) -> Self {
        let folder = bench.root().join(name);
        fs::create_dir(&folder).unwrap();
        let fifo = folder.join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        // For both directions, so that no open ever waits for the other side (fifo(7)).
        let pipe = OpenOptions::new().read(true).write(true).open(fifo).unwrap();
        Self { folder, pipe }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What a task's shell text has to say to wait here.
    pub fn text(&self) -> String {
        let folder = self.folder.display();
        format!("exec 3<>'{folder}/fifo'; : >'{folder}/came.'$$; read -r go <&3; exec 3>&-")
    }

    /// How many have come so far.
    pub fn came(&self) -> usize {
        fs::read_dir(&self.folder).unwrap().count() - 1
    }

    /// Waits until so many have come in all.
    pub fn wait(&self, count: usize) {
        until(&format!("{count} tasks to come"), || (self.came() >= count).then_some(()));
    }

    /// Lets so many go on.
    pub fn release(&self, count: usize) {
        (&self.pipe).write_all("\n".repeat(count).as_bytes()).unwrap();
    }
}
