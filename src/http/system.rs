//! How the daemon is: for everybody without names, for members of a project with more.

use super::admit::Admitted;
use super::evidence::undecided;
use super::message::{Answer, Request};
use super::service::Api;
use super::wire::unavailable;
use crate::execution::board::WaitReason;
use crate::model::capability::Capability;
use crate::model::settings::Settings;
use crate::model::{command, limits, trigger, word};
use crate::store::StoreError;
use crate::store::runs::{CountRuns, RunCounts};
use serde_json::{Value, json};

/// What this version can do, as stable words.
const FEATURES: [&str; 14] = [
    "access",
    "audit",
    "run.cancel",
    "run.log.read",
    "run.resolve",
    "run.retry",
    "task.delete",
    "task.put",
    "task.retry",
    "task.start",
    "task.timeout",
    "trigger.boot",
    "trigger.cron",
    "trigger.run-finished",
];

/// `GET /api/health`, public:
/// `200 {status: "ok", runs: {queued, retryWait, active, lost}, undecided, waitReason: null | "capacity" | "pids" |
/// "memory" | "disk", clock: "trusted" | "untrusted", storage: "ok" | "failing"}`; `undecided` is how many runs nobody can decide, which makes
/// nobody unready. 503 `status_unavailable` when the store does not answer.
pub(super) fn health(api: &Api) -> Answer {
    match counts(api) {
        Ok(counts) => Answer::json(
            200,
            &json!({
                "status": "ok", "runs": runs(counts), "undecided": api.board.undecided_count(), "waitReason": wait_reason(api),
                "clock": clock(api), "storage": storage(api),
            }),
        ),
        Err(no) => no,
    }
}

/// `GET /api/v3/capabilities`, public: `200 {version, profile, auth: "bearer", features: [word],
/// specSchemas: [schema], budgets: {name: number}}`.
pub(super) fn capabilities(api: &Api) -> Answer {
    let l = api.settings.get().limits();
    Answer::json(
        200,
        &json!({
            "version": env!("CARGO_PKG_VERSION"),
            "profile": api.profile.word(),
            "auth": "bearer",
            "features": FEATURES,
            "specSchemas": [command::SCHEMA, trigger::CRON_SCHEMA, trigger::BOOT_SCHEMA, trigger::RUN_FINISHED_SCHEMA],
            "budgets": {
                "activeAttempts": l.active_attempts,
                "queuedRuns": l.queued_runs,
                "inFlightRequests": l.http_workers,
                "connections": l.connections,
                "attemptLogBytes": l.attempt_log_bytes,
                "logRangeBytes": l.log_range_bytes,
                "logRangeDefaultBytes": l.log_range_default_bytes,
                "responseBytes": limits::RESPONSE_BYTES_MAX,
                "mutationBodyBytes": limits::MUTATION_BODY_BYTES_MAX,
                "taskBodyBytes": limits::TASK_BODY_BYTES_MAX,
                "specBytes": limits::SPEC_BYTES_MAX,
                "pageItems": limits::PAGE_MAX,
            },
        }),
    )
}

/// `GET /api/v3/projects/{project}/status`, `project.read`: `200 {status: {version, profile,
/// uptimeMs, listen: "address:port" | null, runs: {queued, active, lost}, activeAttempts,
/// activeAttemptsMax, queuedRunsMax, waitReason, clock, storage, undecided: {count, runs: [{runId,
/// attemptId, reason, sinceMs}]}, machine: {can: [word], cannot: {word: why}}, allowedReads,
/// settings: {KEY: {value, from}}}}`; at most 64 undecided runs are listed. `listen` is the TCP address; null =
/// the socket in the state folder only. `allowedReads` counts since the start.
pub(super) fn status(api: &Api, _request: &Request, _who: &Admitted) -> Result<Answer, Answer> {
    let counts = counts(api)?;
    let settings = api.settings.get();
    let limits = settings.limits();
    Ok(Answer::json(
        200,
        &json!({"status": {
            "version": env!("CARGO_PKG_VERSION"),
            "profile": api.profile.word(),
            "uptimeMs": api.since.elapsed().as_millis() as u64,
            "listen": api.listen.get().map(ToString::to_string),
            "runs": runs(counts),
            "activeAttempts": api.board.active(),
            "activeAttemptsMax": limits.active_attempts,
            "queuedRunsMax": limits.queued_runs,
            "waitReason": wait_reason(api),
            "clock": clock(api),
            "storage": storage(api),
            "undecided": {
                "count": api.board.undecided_count(),
                "runs": api.board.undecided(limits::PAGE_MAX).iter().map(undecided).collect::<Vec<_>>(),
            },
            "machine": {
                "can": api.capabilities.present().map(Capability::word).collect::<Vec<_>>(),
                "cannot": Value::Object(
                    api.capabilities.missing().map(|(one, why)| (one.word().to_owned(), why.into())).collect(),
                ),
            },
            "allowedReads": api.allowed_reads(),
            "settings": shown(&settings),
        }}),
    ))
}

/// `{key: {value, from: "flag" | "file" | "profile" | "default"}}`
fn shown(settings: &Settings) -> Value {
    let all = settings.shown().into_iter();
    all.map(|(key, value, source)| (key.to_owned(), json!({"value": value, "from": source.word()}))).collect()
}

/// Whether the store could do what the engine asked it for last.
fn storage(api: &Api) -> &'static str {
    if api.board.store_is_failing() { "failing" } else { "ok" }
}

/// Whether schedules go by the wall clock.
fn clock(api: &Api) -> &'static str {
    if api.board.clock_is_untrusted() { "untrusted" } else { "trusted" }
}

fn counts(api: &Api) -> Result<RunCounts, Answer> {
    // To the public a broken store says no more than that it is broken.
    api.store.call(CountRuns).map_err(|e| match e {
        StoreError::Unavailable(_) => {
            Answer::refusal(word::STATUS_UNAVAILABLE, "the store does not answer; the daemon's log says why")
        }
        other => unavailable(word::STATUS_UNAVAILABLE, other, "the status could not be read"),
    })
}

fn runs(counts: RunCounts) -> Value {
    json!({"queued": counts.queued, "retryWait": counts.retry_wait, "active": counts.active, "lost": counts.lost})
}

fn wait_reason(api: &Api) -> Option<&'static str> {
    api.board.wait_reason().map(WaitReason::word)
}
