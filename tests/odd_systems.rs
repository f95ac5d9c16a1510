//! Systems that lack what most have: a userland that is busybox and nothing else, a root that is read-only or an
//! overlay, a /proc that hides processes, a file system whose files cannot be mapped shared. The whole job is done
//! there, or refused in words that say what to do.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod router;
mod support;

use router::Router;
use std::path::Path;
use std::process::Command;
use support::filter::Filter;
use support::until;

const STATE: &str = "/var/lib/qinglet";

/// A system with the program in it.
fn system(state: &str) -> Router {
    let router = Router::new(state);
    router.put(Path::new(env!("CARGO_BIN_EXE_qinglet")), "/usr/bin/qinglet", 0o755);
    for missing in ["/bin/bash", "/usr/share/zoneinfo", "/dev/shm", "/run", "/etc/localtime", "/etc/qinglet"] {
        assert!(!router.path(missing).exists(), "{missing} is there");
    }
    router
}

/// Makes the state, serves it, runs, stops and loses the daemon, adopts, copies and restores; the state is
/// left with a daemon and a task `hello`.
fn whole_job(router: &Router, copy: &str) {
    router.qinglet("init");
    router.serve();
    router.qinglet("task add hello --shell 'echo hello'");
    hello(router);
    router.qinglet("task add stays --shell 'sleep 1000 & sleep 1000'");
    let stays = router.qinglet("run stays");
    router.run_in(&stays, "running");
    router.qinglet(&format!("stop {stays} --wait"));
    router.run_in(&stays, "cancelled");

    let few = router.few_seconds();
    router.kill();
    let check = router.cli("check");
    assert!(check.code == 0 && !check.stdout.contains("fail "), "{check:?}");
    router.serve();
    router.lived(&few);

    router.qinglet(&format!("backup {copy} --with-keyring"));
    router.qinglet("task add later --shell true");
    router.stop();
    router.qinglet(&format!("restore {copy} --force"));
    router.serve();
    assert_eq!(router.cli("task show later").code, 3, "it is of after the backup");
    hello(router);
}

/// A run of a task that says hello, to its end.
fn hello(router: &Router) {
    let run = router.qinglet("run hello --wait");
    assert_eq!(router.run(&run)["status"], "succeeded");
    assert_eq!(router.qinglet(&format!("logs {run}")), "hello");
}

#[test]
fn on_busybox_and_nothing_else() {
    if !router::enter("on_busybox_and_nothing_else") {
        return;
    }
    let router = system(STATE);
    whole_job(&router, "/copy.qb");

    // Zones are there without files of them, and the host's is UTC.
    let said =
        router.qinglet("trigger preview '30 2 * * *' --zone Europe/Berlin --from 2026-03-28T12:00:00Z --count 2");
    assert!(said.contains("2026-03-29") && said.contains("2026-03-30"), "{said}");
    router.qinglet("trigger set nightly --task hello --cron '30 3 * * *' --zone America/New_York");
    router.qinglet("trigger set morning --task hello --cron '30 6 * * *'");
    let listed = router.qinglet("trigger list");
    assert!(listed.contains("America/New_York") && listed.contains("UTC"), "{listed}");

    // What needs a shell that is not there does not begin, and says so.
    router.ok("mkdir /opt && printf '#!/bin/bash\\ntrue\\n' >/opt/script && chmod 755 /opt/script");
    for (task, program, why) in [
        ("bash", "/bin/bash -c true", "the program does not exist"),
        ("script", "/opt/script", "the program's interpreter does not exist"),
    ] {
        router.qinglet(&format!("task add {task} -- {program}"));
        let refused = router.cli(&format!("run {task} --wait"));
        assert_eq!(refused.code, 1, "{refused:?}");
        let shown = router.qinglet(&format!("show {}", refused.stdout.trim()));
        assert!(shown.contains("EXECUTOR_START_FAILED") && shown.contains(why), "{shown}");
    }
    let doctor = router.cli("doctor");
    assert_eq!(doctor.code, 0, "{doctor:?}");

    // Without a folder for temporary files as well.
    router.ok("rm -rf /tmp");
    router.kill();
    let check = router.cli("check");
    assert!(check.code == 0 && check.stdout.contains("warn  journal"), "{check:?}");
    router.serve();
    hello(&router);
    router.stop();

    // What it cannot do without is named: there is nothing else to go by.
    router.ok("mv /dev/null /dev/away");
    let refused = router.cli("serve");
    assert!(refused.code == 4 && refused.stderr.contains("/dev/null"), "{refused:?}");
    router.ok("mv /dev/away /dev/null && umount /proc");
    for command in ["init", "serve", "check"] {
        let refused = router.cli(command);
        assert!(refused.code == 4 && refused.stderr.contains("/proc: mount it first"), "{command}: {refused:?}");
    }
}

