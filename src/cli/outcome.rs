//! How a Run ended, in a sentence.

use super::table::printable;
use crate::model::life::RunState;
use crate::model::word::{
    EXECUTOR_CAPABILITY_UNAVAILABLE, EXECUTOR_START_FAILED, EXITED_WITHOUT_RECEIPT, LOST_RETRY_DISABLED, OUT_OF_MEMORY,
    OWNERSHIP_NOT_STORED, RESOLVED_LOST, RUN_AS_UNKNOWN,
};
use serde_json::Value;

/// Whether nothing more is to be waited for. A lost Run is not terminal, but nobody can say when it
/// will be settled.
pub fn is_over(run: &Value) -> bool {
    let state = run["status"].as_str().and_then(RunState::parse);
    state.is_some_and(|state| state.is_terminal() || state == RunState::Lost)
}

/// Whether it did what it should.
pub fn succeeded(run: &Value) -> bool {
    run["status"] == RunState::Succeeded.word()
}

/// A sentence about the Run as it is, without its id.
pub fn sentence(run: &Value) -> String {
    let attempt = &run["latestAttempt"];
    let code = run["errorCode"].as_str().or_else(|| attempt["errorCode"].as_str()).unwrap_or("");
    match run["status"].as_str().and_then(RunState::parse) {
        Some(RunState::Succeeded) => format!("succeeded with exit code 0{}{}", part(attempt), leftovers(attempt)),
        Some(RunState::Failed) if code == EXECUTOR_START_FAILED => match summary(attempt) {
            Some(why) => format!("failed to start: {why}"),
            None => "failed to start".into(),
        },
        Some(RunState::Failed) if matches!(code, EXECUTOR_CAPABILITY_UNAVAILABLE | RUN_AS_UNKNOWN) => {
            format!("was not started: {}", summary(attempt).unwrap_or_else(|| code.to_owned()))
        }
        Some(RunState::Failed) if code == LOST_RETRY_DISABLED => {
            "was lost, and is counted as failed by now: nobody can say how it ended".into()
        }
        Some(RunState::Failed) => format!("failed{}{}", exit(attempt, code), leftovers(attempt)),
        Some(RunState::Cancelled) => match run["cancelReason"].as_str() {
            Some("policy") => "was cancelled, because its task was disabled or deleted".into(),
            Some("shutdown") => "was cancelled, because the daemon was told to end its tasks".into(),
            _ => format!("was cancelled{}", exit(attempt, "")),
        },
        Some(RunState::TimedOut) => "was ended, because its time was up".into(),
        Some(RunState::Lost) => match code {
            EXITED_WITHOUT_RECEIPT if attempt["createdAtMs"].is_i64() && attempt["startedAtMs"].is_null() => {
                "is lost: its start was cut off before anything of it ran".into()
            }
            EXITED_WITHOUT_RECEIPT => "is lost: its process is gone and left no word of how it ended".into(),
            RESOLVED_LOST => "is lost: nobody could say how it stands, and somebody called it lost".into(),
            OWNERSHIP_NOT_STORED => "is lost: it was stopped at once, because its start could not be stored".into(),
            "" => "is lost: nobody can say how it ended".into(),
            code => format!("is lost: nobody can say how it ended ({})", printable(code)),
        },
        Some(RunState::Created | RunState::Queued) => match run["waitReason"].as_str() {
            Some("capacity") => "waits for a place: as many runs as allowed are active".into(),
            Some("pids") => "waits: too few process ids are free".into(),
            Some("memory") => "waits: too little memory is free".into(),
            Some("disk") => "waits: too little space is free".into(),
            _ => "waits to be started".into(),
        },
        Some(RunState::Running | RunState::Dispatching) if run["undecided"].is_string() => {
            format!(
                "is in doubt ({}); `qinglet check RUN` shows what is known",
                printable(&super::cell::cell(&run["undecided"]))
            )
        }
        Some(RunState::Dispatching) => "is being started".into(),
        Some(RunState::Running) => "is running".into(),
        Some(RunState::WaitingApproval) => "waits for a person's approval".into(),
        Some(RunState::RetryWait) => {
            format!("waits to be tried again; attempt {} {}", attempt["number"], attempt_ended(attempt))
        }
        None => format!("is in a state this version does not know: {}", printable(&super::cell::cell(&run["status"]))),
    }
}

/// How an Attempt ended that another is to follow.
fn attempt_ended(attempt: &Value) -> String {
    let code = attempt["errorCode"].as_str().unwrap_or("");
    match attempt["status"].as_str() {
        Some("timed_out") => "was ended, because its time was up".into(),
        Some("lost") => "is lost".into(),
        _ => format!("failed{}", exit(attempt, code)),
    }
}

fn summary(attempt: &Value) -> Option<String> {
    attempt["errorSummary"].as_str().filter(|text| !text.is_empty()).map(printable)
}

