//! The reaper, alone in its process, because it frees every child there is.

#![allow(clippy::unwrap_used)] // a helper that fails fails its test

mod process_kit;

use process_kit::{Rig, wait_for_end};
use qinglet::process::reap::Children;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn the_reaper_names_each_ended_child_once_and_tolerates_strangers() {
    let rig = Rig::new();
    let (first, names) = rig.shell("exit 0");
    let (second, abandoned) = rig.shell("exit 0");
    let shim = rig.start(first);
    let held = rig.launch(second).ok().unwrap();
    rig.finish(shim, &names);
    assert_eq!(rig.children.count(), 2);
    assert_eq!(rig.children.reap(), [names.attempt]);
    assert!(rig.children.reap().is_empty());

    let pid = held.pid;
    drop(held);
    wait_for_end(pid);
    assert_eq!(rig.children.reap(), [abandoned.attempt]);
    assert_eq!(rig.children.count(), 0);

    // A child that nobody entered, as process 1 gets them.
    let mut stranger = std::process::Command::new("/bin/true").spawn().unwrap();
    wait_for_end(stranger.id() as i32);
    assert!(rig.children.reap().is_empty());
    assert!(stranger.wait().is_err(), "it was freed");

    // A failed launch is freed by the launcher itself and never named, however eager the reaper is.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let eager = scope.spawn(|| {
            let mut reaped = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                reaped.extend(rig.children.reap());
            }
            reaped
        });
        for _ in 0..20 {
            rig.launch(rig.orders(&["/nonexistent"]).0).err().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(eager.join().unwrap().is_empty());
    });
    assert_eq!(rig.children.count(), 0);

    // One whose status somebody else took is still named, or its Attempt would wait for ever.
    let (third, names) = rig.shell("exit 0");
    let shim = rig.start(third);
    wait_for_end(shim);
    assert!(Children::new().reap().is_empty());
    assert_eq!(rig.children.reap(), [names.attempt]);
}
