//! What one round does. Everything that is decided is decided here, from the seed and the round's
//! number alone; what the machine makes of it (who gets the processor when, which step a kill hits)
//! cannot be had again.

use super::dice::Dice;
use super::tasks::Kind;

/// What a client does, after a pause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Starts a task over the socket; repeated in the next rounds until it is answered.
    Start { kind: Kind, mutation: String },
    /// Starts a task with `qinglet run --wait`, which outlasts the daemon.
    Client { kind: Kind },
    /// Asks one of the Runs that were started last to end: the n-th from the end.
    Cancel { back: usize, mutation: String },
    /// Tries one of them again, if it has ended.
    Again { back: usize, mutation: String },
    /// Reads the Runs and the events of one of them.
    Read { back: usize },
}

/// Where the daemon or its shims kill themselves, in builds that have crash points.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashAt {
    /// The daemon at this point; it is killed later if it never came there.
    Daemon(&'static str),
    /// Each shim this daemon launches, at this point.
    Shim(&'static str),
}

/// When the supervisor of a running task is killed too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShimKill {
    /// While the daemon lives, so long before it is killed.
    Before { ms: u64 },
    /// Between the daemon's death and the next start.
    After,
}

/// A round: a start, load, and one kill.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Whose numbers count.
    pub profile: &'static str,
    /// What is done, each with the pause before it in milliseconds.
    pub acts: Vec<(u64, Act)>,
    /// From the first answer to the kill.
    pub delay_ms: u64,
    /// Where somebody kills himself instead, perhaps.
    pub crash_at: Option<CrashAt>,
    /// Whether a supervisor dies too, perhaps; and which, counted through those that there are.
    pub shim_kill: Option<(ShimKill, usize)>,
    /// Whether the receipts that the last kill left must be gone before the load begins.
    pub patient: bool,
    /// How long nobody is there before the next start.
    pub dead_ms: u64,
    /// The daemon is killed so long after its start instead, whether it has answered or not: in the
    /// midst of its recovery.
    pub early_ms: Option<u64>,
}

#[cfg(debug_assertions)]
fn points(shims: bool) -> Vec<&'static str> {
    use qinglet::process::crash::{POINTS, Side};
    let side = if shims { Side::Shim } else { Side::Daemon };
    // Retention has nothing to do here.
    POINTS.iter().filter(|p| p.side == side && !p.name.starts_with("retain.")).map(|p| p.name).collect()
}

impl Plan {
    /// The round's plan.
    pub fn of(seed: u64, round: u64) -> Self {
        let mut dice = Dice::of(seed, round);
        let profile = if dice.percent(25) { "edge" } else { "standalone" };
        // Sometimes the kill comes at once, so that recovery itself and the first steps are hit.
        let delay_ms = if dice.percent(15) { dice.below(20) } else { dice.below(700) };
        let count = dice.below(24);
        let acts = (0..count).map(|at| (dice.below(50), act(&mut dice, round, at))).collect();
        let crash_at = crash_at(&mut dice);
        let kill = if dice.percent(50) { ShimKill::Before { ms: dice.below(200) } } else { ShimKill::After };
        let shim_kill = dice.percent(15).then(|| (kill, dice.below(16) as usize));
        let dead_ms = if dice.percent(70) { dice.below(30) } else { dice.below(1000) };
        let patient = dice.percent(20);
        let early_ms = dice.percent(12).then(|| dice.below(80));
        Self { profile, acts, delay_ms, crash_at, shim_kill, patient, dead_ms, early_ms }
    }
}

fn act(dice: &mut Dice, round: u64, at: u64) -> Act {
    let mutation = format!("{:08x}-0000-4000-8000-{round:08x}{at:04x}", dice.throw() as u32);
    let back = dice.below(12) as usize;
    let kind = dice.one(Kind::ALL);
    match dice.below(100) {
        0..62 => Act::Start { kind, mutation },
        62..66 => Act::Client { kind },
        66..86 => Act::Cancel { back, mutation },
        86..92 => Act::Again { back, mutation },
        _ => Act::Read { back },
    }
}

#[cfg(debug_assertions)]
fn crash_at(dice: &mut Dice) -> Option<CrashAt> {
    let (daemon, shim) = (dice.one(&points(false)), dice.one(&points(true)));
    match dice.below(100) {
        0..25 => Some(CrashAt::Daemon(daemon)),
        25..29 => Some(CrashAt::Shim(shim)),
        _ => None,
    }
}

#[cfg(not(debug_assertions))]
fn crash_at(_dice: &mut Dice) -> Option<CrashAt> {
    None
}
