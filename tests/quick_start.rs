//! The README's quick start, executed line by line as it stands there.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use support::Bench;

/// The lines of the block, without what is said behind them.
fn lines() -> Vec<String> {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (_, after) = readme.split_once("## Quick start\n\n```sh\n").unwrap();
    let (block, _) = after.split_once("\n```").unwrap();
    let lines = block.lines().map(|line| line.split(" # ").next().unwrap().trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

/// A program of this name on the path.
fn program(bench: &Bench, name: &str, text: &str) {
    let path = bench.root().join("bin").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_line_of_the_quick_start_works() {
    let mut bench = Bench::new();
    let (root, state) = (bench.root().display().to_string(), bench.state().display().to_string());
    program(&bench, "qinglet", &format!("exec {} --state {state} \"$@\"", env!("CARGO_BIN_EXE_qinglet")));
    // What would build and install is tested by itself (tests/install_static.rs); the machine's own /etc stays out.
    program(&bench, "make", "[ \"$*\" = install ]");
    program(&bench, "tar", "echo packed");
    let path = format!("{root}/bin:/usr/bin:/bin");
    let run = |line: &str| {
        let done = Command::new("sh").args(["-c", line]).env("PATH", &path).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let all = lines();
    assert!(all.len() >= 12 && all.iter().any(|line| line.starts_with("qinglet run ")), "{all:?}");
    let mut last = String::new();
    for line in all {
        let line = line.replace("/mnt/", &format!("{root}/"));
        if line == "qinglet serve &" {
            bench.serve(&[]);
        } else if line.contains("stop RUN") {
            run("qinglet task add long --shell 'sleep 1000'");
            let long = run("qinglet run long");
            run(&line.replace("RUN", long.trim()));
        } else {
            let said = run(&line.replace("RUN", &last));
            if line.contains("--wait") {
                said.trim().clone_into(&mut last);
            }
        }
    }
    assert!(fs::metadata(format!("{root}/etc.tar.gz")).unwrap().len() > 10);
    let nightly = bench.json_lines(&["trigger", "list"]);
    assert_eq!(nightly[0]["triggerId"], "nightly", "{nightly:?}");
}
