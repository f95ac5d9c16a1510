//! From release to receipt: exits, signals, leftovers, stops, and death at every numbered point.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod process_kit;

use process_kit::{Finished, Rig, is_alive, kill, number_in, rerun_as_nobody, until, wait_for_end, write_program};
use qinglet::model::id::{AttemptId, Uuid};
use qinglet::process::clock::{boottime_ms, wall_ms};
use qinglet::process::handle::Handle;
use qinglet::process::identity::{self, Inspection};
use qinglet::process::log::LogStore;
use qinglet::process::receipt::{ReceiptRead, ReceiptStore};
use qinglet::process::stop::{Stopped, stop_exact};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn end_of(finished: &Finished) -> (i32, Option<i32>) {
    (finished.receipt.exit_code, finished.receipt.signal)
}

#[test]
fn every_way_to_end_is_told_as_it_was() {
    let rig = Rig::new();
    for (text, code, signal) in [
        ("exit 0", 0, None),
        ("exit 1", 1, None),
        ("exit 255", 255, None),
        ("exit 137", 137, None),
        ("kill -SEGV $$", 139, Some(11)),
        ("kill -TERM $$", 143, Some(15)),
        ("kill -9 $$", 137, Some(9)),
        ("kill -9 0", 137, Some(9)),
        ("trap 'exit 7' TERM; kill -TERM 0", 7, None),
    ] {
        let finished = rig.run(rig.shell(text));
        assert_eq!(end_of(&finished), (code, signal), "{text}");
        assert!(finished.receipt.start_error.is_none() && finished.receipt.log_complete, "{text}");
    }
}

#[test]
fn the_receipt_carries_the_orders_names_and_both_clocks() {
    let rig = Rig::new();
    let before = (wall_ms(), boottime_ms());
    let (mut orders, names) = rig.shell("sleep 0.2");
    orders.sequence = 7;
    let (run, attempt) = (orders.run, orders.attempt);
    let receipt = rig.run((orders, names)).receipt;
    assert_eq!((receipt.run, receipt.attempt, receipt.sequence, receipt.token), (run, attempt, 7, [0x5a; 32]));
    assert!(before.0 <= receipt.started_at_ms && receipt.finished_at_ms <= wall_ms());
    assert!(receipt.finished_at_ms - receipt.started_at_ms >= 200 && receipt.elapsed_ms >= 200);
    assert!((before.1..=boottime_ms()).contains(&receipt.finished_boottime_ms));
    assert!(!receipt.clock_stepped);
    assert_eq!(receipt.leftovers, 0);
}

#[test]
fn a_kill_from_outside_is_told_as_a_signal() {
    let rig = Rig::new();
    let pid_file = rig.file("pid");
    let (orders, names) = rig.shell(&format!("echo $$ > {}; sleep 60", pid_file.display()));
    let shim = rig.start(orders);
    kill(number_in(&pid_file), 9);
    let finished = rig.finish(shim, &names);
    assert_eq!(end_of(&finished), (137, Some(9)));
}

#[test]
fn an_empty_tree_ends_at_once_and_leftovers_end_at_the_drain_grace() {
    let rig = Rig::new();
    let timed = |text: &str, drain_ms| {
        let (mut orders, names) = rig.shell(text);
        orders.drain_grace_ms = drain_ms;
        let start = Instant::now();
        let finished = rig.run((orders, names));
        (finished, start.elapsed())
    };
    let (finished, took) = timed("echo done", 20_000);
    assert_eq!((finished.text().as_str(), finished.receipt.leftovers), ("done\n", 0));
    assert!(took < Duration::from_secs(10), "no waiting for nobody: {took:?}");

    let (finished, took) = timed("( sleep 30 ) & echo done; exit 0", 400);
    assert_eq!((end_of(&finished), finished.text().as_str()), ((0, None), "done\n"));
    assert_eq!(finished.receipt.leftovers, 1);
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(20), "{took:?}");
    assert!(finished.receipt.elapsed_ms < 400, "the run is as long as its main process");
}

#[test]
fn what_is_written_after_the_main_process_still_arrives() {
    let rig = Rig::new();
    let (mut orders, names) = rig.shell("( sleep 0.3; echo late ) & echo early; exit 3");
    orders.drain_grace_ms = 20_000;
    let finished = rig.run((orders, names));
    assert_eq!((finished.text().as_str(), finished.receipt.exit_code), ("early\nlate\n", 3));
    assert_eq!(finished.receipt.leftovers, 0, "it ended within the grace");
}

