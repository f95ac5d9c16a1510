//! T2 to T6: moving a Run and its Attempt along the life tables, with their events.
//!
//! An operation loads both, makes moves in memory (each appends its event and counts version and
//! sequence), and saves once. A move that the tables refuse is `Raced`: the facts have moved on.

use super::chain;
use super::event::{self, Fact, Place};
use super::fail::Fail;
use super::journal;
use super::retention;
use super::retry;
use super::start::{BeginStart, Complete, Completed, FailStart, Lose, Step, TakeOwnership};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::digest::Digest;
use crate::model::event::{Actor, EventType};
use crate::model::id::{AttemptId, RunId, Uuid};
use crate::model::life::{AttemptMove, AttemptState, CancelReason, Outcome, RunMove, RunState, outcome};
use crate::model::limits::TIME_MS_MAX;
use crate::model::record::{Completion, Deadline, End};
use rusqlite::{Row, params};
use subtle::ConstantTimeEq as _;

/// A Run and one of its Attempts, in the middle of a transaction.
pub(super) struct Live {
    pub(super) run: RunId,
    pub(super) number: i64,
    pub(super) latest: bool,
    pub(super) run_state: RunState,
    pub(super) attempt_state: AttemptState,
    pub(super) cancel: Option<(i64, CancelReason)>,
    token_digest: Option<Digest>,
    callback_sequence: i64,
    log_artifact: Option<String>,
    deadline: Option<Deadline>,
    handle: Option<String>,
    pid: Option<i32>,
    pub(super) run_error: Option<String>,
    pub(super) end: End,
    version: i64,
    sequence: i64,
    run_created_at_ms: i64,
    run_started_at_ms: Option<i64>,
    run_finished_at_ms: Option<i64>,
    end_order: Option<i64>,
    attempt_created_at_ms: i64,
    attempt_started_at_ms: Option<i64>,
    attempt_finished_at_ms: Option<i64>,
    loaded_version: i64,
    loaded_run_state: RunState,
    loaded_state: AttemptState,
    /// It has come to an end that other Runs may follow.
    over: bool,
    /// It waits for another Attempt from now on, for so long.
    wait_ms: Option<i64>,
    pub(super) now_ms: i64,
}

impl Live {
    /// Reads both. `None`: there is no such Attempt of that Run.
    pub(super) fn load(tx: &Tx<'_>, run: RunId, attempt: AttemptId) -> Result<Option<Self>, Fail> {
        let sql =
            "SELECT r.status, r.version, r.event_sequence, r.cancel_requested_at_ms, r.cancel_reason, r.error_code,
                r.created_at_ms, r.started_at_ms, r.finished_at_ms, a.number, a.status, a.token_digest,
                a.callback_sequence, a.log_artifact, a.handle, a.pid, a.created_at_ms, a.started_at_ms,
                a.finished_at_ms, a.exit_code, a.signal, a.error_code, a.error_summary, a.log_complete, a.leftovers,
                a.number = (SELECT max(number) FROM attempts WHERE run = r.id), a.deadline_at_ms, a.deadline_boot,
                a.deadline_boot_ms, a.descendants IS NOT NULL
            FROM runs r JOIN attempts a ON a.run = r.id WHERE r.id = ?1 AND a.id = ?2";
        let now_ms = tx.now_ms();
        tx.find(sql, params![run, attempt], |row| {
            let requested: Option<i64> = row.get(3)?;
            let reason: Option<CancelReason> = row.get(4)?;
            let (version, run_state, attempt_state) = (row.get(1)?, row.get(0)?, row.get(10)?);
            Ok(Self {
                run,
                run_state,
                loaded_run_state: run_state,
                version,
                loaded_version: version,
                sequence: row.get(2)?,
                cancel: requested.zip(reason),
                run_error: row.get(5)?,
                run_created_at_ms: row.get(6)?,
                run_started_at_ms: row.get(7)?,
                run_finished_at_ms: row.get(8)?,
                end_order: None,
                number: row.get(9)?,
                attempt_state,
                loaded_state: attempt_state,
                token_digest: row.get(11)?,
                callback_sequence: row.get(12)?,
                log_artifact: row.get(13)?,
                handle: row.get(14)?,
                pid: row.get(15)?,
                attempt_created_at_ms: row.get(16)?,
                attempt_started_at_ms: row.get(17)?,
                attempt_finished_at_ms: row.get(18)?,
                end: End {
                    exit_code: row.get(19)?,
                    signal: row.get(20)?,
                    error_code: row.get(21)?,
                    error_summary: row.get(22)?,
                    log_complete: row.get(23)?,
                    leftovers: row.get(24)?,
                    unproven: row.get(29)?,
                },
                latest: row.get(25)?,
                deadline: read_deadline(row, 26)?,
                over: false,
                wait_ms: None,
                now_ms,
            })
        })
    }

