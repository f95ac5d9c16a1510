//! Facts about a Run, appended and never changed, each with an actor (spec/execution section 1.5).

use super::life::{AttemptState, RunState};
use super::policy::Subject;
use std::fmt;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventType {
    /// The Run came to this state.
    Run(RunState),
    /// One of its Attempts came to this state.
    Attempt(AttemptState),
    /// Somebody asked the Run to end; its state is as it was.
    CancelRequested,
    /// Recovery proved that its process lives.
    Reconciled,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(state) => write!(f, "run.{}", state.word()),
            Self::Attempt(state) => write!(f, "attempt.{}", state.word()),
            Self::CancelRequested => f.write_str("run.cancel_requested"),
            Self::Reconciled => f.write_str("run.reconciled"),
        }
    }
}

impl EventType {
    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "run.cancel_requested" => return Some(Self::CancelRequested),
            "run.reconciled" => return Some(Self::Reconciled),
            _ => {}
        }
        let (aggregate, state) = text.split_once('.')?;
        match aggregate {
            "run" => RunState::parse(state).map(Self::Run),
            "attempt" => AttemptState::parse(state).map(Self::Attempt),
            _ => None,
        }
    }
}

/// Who or what made it happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Actor {
    /// An authenticated subject.
    Subject(Subject),
    /// The runtime itself, by its own rules.
    System,
    /// The process side, reporting a fact.
    Executor,
    /// Start-up recovery.
    Reconciler,
    /// A schedule that came due.
    Scheduler,
}

impl Actor {
    /// The stored type word (spec/execution section 1.5).
    pub fn type_word(&self) -> &'static str {
        match self {
            Self::Subject(subject) => subject.kind.word(),
            Self::System => "system",
            Self::Executor => "executor",
            Self::Reconciler => "reconciler",
            Self::Scheduler => "scheduler",
        }
    }

    /// The stored id: a subject has one, the runtime's own parts do not.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Subject(subject) => Some(&subject.id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_word_reads_back() {
        let mut all = vec![EventType::CancelRequested, EventType::Reconciled];
        all.extend(RunState::ALL.iter().map(|&s| EventType::Run(s)));
        all.extend(AttemptState::ALL.iter().map(|&s| EventType::Attempt(s)));
        for event in all {
            assert_eq!(EventType::parse(&event.to_string()), Some(event));
        }
        assert_eq!(EventType::parse("run.exploded"), None);
    }
}
