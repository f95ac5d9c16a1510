//! What was measured, where.

use crate::Outcome;
use crate::place::Place;
use std::process::Command;

/// The heading of a report.
pub fn describe(place: &Place) -> Outcome<String> {
    let say = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).output().ok().filter(|out| out.status.success());
        out.map_or_else(|| "?".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let cores = std::thread::available_parallelism()?;
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kib = memory.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
    let folder = place.folder.to_string_lossy();
    let changed = if say("git", &["status", "--porcelain", "src", "Cargo.lock"]).is_empty() { "" } else { ", changed" };
    Ok(format!(
        "# Measured\n\nCommit {}{changed}, on {}: {cores} cores, {} GiB, Linux {}, {}. Medians, with the middle half in\n\
         parentheses; what is compared was measured in turn.\n",
        say("git", &["rev-parse", "--short", "HEAD"]),
        say("date", &["-u", "+%Y-%m-%d"]),
        kib.div_ceil(1 << 20),
        say("uname", &["-r"]),
        say("stat", &["-f", "-c", "%T", &folder]),
    ))
}
