//! What must hold whenever the daemon is dead, and what must hold once everything is over.

use super::marks::{Mark, Marks};
use super::snapshot::{Attempt, Run, Snapshot};
use super::tasks::Kind;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Everything there is to compare.
pub struct Facts<'a> {
    /// The store now.
    pub now: &'a Snapshot,
    /// The store when it was looked at before.
    pub before: &'a Snapshot,
    /// What user code said.
    pub marks: &'a Marks,
    /// Runs that may be lost although they ran, because their supervisors were killed.
    pub excused: &'a BTreeSet<String>,
    /// Runs that have live processes.
    pub alive: &'a BTreeSet<String>,
    /// Runs whose start was answered.
    pub started: &'a [(String, String)],
    /// Runs whose cancellation was answered.
    pub cancelled: &'a [String],
    /// The state folder.
    pub state: &'a Path,
}

/// What is wrong after any kill.
pub fn after_a_kill(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong: Vec<String> = facts.now.damage.clone();
    if facts.now.stray_journal > 0 {
        wrong.push(format!("{} rows of the receipt journal are nobody's", facts.now.stray_journal));
    }
    for run in facts.now.runs.values() {
        let mut say = |what: &str| wrong.push(format!("{what}: {run:?}"));
        sequence(run, &mut say);
        whole(run, &mut say);
        for attempt in &run.attempts {
            let mark = facts.marks.get(&(run.id.clone(), attempt.number)).cloned().unwrap_or_default();
            let mut say = |what: &str| say(&format!("{what}; it said {mark:?}"));
            starts(run, attempt, &mark, &mut say);
            end(run, attempt, &mark, facts.excused.contains(&run.id), &mut say);
        }
        if (run.is_over() || run.status == "lost") && facts.alive.contains(&run.id) && !facts.excused.contains(&run.id)
        {
            say("it is over and has live processes");
        }
    }
    for (run, number) in facts.marks.keys() {
        let known = facts.now.runs.get(run).is_some_and(|run| run.attempts.iter().any(|a| a.number == *number));
        if !known {
            wrong.push(format!("attempt {number} of run {run} has run and nobody knows of it"));
        }
    }
    promises(facts, &mut wrong);
    receipts_have_attempts(facts, &mut wrong);
    wrong
}

fn sequence(run: &Run, say: &mut impl FnMut(&str)) {
    let numbers: Vec<i64> = run.events.iter().map(|(sequence, ..)| *sequence).collect();
    if numbers != (1..=run.event_sequence).collect::<Vec<_>>() || run.version != run.event_sequence {
        say("its versions and its events have holes");
    }
    let last = run.events.iter().rev().find_map(|(_, kind, _)| {
        kind.strip_prefix("run.").filter(|state| !["cancel_requested", "reconciled"].contains(state))
    });
    if last != Some(&run.status) {
        say("its last event is not its state");
    }
    // Each Attempt by its timeout, and what waits for another by somebody.
    let most = if Kind::attempts_max(&run.task) == 1 { 1 } else { run.attempts.len() + 1 };
    if run.events.iter().filter(|(_, kind, _)| kind == "run.cancel_requested").count() > most {
        say("it was asked to end twice");
    }
}