#[test]
fn no_descendant_survives_whatever_it_does() {
    let rig = Rig::new();
    let pids = ["setsid", "daemon", "deaf", "stopped"].map(|name| (name, rig.file(name)));
    let [(_, setsid), (_, daemon), (_, deaf), (_, stopped)] = &pids;
    let text = format!(
        "setsid sh -c 'echo $$ > {}; exec sleep 300' & \
         ( setsid sh -c '( echo $(exec sh -c \"echo \\$PPID\") > {}; exec sleep 300 ) > /dev/null 2>&1 &' ) & \
         sh -c 'trap \"\" TERM HUP INT; echo $$ > {}; while :; do sleep 0.05; done' & \
         sh -c 'echo $$ > {}; kill -STOP $$; sleep 300' & \
         while ! [ -s {} ] || ! [ -s {} ] || ! [ -s {} ] || ! [ -s {} ]; do sleep 0.01; done; exit 4",
        setsid.display(),
        daemon.display(),
        deaf.display(),
        stopped.display(),
        setsid.display(),
        daemon.display(),
        deaf.display(),
        stopped.display(),
    );
    let (mut orders, names) = rig.shell(&text);
    (orders.drain_grace_ms, orders.grace_ms) = (100, 300);
    let finished = rig.run((orders, names));
    assert_eq!(finished.receipt.exit_code, 4);
    assert!(finished.receipt.leftovers >= 4, "{}", finished.receipt.leftovers);
    for (name, file) in &pids {
        assert!(!is_alive(number_in(file)), "{name}");
    }
}

#[test]
fn a_tree_that_keeps_forking_is_ended() {
    let rig = Rig::new();
    // Each one leaves a successor in a session of its own before it ends.
    let script = rig.file("hop");
    write_program(&script, &format!("#!/bin/sh\ntrap '' TERM\nsleep 0.01\nsetsid {} &\n", script.display()), 0o755);
    let (mut orders, names) = rig.shell(&format!("{} & exit 0", script.display()));
    (orders.drain_grace_ms, orders.grace_ms) = (100, 100);
    let finished = rig.run((orders, names));
    assert_eq!(finished.receipt.exit_code, 0);
    std::fs::remove_file(&script).unwrap();
}

#[test]
fn an_order_to_stop_reaches_the_whole_tree_and_never_the_shim_itself() {
    for signal in [15, 2, 1] {
        let rig = Rig::new();
        let (parent, child) = (rig.file("parent"), rig.file("child"));
        let text = format!(
            "setsid sh -c 'trap \"echo child; exit 0\" TERM; echo $$ > {}; while :; do sleep 0.01; done' & \
             trap 'echo parent; wait; exit 9' TERM; echo $$ > {}; while :; do sleep 0.01; done",
            child.display(),
            parent.display()
        );
        let (orders, names) = rig.shell(&text);
        let shim = rig.start(orders);
        let (_, child) = (number_in(&parent), number_in(&child));
        kill(shim, signal);
        let finished = rig.finish(shim, &names);
        assert_eq!(end_of(&finished), (9, None), "signal {signal}");
        let text = finished.text();
        assert!(text.contains("parent\n") && text.contains("child\n"), "{text:?}");
        assert!(!is_alive(child));
    }
}

#[test]
fn an_order_to_stop_wakes_what_was_stopped() {
    let rig = Rig::new();
    let pid_file = rig.file("pid");
    let (orders, names) = rig.shell(&format!("echo $$ > {}; kill -STOP $$; exit 0", pid_file.display()));
    let shim = rig.start(orders);
    let pid = number_in(&pid_file);
    until("it is stopped", || qinglet::process::stat::read(pid).is_ok_and(|stat| stat.state == b'T'));
    kill(shim, 15);
    assert_eq!(end_of(&rig.finish(shim, &names)), (143, Some(15)));
}

#[test]
fn a_shim_ignores_stray_signals() {
    let rig = Rig::new();
    let (orders, names) = rig.shell("sleep 0.3; echo done");
    let shim = rig.start(orders);
    for signal in [3, 10, 12, 13, 14, 20, 21, 22, 17] {
        kill(shim, signal);
    }
    assert_eq!(rig.finish(shim, &names).text(), "done\n");
}

#[test]
fn exactly_the_named_process_is_stopped_and_no_other() {
    let rig = Rig::new();
    let held = rig.launch(rig.shell("exit 0").0).ok().unwrap();
    let handle = held.handle;
    let wait = Duration::from_secs(10);

    let mut wrong = handle;
    wrong.start_ticks += 1;
    assert_eq!(stop_exact(&wrong, wait), Stopped::AlreadyExited, "the number belongs to another");
    wrong = handle;
    wrong.boot_id = Uuid::from_bytes([9; 16]);
    assert_eq!(stop_exact(&wrong, wait), Stopped::AlreadyExited, "another boot");
    wrong = handle;
    wrong.pgid -= 1;
    assert_eq!(stop_exact(&wrong, wait), Stopped::InvalidHandle);
    assert_eq!(identity::inspect(&handle), Inspection::Running, "none of them sent a signal");

    assert_eq!(stop_exact(&handle, wait), Stopped::Stopped);
    assert_eq!(stop_exact(&handle, wait), Stopped::AlreadyExited);
    drop(held);
}

