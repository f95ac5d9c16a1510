//! Every kept input of every fuzz target, run once without a fuzzer: what was found stays found.
#![cfg(debug_assertions)]

#[path = "fuzz/targets/mod.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use targets::TARGETS;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus")
}

fn inputs(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_kept_input_keeps_what_its_target_says() {
    let mut failed = Vec::new();
    for target in TARGETS {
        for file in inputs(&corpus().join(target.name)) {
            let bytes = fs::read(&file).unwrap();
            if catch_unwind(|| (target.run)(&bytes)).is_err() {
                failed.push(file.display().to_string());
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_target_takes_anything() {
    for target in TARGETS {
        let long = vec![b'('; target.bytes_max];
        for bytes in [&b""[..], b"\0", b"\n", b"\xff\xfe\n\xff", b"{}", b"\n\n\n", &long] {
            (target.run)(bytes);
        }
    }
}

#[test]
fn every_target_has_a_corpus_of_small_files_and_every_corpus_a_target() {
    let folders: BTreeSet<String> =
        inputs(&corpus()).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(folders, TARGETS.iter().map(|target| target.name.to_owned()).collect());
    for target in TARGETS {
        let files = inputs(&corpus().join(target.name));
        assert!(files.len() >= 10, "{}: {} files", target.name, files.len());
        for file in files {
            let bytes = fs::metadata(&file).unwrap().len();
            assert!(bytes <= target.bytes_max as u64, "{}: {bytes} bytes", file.display());
        }
    }
}
