//! When a Run is tried again by itself (design D14, spec/execution section 1.4). The policy is part of
//! the definition, so it is frozen with the revision that a Run was admitted with.

use super::life::AttemptState;
use super::limits;
use serde_json::{Map, Value, json};

/// How a Run is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first included.
    pub attempts_max: i64,
    /// Before the second Attempt.
    pub delay_ms: i64,
    /// How later delays compare with the first.
    pub backoff: Backoff,
    /// The ends after which it is tried again, in the order of [`Ending::ALL`].
    pub on: Vec<Ending>,
    /// The task says that running it twice does no harm; without that a lost Attempt is never
    /// followed by another, because nobody can say that the first did not do its work.
    pub idempotent: bool,
}

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// All alike.
    Fixed,
    /// Each twice the one before, up to [`limits::RETRY_DELAY_MS_MAX`].
    Exponential,
}

/// An end that may be followed by another Attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A non-zero exit, a signal, or a start that failed.
    Failed,
    /// Its time was up.
    TimedOut,
    /// Nobody can say how it ended.
    Lost,
}

impl Ending {
    /// Every one, in canonical order.
    pub const ALL: [Self; 3] = [Self::Failed, Self::TimedOut, Self::Lost];

    /// The word of a definition, the same as the Attempt's state.
    pub const fn word(self) -> &'static str {
        self.state().word()
    }

    const fn state(self) -> AttemptState {
        match self {
            Self::Failed => AttemptState::Failed,
            Self::TimedOut => AttemptState::TimedOut,
            Self::Lost => AttemptState::Lost,
        }
    }
}

const FIELDS: [&str; 5] = ["maxAttempts", "delayMs", "backoff", "on", "safety"];

type Refused = (String, String);

impl Retry {
    /// Reads the object of a definition. The error is the field's path and the rule it breaks.
    pub fn read(value: &Value) -> Result<Self, Refused> {
        let refuse = |field: &str, why: &str| Err((format!("retry{field}"), why.to_owned()));
        let Some(object) = value.as_object() else { return refuse("", "must be an object") };
        if let Some(key) = object.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            return refuse(&format!(".{key}"), &format!("unknown field; there are {}", FIELDS.join(", ")));
        }
        let number = |field: &str, least: i64, most: i64| match object.get(field).map(Value::as_i64) {
            None => Ok(None),
            Some(Some(number)) if (least..=most).contains(&number) => Ok(Some(number)),
            Some(_) => Err((format!("retry.{field}"), format!("must be a whole number from {least} to {most}"))),
        };
        let Some(attempts_max) = number("maxAttempts", 1, limits::ATTEMPTS_MAX)? else {
            return refuse(".maxAttempts", "must be given: attempts in all, the first included");
        };
        let idempotent = match object.get("safety").map(Value::as_str) {
            None | Some(Some("unknown")) => false,
            Some(Some("idempotent")) => true,
            Some(_) => return refuse(".safety", "must be \"unknown\" or \"idempotent\""),
        };
        let backoff = match object.get("backoff").map(Value::as_str) {
            None | Some(Some("exponential")) => Backoff::Exponential,
            Some(Some("fixed")) => Backoff::Fixed,
            Some(_) => return refuse(".backoff", "must be \"fixed\" or \"exponential\""),
        };
        let delay_ms = number("delayMs", 0, limits::RETRY_DELAY_MS_MAX)?.unwrap_or(limits::RETRY_DELAY_MS_DEFAULT);
        let on = endings(object)?;
        if on.contains(&Ending::Lost) && !idempotent {
            let why = "\"lost\" needs safety \"idempotent\": a lost run may have done its work already";
            return refuse(".on", why);
        }
        Ok(Self { attempts_max, delay_ms, backoff, on, idempotent })
    }

    /// The canonical object: every field, defaults filled in.
    pub fn to_value(&self) -> Value {
        let on: Vec<&str> = self.on.iter().map(|ending| ending.word()).collect();
        json!({
            "maxAttempts": self.attempts_max,
            "delayMs": self.delay_ms,
            "backoff": if self.backoff == Backoff::Fixed { "fixed" } else { "exponential" },
            "on": on,
            "safety": if self.idempotent { "idempotent" } else { "unknown" },
        })
    }

    /// How long to wait before another Attempt after Attempt `number` (1, 2, ...) ended so. `None`:
    /// there is none. `unproven` says that something of a lost Attempt may still be running, which
    /// no promise of the task makes harmless.
    pub fn delay_after(&self, number: i64, ended: AttemptState, unproven: bool) -> Option<i64> {
        let wanted = self.on.iter().any(|ending| ending.state() == ended);
        let harmless = ended != AttemptState::Lost || (self.idempotent && !unproven);
        if !wanted || !harmless || number >= self.attempts_max {
            return None;
        }
        let doublings = match self.backoff {
            Backoff::Fixed => 0,
            Backoff::Exponential => u32::try_from((number - 1).clamp(0, 20)).unwrap_or(0),
        };
        Some(self.delay_ms.saturating_mul(1 << doublings).min(limits::RETRY_DELAY_MS_MAX))
    }
}

