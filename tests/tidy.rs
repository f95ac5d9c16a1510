//! The house's rules as tests: who may use whom, where unsafe code may stand, how long a file may
//! be, and what may be in the tree at all.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file: its path below `src/` and its text without the test modules at its end.
struct Source {
    path: String,
    text: String,
    lines: usize,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut files = Vec::new();
    walk(&src, &mut files);
    files.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().count();
        let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
        Source { path: path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned(), text, lines }
    };
    let all: Vec<Source> = files.into_iter().map(read).collect();
    // A file that only tests compile is not part of the house.
    let for_tests: Vec<String> = all.iter().flat_map(test_files).collect();
    all.into_iter().filter(|source| !for_tests.contains(&source.path)).collect()
}

/// The files that a source declares as `#[cfg(test)] mod NAME;`.
fn test_files(source: &Source) -> Vec<String> {
    let text = fs::read_to_string(root().join("src").join(&source.path)).unwrap();
    let names = text.split("#[cfg(test)]\nmod ").skip(1).filter_map(|rest| rest.split_once(';'));
    let names = names.filter(|(name, _)| name.chars().all(|c| c.is_alphanumeric() || c == '_'));
    let folder = source
        .path
        .strip_suffix("mod.rs")
        .map_or_else(|| format!("{}/", source.path.trim_end_matches(".rs")), str::to_owned);
    names.map(|(name, _)| format!("{folder}{name}.rs")).collect()
}

fn code_lines(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let lines = source.text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// model <- store, process, schedule, access <- execution <- http <- runtime <- cli
const MAY_USE: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("store", &["model"]),
    ("process", &["model"]),
    ("schedule", &["model"]),
    ("access", &["model", "store"]),
    ("execution", &["model", "store", "process", "schedule", "access"]),
    ("http", &["model", "store", "schedule", "access", "execution"]),
    ("runtime", &["model", "store", "process", "schedule", "access", "execution", "http"]),
    ("cli", &["model", "store", "schedule", "access", "http", "runtime"]),
];

#[test]
fn modules_use_only_what_the_design_allows() {
    let mut wrong = Vec::new();
    for source in sources() {
        let module = source.path.split(['/', '.']).next().unwrap();
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == module) else { continue };
        for (at, line) in code_lines(&source) {
            for used in line.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let known = MAY_USE.iter().any(|(name, _)| *name == used);
                if known && used != module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("src/{}:{at} uses {used}", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn execution_meets_the_process_side_in_one_file() {
    for source in sources() {
        if source.path.starts_with("execution/") && source.path != "execution/linux.rs" {
            let meets = code_lines(&source).any(|(_, line)| line.contains("crate::process"));
            assert!(!meets, "src/{} uses process; only execution/linux.rs may", source.path);
        }
    }
}

#[test]
fn unsafe_code_stands_in_leaf_files_and_says_why() {
    for source in sources() {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in code_lines(&source) {
            if !["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"].iter().any(|code| line.contains(code)) {
                continue;
            }
            let leaf = source.path.starts_with("process/") || source.path == "http/poll.rs";
            assert!(leaf, "src/{}:{at} is not a place for unsafe code", source.path);
            let above = lines[at.saturating_sub(8)..at].iter();
            let said = above.clone().any(|l| l.contains("SAFETY:") || l.contains("# Safety"));
            assert!(said, "src/{}:{at} has no SAFETY line above", source.path);
        }
    }
}

/// It panics from 2038 where the standard library was built with 32-bit times; `process/clock.rs` has the clock.
#[test]
fn the_wall_clock_is_not_the_standard_librarys() {
    for source in sources() {
        for (at, line) in code_lines(&source) {
            assert!(!line.contains("SystemTime"), "src/{}:{at} has SystemTime", source.path);
        }
    }
}

#[test]
fn no_panic_is_written_outside_tests() {
    for source in sources() {
        for (at, line) in code_lines(&source) {
            for word in [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!("] {
                assert!(!line.contains(word), "src/{}:{at} has {word}", source.path);
            }
        }
    }
}

#[test]
fn only_one_file_names_the_database() {
    for source in sources() {
        if source.path != "store/open.rs" {
            let named =
                code_lines(&source).any(|(_, line)| line.contains("qinglet.db") || line.contains("Connection::open("));
            assert!(!named, "src/{} names the database; only store/open.rs may", source.path);
        }
    }
}

#[test]
fn files_are_short_begin_with_what_they_are_for_and_are_named_after_it() {
    for source in sources() {
        assert!(source.text.starts_with("//!"), "src/{} does not say what it is for", source.path);
        assert!(source.lines <= 600, "src/{} has {} lines; split it", source.path, source.lines);
        let name = source.path.rsplit('/').next().unwrap();
        assert!(!["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs"].contains(&name), "src/{}", source.path);
    }
}

#[test]
fn no_async_runtime_is_in_the_tree() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for name in ["tokio", "async-std", "smol", "mio", "futures", "futures-core", "async-io", "hyper"] {
        assert!(!lock.contains(&format!("name = \"{name}\"\n")), "{name} is in Cargo.lock");
    }
}

#[test]
fn every_dependency_says_what_it_costs() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap();
    for line in section.lines().filter(|line| line.contains('=')) {
        assert!(line.contains(" # "), "no cost beside: {line}");
    }
}
