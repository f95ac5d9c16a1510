//! `targets/static/install.sh` on systems with busybox as their only userland: each init system found by looking,
//! installed, upgraded under a running task, refused halfway, removed. systemd and `OpenRC` are stand-ins
//! (`router`) that write down what they are asked for.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod router;
mod support;

use qinglet::model::limits::STOP_BOUND_MS;
use router::{Router, TOP, binaries};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Bench, until};

const STATE: &str = "/var/lib/qinglet";

/// A system without an init system of its own yet, and what a bundle holds in /tmp/new.
fn with_bundle() -> Router {
    let router = Router::new(STATE);
    let made = router.outside().join("binaries");
    binaries(&made);
    let top = PathBuf::from(TOP).join("targets");
    for (file, mode) in
        [("install.sh", 0o755), ("files.list", 0o644), ("qinglet.service", 0o644), ("qinglet.openrc", 0o644)]
    {
        router.put(&top.join("static").join(file), &format!("/tmp/new/{file}"), mode);
    }
    router.put(&top.join("busybox/S90qinglet"), "/tmp/new/S90qinglet", 0o755);
    for entry in fs::read_dir(made).unwrap().map(Result::unwrap) {
        router.put(&entry.path(), &format!("/tmp/new/{}", entry.file_name().to_str().unwrap()), 0o644);
    }
    // The folder of the state must be on a disk; here all that counts is that it is not said to be in memory.
    router.ok("mkdir -p /var/run /var/log /var/lib /run");
    router
}

fn systemd(router: &Router) {
    router.put(&PathBuf::from(TOP).join("tests/router/systemctl"), "/bin/systemctl", 0o755);
    router.ok("mkdir -p /run/systemd/system /etc/systemd/system");
}

/// Where the program is, so that one that was exchanged is another.
fn program(router: &Router) -> u64 {
    fs::metadata(router.path("/usr/local/bin/qinglet")).unwrap().ino()
}

/// Everything there is below the places that an installation may touch, by name and size.
fn picture(router: &Router) -> BTreeMap<String, u64> {
    let listed =
        router.ok("find /usr/local /etc /var/lib -type f | while read -r f; do echo \"$(wc -c <$f) $f\"; done");
    let split = |line: &str| line.split_once(' ').map(|(size, name)| (name.to_owned(), size.parse().unwrap())).unwrap();
    listed.lines().map(split).collect()
}

/// Installs, upgrades under a running task, upgrades an older state, and removes, whatever looks after the daemon.
fn whole_life(router: &Router) {
    router.ok("/tmp/new/install.sh");
    router.served();
    assert_eq!(router.mode("/usr/local/bin/qinglet"), (0o755, 0));
    let run = router.few_seconds();
    let old = program(router);
    router.exchanges("/tmp/new/install.sh install");
    assert_ne!(program(router), old, "it was not exchanged");
    router.lived(&run);
    assert!(!router.path("/usr/local/bin/qinglet.old").exists() && !router.path("/usr/local/bin/qinglet.new").exists());
}

#[test]
fn on_a_busybox_system() {
    if !router::enter("on_a_busybox_system") {
        return;
    }
    let router = with_bundle();
    let before = picture(&router);
    let said = router.ok("/tmp/new/install.sh --dry-run");
    assert_eq!(picture(&router), before, "a dry run changed something");
    for step in ["/usr/local/bin/qinglet", "/etc/init.d/S90qinglet start", "init", "nothing was changed"] {
        assert!(said.contains(step), "{step} is not in {said}");
    }
    whole_life(&router);
    assert_eq!(router.mode("/etc/init.d/S90qinglet"), (0o755, 0));

    // A state of the first version is migrated, and its store kept.
    router.ok("/etc/init.d/S90qinglet stop");
    router.make_older();
    router.ok("/tmp/new/install.sh");
    router.served();
    assert_eq!(router.copies(), 1);
    assert!(router.qinglet("task list").contains("few"));

    // Removed, with its state only when asked.
    let said = router.ok("/tmp/new/install.sh uninstall");
    assert!(said.contains("--purge"), "{said}");
    for gone in ["/usr/local/bin/qinglet", "/etc/init.d/S90qinglet"] {
        assert!(!router.path(gone).exists(), "{gone}");
    }
    assert_eq!(router.sh("pidof qinglet").code, 1, "the daemon runs on");
    assert!(router.path(STATE).join("owner.token").exists() || router.path("/var/lib/qinglet/owner.token").exists());
    router.ok("/tmp/new/install.sh uninstall --purge");
    assert!(!router.path(STATE).exists());
    assert_eq!(picture(&router), before, "something is left");
}

