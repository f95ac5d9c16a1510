//! The load: tasks that count their own starts, and say what they will exit with before they do.

use super::support::Bench;
use serde_json::{Value, json};
use std::path::Path;

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Ends well at once.
    Short,
    /// Ends badly at once, each time with another code.
    Fails,
    /// Takes one to three seconds.
    Long,
    /// Leaves processes outside its group and its session behind.
    Forks,
    /// Hears no TERM; its timeout ends it.
    Deaf,
    /// Waits for its timeout.
    Stuck,
    /// Kills itself.
    Dies,
    /// Writes much.
    Loud,
    /// Ends well at the third attempt, also after one that was lost.
    Flaky,
    /// Waits for its timeout, and after it once more.
    Late,
}

impl Kind {
    /// All of them; the quick ones more often.
    pub const ALL: &'static [Self] = &[
        Self::Short,
        Self::Short,
        Self::Fails,
        Self::Fails,
        Self::Long,
        Self::Long,
        Self::Forks,
        Self::Deaf,
        Self::Stuck,
        Self::Dies,
        Self::Loud,
        Self::Flaky,
        Self::Flaky,
        Self::Late,
    ];

    /// Its task's name.
    pub const fn task(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Fails => "fails",
            Self::Long => "long",
            Self::Forks => "forks",
            Self::Deaf => "deaf",
            Self::Stuck => "stuck",
            Self::Dies => "dies",
            Self::Loud => "loud",
            Self::Flaky => "flaky",
            Self::Late => "late",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Short => "ends 0",
            Self::Fails => "ends $(($$ % 250 + 1))",
            Self::Long => "sleep $(($$ % 3 + 1)); ends $(($$ % 2))",
            Self::Forks => "setsid sleep 300 & (setsid sleep 300 & sleep 300 &); sleep 0.2; ends 3",
            Self::Deaf => "trap '' TERM; while :; do sleep 0.2; done",
            Self::Stuck | Self::Late => "sleep 300; ends 0",
            Self::Dies => "says 137; kill -9 $$",
            Self::Loud => "head -c 200000 /dev/zero; ends 0",
            Self::Flaky => "if [ $QINGLET_ATTEMPT -lt 3 ]; then ends 9; else ends 0; fi",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Deaf => &["--timeout", "1500ms", "--grace", "200ms"],
            Self::Stuck => &["--timeout", "700ms"],
            Self::Late => &["--timeout", "400ms", "--retry", "1", "--retry-delay", "100ms"],
            Self::Short | Self::Fails | Self::Long | Self::Forks | Self::Dies | Self::Loud | Self::Flaky => &[],
        }
    }

    /// How often it is tried at most.
    pub fn attempts_max(task: &str) -> usize {
        match task {
            "flaky" => 3,
            "late" => 2,
            _ => 1,
        }
    }

    /// Whether it has a timeout.
    pub fn has_timeout(task: &str) -> bool {
        ["deaf", "stuck", "late"].contains(&task)
    }
}

/// What a start over the wire has to name.
pub struct Pin {
    /// Which.
    pub kind: Kind,
    /// Its revision.
    pub revision: Value,
    /// Its definition's digest.
    pub digest: Value,
}

/// Adds all tasks.
pub fn add(bench: &Bench, marks: &Path) -> Vec<Pin> {
    let mut pins: Vec<Pin> = Vec::new();
    for &kind in Kind::ALL {
        if pins.iter().any(|pin| pin.kind == kind) {
            continue;
        }
        // One write each, so that lines of different tasks never mix.
        let text = format!(
            "says() {{ echo end $QINGLET_RUN_ID $QINGLET_ATTEMPT $1 >>'{marks}'; }}
ends() {{ says $1; exit $1; }}
echo start $QINGLET_RUN_ID $QINGLET_ATTEMPT >>'{marks}'
{}",
            kind.text(),
            marks = marks.display()
        );
        bench.shell_with(kind.task(), kind.options(), &text);
        if kind == Kind::Flaky {
            try_again(bench, kind.task());
        }
        let task = bench.json(&["task", "show", kind.task()])["task"].take();
        pins.push(Pin { kind, revision: task["revision"].clone(), digest: task["contentDigest"].clone() });
    }
    pins
}

/// Lets a task be tried again after a lost Attempt too, which the command line has no flag for.
fn try_again(bench: &Bench, name: &str) {
    let mut task = bench.json(&["task", "show", name])["task"].take();
    let mut spec = task["spec"].take();
    spec["config"]["retry"] = json!({"maxAttempts": 3, "delayMs": 100, "backoff": "fixed", "on": ["failed", "lost"],
        "safety": "idempotent"});
    let body = json!({
        "schema": "qinglong/task-definition@v1",
        "mutationId": "00000000-0000-4000-8000-00000000ffff",
        "expectedRevision": task["revision"],
        "name": name,
        "kind": task["kind"],
        "spec": spec,
        "labels": {},
        "enabled": true,
    });
    let reply = bench.http("PUT", &format!("/tasks/{name}"), Some(&body));
    assert_eq!(reply.status, 200, "{reply:?}");
}
