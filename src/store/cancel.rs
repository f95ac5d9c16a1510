//! Asking a Run to end (T8) and ending what needs no receipt (T7). Only the intent is written here;
//! processes are the engine's business, after the commit (spec/execution sections 2 and 8).

use super::advance::Live;
use super::audit;
use super::fail::Fail;
use super::fence;
use super::retry;
use super::start::Step;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{AttemptId, MutationId, RunId};
use crate::model::life::{AttemptState, CancelReason, Outcome, RunState, outcome};
use crate::model::limits;
use crate::model::policy::{Authority, Permission};
use crate::model::word::FenceReason;
use rusqlite::params;

const OPERATION: &str = "run.cancel";

/// T8 as somebody asks for it: with the fences again and the `allowed` audit row.
pub struct RequestCancel {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which Run.
    pub run: RunId,
    /// The mutation's name. A Run has one intent only, so it is for the audit, not for replays.
    pub mutation: MutationId,
}

/// What became of a request to end a Run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelRequested {
    /// The intent is new.
    Accepted,
    /// There was an intent already; it stays as it was.
    AlreadyRequested,
    /// The Run had ended.
    AlreadyTerminal,
    /// No such Run in the project.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
}

impl Operation for RequestCancel {
    type Out = CancelRequested;

    fn perform(self, tx: &mut Tx<'_>) -> Result<CancelRequested, Fail> {
        let target = self.run.to_string();
        if fence::held(tx, &self.authority, Permission::RunStop)?.is_none() {
            return Ok(CancelRequested::Refused(audit::fenced(tx, &self.authority, OPERATION, &target)?));
        }
        let sql = "SELECT project FROM runs WHERE id = ?1";
        let project: Option<String> = tx.find(sql, params![self.run], |row| row.get(0))?;
        if project.as_deref() != Some(self.authority.project.as_str()) {
            return Ok(CancelRequested::NotFound);
        }
        let actor = Actor::Subject(self.authority.subject.clone());
        let done = intend(tx, self.run, CancelReason::User, &actor)?;
        if done == CancelRequested::Accepted
            || (done == CancelRequested::AlreadyRequested && retry::forbid(tx, self.run)?)
        {
            audit::allowed(tx, &self.authority, OPERATION, &target)?;
        }
        Ok(done)
    }
}

/// T8 as the runtime itself asks for it: a timeout, a shutdown. The first intent stays.
pub struct Intend {
    /// Which Run.
    pub run: RunId,
    /// Why.
    pub reason: CancelReason,
}

impl Operation for Intend {
    type Out = CancelRequested;

    fn perform(self, tx: &mut Tx<'_>) -> Result<CancelRequested, Fail> {
        intend(tx, self.run, self.reason, &Actor::System)
    }
}

fn intend(tx: &mut Tx<'_>, run: RunId, reason: CancelReason, actor: &Actor) -> Result<CancelRequested, Fail> {
    let Some(attempt) = latest_attempt(tx, run)? else { return Ok(CancelRequested::NotFound) };
    let Some(mut live) = Live::load(tx, run, attempt)? else { return Ok(CancelRequested::NotFound) };
    if live.run_state.is_terminal() {
        return Ok(CancelRequested::AlreadyTerminal);
    }
    if live.cancel.is_some() {
        return Ok(CancelRequested::AlreadyRequested);
    }
    live.request_cancel(tx, reason, actor)?;
    live.save(tx)?;
    Ok(CancelRequested::Accepted)
}

fn latest_attempt(tx: &Tx<'_>, run: RunId) -> Result<Option<AttemptId>, Fail> {
    let sql = "SELECT id FROM attempts WHERE run = ?1 ORDER BY number DESC LIMIT 1";
    tx.find(sql, params![run], |row| row.get(0))
}

/// A Run that was asked to end and has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelling {
    /// The Run.
    pub run: RunId,
    /// Its latest Attempt.
    pub attempt: AttemptId,
    /// Where the Attempt is.
    pub state: AttemptState,
}

/// Lists Runs with an intent that have not ended, oldest first.
pub struct ListCancelling {
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListCancelling {
    type Out = Vec<Cancelling>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Vec<Cancelling>, Fail> {
        let sql = "SELECT r.id, a.id, a.status FROM runs r INDEXED BY runs_cancelling
                JOIN attempts a ON a.run = r.id AND a.number = (SELECT max(number) FROM attempts WHERE run = r.id)
            WHERE r.finished_at_ms IS NULL AND r.cancel_requested_at_ms IS NOT NULL
            ORDER BY r.cancel_requested_at_ms, r.id LIMIT ?1";
        let mut query = tx.conn.prepare_cached(sql)?;
        let limit = self.limit.min(limits::RECOVERY_CANDIDATES_MAX);
        let rows = query.query_map(params![limit], |row| {
            Ok(Cancelling { run: row.get(0)?, attempt: row.get(1)?, state: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// T7: ends a Run that was asked to end, without a receipt: it never started (claimed), it is lost, it
/// waits for another Attempt, or its process was stopped and is proven gone. Without an intent nothing is done.
pub struct EndAsked {
    /// The Run.
    pub run: RunId,
    /// Its latest Attempt.
    pub attempt: AttemptId,
    /// Something of it may have got away when its supervisor was killed.
    pub unproven: bool,
}

impl Operation for EndAsked {
    type Out = Step;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Step, Fail> {
        let Some(mut live) = Live::load(tx, self.run, self.attempt)? else { return Ok(Step::Raced) };
        let Some((_, reason)) = live.cancel else { return Ok(Step::Raced) };
        if !live.latest || live.run_state.is_terminal() {
            return Ok(Step::Raced);
        }
        let actor = Actor::System;
        // What never ran cannot have run out of time, a lost Run's time is nobody's knowledge, and one
        // that waits for another Attempt has none.
        let nothing_runs = !matches!(live.attempt_state, AttemptState::Starting | AttemptState::Running);
        let end = if nothing_runs { Outcome::Cancelled } else { outcome(0, Some(reason)) };
        live.end.unproven |= self.unproven;
        if live.attempt_state.is_active() && !live.move_attempt(tx, end.attempt_move(), &actor, &[])? {
            return Err(Fail::Word("version_conflict"));
        }
        let ended = if nothing_runs {
            live.move_run(tx, end.run_move(), &actor, &[])?
        } else {
            live.end_run(tx, end, &actor, &[])?
        };
        if !ended {
            return Err(Fail::Word("version_conflict"));
        }
        debug_assert!(live.run_state != RunState::Succeeded, "an intent never succeeds");
        live.save(tx)?;
        Ok(Step::Done)
    }
}
