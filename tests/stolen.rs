//! A stolen operator's token against a real daemon: the API keeps to its role, the task it adds does what
//! the daemon's user can. A limit that the README states, held here so that it is not forgotten.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use support::Bench;

#[test]
fn an_operators_task_reads_what_the_daemons_user_may_though_the_api_denies_its_token() {
    let bench = Bench::serving();
    bench.ok(&["access", "grant", "op", "operator"]);
    let stolen = bench.root().join("stolen");
    fs::write(&stolen, bench.ok(&["access", "token", "new", "op"])).unwrap();
    fs::set_permissions(&stolen, Permissions::from_mode(0o600)).unwrap();
    let file = stolen.to_str().unwrap();
    let thief = |args: &[&str]| bench.cli(&[&["--token-file", file], args].concat());
    for denied in [&["secret", "list"][..], &["audit"], &["access", "list"], &["access", "grant", "op", "owner"]] {
        let done = thief(denied);
        assert_eq!(done.code, 3, "{denied:?}");
        assert!(done.stderr.contains("the role of this token does not allow it"), "{denied:?}: {}", done.stderr);
    }
    let script = format!("cat {}", bench.state().join("owner.token").display());
    assert_eq!(thief(&["task", "add", "t", "--shell", &script]).code, 0);
    let ran = thief(&["run", "t", "--wait"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let log = thief(&["logs", ran.stdout.trim()]);
    assert_eq!(log.stdout.trim(), bench.token().trim(), "so an operator is to be trusted like the daemon's user");
    bench.ok(&["access", "grant", "op", "viewer"]);
    assert_ne!(thief(&["run", "t"]).code, 0);
}
