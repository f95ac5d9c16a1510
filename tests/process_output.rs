//! Output: exact caps, floods, bytes that are no text, and a log that cannot be written.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod process_kit;

use process_kit::{Rig, kill, rerun_as_nobody, until};
use std::process::Command;

#[test]
fn both_streams_arrive_in_one_log_as_bytes() {
    let rig = Rig::new();
    let finished = rig.run(rig.shell("printf 'a\\0\\221\\377'; printf err >&2; printf b"));
    assert_eq!(finished.log.bytes, b"a\0\x91\xfferrb");
    assert_eq!((finished.log.truncated, finished.log.dropped_bytes), (Some(false), Some(0)));
    assert_eq!(finished.log.complete, Some(true));
}

#[test]
fn a_flood_is_cut_exactly_counted_and_costs_no_memory() {
    const SENT: u64 = 200 * 1024 * 1024;
    let rig = Rig::new();
    let marker = rig.file("sent");
    let (mut orders, names) = rig.shell(&format!("head -c {SENT} /dev/zero; echo > {}; sleep 60", marker.display()));
    orders.log_bytes_max = 300_000;
    let shim = rig.start(orders);
    let anonymous = || {
        let status = std::fs::read_to_string(format!("/proc/{shim}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap().trim();
        line.trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = anonymous();
    let mut most = before;
    until("the flood is over", || {
        most = most.max(anonymous());
        marker.exists()
    });
    assert!(most <= before.max(400) + 200, "{before} KiB became {most} KiB");
    kill(shim, 15);
    let finished = rig.finish(shim, &names);
    assert_eq!(finished.log.total, 300_000);
    assert_eq!((finished.log.truncated, finished.log.dropped_bytes), (Some(true), Some(SENT - 300_000)));
    assert_eq!((finished.log.complete, finished.receipt.log_complete), (Some(true), true));
}

#[test]
fn the_exit_code_survives_a_flood_and_so_does_a_line_without_end() {
    let rig = Rig::new();
    let (mut orders, names) = rig.shell("head -c 104857600 /dev/zero | tr '\\0' '\\221'; exit 7");
    orders.log_bytes_max = 65_536;
    let finished = rig.run((orders, names));
    assert_eq!((finished.receipt.exit_code, finished.log.total), (7, 65_536));
    assert!(finished.log.bytes.iter().all(|byte| *byte == 0x91));
    assert_eq!(finished.log.dropped_bytes, Some(104_857_600 - 65_536));
}

#[test]
fn an_endless_writer_does_not_keep_an_order_from_arriving() {
    let rig = Rig::new();
    let (mut orders, names) = rig.shell("echo started; exec yes");
    orders.log_bytes_max = 65_536;
    let shim = rig.start(orders);
    until("it writes", || std::fs::metadata(&names.log_path).is_ok_and(|meta| meta.len() == 65_536));
    kill(shim, 15);
    assert_eq!(rig.finish(shim, &names).receipt.signal, Some(15));
}

#[test]
fn output_at_the_cap_is_not_cut_and_one_byte_more_is() {
    let rig = Rig::new();
    for (sent, cut) in [(70_000, false), (70_001, true)] {
        let (mut orders, names) = rig.shell(&format!("head -c {sent} /dev/zero"));
        orders.log_bytes_max = 70_000;
        let log = rig.run((orders, names)).log;
        assert_eq!((log.total, log.truncated), (70_000, Some(cut)));
    }
}

#[test]
fn a_full_log_file_system_changes_no_outcome() {
    let rig = Rig::new();
    let mount = rig.root.join("logs");
    let tmpfs = ["-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs"];
    if !Command::new("mount").args(tmpfs).arg(&mount).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a full log file system needs root and mount(8)");
        return;
    }
    let (mut orders, names) = rig.shell("head -c 1000000 /dev/zero; exit 5");
    orders.log_bytes_max = 10_000_000;
    let finished = rig.run((orders, names));
    let dropped = finished.log.dropped_bytes;
    let unmounted = Command::new("umount").arg(&mount).status().unwrap();
    assert!(unmounted.success());
    assert_eq!(finished.receipt.exit_code, 5);
    assert!(!finished.receipt.log_complete);
    assert_eq!((finished.log.complete, finished.log.truncated), (Some(false), Some(false)));
    assert!(finished.log.total > 100_000, "what had room is there");
    assert_eq!(dropped, Some(1_000_000 - finished.log.total), "the fact's own room was taken before the start");
}

#[test]
fn no_room_for_the_receipt_shows_before_the_start() {
    let rig = Rig::new();
    let mount = rig.root.join("receipts");
    let tmpfs = ["-t", "tmpfs", "-o", "size=16k,mode=0700", "tmpfs"];
    if !Command::new("mount").args(tmpfs).arg(&mount).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: a full receipt file system needs root and mount(8)");
        return;
    }
    let (orders, names) = rig.shell("exit 0");
    let mut filler = 0;
    while std::fs::write(mount.join(format!("filler-{filler}")), vec![1; 4096]).is_ok() {
        filler += 1;
    }
    let launched = rig.launch(orders);
    let read = rig.receipts.read(names.attempt);
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    let failure = launched.err().unwrap();
    assert_eq!(failure.to_string(), "no space for the receipt; free some in the state folder");
    assert!(matches!(read, qinglet::process::receipt::ReceiptRead::Absent));
}

#[test]
fn all_this_holds_for_an_ordinary_user() {
    rerun_as_nobody("all_this_holds_for_an_ordinary_user");
}
