//! The lives of a Run and of an Attempt as total tables: state x move -> next state, or a refusal.
//!
//! HTTP, timers, the reaper and recovery only produce moves; whether one is legal is decided here
//! and nowhere else (design D1, spec/execution section 1). A table that does not fill does not
//! compile, so no pair can be forgotten.

macro_rules! states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of the table's rows or columns.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The lower-case word that is stored and shown.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// Reads the stored word.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

states! {
    /// Where a Run is. `Lost` is not terminal: it must still be settled.
    RunState {
        /// Made, not yet queued; never visible, because admission writes both at once.
        Created = "created",
        /// Waiting for a place.
        Queued = "queued",
        /// An Attempt has the authority to start it.
        Dispatching = "dispatching",
        /// User code may be running.
        Running = "running",
        /// Waiting for a person.
        WaitingApproval = "waiting_approval",
        /// Waiting for its next Attempt.
        RetryWait = "retry_wait",
        /// Nobody can say how it ended.
        Lost = "lost",
        /// Ended with exit code 0.
        Succeeded = "succeeded",
        /// Ended otherwise, or could not start.
        Failed = "failed",
        /// Ended because somebody asked.
        Cancelled = "cancelled",
        /// Ended because its time was up.
        TimedOut = "timed_out",
    }
}

states! {
    /// What can happen to a Run.
    RunMove {
        /// Put in the queue.
        Queue = "queue",
        /// Given to an Attempt.
        Dispatch = "dispatch",
        /// Owned by a live process.
        Run = "run",
        /// Held for a person.
        AwaitApproval = "await_approval",
        /// Held for another Attempt.
        AwaitRetry = "await_retry",
        /// Ended well.
        Succeed = "succeed",
        /// Ended badly.
        Fail = "fail",
        /// Ended on request.
        Cancel = "cancel",
        /// Ended by its timeout.
        TimeOut = "time_out",
        /// Lost sight of.
        Lose = "lose",
    }
}

states! {
    /// Where an Attempt is. Everything from `Succeeded` on is terminal, `Lost` included.
    AttemptState {
        /// Has a Run, has done nothing.
        Claimed = "claimed",
        /// Holds the authority to start one process.
        Starting = "starting",
        /// Owns a live process.
        Running = "running",
        /// Exit code 0.
        Succeeded = "succeeded",
        /// Any other end, or no start.
        Failed = "failed",
        /// Stopped on request.
        Cancelled = "cancelled",
        /// Stopped by its timeout.
        TimedOut = "timed_out",
        /// Gone without a receipt.
        Lost = "lost",
    }
}

states! {
    /// What can happen to an Attempt.
    AttemptMove {
        /// Given the authority to start.
        Start = "start",
        /// Owned by a live process.
        Run = "run",
        /// Ended well.
        Succeed = "succeed",
        /// Ended badly.
        Fail = "fail",
        /// Ended on request.
        Cancel = "cancel",
        /// Ended by its timeout.
        TimeOut = "time_out",
        /// Lost sight of.
        Lose = "lose",
    }
}

type RunRow = [Option<RunState>; RunMove::ALL.len()];
type AttemptRow = [Option<AttemptState>; AttemptMove::ALL.len()];

const NO: Option<RunState> = None;
const NONE: Option<AttemptState> = None;
const QUEUED: Option<RunState> = Some(RunState::Queued);
const DISPATCHING: Option<RunState> = Some(RunState::Dispatching);
const RUNNING: Option<RunState> = Some(RunState::Running);
const APPROVAL: Option<RunState> = Some(RunState::WaitingApproval);
const RETRY: Option<RunState> = Some(RunState::RetryWait);
const LOST: Option<RunState> = Some(RunState::Lost);
const SUCCEEDED: Option<RunState> = Some(RunState::Succeeded);
const FAILED: Option<RunState> = Some(RunState::Failed);
const CANCELLED: Option<RunState> = Some(RunState::Cancelled);
const TIMED_OUT: Option<RunState> = Some(RunState::TimedOut);

