//! Tests in namespaces of their own: their own process ids, mounts and /proc, so that they can do to the
//! machine what they like. The test runs its own binary again in there.

use super::{is_root, skip};
use std::fs;
use std::process::Command;

/// Set for the test in there.
const INSIDE: &str = "QINGLET_TEST_INSIDE";

/// Whether this is the test in its own namespaces. Otherwise runs it there, after a shell text as root
/// has prepared them; or says why it is skipped.
pub fn enter(test: &str, prepare: &str) -> bool {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == test) {
        return true;
    }
    if !is_root() {
        skip(test, "only root may make a process id namespace");
        return false;
    }
    if !unshare("mount -t proc proc /proc").output().is_ok_and(|done| done.status.success()) {
        skip(test, "the kernel does not let this root make a process id namespace with a /proc of its own");
        return false;
    }
    // Process ids are the same in each such namespace, and folders are named by them.
    let folder = std::env::temp_dir().join(format!("qinglet-inside-{}-{}", std::process::id(), test.len()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    // The shell stays the first process, to free what nobody else does.
    let script = format!("{prepare}\n\"$@\"; code=$?; exit $code");
    let mut command = unshare(&script);
    command.arg("sh").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    let output = command.env(INSIDE, test).env("TMPDIR", &folder).output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    false
}

/// A shell in new namespaces, which all end with it.
fn unshare(text: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", text]);
    command
}