#[test]
fn under_systemd() {
    if !router::enter("under_systemd") {
        return;
    }
    let router = with_bundle();
    systemd(&router);
    whole_life(&router);
    let calls = router.read("/tmp/systemctl.calls");
    let once = ["daemon-reload", "enable qinglet", "start qinglet"];
    let want: Vec<_> = once.into_iter().chain(["stop qinglet"]).chain(once).collect();
    assert_eq!(calls.lines().collect::<Vec<_>>(), want);
    assert_eq!(router.mode("/etc/systemd/system/qinglet.service"), (0o644, 0));

    // Another place for everything.
    router.ok("/tmp/new/install.sh uninstall --purge");
    assert!(!router.path(STATE).exists() && !router.path("/etc/systemd/system/qinglet.service").exists());
    router.ok("/tmp/new/install.sh --prefix /opt/q --state /srv/q");
    let unit = router.read("/etc/systemd/system/qinglet.service");
    assert!(unit.contains("ExecStart=/opt/q/bin/qinglet --state /srv/q serve\n"), "{unit}");
    until("it to serve", || (router.sh("/opt/q/bin/qinglet --state /srv/q status").code == 0).then_some(()));
}

#[test]
fn under_openrc() {
    if !router::enter("under_openrc") {
        return;
    }
    let router = with_bundle();
    for stand_in in ["rc-service", "rc-update"] {
        router.put(&PathBuf::from(TOP).join("tests/router").join(stand_in), &format!("/sbin/{stand_in}"), 0o755);
    }
    router.ok("ln -s /bin/sh /sbin/openrc-run");
    whole_life(&router);
    let want = "rc-update -q add qinglet default\nrc-service start\nrc-service stop\nrc-update -q add qinglet default\n\
                rc-service start\n";
    assert_eq!(router.read("/tmp/openrc.calls"), want);
    let script = router.read("/etc/init.d/qinglet");
    let seconds = script.split("TERM/").nth(1).unwrap().split('/').next().unwrap();
    assert!(seconds.parse::<u64>().unwrap() * 1000 >= STOP_BOUND_MS);
    router.ok("rc-service qinglet stop");
}

#[test]
fn a_failed_step_leaves_the_old_program_running() {
    if !router::enter("a_failed_step_leaves_the_old_program_running") {
        return;
    }
    let router = with_bundle();
    router.ok("/tmp/new/install.sh");
    router.served();
    let (before, old) = (picture(&router), program(&router));
    let kept = |why: &str| {
        assert_eq!(program(&router), old, "{why}: the old program is gone");
        router.served();
        let now = picture(&router);
        for name in before.keys().filter(|name| name.starts_with("/usr") || name.starts_with("/etc")) {
            assert_eq!(now.get(name), before.get(name), "{why}: {name}");
        }
        assert!(!now.keys().any(|name| name.contains(".new") || name.contains(".old")), "{why}: {now:?}");
    };
    let refused = |text: &str, says: &str| {
        let done = router.sh(text);
        assert!(done.code != 0 && done.stderr.contains(says), "{text}: {done:?}");
    };
    let triple = router.ok("ls /tmp/new | grep $(uname -m | sed 's/armv.*/armv7/')").lines().next().unwrap().to_owned();
    let restore =
        |router: &Router| router.ok(&format!("cp /tmp/kept /tmp/new/{triple}; cp /tmp/sums /tmp/new/SHA256SUMS"));
    router.ok(&format!("cp /tmp/new/{triple} /tmp/kept; cp /tmp/new/SHA256SUMS /tmp/sums"));

    router.ok(&format!("printf x >>/tmp/new/{triple}"));
    refused("/tmp/new/install.sh", "is damaged");
    kept("a damaged binary");
    router.ok("rm /tmp/new/SHA256SUMS");
    refused("/tmp/new/install.sh", "SHA256SUMS is missing");
    router.ok("echo '0 other' >/tmp/new/SHA256SUMS");
    refused("/tmp/new/install.sh", "is not in");
    kept("no checksum");

    let replace = |script: &str| {
        router.ok(&format!(
            "printf '#!/bin/sh\\n{script}\\n' >/tmp/new/{triple} && cd /tmp/new && sha256sum {triple} >SHA256SUMS"
        ));
    };
    replace("exit 1");
    refused("/tmp/new/install.sh", "does not run on this machine");
    kept("a program of another machine");
    // It runs, and cannot bring the state up to date.
    replace("[ \"$1\" = --version ]");
    refused("/tmp/new/install.sh", "the state could not be brought up to date; the old program is back");
    kept("a failed init");
    // It does that, and does not serve.
    replace("[ \"$1\" = --version ] || [ \"$4\" = init ] || [ \"$3\" = init ]");
    refused("/tmp/new/install.sh", "the daemon did not start; the old program is back");
    kept("a failed start");
    restore(&router);
    router.ok("/tmp/new/install.sh");
    router.served();

    // State that would be in memory is refused unless it was named.
    router.ok("/tmp/new/install.sh uninstall --purge && mount -t tmpfs tmpfs /var/lib");
    refused("/tmp/new/install.sh", "would be in memory");
    router.ok("/tmp/new/install.sh --state /var/lib/qinglet && /tmp/new/install.sh uninstall --purge");
    for (options, says) in [
        ("--prefix usr", "whole path"),
        ("--state '/a b'", "letters, digits"),
        ("--init launchd", "must be systemd"),
        ("--what", "what is --what"),
        ("--binary /nowhere", "no such file"),
    ] {
        refused(&format!("/tmp/new/install.sh {options}"), says);
    }
}

