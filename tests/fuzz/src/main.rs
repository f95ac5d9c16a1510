//! One fuzzer for every target: `QINGLET_FUZZ` names the target, the arguments are libFuzzer's
//! (<https://llvm.org/docs/LibFuzzer.html>). `QINGLET_FUZZ=list` prints the targets and the longest
//! input that is worth trying on each.
#![no_main]

mod live;
#[path = "../targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use targets::{TARGETS, Target};

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fn choose() {
    let name = std::env::var("QINGLET_FUZZ").unwrap_or_default();
    if name == "list" {
        TARGETS.iter().for_each(|target| println!("{} {}", target.name, target.bytes_max));
        std::process::exit(0);
    }
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("QINGLET_FUZZ={name}: there is no such target; QINGLET_FUZZ=list shows all");
        std::process::exit(2);
    };
    let _ = CHOSEN.set(target);
}

fuzz_target!(
    init: choose(),
    |data: &[u8]| {
        if let Some(target) = CHOSEN.get() {
            live::bounded(|| (target.run)(data));
        }
    }
);