/// Makes the system as OpenWrt is: what it is made of is read-only, also at /rom, and an overlay takes what is
/// written. What is not in its root itself (/proc, /dev) comes anew.
fn put_under_overlay(router: &Router) -> bool {
    let text = "mkdir -p rom dev
        mkdir \"$1/rom\" \"$1/rw\"
        mount --bind . \"$1/rom\" && mount -o remount,bind,ro \"$1/rom\"
        mount -t tmpfs tmpfs \"$1/rw\" && mkdir \"$1/rw/upper\" \"$1/rw/work\"
        mount -t overlay -o \"lowerdir=$1/rom,upperdir=$1/rw/upper,workdir=$1/rw/work\" overlay .
        cd \"$PWD\" && mount -t proc proc proc && mount --bind \"$1/rom\" rom && mount --bind \"$2\" dev";
    // Before the overlay covers it.
    let dev = router.outside().join("dev");
    std::fs::create_dir(&dev).unwrap();
    let done = Command::new("mount").arg("--bind").arg(router.path("dev")).arg(&dev).status().unwrap();
    assert!(done.success());
    let mut command = Command::new("sh");
    command.args(["-ec", text, "sh"]).arg(router.outside()).arg(&dev).current_dir(router.root());
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("unknown filesystem type") {
        support::skip("on_a_read_only_root_below_an_overlay", "the kernel has no overlay file system");
        return false;
    }
    assert!(done.status.success(), "{done:?}");
    true
}

#[test]
fn on_a_read_only_root_below_an_overlay() {
    if !router::enter("on_a_read_only_root_below_an_overlay") {
        return;
    }
    let mut router = system(STATE);
    // A state that came with the firmware.
    router.state_at("/etc/state");
    router.qinglet("init");
    if !put_under_overlay(&router) {
        return;
    }
    router.state_at(STATE);
    whole_job(&router, "/etc/copy.qb");
    let doctor = router.cli("doctor");
    assert!(doctor.code == 0 && doctor.stdout.contains("is on overlay"), "{doctor:?}");
    router.stop();

    // What is on the read-only part is refused, be it there or not.
    let words = "Read-only file system";
    for (state, command) in [("/rom/var/state", "init"), ("/rom/etc/state", "init"), ("/rom/etc/state", "serve")] {
        router.state_at(state);
        let refused = router.cli(command);
        assert_eq!(refused.code, 4, "{state}: {refused:?}");
        assert!(refused.stderr.contains(words) && refused.stderr.contains("--state"), "{state}: {refused:?}");
    }
    let doctor = router.cli("doctor");
    assert!(doctor.code == 1 && doctor.stdout.contains("cannot be written"), "{doctor:?}");

    // Through the overlay it is a state like any other, but that only mv can move its folder.
    router.state_at("/etc/state");
    router.serve();
    router.qinglet("task add hello --shell 'echo hello'");
    router.qinglet("backup /etc/other.qb --with-keyring");
    router.qinglet("task add later --shell true");
    let few = router.few_seconds();
    router.kill();
    router.serve();
    router.lived(&few);
    router.stop();
    let refused = router.cli("restore /etc/other.qb --force");
    let todo = "mv /etc/state /etc/state.old && mv /etc/state.restoring /etc/state";
    assert!(refused.code == 4 && refused.stderr.contains(&format!("finish with `{todo}`")), "{refused:?}");
    router.ok(todo);
    router.serve();
    assert_eq!(router.cli("task show later").code, 3, "it is of after the backup");
    hello(&router);
    router.stop();
    router.qinglet("restore /etc/other.qb --force");

    // And all of it read-only, but for one place.
    router.ok("mkdir /mnt && mount -t tmpfs tmpfs /mnt && mount -o remount,ro /");
    assert_ne!(router.sh("touch /tmp/new").code, 0);
    for command in ["init", "serve"] {
        let refused = router.cli(command);
        assert!(refused.code == 4 && refused.stderr.contains(words), "{refused:?}");
    }
    router.state_at("/mnt/state");
    whole_job(&router, "/mnt/copy.qb");
}

