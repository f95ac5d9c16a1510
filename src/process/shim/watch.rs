//! From release to the proof that nothing is left: copies output, frees what ends, passes orders on,
//! and after the main process's end gives leftovers their time (design D6).

use super::output::Output;
use crate::model::command::Leftovers;
use crate::model::limits;
use crate::process::signals::{Signal, Signals};
use crate::process::wait::{self, Ended, Waited};
use crate::process::{clock, poll, tree};
use std::os::fd::AsFd as _;

/// How long leftovers are waited for.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// From the main process's end to TERM.
    pub(super) drain_ms: u64,
    /// From TERM to KILL.
    pub(super) grace_ms: u64,
    /// What becomes of them after the first.
    pub(super) leftovers: Leftovers,
}

/// What was seen.
pub(super) struct Watched {
    /// How the main process ended.
    pub(super) main: Ended,
    /// When, on the wall clock and on boottime.
    pub(super) at: super::finish::Moment,
    /// How many outlived it and the drain grace.
    pub(super) leftovers: usize,
    /// They live on, and have to be watched over.
    pub(super) kept: bool,
    /// Somebody had ordered it to stop.
    pub(super) ordered: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The main process lives.
    Running,
    /// It has ended; output and leftovers may go on until then.
    Draining { until_ms: i64 },
    /// Leftovers were asked to end.
    Ending { until_ms: i64 },
    /// Leftovers are killed, again and again until none is left.
    Killing { again_ms: i64, pause_ms: u64 },
    /// Leftovers live on until they end by themselves, or until an order to stop comes.
    Keeping,
}

/// What a turn has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Nothing,
    Terminate,
    Kill,
    Keep,
    Finish,
}

/// What is known at the beginning of a turn.
#[derive(Clone, Copy)]
struct Facts {
    now_ms: i64,
    main_ended: bool,
    childless: bool,
    output_ended: bool,
}

/// Decides one turn; the phase afterwards and what to do.
fn decide(phase: Phase, facts: Facts, patience: Patience) -> (Phase, Act) {
    let Facts { now_ms, main_ended, childless, output_ended } = facts;
    let ending = Phase::Ending { until_ms: now_ms + patience.grace_ms as i64 };
    match phase {
        _ if main_ended && childless && output_ended => (phase, Act::Finish),
        Phase::Running if main_ended => (Phase::Draining { until_ms: now_ms + patience.drain_ms as i64 }, Act::Nothing),
        // Somebody outside the tree holds the pipe; the tree itself is gone, and that is what counts.
        Phase::Draining { until_ms } if now_ms >= until_ms && childless => (phase, Act::Finish),
        Phase::Draining { until_ms } if now_ms >= until_ms => match patience.leftovers {
            Leftovers::Keep => (Phase::Keeping, Act::Keep),
            Leftovers::Kill => (ending, Act::Terminate),
        },
        Phase::Ending { .. } | Phase::Killing { .. } | Phase::Keeping if childless => (phase, Act::Finish),
        Phase::Keeping if patience.leftovers == Leftovers::Kill => (ending, Act::Terminate),
        Phase::Ending { until_ms } if now_ms >= until_ms => {
            let pause_ms = KILL_PAUSE_MS_MIN;
            (Phase::Killing { again_ms: now_ms + pause_ms as i64, pause_ms }, Act::Kill)
        }
        // What survives KILL is in the kernel's hands; there is no hurry then.
        Phase::Killing { again_ms, pause_ms } if now_ms >= again_ms => {
            let pause_ms = (pause_ms * 2).min(limits::KILL_WAIT_MS);
            (Phase::Killing { again_ms: now_ms + pause_ms as i64, pause_ms }, Act::Kill)
        }
        Phase::Running | Phase::Draining { .. } | Phase::Ending { .. } | Phase::Killing { .. } | Phase::Keeping => {
            (phase, Act::Nothing)
        }
    }
}

/// The first pause between two rounds of KILL.
const KILL_PAUSE_MS_MIN: u64 = 20;

impl Phase {
    /// When time alone changes something.
    fn due_ms(self) -> Option<i64> {
        match self {
            Self::Running | Self::Keeping => None,
            Self::Draining { until_ms } | Self::Ending { until_ms } => Some(until_ms),
            Self::Killing { again_ms, .. } => Some(again_ms),
        }
    }
}

/// The watch over the tree below this process.
pub(super) struct Watch<'a> {
    main: i32,
    signals: &'a Signals,
    patience: Patience,
    phase: Phase,
    ended: Option<(Ended, super::finish::Moment)>,
    leftovers: usize,
    ordered: bool,
}

impl<'a> Watch<'a> {
    /// From the release of `main` on.
    pub(super) const fn new(main: i32, signals: &'a Signals, patience: Patience) -> Self {
        Self { main, signals, patience, phase: Phase::Running, ended: None, leftovers: 0, ordered: false }
    }

    /// Watches until the tree is empty, or until what is left of it is to be kept.
    pub(super) fn until_over(&mut self, output: &mut Output) -> Watched {
        loop {
            self.turns(output);
            // Nothing else ends the turns than the main process's end, so there is one.
            if let Some((main, at)) = self.ended {
                let kept = self.phase == Phase::Keeping;
                return Watched { main, at, leftovers: self.leftovers, kept, ordered: self.ordered };
            }
        }
    }

    /// Goes on watching over what is kept, until the tree is empty.
    pub(super) fn until_empty(&mut self, output: &mut Output) {
        self.turns(output);
    }

