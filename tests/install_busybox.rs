//! The init script for plain busybox systems, run by busybox's own shell with nothing but its applets.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod router;
mod support;

use qinglet::model::limits::STOP_BOUND_MS;
use router::{Router, TOP};
use std::path::{Path, PathBuf};
use support::until;

const STATE: &str = "/var/lib/qinglet";

fn busybox_system() -> Router {
    let router = Router::new(STATE);
    router.put(&PathBuf::from(TOP).join("targets/busybox/S90qinglet"), "/etc/init.d/S90qinglet", 0o755);
    router.put(Path::new(env!("CARGO_BIN_EXE_qinglet")), "/usr/bin/qinglet", 0o755);
    router.ok("mkdir -p /var/run /var/log /var/lib /etc/default");
    router
}

fn daemon(router: &Router) -> String {
    router.read("/var/run/qinglet.pid").trim().to_owned()
}

#[test]
fn the_busybox_script_starts_stops_reloads_and_tells_the_daemon_from_anybody_else() {
    if !router::enter("the_busybox_script_starts_stops_reloads_and_tells_the_daemon_from_anybody_else") {
        return;
    }
    let router = busybox_system();
    let script = |word: &str| router.sh(&format!("/etc/init.d/S90qinglet {word}"));
    router.background("exec syslogd -n -O /var/log/messages");
    until("the system log", || router.path("/dev/log").exists().then_some(()));

    assert_eq!((script("status").code, script("reload").code, script("stop").code), (3, 1, 0));
    assert_eq!(script("mend").code, 2);
    let started = script("start");
    assert_eq!(started.code, 0, "{started:?}");
    router.served();
    let first = daemon(&router);
    assert!(started.stdout.contains(&format!("is running (process {first})")), "{started:?}");
    assert_eq!(script("status").stdout, format!("qinglet: is running (process {first})\n"));
    until("its words in the log", || router.read("/var/log/messages").contains("serving: profile edge").then_some(()));
    assert_eq!((script("start").code, daemon(&router)), (0, first.clone()), "a second start starts nothing");

    assert_eq!(script("reload").code, 0);
    until("it to hear of it", || router.read("/var/log/messages").contains(": reload").then_some(()));
    assert_eq!(daemon(&router), first);

    // A restart, a crash and another start, all below one running task.
    let run = router.few_seconds();
    assert_eq!(script("restart").code, 0);
    router.served();
    let second = daemon(&router);
    assert_ne!(second, first);
    router.ok(&format!("kill -KILL {second}"));
    until("it to be gone", || (script("status").code == 3).then_some(()));
    // The number it left behind is now a task's supervisor's: the same program, and not the daemon.
    let shim = router
        .ok("for p in /proc/[0-9]*; do grep -qs qinglet-shim $p/comm $p/cmdline && echo ${p#/proc/}; done | head -n 1");
    assert!(!shim.is_empty());
    router.ok(&format!("echo {shim} >/var/run/qinglet.pid"));
    assert_eq!((script("status").code, script("stop").code), (3, 0), "the supervisor was taken for the daemon");
    router.ok(&format!("echo {shim} >/var/run/qinglet.pid"));
    assert_eq!(script("start").code, 0);
    router.served();
    // A program that was exchanged meanwhile is still the one to stop.
    router.ok("cp /usr/bin/qinglet /usr/bin/new && mv /usr/bin/new /usr/bin/qinglet");
    assert_eq!(script("restart").code, 0);
    router.served();
    router.lived(&run);
    let stopped = script("stop");
    assert_eq!((stopped.code, stopped.stdout.as_str()), (0, "qinglet: has stopped\n"));
    assert_eq!((script("status").code, router.cli("status").code), (3, 4));
    assert!(!router.path("/var/run/qinglet.pid").exists());
}

#[test]
fn the_busybox_script_waits_for_a_stop_and_says_what_keeps_it_from_starting() {
    if !router::enter("the_busybox_script_waits_for_a_stop_and_says_what_keeps_it_from_starting") {
        return;
    }
    let router = busybox_system();
    let text = router.read("/etc/init.d/S90qinglet");
    let seconds: u64 = text.lines().find_map(|line| line.strip_prefix("STOP_WAIT=")).unwrap().parse().unwrap();
    assert!(seconds * 1000 >= STOP_BOUND_MS);

    // Its settings; and a stop that takes as long as a task does.
    router.ok(
        "printf \"STATE=/mnt/flash/state\\nFLAGS='--on-stop drain --profile standalone'\\n\" >/etc/default/qinglet",
    );
    let cli = |text: &str| router.ok(&format!("qinglet --state /mnt/flash/state {text}"));
    router.ok("/etc/init.d/S90qinglet start");
    until("it to serve", || router.path("/mnt/flash/state/run/api.sock").exists().then_some(()));
    assert!(cli("status").contains("standalone"));
    cli("task add slow --shell 'sleep 2; echo slow >/tmp/slow'");
    cli("run slow");
    router.ok("/etc/init.d/S90qinglet stop");
    assert_eq!(router.read("/tmp/slow"), "slow\n", "it did not wait");
    // Without a system log the messages are in a file.
    router.ok("/etc/init.d/S90qinglet start");
    until("its words in the file", || router.read("/var/log/qinglet.log").contains("serving").then_some(()));
    router.ok("/etc/init.d/S90qinglet stop");

    // A state that cannot be served: the script fails and says why.
    router.ok("chmod 755 /mnt/flash/state");
    let refused = router.sh("/etc/init.d/S90qinglet start");
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("chmod 700 /mnt/flash/state"), "{refused:?}");
    router.ok("chmod 700 /mnt/flash/state");
    router.ok("echo 'FLAGS=--profile=mansion' >>/etc/default/qinglet");
    let refused = router.sh("/etc/init.d/S90qinglet start");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(router.read("/var/log/qinglet.log").contains("--profile must be"));

    // For inittab: in the foreground, so that init sees it end.
    router.ok("sed -i '$d' /etc/default/qinglet");
    router.background("/etc/init.d/S90qinglet run; echo $? >/tmp/ended");
    until("it to run", || (router.sh("/etc/init.d/S90qinglet status").code == 0).then_some(()));
    until("it to serve", || (router.sh("qinglet --state /mnt/flash/state status").code == 0).then_some(()));
    assert_eq!(router.sh("/etc/init.d/S90qinglet run").code, 1, "one is enough");
    router.ok("/etc/init.d/S90qinglet stop");
    until("its end to be seen", || (router.read("/tmp/ended") == "0\n").then_some(()));
}
