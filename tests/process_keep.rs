//! `leftovers: keep`: what the main process leaves behind lives on, and its shim with it, which takes
//! its output and throws it away.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod process_kit;

use process_kit::{Names, Rig, is_alive, kill, number_in, until, wait_for_end};
use qinglet::model::command::Leftovers;
use qinglet::process::orders::Orders;
use qinglet::process::receipt::{Receipt, ReceiptRead};
use qinglet::process::{pidfd::PidFd, stat};
use std::fs;
use std::path::Path;

/// Orders for a shell text whose leftovers stay, with little patience.
fn keeping(rig: &Rig, text: &str) -> (Orders, Names) {
    let (mut orders, names) = rig.shell(text);
    orders.leftovers = Leftovers::Keep;
    (orders.drain_grace_ms, orders.grace_ms) = (100, 200);
    (orders, names)
}

/// Waits for the receipt of a shim that stays.
fn receipt(rig: &Rig, names: &Names) -> Receipt {
    let mut found = None;
    until("the receipt", || {
        if let ReceiptRead::Found(receipt) = rig.receipts.read(names.attempt) {
            found = Some(receipt);
        }
        found.is_some()
    });
    found.unwrap()
}

fn grown(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

#[test]
fn the_receipt_comes_after_the_drain_grace_and_the_shim_stays_for_the_last_child() {
    let rig = Rig::new();
    let pids = [rig.file("one"), rig.file("two")];
    let text = format!(
        "sh -c 'echo $$ > {}; exec sleep 300' & setsid sh -c 'echo $$ > {}; exec sleep 300' & \
         while ! [ -s {0} ] || ! [ -s {1} ]; do sleep 0.01; done; echo done; exit 3",
        pids[0].display(),
        pids[1].display()
    );
    let (orders, names) = keeping(&rig, &text);
    let shim = rig.start(orders);
    let receipt = receipt(&rig, &names);
    assert_eq!((receipt.exit_code, receipt.signal, receipt.leftovers), (3, None, 2));
    assert!(receipt.log_complete);
    let [one, two] = [number_in(&pids[0]), number_in(&pids[1])];
    assert!(is_alive(one) && is_alive(two) && is_alive(shim));
    kill(one, 9);
    until("its parent to free it", || stat::read(one).is_err());
    assert!(is_alive(two) && is_alive(shim));
    kill(two, 9);
    wait_for_end(shim);
    assert_eq!(rig.logs.read_range(&names.artifact, 0, 100).unwrap().bytes, b"done\n");
}

#[test]
fn a_task_that_leaves_nothing_behind_ends_as_any_other() {
    let rig = Rig::new();
    let finished = rig.run(keeping(&rig, "( sleep 0.01; echo late ) & echo early; exit 0"));
    assert_eq!((finished.text().as_str(), finished.receipt.leftovers), ("early\nlate\n", 0));
}

#[test]
fn kept_ones_can_write_for_ever_and_nothing_of_it_is_stored() {
    let rig = Rig::new();
    let (pid, wrote) = (rig.file("pid"), rig.file("wrote"));
    // Each mark stands for more than a pipe holds, so that somebody must be reading.
    let text = format!(
        "sh -c 'echo $$ > {}; n=0; while [ $((n+=1)) -lt 3000 ] && head -c 300000 /dev/zero; do echo >> {}; sleep 0.01; done' & \
         while ! [ -s {1} ]; do sleep 0.01; done; exit 0",
        pid.display(),
        wrote.display(),
    );
    let (mut orders, names) = keeping(&rig, &text);
    orders.log_bytes_max = u64::MAX;
    let shim = rig.start(orders);
    assert_eq!(receipt(&rig, &names).exit_code, 0);
    let (marks, bytes) = (grown(&wrote), grown(&names.log_path));
    until("it to go on writing", || grown(&wrote) > marks + 20);
    assert_eq!(grown(&names.log_path), bytes, "what comes after the end is not stored");
    let open =
        fs::read_dir(format!("/proc/{shim}/fd")).map(|fds| fds.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let open: Vec<_> = open.iter().filter_map(|fd| fs::read_link(fd.path()).ok()).collect();
    assert!(!open.contains(&names.log_path), "a removed log must give its space back: {open:?}");
    kill(number_in(&pid), 9);
    wait_for_end(shim);
}

#[test]
fn a_stop_ends_everything_even_where_leftovers_would_stay() {
    for when in ["while the main process runs", "while leftovers drain"] {
        let rig = Rig::new();
        let (main, left) = (rig.file("main"), rig.file("left"));
        let text = format!(
            "sh -c 'trap \"\" TERM; echo $$ > {}; n=0; while [ $((n+=1)) -lt 2000 ]; do sleep 0.05; done' & \
             while ! [ -s {0} ]; do sleep 0.01; done; echo $$ > {}; sleep 300; true",
            left.display(),
            main.display()
        );
        let (mut orders, names) = keeping(&rig, &text);
        orders.drain_grace_ms = 1_000;
        let shim = rig.start(orders);
        let (main, left) = (number_in(&main), number_in(&left));
        if when == "while leftovers drain" {
            kill(main, 9);
            until("its shim to free it", || stat::read(main).is_err());
        }
        kill(shim, 15);
        let finished = rig.finish(shim, &names);
        assert!(!is_alive(left), "{when}");
        assert!(finished.receipt.leftovers >= 1, "{when}");
    }
}

#[test]
fn a_stop_after_the_receipt_ends_what_was_kept() {
    let rig = Rig::new();
    let left = rig.file("left");
    let text = format!(
        "sh -c 'trap \"\" TERM; echo $$ > {0}; n=0; while [ $((n+=1)) -lt 2000 ]; do sleep 0.05; done' & while ! [ -s {0} ]; do sleep 0.01; done",
        left.display()
    );
    let (orders, names) = keeping(&rig, &text);
    let shim = rig.start(orders);
    let receipt = receipt(&rig, &names);
    assert!(receipt.exit_code == 0 && receipt.leftovers >= 1, "{}", receipt.leftovers);
    let left = number_in(&left);
    assert!(is_alive(left));
    let pidfd = PidFd::open(left);
    kill(shim, 15);
    wait_for_end(shim);
    assert!(pidfd.is_none_or(|left| left.has_ended()), "killed after the grace, for it ignores TERM");
}