fn script(arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.arg(format!("{TOP}/targets/static/install.sh")).args(arguments).env_remove("DESTDIR").output().unwrap()
}

#[test]
fn into_a_folder_for_a_package() {
    let bench = Bench::new();
    let made = bench.root().join("binaries");
    binaries(&made);
    let binary = made.join("qinglet-x86_64-unknown-linux-musl");
    for (init, files) in [
        ("none", vec![("usr/bin/qinglet", 0o755)]),
        ("systemd", vec![("etc/systemd/system/qinglet.service", 0o644), ("usr/bin/qinglet", 0o755)]),
        ("openrc", vec![("etc/init.d/qinglet", 0o755), ("usr/bin/qinglet", 0o755)]),
        ("busybox", vec![("etc/init.d/S90qinglet", 0o755), ("usr/bin/qinglet", 0o755)]),
    ] {
        let root = bench.root().join(init);
        let (root, binary) = (root.to_str().unwrap(), binary.to_str().unwrap());
        let done = script(&["install", "--root", root, "--prefix", "/usr", "--init", init, "--binary", binary]);
        assert!(done.status.success(), "{done:?}");
        let mut found: Vec<_> = support::folder::snapshot(Path::new(root)).into_iter().collect();
        found.retain(|(_, entry)| entry.0 & libc::S_IFMT == libc::S_IFREG);
        let found: Vec<_> = found
            .iter()
            .map(|(path, entry)| (path.strip_prefix(root).unwrap().to_str().unwrap(), entry.0 & 0o7777))
            .collect();
        assert_eq!(found, files);
        let text = |file: &str| fs::read_to_string(Path::new(root).join(file)).unwrap_or_default();
        let all = format!(
            "{}{}{}",
            text("etc/systemd/system/qinglet.service"),
            text("etc/init.d/qinglet"),
            text("etc/init.d/S90qinglet")
        );
        assert!(!all.contains('@'), "{all}");
        assert!(!Path::new(root).join("var").exists(), "a state was made");
    }
}

/// Where the project's own `make install` puts it, by the same list.
#[test]
fn make_install_puts_the_program_below_destdir() {
    let bench = Bench::new();
    let target = bench.root().join("target");
    fs::create_dir_all(target.join("release")).unwrap();
    support::copy_program(&target.join("release/qinglet"));
    let root = bench.root().join("root");
    let mut make = Command::new("make");
    make.args(["-C", TOP, "install", "PREFIX=/usr"]).arg(format!("DESTDIR={}", root.display()));
    // Nothing is to be built here.
    make.env("CARGO", "true").env("CARGO_TARGET_DIR", &target).env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let done = make.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    assert_eq!(fs::metadata(root.join("usr/bin/qinglet")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn the_unit_is_one_that_systemd_takes_and_says_what_tasks_need() {
    let bench = Bench::new();
    let made = bench.root().join("binaries");
    binaries(&made);
    let binary = made.join("qinglet-x86_64-unknown-linux-musl");
    let prefix = bench.root().join("prefix");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    support::copy_program(&prefix.join("bin/qinglet"));
    let root = bench.root().join("root");
    let (root, prefix) = (root.to_str().unwrap(), prefix.to_str().unwrap());
    let done = script(&["--root", root, "--prefix", prefix, "--init", "systemd", "--binary", binary.to_str().unwrap()]);
    assert!(done.status.success(), "{done:?}");
    let path = format!("{root}/etc/systemd/system/qinglet.service");
    let unit = fs::read_to_string(&path).unwrap();
    let field = |name: &str| {
        let mut found = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        found.next().unwrap_or_else(|| panic!("{name} is not in the unit"))
    };
    let values = [("KillMode", "process"), ("OOMPolicy", "continue"), ("Delegate", "yes"), ("Restart", "always")];
    for (name, value) in values {
        assert_eq!(field(name), value, "{name}");
    }
    assert!(field("TimeoutStopSec").parse::<u64>().unwrap() * 1000 >= STOP_BOUND_MS);
    assert!(field("ExecStartPre").ends_with("--state /var/lib/qinglet init"));
    assert_eq!(field("ExecReload"), "/bin/kill -HUP $MAINPID");
    for line in unit.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with('#') || line.starts_with('[') || line.contains('='), "{line}");
    }
    match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
        Err(_) => support::skip(
            "the_unit_is_one_that_systemd_takes_and_says_what_tasks_need",
            "no systemd-analyze here; its fields were read all the same",
        ),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(!said.contains("qinglet.service"), "{said}");
        }
    }
}
