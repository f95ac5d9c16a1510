//! `import crontab` and files that are odd, or no crontabs.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use support::{Bench, Output, is_root};

fn results(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["result"].as_str().unwrap()).collect()
}

#[test]
fn odd_bytes_in_a_file_cost_their_own_line_only() {
    let bench = Bench::new();
    let long = "x".repeat(20_000);
    let text = [
        b"0 3 * * * crlf\r\n".as_slice(),
        b"0\t4\t*\t* *\t\ttabs\t\n",
        b"0 5 * * * nul\0l\n",
        b"0 5 * * * latin\xe9\n",
        format!("0 6 * * * {long}\n").as_bytes(),
        format!("{} * * * * list\n", "1,".repeat(200)).as_bytes(),
        b"@every 5m x\n",
        b"nonsense\n",
        "0 7 * * * \u{5907}\u{4efd} \u{1b}[2J\n".as_bytes(),
        b"0 8 * * * last",
    ]
    .concat();
    let file = bench.root().join("crontab");
    fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let output = bench.cli(&["--json", "import", "crontab", path, "--dry-run"]);
    let rows: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let refused = "not_taken";
    assert_eq!(
        results(&rows),
        ["taken", "taken", refused, refused, refused, refused, refused, refused, "taken", "taken"],
        "{rows:?}"
    );
    assert_eq!(
        (&rows[0]["command"], &rows[1]["command"], &rows[9]["command"]),
        (&json!("crlf"), &json!("tabs"), &json!("last"))
    );
    for (at, why) in [
        (2, "it has a NUL character"),
        (3, "it is not UTF-8 text"),
        (4, "command.command: has 20000 bytes; 16384 is the most"),
        (5, "more than 256 bytes"),
        (6, "@every is not known; there are @reboot"),
        (7, "it has 1 word"),
    ] {
        assert!(rows[at]["reason"].as_str().unwrap().contains(why), "{}", rows[at]["reason"]);
    }
    assert!(rows[0]["changes"].to_string().contains("carriage return"));
    let shown = bench.cli(&["import", "crontab", path, "--dry-run"]).stdout;
    assert!(
        !shown.contains('\u{1b}') && !shown.contains('\0') && shown.lines().all(|line| line.len() < 300),
        "{shown}"
    );
}

#[test]
fn a_file_that_is_no_crontab_is_named() {
    let bench = Bench::new();
    let root = bench.root().to_owned();
    let dry = |path: &PathBuf| -> Output { bench.cli(&["import", "crontab", path.to_str().unwrap(), "--dry-run"]) };
    symlink("b", root.join("a")).unwrap();
    symlink("a", root.join("b")).unwrap();
    fs::write(root.join("big"), vec![b'#'; 256 * 1024 + 1]).unwrap();
    for (name, why) in [
        ("none", "cannot be read: No such file"),
        ("a", "cannot be read: Too many levels of symbolic links"),
        (".", "is a folder; import the files in it one by one"),
        ("big", "longer than 262144 bytes"),
    ] {
        let output = dry(&root.join(name));
        assert!(output.code == 2 && output.stdout.is_empty() && output.stderr.contains(why), "{output:?}");
    }
    let output = dry(&PathBuf::from("/dev/zero"));
    assert!(output.code == 2 && output.stderr.contains("longer than"), "{output:?}");
    fs::write(root.join("shut"), "").unwrap();
    fs::set_permissions(root.join("shut"), fs::Permissions::from_mode(0o0)).unwrap();
    let output = dry(&root.join("shut"));
    // Root may read everything.
    assert_eq!(
        (output.code, output.stderr.contains("Permission denied")),
        if is_root() { (0, false) } else { (2, true) },
        "{output:?}"
    );
    fs::write(root.join("empty"), "").unwrap();
    assert_eq!(dry(&root.join("empty")).stdout, "there is nothing in it to take\n");
    let many = (0..501).map(|at| format!("0 3 * * * job{at}")).collect::<Vec<_>>().join("\n");
    fs::write(root.join("many"), many).unwrap();
    let output = bench.cli(&["--json", "import", "crontab", root.join("many").to_str().unwrap(), "--dry-run"]);
    let rows: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.code, rows.iter().filter(|row| row["result"] == "taken").count()), (3, 500));
    assert_eq!(rows[500]["reason"], "there are more than 500 such lines");
}

#[test]
fn the_standard_input_is_a_file_too() {
    let bench = Bench::new();
    let mut command = bench.command(&["--json", "import", "crontab", "-", "--dry-run"]);
    let path = bench.root().join("crontab");
    fs::write(&path, "0 3 * * * x\n").unwrap();
    let file = fs::File::open(path).unwrap();
    let output = Output::of(command.stdin(file));
    assert!(output.code == 0 && output.stdout.contains("\"command\":\"x\""), "{output:?}");
}