    fn append(&mut self, tx: &mut Tx<'_>, kind: EventType, actor: &Actor, facts: &[Fact<'_>]) -> Result<(), Fail> {
        let about_attempt = matches!(kind, EventType::Attempt(_));
        self.append_about(tx, kind, about_attempt.then_some(self.number), actor, facts)
    }

    fn append_about(
        &mut self,
        tx: &mut Tx<'_>,
        kind: EventType,
        attempt_number: Option<i64>,
        actor: &Actor,
        facts: &[Fact<'_>],
    ) -> Result<(), Fail> {
        self.version += 1;
        self.sequence += 1;
        let place = Place { run: self.run, sequence: self.sequence, attempt_number, actor, at_ms: self.now_ms };
        event::append(tx, &place, kind, facts).map(drop)
    }

    /// Moves the Run, if the table allows it.
    pub(super) fn move_run(
        &mut self,
        tx: &mut Tx<'_>,
        step: RunMove,
        actor: &Actor,
        facts: &[Fact<'_>],
    ) -> Result<bool, Fail> {
        let Some(state) = self.run_state.after(step) else { return Ok(false) };
        self.run_state = state;
        self.append(tx, EventType::Run(state), actor, facts)?;
        // One that was lost before has had its end: settling it later tells nobody anything new.
        self.over |= (state.is_terminal() || state == RunState::Lost) && self.loaded_run_state != RunState::Lost;
        if state.is_terminal() {
            let earliest = self.run_started_at_ms.unwrap_or(self.run_created_at_ms).max(self.run_created_at_ms);
            self.run_finished_at_ms = Some(self.attempt_finished_at_ms.unwrap_or(self.now_ms).max(earliest));
            self.end_order = Some(retention::newest_end(tx)? + 1);
        }
        Ok(true)
    }

    /// Moves the Attempt, if the table allows it.
    pub(super) fn move_attempt(
        &mut self,
        tx: &mut Tx<'_>,
        step: AttemptMove,
        actor: &Actor,
        facts: &[Fact<'_>],
    ) -> Result<bool, Fail> {
        let Some(state) = self.attempt_state.after(step) else { return Ok(false) };
        self.attempt_state = state;
        self.append(tx, EventType::Attempt(state), actor, facts)?;
        if !state.is_active() {
            let earliest = self.attempt_started_at_ms.unwrap_or(self.attempt_created_at_ms);
            let finished = self.attempt_finished_at_ms.unwrap_or(self.now_ms);
            self.attempt_finished_at_ms = Some(finished.max(earliest).max(self.attempt_created_at_ms));
        }
        Ok(true)
    }

    /// Ends the Run as its Attempt has ended, or lets it wait for another where its task says so.
    pub(super) fn end_run(
        &mut self,
        tx: &mut Tx<'_>,
        end: Outcome,
        actor: &Actor,
        facts: &[Fact<'_>],
    ) -> Result<bool, Fail> {
        match retry::delay(tx, self, self.end.unproven)? {
            Some(delay_ms) => self.await_retry(tx, delay_ms),
            None => self.move_run(tx, end.run_move(), actor, facts),
        }
    }

    /// Lets the Run wait for another Attempt. A timeout's intent has ended the Attempt that it was
    /// for, and goes with it.
    pub(super) fn await_retry(&mut self, tx: &mut Tx<'_>, delay_ms: i64) -> Result<bool, Fail> {
        self.cancel = None;
        self.wait_ms = Some(delay_ms);
        self.move_run(tx, RunMove::AwaitRetry, &Actor::System, &[Fact::DelayMs(delay_ms)])
    }

    /// Puts the Run in the queue again, with its next Attempt. Answers the Attempt's number.
    pub(super) fn queue_again(&mut self, tx: &mut Tx<'_>) -> Result<Option<i64>, Fail> {
        let number = self.number + 1;
        self.run_error = None;
        let claimed = EventType::Attempt(AttemptState::Claimed);
        self.append_about(tx, claimed, Some(number), &Actor::System, &[])?;
        Ok(self.move_run(tx, RunMove::Queue, &Actor::System, &[])?.then_some(number))
    }

    /// Notes that somebody asked it to end. The first intent stays.
    pub(super) fn request_cancel(&mut self, tx: &mut Tx<'_>, reason: CancelReason, actor: &Actor) -> Result<(), Fail> {
        if self.cancel.is_none() {
            self.cancel = Some((self.now_ms, reason));
            self.append(tx, EventType::CancelRequested, actor, &[Fact::CancelReason(reason.word())])?;
        }
        Ok(())
    }

    /// Whether it is under way with a process of its own, as far as is stored.
    pub(super) fn survives(&self) -> bool {
        self.latest
            && self.handle.is_some()
            && matches!(self.run_state, RunState::Dispatching | RunState::Running)
            && matches!(self.attempt_state, AttemptState::Starting | AttemptState::Running)
    }

    /// Makes a Run and an Attempt that have come to a handle running. Answers whether either was not.
    pub(super) fn promote(&mut self, tx: &mut Tx<'_>, actor: &Actor) -> Result<bool, Fail> {
        let at_ms = self.now_ms.max(self.attempt_created_at_ms);
        let attempt = self.attempt_state == AttemptState::Starting;
        if attempt && self.move_attempt(tx, AttemptMove::Run, actor, &[])? {
            self.attempt_started_at_ms = Some(at_ms);
        }
        let run = self.run_state == RunState::Dispatching;
        if run && self.move_run(tx, RunMove::Run, actor, &[])? {
            self.run_started_at_ms.get_or_insert(at_ms);
        }
        Ok(attempt || run)
    }

    /// Whether nothing has happened since its process was last proven to live.
    pub(super) fn is_reconciled(&self, tx: &Tx<'_>) -> Result<bool, Fail> {
        let sql = "SELECT type = ?3 FROM run_events WHERE run = ?1 AND sequence = ?2";
        let values = params![self.run, self.sequence, EventType::Reconciled.to_string()];
        Ok(tx.find(sql, values, |row| row.get(0))?.unwrap_or(false))
    }

    /// Notes that its process was proven to live.
    pub(super) fn note_reconciled(&mut self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        self.append(tx, EventType::Reconciled, &Actor::Reconciler, &[])
    }

    /// The Run's version, with what was appended.
    pub(super) const fn version(&self) -> i64 {
        self.version
    }

    /// Stores both, each only if it is still as it was read.
    pub(super) fn save(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let sql = "UPDATE runs SET status = ?3, version = ?4, event_sequence = ?5, started_at_ms = ?6,
            finished_at_ms = ?7, cancel_requested_at_ms = ?8, cancel_reason = ?9, error_code = ?10,
            end_order = coalesce(end_order, ?11)
            WHERE id = ?1 AND version = ?2";
        let changed = tx.conn.prepare_cached(sql)?.execute(params![
            self.run,
            self.loaded_version,
            self.run_state,
            self.version,
            self.sequence,
            self.run_started_at_ms,
            self.run_finished_at_ms,
            self.cancel.map(|(at_ms, _)| at_ms),
            self.cancel.map(|(_, reason)| reason),
            self.run_error,
            self.end_order,
        ])?;
        let sql = "UPDATE attempts SET status = ?4, callback_sequence = ?5, token_digest = ?6, log_artifact = ?7,
            handle = ?8, pid = ?9, started_at_ms = ?10, finished_at_ms = ?11, exit_code = ?12, signal = ?13,
            error_code = ?14, error_summary = ?15, log_complete = ?16, leftovers = ?17, deadline_at_ms = ?18,
            deadline_boot = ?19, deadline_boot_ms = ?20, descendants = ?21
            WHERE run = ?1 AND number = ?2 AND status = ?3";
        let moved = tx.conn.prepare_cached(sql)?.execute(params![
            self.run,
            self.number,
            self.loaded_state,
            self.attempt_state,
            self.callback_sequence,
            self.token_digest,
            self.log_artifact,
            self.handle,
            self.pid,
            self.attempt_started_at_ms,
            self.attempt_finished_at_ms,
            self.end.exit_code,
            self.end.signal,
            self.end.error_code,
            self.end.error_summary,
            self.end.log_complete,
            self.end.leftovers,
            self.deadline.map(|deadline| deadline.at_ms),
            self.deadline.map(|deadline| *deadline.boot.as_bytes()),
            self.deadline.map(|deadline| deadline.boot_ms),
            self.end.unproven.then_some("unproven"),
        ])?;
        if let Some(delay_ms) = self.wait_ms {
            retry::note_wait(tx, self.run, self.now_ms, delay_ms)?;
        }
        if changed != 1 || moved != 1 {
            return Err(Fail::Word("version_conflict"));
        }
        // One that is lost and will be tried again is not over.
        if self.over && self.wait_ms.is_none() {
            chain::follow(tx, &self)?;
        }
        Ok(())
    }

    /// Whether nothing of a start was ever stored: the precondition of T2.
    fn is_untouched(&self) -> bool {
        self.latest
            && self.cancel.is_none()
            && self.callback_sequence == 0
            && self.token_digest.is_none()
            && self.log_artifact.is_none()
            && self.deadline.is_none()
            && self.handle.is_none()
            && self.pid.is_none()
            && self.attempt_started_at_ms.is_none()
            && self.end == End::default()
    }

    fn owns(&self, token_digest: Digest) -> bool {
        self.token_digest.is_some_and(|stored| stored.as_bytes().ct_eq(token_digest.as_bytes()).into())
    }

    fn start_running(&mut self, tx: &mut Tx<'_>, at_ms: i64, actor: &Actor) -> Result<bool, Fail> {
        if !self.move_attempt(tx, AttemptMove::Run, actor, &[])? {
            return Ok(false);
        }
        let at_ms = at_ms.max(self.attempt_created_at_ms);
        self.attempt_started_at_ms = Some(at_ms);
        if !self.move_run(tx, RunMove::Run, actor, &[])? {
            return Ok(false);
        }
        self.run_started_at_ms.get_or_insert(at_ms);
        Ok(true)
    }
}

/// Reads a deadline from three columns.
pub(super) fn read_deadline(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Deadline>> {
    let (at_ms, boot): (Option<i64>, Option<[u8; 16]>) = (row.get(at)?, row.get(at + 1)?);
    let boot_ms: Option<i64> = row.get(at + 2)?;
    let whole = at_ms.zip(boot).zip(boot_ms);
    Ok(whole.map(|((at_ms, boot), boot_ms)| Deadline { at_ms, boot: Uuid::from_bytes(boot), boot_ms }))
}

/// A refused move after an event was already appended: the savepoint must go back.
const RACED: Fail = Fail::Word("version_conflict");

impl Operation for BeginStart {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        journal::resolve(tx, &self.resolved)?;
        let Some(mut live) = Live::load(tx, self.run, self.attempt)? else { return Ok(Step::Raced) };
        // Asked again after an answer of unknown outcome: the digest names exactly this start.
        let begun = (live.run_state, live.attempt_state) == (RunState::Dispatching, AttemptState::Starting);
        if begun && live.owns(self.token_digest) {
            return Ok(Step::Done);
        }
        let claimed = (live.run_state, live.attempt_state) == (RunState::Queued, AttemptState::Claimed);
        if !claimed || !live.is_untouched() {
            return Ok(Step::Raced);
        }
        if !live.move_run(tx, RunMove::Dispatch, &Actor::System, &[])? {
            return Ok(Step::Raced);
        }
        live.token_digest = Some(self.token_digest);
        live.log_artifact = Some(self.log_artifact);
        live.deadline = self.deadline;
        if !live.move_attempt(tx, AttemptMove::Start, &Actor::System, &[])? {
            return Err(RACED);
        }
        journal::register(tx, self.attempt, self.run, live.number, live.now_ms)?;
        live.save(tx)?;
        Ok(Step::Done)
    }
}

impl Operation for TakeOwnership {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        let Some(mut live) = Live::load(tx, self.run, self.attempt)? else { return Ok(Step::Raced) };
        // Asked again after an answer of unknown outcome.
        let owned = (live.run_state, live.attempt_state) == (RunState::Running, AttemptState::Running);
        if owned && live.owns(self.token_digest) && live.handle.as_deref() == Some(&self.handle) {
            return Ok(Step::Done);
        }
        let starting = (live.run_state, live.attempt_state) == (RunState::Dispatching, AttemptState::Starting);
        if !starting || !live.latest || !live.owns(self.token_digest) || live.handle.is_some() {
            return Ok(Step::Raced);
        }
        live.handle = Some(self.handle);
        live.pid = Some(self.pid);
        let now_ms = live.now_ms;
        if !live.start_running(tx, now_ms, &Actor::Executor)? {
            return Err(RACED);
        }
        live.save(tx)?;
        Ok(Step::Done)
    }
}

impl Operation for FailStart {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        let Some(mut live) = Live::load(tx, self.run, self.attempt)? else { return Ok(Step::Raced) };
        match (live.run_state, live.attempt_state) {
            (RunState::Dispatching, AttemptState::Starting) => {}
            (RunState::Queued, AttemptState::Claimed) if live.is_untouched() => {
                let dispatched = live.move_run(tx, RunMove::Dispatch, &Actor::System, &[])?;
                if !dispatched || !live.move_attempt(tx, AttemptMove::Start, &Actor::System, &[])? {
                    return Err(RACED);
                }
            }
            _ => return Ok(Step::Raced),
        }
        let facts = [Fact::ErrorCode(self.error_code)];
        live.end.error_code = Some(self.error_code.into());
        live.end.error_summary = Some(self.error_summary);
        live.run_error = Some(self.error_code.into());
        // A committed intent decides how it ended, however that came about (spec/execution 8.2).
        let end = outcome(1, live.cancel.map(|(_, reason)| reason));
        let ended = live.move_attempt(tx, end.attempt_move(), &Actor::System, &facts)?;
        if !ended || !live.end_run(tx, end, &Actor::System, &facts)? {
            return Err(RACED);
        }
        live.save(tx)?;
        Ok(Step::Done)
    }
}

impl Operation for Lose {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        let Some(mut live) = Live::load(tx, self.run, self.attempt)? else { return Ok(Step::Raced) };
        if live.run_state.after(RunMove::Lose).is_none() || live.attempt_state.after(AttemptMove::Lose).is_none() {
            return Ok(Step::Raced);
        }
        let facts = [Fact::ErrorCode(self.error_code)];
        live.end.error_code = Some(self.error_code.into());
        live.end.unproven = self.unproven;
        live.run_error = Some(self.error_code.into());
        let lost = live.move_attempt(tx, AttemptMove::Lose, &Actor::System, &facts)?;
        if !lost || !live.move_run(tx, RunMove::Lose, &Actor::System, &facts)? {
            return Err(RACED);
        }
        // Lost first, in the events too: what follows never looks as if the first had not been.
        if let Some(delay_ms) = retry::delay(tx, &live, live.end.unproven)?
            && !live.await_retry(tx, delay_ms)?
        {
            return Err(RACED);
        }
        live.save(tx)?;
        Ok(Step::Done)
    }
}