/// A Run is where its last Attempt has brought it, and no Attempt is made before the one before it has
/// ended in a way that is tried again.
fn whole(run: &Run, say: &mut impl FnMut(&str)) {
    let Some((latest, earlier)) = run.attempts.split_last() else { return say("it has no attempt") };
    let last = latest.status.as_str();
    let is_right = match run.status.as_str() {
        "queued" => last == "claimed",
        "dispatching" => last == "starting",
        "running" => last == "running",
        "retry_wait" => ["failed", "timed_out", "lost"].contains(&last),
        "lost" => last == "lost",
        "succeeded" | "failed" => last == run.status && run.cancel_reason.is_none(),
        "timed_out" => last == "timed_out" && run.cancel_reason.as_deref() == Some("timeout"),
        "cancelled" => run.cancel_reason.is_some() && !latest.is_active(),
        _ => false,
    };
    if !is_right {
        say("its state is not its last attempt's");
    }
    let again = |attempt: &Attempt| match run.task.as_str() {
        "flaky" => ["failed", "lost"].contains(&attempt.status.as_str()),
        _ => ["failed", "timed_out"].contains(&attempt.status.as_str()),
    };
    let numbers: Vec<i64> = run.attempts.iter().map(|attempt| attempt.number).collect();
    let in_order = numbers == (1..=numbers.len() as i64).collect::<Vec<_>>();
    if !in_order || numbers.len() > Kind::attempts_max(&run.task) || !earlier.iter().all(again) {
        say("it was tried again and should not have been");
    }
}

fn count(run: &Run, attempt: &Attempt, kinds: &[&str]) -> usize {
    let about = run.events.iter().filter(|(_, _, number)| *number == Some(attempt.number));
    about.filter(|(_, kind, _)| kind.strip_prefix("attempt.").is_some_and(|kind| kinds.contains(&kind))).count()
}

/// At most one start, and never before the store said so.
fn starts(run: &Run, attempt: &Attempt, mark: &Mark, say: &mut impl FnMut(&str)) {
    if mark.starts > 1 {
        say("user code ran twice");
    }
    if mark.starts < mark.ends.len() || mark.ends.len() > 1 {
        say("user code ended more often than it began");
    }
    if mark.starts > 0 && count(run, attempt, &["running"]) != 1 {
        say("user code ran and the store had not said so");
    }
    if count(run, attempt, &["starting"]) > 1 || count(run, attempt, &["running"]) > 1 {
        say("one attempt was started twice");
    }
    let ends = count(run, attempt, &["succeeded", "failed", "cancelled", "timed_out", "lost"]);
    if ends != usize::from(!attempt.is_active()) {
        say("an attempt has not exactly one end");
    }
}

/// How an Attempt ended is how it ended.
fn end(run: &Run, attempt: &Attempt, mark: &Mark, is_excused: bool, say: &mut impl FnMut(&str)) {
    let has_receipt = attempt.callback_sequence == 1;
    if !(0..=1).contains(&attempt.callback_sequence) || has_receipt != attempt.exit_code.is_some() {
        say("its receipt was not taken exactly once");
    }
    let said = (mark.starts, mark.ends.as_slice());
    if mark.starts > 0 && !attempt.is_active() && !has_receipt && !is_excused {
        say("it ran, its supervisor lived, and its receipt was not taken");
    }
    match attempt.status.as_str() {
        "claimed" if attempt.is_authorised => say("it is only claimed and has a token"),
        "starting" | "running" if !attempt.is_authorised || attempt.journal.is_none() => {
            say("it is under way without a token or a row in the journal");
        }
        "succeeded" if said != (1, &[0]) || attempt.exit_code != Some(0) => {
            say("it did not succeed");
        }
        "failed" if has_receipt => match (attempt.exit_code, mark.ends.as_slice()) {
            (Some(code), [end]) if code == *end && code != 0 && mark.starts == 1 => {}
            _ => say("it did not fail like this"),
        },
        "failed" if mark.starts > 0 || attempt.error_code.is_none() => say("its start did not fail"),
        "timed_out" if !Kind::has_timeout(&run.task) => say("it has no timeout"),
        "cancelled" if !matches!(run.cancel_reason.as_deref(), Some("user")) => say("nobody cancelled it"),
        "lost" if mark.starts > 0 && !is_excused => say("it ran, its supervisor lived, and it is lost"),
        _ => {}
    }
    if let Some(signal) = attempt.signal.filter(|_| attempt.status == "failed")
        && (run.task != "dies" || signal != 9)
    {
        say("no signal ended it");
    }
}