/// spec/execution section 1.1 with design D1's additions: lost -> `retry_wait`, dispatching -> `timed_out`.
#[rustfmt::skip]
const RUN_LIFE: [RunRow; RunState::ALL.len()] = [
    //                   queue   dispatch     run      approval  retry  succeed    fail    cancel     time_out   lose
    /* created */       [QUEUED, NO,          NO,      NO,       NO,    NO,        NO,     CANCELLED, NO,        NO],
    /* queued */        [NO,     DISPATCHING, NO,      NO,       NO,    NO,        NO,     CANCELLED, TIMED_OUT, NO],
    /* dispatching */   [NO,     NO,          RUNNING, NO,       RETRY, NO,        FAILED, CANCELLED, TIMED_OUT, LOST],
    /* running */       [NO,     NO,          NO,      APPROVAL, RETRY, SUCCEEDED, FAILED, CANCELLED, TIMED_OUT, LOST],
    /* approval */      [NO,     NO,          RUNNING, NO,       NO,    NO,        NO,     CANCELLED, TIMED_OUT, NO],
    /* retry_wait */    [QUEUED, NO,          NO,      NO,       NO,    NO,        NO,     CANCELLED, TIMED_OUT, NO],
    /* lost */          [QUEUED, NO,          NO,      NO,       RETRY, NO,        FAILED, CANCELLED, NO,        NO],
    /* succeeded */     [NO; 10],
    /* failed */        [NO; 10],
    /* cancelled */     [NO; 10],
    /* timed_out */     [NO; 10],
];

/// spec/execution section 1.2 with design D1's addition: starting -> `timed_out`.
#[rustfmt::skip]
const ATTEMPT_LIFE: [AttemptRow; AttemptState::ALL.len()] = {
    use AttemptState as S;
    [
        //              start              run               succeed             fail             cancel             time_out           lose
        /* claimed */  [Some(S::Starting), NONE,             NONE,               NONE,            Some(S::Cancelled), NONE,             Some(S::Lost)],
        /* starting */ [NONE,              Some(S::Running), NONE,               Some(S::Failed), Some(S::Cancelled), Some(S::TimedOut), Some(S::Lost)],
        /* running */  [NONE,              NONE,             Some(S::Succeeded), Some(S::Failed), Some(S::Cancelled), Some(S::TimedOut), Some(S::Lost)],
        /* succeeded */[NONE; 7],
        /* failed */   [NONE; 7],
        /* cancelled */[NONE; 7],
        /* timed_out */[NONE; 7],
        /* lost */     [NONE; 7],
    ]
};

impl RunState {
    /// Where `step` leads from here, or `None` when it is refused.
    pub const fn after(self, step: RunMove) -> Option<Self> {
        RUN_LIFE[self as usize][step as usize]
    }

    /// Whether nothing can happen any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled | Self::TimedOut)
    }
}

impl AttemptState {
    /// Where `step` leads from here, or `None` when it is refused.
    pub const fn after(self, step: AttemptMove) -> Option<Self> {
        ATTEMPT_LIFE[self as usize][step as usize]
    }

    /// Claimed, starting or running (spec/execution section 1.2).
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Claimed | Self::Starting | Self::Running)
    }
}

/// How an Attempt ended, when it did and somebody can say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Exit code 0 and nobody asked it to end.
    Succeeded,
    /// Any other exit.
    Failed,
    /// A cancel intent was there first.
    Cancelled,
    /// A timeout intent was there first.
    TimedOut,
}

impl Outcome {
    /// The Run's move that records it.
    pub const fn run_move(self) -> RunMove {
        match self {
            Self::Succeeded => RunMove::Succeed,
            Self::Failed => RunMove::Fail,
            Self::Cancelled => RunMove::Cancel,
            Self::TimedOut => RunMove::TimeOut,
        }
    }

    /// The Attempt's move that records it.
    pub const fn attempt_move(self) -> AttemptMove {
        match self {
            Self::Succeeded => AttemptMove::Succeed,
            Self::Failed => AttemptMove::Fail,
            Self::Cancelled => AttemptMove::Cancel,
            Self::TimedOut => AttemptMove::TimeOut,
        }
    }
}