impl Operation for Complete {
    type Out = Completed;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Completed, Fail> {
        journal::resolve(tx, &self.resolved)?;
        let done = self.completion;
        let Some(mut live) = Live::load(tx, done.run, done.attempt)? else {
            return Ok(Completed::Invalid("unknown_attempt"));
        };
        if !live.owns(done.token_digest) {
            return Ok(Completed::Invalid("token"));
        }
        let ended = !live.attempt_state.is_active();
        let next = live.callback_sequence + 1;
        if done.sequence != next && !(ended && done.sequence == live.callback_sequence) {
            return Ok(Completed::Invalid("sequence"));
        }
        let exit_code = match check(&done) {
            Ok(exit_code) => exit_code,
            Err(word) => return Ok(Completed::Invalid(word)),
        };
        if ended || live.run_state.is_terminal() {
            return Ok(Completed::AlreadyTerminal);
        }
        // Ownership was answered as unknown and is not there, yet the receipt proves that user code
        // was released: the states it passed through are written first, never skipped.
        if live.attempt_state == AttemptState::Starting
            && !live.start_running(tx, done.started_at_ms, &Actor::Executor)?
        {
            return Err(RACED);
        }
        let outcome = outcome(exit_code, live.cancel.map(|(_, reason)| reason));
        let mut facts = vec![Fact::ExitCode(exit_code)];
        facts.extend(done.end.signal.map(Fact::Signal));
        facts.extend(done.end.error_code.as_deref().map(Fact::ErrorCode));
        facts.extend(done.end.leftovers.filter(|count| *count != 0).map(Fact::Leftovers));
        live.callback_sequence = done.sequence;
        live.attempt_finished_at_ms = Some(done.finished_at_ms);
        live.run_error.clone_from(&done.end.error_code);
        let moved = live.move_attempt(tx, outcome.attempt_move(), &Actor::Executor, &facts)?;
        if !moved || !live.end_run(tx, outcome, &Actor::Executor, &[])? {
            return Err(RACED);
        }
        drop(facts);
        live.end = done.end;
        let state = live.run_state;
        live.save(tx)?;
        Ok(Completed::Applied(state))
    }
}

/// The bounds of what a receipt may say (spec/execution section 4). The exit code is its answer.
fn check(done: &Completion) -> Result<i32, &'static str> {
    if done.started_at_ms < 0 || done.finished_at_ms < done.started_at_ms || done.finished_at_ms > TIME_MS_MAX {
        return Err("times");
    }
    done.end.exit_code.filter(|code| (0..=255).contains(code)).ok_or("exit_code")
}