/// What was answered is there, and what was over stays as it was.
fn promises(facts: &Facts<'_>, wrong: &mut Vec<String>) {
    let mut mutations: BTreeMap<&str, &str> = BTreeMap::new();
    for (run, mutation) in facts.started {
        if !facts.now.runs.contains_key(run) {
            wrong.push(format!("the start of {run} was answered and it is not there"));
        }
        if *mutations.entry(mutation).or_insert(run) != run {
            wrong.push(format!("the same mutation {mutation} started two runs"));
        }
    }
    for id in facts.cancelled {
        let run = facts.now.runs.get(id);
        if !run.is_some_and(|run| run.is_over() || run.cancel_reason.is_some()) {
            wrong.push(format!("the cancellation was answered and nothing says so: {run:?}"));
        }
    }
    for (id, old) in facts.before.runs.iter().filter(|(_, run)| run.is_over()) {
        let now = facts.now.runs.get(id);
        let same =
            now.is_some_and(|now| (now.version, &now.status, &now.events) == (old.version, &old.status, &old.events));
        if !same {
            wrong.push(format!("it was over and changed: {old:?} became {now:?}"));
        }
    }
}

fn receipts_have_attempts(facts: &Facts<'_>, wrong: &mut Vec<String>) {
    let known: BTreeSet<&str> =
        facts.now.attempts().filter(|(_, a)| a.is_authorised).map(|(_, a)| a.id.as_str()).collect();
    for path in files(&facts.state.join("receipts")) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let attempt = name.trim_start_matches('.').split('.').next().unwrap_or_default();
        if !known.contains(attempt) || path.contains(".quarantine") {
            wrong.push(format!("the receipt {path} has no attempt, or was put aside"));
        }
    }
}

/// Receipts whose Attempts have ended: the next daemon has to clear them away.
pub fn stale_receipts(now: &Snapshot, state: &Path) -> Vec<String> {
    let over: BTreeSet<&str> = now.attempts().filter(|(_, a)| !a.is_active()).map(|(_, a)| a.id.as_str()).collect();
    let is_stale = |path: &String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        over.contains(name.trim_start_matches('.').split('.').next().unwrap_or_default())
    };
    files(&state.join("receipts")).into_iter().filter(is_stale).collect()
}

/// What is wrong, beside that, when everything is over and housekeeping had its turn.
pub fn at_the_end(facts: &Facts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for run in facts.now.runs.values().filter(|run| !run.is_over() && run.status != "lost") {
        wrong.push(format!("it does not end: {run:?}"));
    }
    for (run, attempt) in facts.now.attempts().filter(|(_, attempt)| attempt.journal.is_some()) {
        // Without a receipt one may still come; its row stays for an hour or a day.
        let may_come = attempt.callback_sequence == 0 && attempt.has_started;
        if !may_come || attempt.journal.as_deref() != Some("pending") {
            wrong.push(format!("its row of the receipt journal stays: {attempt:?} of {run:?}"));
        }
    }
    wrong.extend(files(&facts.state.join("receipts")).into_iter().map(|path| format!("{path} stays")));
    let mut logs: BTreeSet<&str> = BTreeSet::new();
    let names = files(&facts.state.join("logs"));
    for (_, attempt) in facts.now.attempts() {
        let Some(artifact) = attempt.artifact.as_deref().filter(|_| !attempt.is_log_retired) else { continue };
        logs.insert(artifact);
        let log = format!("/{artifact}.log");
        if !names.iter().any(|name| name.ends_with(&log)) {
            wrong.push(format!("its log is not there: {attempt:?}"));
        }
    }
    for path in names {
        let name = path.rsplit('/').next().unwrap_or_default();
        if !logs.contains(name.trim_start_matches('.').split('.').next().unwrap_or_default()) {
            wrong.push(format!("the log {path} is nobody's"));
        }
    }
    wrong
}

/// Everything that lies below a folder and is no folder. What is gone meanwhile is not there.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] }).collect()
}