const NOBODY: u32 = 65_534;

#[test]
fn where_proc_hides_processes_what_is_not_seen_is_not_lost() {
    if !router::enter("where_proc_hides_processes_what_is_not_seen_is_not_lost") {
        return;
    }
    let mut router = system(STATE);
    let hide = "mount -o remount,hidepid=2 /proc";
    let show = "mount -o remount,hidepid=0 /proc";
    router.ok(hide);

    // From root nothing is hidden, unless it lacks the right to see it all, as in many containers: then another
    // user's task is, even from its own supervisor.
    let hides_nothing = "which hides nothing from root";
    assert!(router.cli("doctor").stdout.contains(hides_nothing));
    router.ok("echo nobody:x:65534:65534::/:/bin/sh >>/etc/passwd");
    router.run_without("sys_ptrace");
    assert!(!router.cli("doctor").stdout.contains(hides_nothing));
    whole_job(&router, "/copy.qb");
    let text = "trap : TERM; setsid sleep 1000 & echo begun; while :; do sleep 0.1; done";
    router.qinglet(&format!("task add theirs --run-as nobody --grace 300ms --shell '{text}'"));
    let theirs = router.qinglet("run theirs");
    until("the task to begin", || (router.qinglet(&format!("logs {theirs}")) == "begun").then_some(()));
    router.kill();
    router.serve();
    router.qinglet(&format!("stop {theirs}"));
    assert_eq!(router.run_in(&theirs, "cancelled")["latestAttempt"]["signal"], 9, "it is deaf to TERM");
    assert_eq!(router.ok("ps -o user,args | grep -c '^nobody'; true"), "0", "the whole tree is gone");
    router.stop();
    router.ok(&format!("rm -rf {STATE}"));

    // An ordinary user sees what is its own.
    router.run_as(NOBODY);
    router.ok(&format!("mkdir /copies && chown {NOBODY}:{NOBODY} /var/lib /copies"));
    whole_job(&router, "/copies/copy.qb");
    let doctor = router.cli("doctor");
    assert!(doctor.code == 0 && doctor.stdout.contains("mounted with hidepid="), "{doctor:?}");

    // Supervisors that were begun when nothing was hidden can be seen by nobody but root once it is.
    router.stop();
    router.ok(show);
    router.serve();
    let few = router.few_seconds();
    router.qinglet("task add long --shell 'sleep 1000'");
    let long = router.qinglet("run long");
    router.run_in(&long, "running");
    router.kill();
    router.ok(hide);
    let check = router.cli("check");
    assert!(check.code == 0 && check.stdout.contains(&long), "{check:?}");
    router.serve();
    router.lived(&few);
    let unknown = "process_unknown: the system does not say whether its process lives";
    assert!(router.qinglet(&format!("check {long}")).contains(unknown));
    router.qinglet(&format!("stop {long}"));
    assert_eq!(router.run(&long)["status"], "running", "what cannot be signalled is not said to have ended");
    router.ok(show);
    assert_eq!(router.run_in(&long, "cancelled")["latestAttempt"]["signal"], 15);
}

#[test]
fn on_a_file_system_whose_files_cannot_be_mapped_shared() {
    if !router::enter("on_a_file_system_whose_files_cannot_be_mapped_shared") {
        return;
    }
    let mut router = system(STATE);
    let filter = Filter::without_shared_maps();
    if let Err(e) = filter.try_out() {
        return support::skip("on_a_file_system_whose_files_cannot_be_mapped_shared", &format!("no filters: {e}"));
    }
    router.filter(filter);
    whole_job(&router, "/copy.qb");
    let doctor = router.cli("doctor");
    assert!(doctor.stdout.contains("files cannot be mapped shared; the store keeps its WAL without"), "{doctor:?}");
    let names = router.ok(&format!("ls {STATE}"));
    assert!(names.contains("-wal") && !names.contains("-shm"), "{names}");
}
