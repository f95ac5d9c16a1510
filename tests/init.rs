//! `init` against the real binary: repeatable, finished after a crash at any step, and a plain
//! sentence with exit code 4 when the state is not as it must be, with nothing changed.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use qinglet::access::bootstrap::STEPS;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use support::Bench;

/// Every file of the state with its mode and bytes; the lock's text aside, which names who came last.
fn picture(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let about = entry.metadata().unwrap();
        if about.is_symlink() {
            files.insert(entry.path(), (0, fs::read_link(entry.path()).unwrap().into_os_string().into_encoded_bytes()));
        } else if about.is_dir() {
            files.extend(picture(&entry.path()));
        } else if entry.file_name() != "lock" {
            files.insert(entry.path(), (about.mode(), fs::read(entry.path()).unwrap()));
        }
    }
    files
}

/// `init` must be refused with this in its one sentence, and must leave every file as it was.
#[track_caller]
fn refused(bench: &Bench, says: &[&str]) {
    let before = picture(bench.root());
    let output = bench.cli(&["init"]);
    assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    for part in says {
        assert!(output.stderr.contains(part), "{part:?} is not in {}", output.stderr);
    }
    assert!(picture(bench.root()) == before, "it changed something");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_first_init_makes_a_private_state_and_the_second_makes_nothing_new() {
    let bench = Bench::new();
    let first = bench.json(&["init"]);
    assert_eq!((&first["store"], &first["owner"]), (&"created".into(), &"made".into()));
    let state = bench.state();
    assert_eq!(mode(&state), 0o700);
    for (path, (mode, _)) in picture(&state) {
        assert_eq!(mode & 0o7777, 0o600, "{}", path.display());
    }
    assert!(bench.token().starts_with("ql3c_"));
    let token = bench.token();
    let second = bench.json(&["init"]);
    assert_eq!((&second["store"], &second["owner"]), (&"unchanged".into(), &"existing".into()));
    assert_eq!(bench.token(), token);
}

#[test]
fn a_crash_at_any_step_is_finished_by_the_next_init() {
    for step in STEPS {
        let mut bench = Bench::new();
        let crashed = bench.env("QINGLET_CRASH_AT", step).cli(&["init"]);
        assert_eq!(crashed.code, -9, "{step}: {crashed:?}");
        bench.no_env("QINGLET_CRASH_AT").init();
        assert!(bench.token().starts_with("ql3c_"), "{step}");
        assert!(!bench.state().join("owner.token.new").exists(), "{step}");
        assert_eq!(bench.json(&["init"])["owner"], "existing", "{step}");
    }
}

#[test]
fn a_crash_while_reissuing_leaves_a_token_that_one_more_init_settles() {
    for step in STEPS {
        let mut bench = Bench::ready();
        let old = bench.token();
        let crashed = bench.env("QINGLET_CRASH_AT", step).cli(&["init", "--reissue-owner"]);
        assert_eq!(crashed.code, -9, "{step}: {crashed:?}");
        bench.no_env("QINGLET_CRASH_AT").init();
        // Before the commit the old token is the one that works, from it on the new one.
        let committed = matches!(step, "bootstrap.commit" | "bootstrap.publish");
        assert_eq!(bench.token() != old, committed, "{step}");
        assert!(!bench.state().join("owner.token.new").exists(), "{step}");
    }
}

#[test]
fn reissuing_never_makes_a_state_by_a_mistyped_path() {
    let bench = Bench::new();
    let output = bench.cli(&["init", "--reissue-owner"]);
    assert_eq!(output.code, 4, "{output:?}");
    assert!(!bench.state().exists());
}

#[test]
fn a_folder_that_others_may_read_is_refused() {
    let bench = Bench::ready();
    fs::set_permissions(bench.state(), Permissions::from_mode(0o750)).unwrap();
    refused(&bench, &["0750", "chmod 700"]);
}

#[test]
fn a_symbolic_link_in_place_of_the_folder_is_refused() {
    let bench = Bench::ready();
    let real = bench.root().join("real");
    fs::rename(bench.state(), &real).unwrap();
    symlink(&real, bench.state()).unwrap();
    refused(&bench, &["symbolic link"]);
}

#[test]
fn a_file_that_is_not_a_store_is_never_replaced() {
    let bench = Bench::ready();
    let is_store = |path: &Path| fs::read(path).unwrap().starts_with(b"SQLite format 3\0");
    let store = picture(&bench.state()).into_keys().find(|path| is_store(path)).unwrap();
    for content in [&b"not a database at all, but somebody's notes"[..], &[0xff; 8192]] {
        fs::write(&store, content).unwrap();
        refused(&bench, &[store.to_str().unwrap()]);
    }
}

#[test]
fn a_state_in_use_is_refused_and_the_holder_named() {
    let bench = Bench::ready();
    let path = bench.state().join("lock");
    let lock = File::options().write(true).open(&path).unwrap();
    lock.lock().unwrap();
    fs::write(&path, "4711 serve\n").unwrap();
    refused(&bench, &["in use by `qinglet serve` (process 4711)"]);
}

#[test]
fn a_lost_token_file_is_missed_and_reissuing_makes_another() {
    let bench = Bench::ready();
    fs::remove_file(bench.state().join("owner.token")).unwrap();
    let output = bench.cli(&["init"]);
    assert_eq!(output.code, 0);
    let hint = format!("`qinglet --state {} init --reissue-owner` makes a new token", bench.state().display());
    assert!(output.stdout.contains(&hint), "{output:?}");
    bench.ok(&["init", "--reissue-owner"]);
    assert!(bench.token().starts_with("ql3c_"));
}