fn endings(object: &Map<String, Value>) -> Result<Vec<Ending>, Refused> {
    let refused = || {
        let words = Ending::ALL.map(Ending::word).join(", ");
        ("retry.on".to_owned(), format!("must be a list of at least one of {words}, none twice"))
    };
    let Some(value) = object.get("on") else { return Ok(vec![Ending::Failed, Ending::TimedOut]) };
    let words = value.as_array().ok_or_else(refused)?;
    let on: Vec<Ending> = Ending::ALL.into_iter().filter(|e| words.iter().any(|word| word == e.word())).collect();
    if on.is_empty() || on.len() != words.len() {
        return Err(refused());
    }
    Ok(on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Retry {
        Retry::read(value).unwrap_or_else(|(field, why)| panic!("{field}: {why}"))
    }

    #[test]
    fn the_canonical_form_reads_back_and_has_every_default() {
        let short = read(&json!({"maxAttempts": 3}));
        assert_eq!(
            short.to_value(),
            json!({"maxAttempts": 3, "delayMs": 1000, "backoff": "exponential", "on": ["failed", "timed_out"],
                "safety": "unknown"})
        );
        let full = json!({"maxAttempts": 10, "delayMs": 0, "backoff": "fixed", "on": ["failed", "lost"],
            "safety": "idempotent"});
        assert_eq!(read(&full).to_value(), full);
        let mixed = json!({"maxAttempts": 10, "delayMs": 0, "backoff": "fixed", "on": ["lost", "failed"],
            "safety": "idempotent"});
        assert_eq!(read(&mixed).to_value(), full, "one canonical order");
    }

    #[test]
    fn every_rule_is_named() {
        for (value, field) in [
            (json!(3), "retry"),
            (json!({}), "retry.maxAttempts"),
            (json!({"maxAttempts": 0}), "retry.maxAttempts"),
            (json!({"maxAttempts": 11}), "retry.maxAttempts"),
            (json!({"maxAttempts": 2, "delayMs": -1}), "retry.delayMs"),
            (json!({"maxAttempts": 2, "delayMs": 86_400_001}), "retry.delayMs"),
            (json!({"maxAttempts": 2, "backoff": "linear"}), "retry.backoff"),
            (json!({"maxAttempts": 2, "on": []}), "retry.on"),
            (json!({"maxAttempts": 2, "on": ["failed", "failed"]}), "retry.on"),
            (json!({"maxAttempts": 2, "on": ["succeeded"]}), "retry.on"),
            (json!({"maxAttempts": 2, "on": "failed"}), "retry.on"),
            (json!({"maxAttempts": 2, "on": ["lost"]}), "retry.on"),
            (json!({"maxAttempts": 2, "safety": "sure"}), "retry.safety"),
            (json!({"maxAttempts": 2, "delay": 5}), "retry.delay"),
        ] {
            assert_eq!(Retry::read(&value).map_err(|(field, _)| field), Err(field.to_owned()), "{value}");
        }
    }

    #[test]
    fn delays_grow_up_to_their_cap_and_end_with_the_last_attempt() {
        let grows = read(&json!({"maxAttempts": 10, "delayMs": 1000}));
        let delay = |number| grows.delay_after(number, AttemptState::Failed, false);
        assert_eq!([1, 2, 3, 9].map(delay), [Some(1000), Some(2000), Some(4000), Some(256_000)]);
        assert_eq!(delay(10), None);
        let long = read(&json!({"maxAttempts": 10, "delayMs": 80_000_000}));
        assert_eq!(long.delay_after(5, AttemptState::TimedOut, false), Some(limits::RETRY_DELAY_MS_MAX));
        let fixed = read(&json!({"maxAttempts": 10, "delayMs": 7, "backoff": "fixed"}));
        assert_eq!(fixed.delay_after(9, AttemptState::Failed, false), Some(7));
    }

    #[test]
    fn only_what_is_asked_for_and_harmless_is_tried_again() {
        let policy = read(&json!({"maxAttempts": 3, "on": ["lost"], "safety": "idempotent"}));
        assert!(policy.delay_after(1, AttemptState::Lost, false).is_some());
        assert!(policy.delay_after(1, AttemptState::Lost, true).is_none(), "something may still run");
        for ended in [AttemptState::Failed, AttemptState::TimedOut, AttemptState::Cancelled, AttemptState::Succeeded] {
            assert!(policy.delay_after(1, ended, false).is_none(), "{ended:?}");
        }
    }
}