/// What ended an Attempt: spec/execution section 8.2. An intent that was committed first decides,
/// whatever the exit code says; without one the exit code decides.
pub fn outcome(exit_code: i32, cancel_reason: Option<CancelReason>) -> Outcome {
    match cancel_reason {
        Some(CancelReason::Timeout) => Outcome::TimedOut,
        Some(_) => Outcome::Cancelled,
        None if exit_code == 0 => Outcome::Succeeded,
        None => Outcome::Failed,
    }
}

states! {
    /// Who or what asked a Run to end (S03 section 7).
    CancelReason {
        /// A person or a program with a credential.
        User = "user",
        /// The task was deleted or disabled.
        Policy = "policy",
        /// The daemon is stopping and was told to end its tasks.
        Shutdown = "shutdown",
        /// Recovery found it to be settled.
        Reconcile = "reconcile",
        /// Its time was up.
        Timeout = "timeout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_states_never_change() {
        for state in RunState::ALL.iter().filter(|s| s.is_terminal()) {
            assert!(RunMove::ALL.iter().all(|&m| state.after(m).is_none()), "{state:?}");
        }
        for state in AttemptState::ALL.iter().filter(|s| !s.is_active()) {
            assert!(AttemptMove::ALL.iter().all(|&m| state.after(m).is_none()), "{state:?}");
        }
    }

    /// The pairs of spec/execution 1.1 and 1.2 and of design D1, written out as they stand there.
    #[test]
    fn the_tables_allow_exactly_what_the_records_allow() {
        let run = |from: RunState| -> Vec<&str> {
            RunMove::ALL.iter().filter_map(|&m| from.after(m)).map(RunState::word).collect()
        };
        let want: &[(RunState, &[&str])] = &[
            (RunState::Created, &["queued", "cancelled"]),
            (RunState::Queued, &["dispatching", "cancelled", "timed_out"]),
            (RunState::Dispatching, &["running", "retry_wait", "failed", "cancelled", "timed_out", "lost"]),
            (
                RunState::Running,
                &["waiting_approval", "retry_wait", "succeeded", "failed", "cancelled", "timed_out", "lost"],
            ),
            (RunState::WaitingApproval, &["running", "cancelled", "timed_out"]),
            (RunState::RetryWait, &["queued", "cancelled", "timed_out"]),
            (RunState::Lost, &["queued", "retry_wait", "failed", "cancelled"]),
        ];
        for (from, to) in want {
            assert_eq!(&run(*from), to, "{from:?}");
        }
        let attempt = |from: AttemptState| -> Vec<&str> {
            AttemptMove::ALL.iter().filter_map(|&m| from.after(m)).map(AttemptState::word).collect()
        };
        assert_eq!(attempt(AttemptState::Claimed), ["starting", "cancelled", "lost"]);
        assert_eq!(attempt(AttemptState::Starting), ["running", "failed", "cancelled", "timed_out", "lost"]);
        assert_eq!(attempt(AttemptState::Running), ["succeeded", "failed", "cancelled", "timed_out", "lost"]);
    }

    #[test]
    fn a_committed_intent_beats_every_exit_code() {
        for code in [0, 1, 137] {
            assert_eq!(outcome(code, Some(CancelReason::Timeout)), Outcome::TimedOut);
            for &reason in CancelReason::ALL.iter().filter(|r| **r != CancelReason::Timeout) {
                assert_eq!(outcome(code, Some(reason)), Outcome::Cancelled);
            }
        }
        assert_eq!(outcome(0, None), Outcome::Succeeded);
        assert_eq!(outcome(1, None), Outcome::Failed);
    }

    #[test]
    fn every_word_reads_back() {
        assert!(RunState::ALL.iter().all(|s| RunState::parse(s.word()) == Some(*s)));
        assert!(AttemptState::ALL.iter().all(|s| AttemptState::parse(s.word()) == Some(*s)));
        assert!(CancelReason::ALL.iter().all(|s| CancelReason::parse(s.word()) == Some(*s)));
    }
}
