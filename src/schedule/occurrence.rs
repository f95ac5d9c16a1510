//! What becomes of a schedule that is due: pure, so that every clock a board can have is a test
//! (spec/execution section 11, design D10). A backlog is never replayed: whatever was missed, one
//! instant at most is decided, and then comes the first one after now.

use crate::model::trigger::Misfire;

/// A schedule that is due, and the clock.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// When it was due; 0: still to be computed.
    pub due_ms: i64,
    /// The wall clock.
    pub now_ms: i64,
    /// By so much it may be late and is on time all the same.
    pub grace_ms: i64,
    /// What becomes of it when it is later.
    pub misfire: Misfire,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The instant that is decided, if one is.
    pub scheduled_for_ms: Option<i64>,
    /// Why it makes no run, if it makes none.
    pub skip: Option<&'static str>,
    /// When it is due next; `None`: never again.
    pub next_ms: Option<i64>,
}

/// Decides. `next_after` answers the first instant strictly after the one it is given.
pub fn decide(standing: Standing, next_after: impl Fn(i64) -> Option<i64>) -> Decision {
    let Standing { due_ms, now_ms, grace_ms, misfire } = standing;
    if due_ms == 0 {
        return Decision { scheduled_for_ms: None, skip: None, next_ms: next_after(now_ms) };
    }
    if due_ms > now_ms {
        return Decision { scheduled_for_ms: None, skip: None, next_ms: Some(due_ms) };
    }
    let late = now_ms.saturating_sub(due_ms) > grace_ms;
    let skip = (late && misfire == Misfire::Skip).then_some("misfire");
    Decision { scheduled_for_ms: Some(due_ms), skip, next_ms: next_after(now_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    fn every_minute(after_ms: i64) -> Option<i64> {
        (after_ms.div_euclid(MINUTE_MS) + 1).checked_mul(MINUTE_MS)
    }

    fn at(due_ms: i64, now_ms: i64, misfire: Misfire) -> (Option<i64>, Option<&'static str>, Option<i64>) {
        let decision = decide(Standing { due_ms, now_ms, grace_ms: 30_000, misfire }, every_minute);
        (decision.scheduled_for_ms, decision.skip, decision.next_ms)
    }

    #[test]
    fn misfire_skip_and_fire_once() {
        for misfire in [Misfire::Skip, Misfire::FireOnce] {
            assert_eq!(at(0, 61_000, misfire), (None, None, Some(120_000)), "computed only");
            assert_eq!(at(60_000, 60_000, misfire), (Some(60_000), None, Some(120_000)));
            assert_eq!(at(60_000, 90_000, misfire), (Some(60_000), None, Some(120_000)), "within the grace");
            assert_eq!(at(120_000, 60_000, misfire), (None, None, Some(120_000)), "not yet");
        }
        let hours = 60_000 + 5 * 3_600_000;
        assert_eq!(at(60_000, hours, Misfire::Skip), (Some(60_000), Some("misfire"), Some(hours + MINUTE_MS)));
        assert_eq!(at(60_000, hours, Misfire::FireOnce), (Some(60_000), None, Some(hours + MINUTE_MS)));
    }

    #[test]
    fn sixty_years_are_one_decision() {
        let later = 60_000 + 60 * 365 * 86_400_000;
        assert_eq!(at(60_000, later, Misfire::FireOnce), (Some(60_000), None, Some(later + MINUTE_MS)));
    }

    #[test]
    fn an_expression_that_never_comes_again_ends() {
        let standing = Standing { due_ms: 5, now_ms: 5, grace_ms: 0, misfire: Misfire::Skip };
        let decision = decide(standing, |_| None);
        assert_eq!((decision.scheduled_for_ms, decision.next_ms), (Some(5), None));
    }
}