/// What the out-of-memory killer took of a task whose main process went on.
fn part(attempt: &Value) -> String {
    match summary(attempt).filter(|_| attempt["errorCode"] == OUT_OF_MEMORY) {
        Some(why) => format!("; part of it was killed: {why}"),
        None => String::new(),
    }
}

fn exit(attempt: &Value, code: &str) -> String {
    match (attempt["signal"].as_i64(), attempt["exitCode"].as_i64()) {
        (Some(9), _) if attempt["errorCode"] == OUT_OF_MEMORY => {
            format!(": killed: {}", summary(attempt).unwrap_or_else(|| "out of memory".into()))
        }
        (None, Some(exit)) if attempt["errorCode"] == OUT_OF_MEMORY => {
            format!(" with exit code {exit}{}", part(attempt))
        }
        (Some(signal), _) => format!(": signal {signal}{} ended it", signal_name(signal)),
        (None, Some(exit)) => format!(" with exit code {exit}"),
        (None, None) => match (summary(attempt), code) {
            (Some(why), _) => format!(": {why}"),
            (None, "") => String::new(),
            (None, code) => format!(" ({})", printable(code)),
        },
    }
}

fn leftovers(attempt: &Value) -> String {
    match attempt["leftovers"].as_i64() {
        None | Some(0) => String::new(),
        Some(1) => "; 1 process was left behind".into(),
        Some(count) => format!("; {count} processes were left behind"),
    }
}

/// The signal's name in brackets, for those that are the same on every Linux (signal(7)).
pub fn signal_name(signal: i64) -> &'static str {
    match signal {
        1 => " (HUP)",
        2 => " (INT)",
        3 => " (QUIT)",
        4 => " (ILL)",
        5 => " (TRAP)",
        6 => " (ABRT)",
        8 => " (FPE)",
        9 => " (KILL)",
        11 => " (SEGV)",
        13 => " (PIPE)",
        14 => " (ALRM)",
        15 => " (TERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_end_has_its_own_words() {
        for (run, want) in [
            (json!({"status": "succeeded", "latestAttempt": {"exitCode": 0}}), "succeeded with exit code 0"),
            (
                json!({"status": "failed", "latestAttempt": {"exitCode": 137, "signal": null}}),
                "failed with exit code 137",
            ),
            (
                json!({"status": "failed", "latestAttempt": {"exitCode": 137, "signal": 9}}),
                "failed: signal 9 (KILL) ended it",
            ),
            (
                json!({"status": "failed", "latestAttempt": {"exitCode": 137, "signal": 9, "errorCode": "OUT_OF_MEMORY",
                       "errorSummary": "out of memory, its limit was 8 MiB"}}),
                "failed: killed: out of memory, its limit was 8 MiB",
            ),
            (
                json!({"status": "failed", "latestAttempt": {"exitCode": 137, "errorCode": "OUT_OF_MEMORY",
                       "errorSummary": "out of memory, its limit was 8 MiB"}}),
                "failed with exit code 137; part of it was killed: out of memory, its limit was 8 MiB",
            ),
            (
                json!({"status": "failed", "errorCode": "EXECUTOR_CAPABILITY_UNAVAILABLE", "latestAttempt":
                       {"errorSummary": "the task needs pids-limit, which is missing here: no"}}),
                "was not started: the task needs pids-limit, which is missing here: no",
            ),
            (
                json!({"status": "failed", "errorCode": "EXECUTOR_START_FAILED",
                       "latestAttempt": {"errorSummary": "the program does not exist"}}),
                "failed to start: the program does not exist",
            ),
            (
                json!({"status": "succeeded", "latestAttempt": {"exitCode": 0, "leftovers": 2}}),
                "succeeded with exit code 0; 2 processes were left behind",
            ),
            (
                json!({"status": "lost", "errorCode": "RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT"}),
                "is lost: its process is gone and left no word of how it ended",
            ),
            (
                json!({"status": "lost", "errorCode": "RECOVERY_PROCESS_EXITED_WITHOUT_RECEIPT",
                       "latestAttempt": {"createdAtMs": 1, "startedAtMs": null}}),
                "is lost: its start was cut off before anything of it ran",
            ),
            (json!({"status": "queued", "waitReason": "pids"}), "waits: too few process ids are free"),
            (json!({"status": "odd\u{1b}"}), "is in a state this version does not know: odd\\u{1b}"),
        ] {
            assert_eq!(sentence(&run), want);
        }
    }

    #[test]
    fn waiting_ends_with_a_terminal_or_lost_run_only() {
        for state in RunState::ALL {
            let want = state.is_terminal() || *state == RunState::Lost;
            assert_eq!(is_over(&json!({"status": state.word()})), want, "{state:?}");
        }
    }
}
