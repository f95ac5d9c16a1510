//! `doctor`: looks at the machine and the state, and says what is wrong and what to do. One file a look.
//! Each looks first and decides then, so that what is decided is tested with made-up facts.
//!
//! Nothing here changes anything, nothing needs a daemon, and no look is waited for without bound: a
//! dead network file system answers never.

mod cgroups;
mod clock;
mod config;
mod entropy;
mod file_system;
mod finding;
mod kernel;
mod listen;
mod mounts;
mod pidfd;
mod place;
mod proc;
mod rlimits;
mod room;
mod space;
mod state;
mod tokens;
mod zone;

use super::args::Given;
use super::command::Command;
use super::context::{Context, print, print_json};
use super::failure::Failure;
use super::table::{Table, printable};
use crate::model::limits::{DOCTOR_LOOK_MS, DOCTOR_MS};
use crate::model::word::Exit;
use finding::{Finding, Level};
use place::Place;
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// The command.
pub const COMMAND: Command = Command {
    words: "doctor",
    args: &[],
    rest: None,
    flags: &[],
    summary: "look at the machine and the state, and say what to do",
    more: "Each line is ok, warn or fail, what was found, and what to do. The exit code is 1 when something\n\
           failed. Nothing is changed; a daemon may run or not.",
    body: Some(doctor),
};

/// One look.
struct Look {
    name: &'static str,
    look: fn(&Place) -> Finding,
}

const LOOKS: &[Look] = &[
    Look { name: "kernel", look: kernel::look },
    Look { name: "proc", look: proc::look },
    Look { name: "pidfd", look: pidfd::look },
    Look { name: "cgroups", look: cgroups::look },
    Look { name: "clock", look: clock::look },
    Look { name: "zone", look: zone::look },
    Look { name: "entropy", look: entropy::look },
    Look { name: "room", look: room::look },
    Look { name: "rlimits", look: rlimits::look },
    Look { name: "config", look: config::look },
    Look { name: "state", look: state::look },
    Look { name: "files", look: file_system::look },
    Look { name: "space", look: space::look },
    Look { name: "tokens", look: tokens::look },
    Look { name: "listen", look: listen::look },
];

fn doctor(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let place = Arc::new(Place::of(context));
    let until = Instant::now() + Duration::from_millis(DOCTOR_MS);
    let found: Vec<(&str, Finding)> = LOOKS.iter().map(|look| (look.name, bounded(look, &place, until))).collect();
    let failed = found.iter().any(|(_, finding)| finding.level == Level::Fail);
    if context.json {
        let looks = found.iter().map(|(name, finding)| {
            json!({"name": name, "level": finding.level.word(), "found": finding.text, "todo": finding.todo})
        });
        print_json(&json!({"ok": !failed, "looks": looks.collect::<Vec<_>>()}))?;
    } else {
        let mut rows = Table::plain();
        for (name, finding) in &found {
            rows.row([finding.level.word().into(), (*name).to_owned(), printable(&finding.to_string())]);
        }
        print(&rows.to_string())?;
    }
    Ok(if failed { Exit::RunFailed } else { Exit::Done })
}

/// Looks on a thread of its own, and goes on without it when it takes too long.
fn bounded(look: &Look, place: &Arc<Place>, until: Instant) -> Finding {
    let (answer, answered) = sync_channel(1);
    let (see, place) = (look.look, Arc::clone(place));
    let spawned = std::thread::Builder::new().name("look".into()).spawn(move || answer.send(see(&place)));
    if let Err(error) = spawned {
        return Finding::fail(format!("cannot be looked at: {error}"), "free some memory or processes");
    }
    let left = until.saturating_duration_since(Instant::now()).min(Duration::from_millis(DOCTOR_LOOK_MS));
    match answered.recv_timeout(left) {
        Ok(finding) => finding,
        Err(RecvTimeoutError::Timeout) => Finding::fail(
            "did not answer in time",
            "look whether a disk or a network file system hangs; `dmesg` may say which",
        ),
        Err(RecvTimeoutError::Disconnected) => Finding::fail("the look broke off", "see the message above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_never_answers_is_not_waited_for() {
        fn hang(_: &Place) -> Finding {
            std::thread::sleep(Duration::from_secs(3600));
            Finding::ok("")
        }
        let place = Arc::new(Place::made_up());
        let begun = Instant::now();
        let look = Look { name: "x", look: hang };
        let finding = bounded(&look, &place, begun + Duration::from_millis(50));
        assert_eq!(finding.level, Level::Fail);
        assert!(finding.text.contains("in time"));
        let again = bounded(&look, &place, begun);
        assert_eq!(again.level, Level::Fail, "nothing is left for those that follow");
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