#[test]
fn a_stopped_or_deaf_tree_is_killed_before_its_shim_and_the_receipt_says_so() {
    let rig = Rig::new();
    let pid_file = rig.file("pid");
    let text = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.05; done", pid_file.display());
    let (orders, names) = rig.shell(&text);
    let held = rig.launch(orders).ok().unwrap();
    let (shim, handle) = (held.pid, held.handle);
    held.release().unwrap();
    let user = number_in(&pid_file);
    assert_eq!(stop_exact(&handle, Duration::from_millis(100)), Stopped::Stopped);
    assert!(!is_alive(user));
    assert_eq!(end_of(&rig.finish(shim, &names)), (137, Some(9)), "the shim outlived its tree");
}

#[cfg(debug_assertions)]
#[test]
fn killed_at_any_of_its_points_a_shim_runs_user_code_only_after_the_release() {
    use qinglet::process::crash::{POINTS, Side};
    let points = POINTS.iter().filter(|point| point.side == Side::Shim);
    assert_eq!(points.clone().count(), 6);
    for point in points {
        let rig = Rig::with(|options| options.crash_at = Some(point.name));
        let marker = rig.file("ran");
        let (orders, names) = rig.shell(&format!("echo $$ > {}", marker.display()));
        let launched = rig.launch(orders);
        let before_ready = matches!(point.name, "shim.read" | "shim.prepared");
        assert_eq!(launched.is_err(), before_ready, "{}", point.name);
        if let Ok(held) = launched {
            let pid = held.pid;
            assert!(!marker.exists());
            held.release().unwrap();
            wait_for_end(pid);
        }
        if matches!(point.name, "shim.read" | "shim.prepared" | "shim.released") {
            // The held process dies by its hold pipe and its death signal; give it no chance to lie.
            std::thread::sleep(Duration::from_millis(50));
            assert!(!marker.exists(), "{}", point.name);
        }
        let published = point.name == "shim.published";
        match rig.receipts.read(names.attempt) {
            ReceiptRead::Found(receipt) => assert!(published && receipt.exit_code == 0, "{}", point.name),
            ReceiptRead::Absent => assert!(!published, "{}", point.name),
            other => panic!("{other:?}"),
        }
        rig.receipts.delete(names.attempt).unwrap();
    }
}

/// Set in the process that plays the daemon: what it kills itself after.
const DAEMON: &str = "QINGLET_TEST_DAEMON";

#[test]
fn a_task_outlives_its_daemon_and_a_held_one_ends_with_it() {
    if let Some(place) = std::env::var_os(DAEMON) {
        let rig = Rig::new();
        let place = PathBuf::from(place);
        let (started, names) = rig.shell("echo before; sleep 0.3; echo after; exit 6");
        rig.start(started);
        let (held, _) = rig.shell(&format!("touch {}", place.join("ran").display()));
        let held = rig.launch(held).ok().unwrap();
        let said = format!("{}\n{}\n{}\n{}\n", rig.root.display(), names.attempt, names.artifact, held.handle);
        std::fs::write(place.join("said"), said).unwrap();
        kill(std::process::id() as i32, 9);
        unreachable!("killed");
    }
    let rig = Rig::new();
    let place = rig.file("");
    let daemon = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_task_outlives_its_daemon_and_a_held_one_ends_with_it"])
        .env(DAEMON, &place)
        .output()
        .unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&daemon.status), Some(9));
    let said = std::fs::read_to_string(place.join("said")).unwrap();
    let [root, attempt, artifact, held] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    let (attempt, held) = (AttemptId::parse(attempt).unwrap(), Handle::parse(held).unwrap());

    until("the held one ends", || identity::inspect(&held) == Inspection::NotRunning);
    assert!(!place.join("ran").exists());
    let receipts = ReceiptStore::new(PathBuf::from(root).join("receipts"));
    until("the receipt is there", || !matches!(receipts.read(attempt), ReceiptRead::Absent));
    assert!(matches!(receipts.read(attempt), ReceiptRead::Found(receipt) if receipt.exit_code == 6));
    let log = LogStore::new(PathBuf::from(root).join("logs")).read_range(artifact, 0, 100).unwrap();
    assert_eq!(log.bytes, b"before\nafter\n");
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn all_this_holds_for_an_ordinary_user() {
    rerun_as_nobody("all_this_holds_for_an_ordinary_user");
}