    /// Takes turns until one finishes, or is the first to keep what is left.
    fn turns(&mut self, output: &mut Output) {
        let own = std::process::id() as i32;
        loop {
            let childless = free_ended(self.main, &mut self.ended);
            let facts = Facts {
                now_ms: clock::boottime_ms(),
                main_ended: self.ended.is_some(),
                childless,
                output_ended: output.has_ended,
            };
            let (next, act) = decide(self.phase, facts, self.patience);
            self.phase = next;
            match act {
                Act::Finish => {
                    // What is in the pipe was written by the tree; what comes later was not.
                    output.pump();
                    return;
                }
                Act::Keep => {
                    self.leftovers = tree::alive_below(own).unwrap_or(0);
                    output.pump();
                    return;
                }
                // Without /proc nobody can be found; the pauses go on, and ECHILD still ends it.
                Act::Terminate => self.leftovers = tree::terminate_below(own).unwrap_or(0),
                Act::Kill => drop(tree::kill_below(own, || true)),
                Act::Nothing => {}
            }
            self.sleep(output);
            output.pump();
            if is_ordered_to_stop(self.signals) {
                // A stop spares nothing.
                self.ordered = true;
                self.patience.leftovers = Leftovers::Kill;
                let _ = tree::terminate_below(own);
            }
        }
    }

    /// Sleeps until something can be done.
    fn sleep(&self, output: &Output) {
        let timeout = self.phase.due_ms().map(|due| (due - clock::boottime_ms()).max(0) as u64);
        let mut look = [poll::readable(self.signals.as_fd()), poll::readable(output.as_fd())];
        if output.has_ended {
            look[1].fd = -1;
        }
        if poll::wait(&mut look, timeout).is_err() {
            // Out of memory inside the kernel at worst; without a pause this would spin.
            std::thread::sleep(std::time::Duration::from_millis(KILL_PAUSE_MS_MIN));
        }
    }
}

/// Frees everything that has ended; notes the main process; whether no child is left.
fn free_ended(main: i32, ended: &mut Option<(Ended, super::finish::Moment)>) -> bool {
    loop {
        match wait::any() {
            Ok(Waited::Gone(pid, how)) if pid == main => *ended = Some((how, super::finish::Moment::now())),
            Ok(Waited::Gone(..)) => {}
            Ok(Waited::Alive) | Err(_) => return false,
            Ok(Waited::Childless) => return true,
        }
    }
}

fn is_ordered_to_stop(signals: &Signals) -> bool {
    let mut ordered = false;
    while let Ok(Some(signal)) = signals.take() {
        ordered |= signal != Signal::Child;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { drain_ms: 100, grace_ms: 50, leftovers: Leftovers::Kill };

    fn facts(now_ms: i64, main_ended: bool, childless: bool, output_ended: bool) -> Facts {
        Facts { now_ms, main_ended, childless, output_ended }
    }

    #[test]
    fn an_empty_tree_and_a_closed_pipe_finish_at_once() {
        assert_eq!(decide(Phase::Running, facts(0, true, true, true), PATIENCE).1, Act::Finish);
        let long = Phase::Draining { until_ms: i64::MAX };
        assert_eq!(decide(long, facts(0, true, true, true), PATIENCE).1, Act::Finish);
    }

    #[test]
    fn leftovers_drain_then_term_then_kill_until_none_is_left() {
        let (phase, act) = decide(Phase::Running, facts(1000, true, false, false), PATIENCE);
        assert_eq!((phase, act), (Phase::Draining { until_ms: 1100 }, Act::Nothing));
        assert_eq!(decide(phase, facts(1099, true, false, true), PATIENCE), (phase, Act::Nothing));
        let (phase, act) = decide(phase, facts(1100, true, false, true), PATIENCE);
        assert_eq!((phase, act), (Phase::Ending { until_ms: 1150 }, Act::Terminate));
        assert_eq!(decide(phase, facts(1149, true, false, true), PATIENCE), (phase, Act::Nothing));
        assert_eq!(decide(phase, facts(1149, true, true, false), PATIENCE).1, Act::Finish);
        let (phase, act) = decide(phase, facts(1150, true, false, true), PATIENCE);
        assert_eq!(act, Act::Kill);
        assert_eq!(decide(phase, facts(1151, true, false, true), PATIENCE), (phase, Act::Nothing));
        assert_eq!(decide(phase, facts(1170, true, false, true), PATIENCE).1, Act::Kill);
        assert_eq!(decide(phase, facts(1151, true, true, true), PATIENCE).1, Act::Finish);
    }

    #[test]
    fn a_foreign_holder_of_the_pipe_delays_by_the_drain_grace_only() {
        let phase = Phase::Draining { until_ms: 100 };
        assert_eq!(decide(phase, facts(99, true, true, false), PATIENCE), (phase, Act::Nothing));
        assert_eq!(decide(phase, facts(100, true, true, false), PATIENCE).1, Act::Finish);
    }

    #[test]
    fn leftovers_stay_when_they_may_and_nobody_ordered_otherwise() {
        let patience = Patience { leftovers: Leftovers::Keep, ..PATIENCE };
        let drained = Phase::Draining { until_ms: 100 };
        let facts = facts(100, true, false, true);
        assert_eq!(decide(drained, facts, patience), (Phase::Keeping, Act::Keep));
        assert_eq!(decide(Phase::Keeping, facts, patience), (Phase::Keeping, Act::Nothing));
        assert_eq!(
            decide(Phase::Keeping, Facts { childless: true, output_ended: false, ..facts }, patience).1,
            Act::Finish
        );
        // An order to stop takes the permission away.
        let ending = (Phase::Ending { until_ms: 150 }, Act::Terminate);
        assert_eq!([drained, Phase::Keeping].map(|phase| decide(phase, facts, PATIENCE)), [ending; 2]);
    }

    #[test]
    fn a_closed_pipe_alone_ends_nothing() {
        assert_eq!(decide(Phase::Running, facts(5, false, false, true), PATIENCE), (Phase::Running, Act::Nothing));
    }
}
