//! Settling by hand a Run that nobody can decide: Attempt and Run become lost (design D21).
//!
//! The evidence is looked at before; the version says that nothing has changed since then.

use super::advance::Live;
use super::audit::{self, Entry};
use super::event::{Fact, in_payload};
use super::fail::Fail;
use super::fence;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{AttemptId, MutationId, RunId};
use crate::model::life::{AttemptMove, RunMove, RunState};
use crate::model::name::Name;
use crate::model::policy::{Authority, Permission, Subject, SubjectKind};
use crate::model::word::{FenceReason, RESOLVED_LOST};
use rusqlite::params;

const OPERATION: &str = "run.resolve";

/// Who settles it.
#[derive(Clone)]
pub enum Resolver {
    /// Somebody over the API.
    Subject(Authority),
    /// Whoever owns the state folder, while no daemon runs.
    Local,
}

/// Calls a Run under way lost. It is never tried again by itself: nobody has proven that it is over.
pub struct ResolveRun {
    /// Who asks and on what basis.
    pub by: Resolver,
    /// Which Run.
    pub run: RunId,
    /// The mutation's name.
    pub mutation: MutationId,
    /// The Run's version when its evidence was looked at.
    pub version: i64,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// These Attempts and the Run are lost now.
    Lost(Vec<AttemptId>),
    /// It was lost before, or this very mutation has settled it.
    Already,
    /// It is not under way.
    NotUnderWay(RunState),
    /// Something has happened to it since its evidence was looked at.
    Changed,
    /// No such Run in the project.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
}

impl Operation for ResolveRun {
    type Out = Resolved;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Resolved, Fail> {
        let target = self.run.to_string();
        let project = match &self.by {
            Resolver::Subject(by) if fence::held(tx, by, Permission::PolicyManage)?.is_none() => {
                return Ok(Resolved::Refused(audit::fenced(tx, by, OPERATION, &target)?));
            }
            Resolver::Subject(by) => by.project.clone(),
            Resolver::Local => Name::default_project(),
        };
        let sql = "SELECT status, version FROM runs WHERE id = ?1 AND project = ?2";
        let found = tx.find(sql, params![self.run, project], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some((state, version)): Option<(RunState, i64)> = found else { return Ok(Resolved::NotFound) };
        match state {
            RunState::Lost => return Ok(Resolved::Already),
            RunState::Dispatching | RunState::Running if version == self.version => {}
            RunState::Dispatching | RunState::Running => return Ok(Resolved::Changed),
            _ if self.is_replay(tx)? => return Ok(Resolved::Already),
            _ => return Ok(Resolved::NotUnderWay(state)),
        }
        let subject = match &self.by {
            Resolver::Subject(by) => by.subject.clone(),
            Resolver::Local => Subject { kind: SubjectKind::System, id: "local".into() },
        };
        let lost = self.lose(tx, &Actor::Subject(subject.clone()))?;
        match &self.by {
            Resolver::Subject(by) => audit::allowed(tx, by, OPERATION, &target)?,
            Resolver::Local => audit::write(
                tx,
                &project,
                &Entry {
                    operation: OPERATION,
                    outcome: "allowed",
                    subject: Some(&subject),
                    target: Some(&target),
                    count: 1,
                    ..Entry::default()
                },
            )?,
        }
        Ok(Resolved::Lost(lost))
    }
}

impl ResolveRun {
    fn is_replay(&self, tx: &Tx<'_>) -> Result<bool, Fail> {
        let sql = "SELECT 1 FROM run_events
            WHERE run = ?1 AND type = 'run.lost' AND (mutation = ?2 OR instr(payload, ?3))";
        let older = in_payload("mutationId", &self.mutation);
        Ok(tx.conn.prepare_cached(sql)?.exists(params![self.run, self.mutation, older])?)
    }

    /// Ends every active Attempt, then the Run with the latest one.
    fn lose(&self, tx: &mut Tx<'_>, actor: &Actor) -> Result<Vec<AttemptId>, Fail> {
        let facts = [Fact::ErrorCode(RESOLVED_LOST), Fact::Mutation(self.mutation)];
        let sql = "SELECT id, status IN ('claimed', 'starting', 'running') AS active FROM attempts WHERE run = ?1
            AND (active OR number = (SELECT max(number) FROM attempts WHERE run = ?1)) ORDER BY number";
        let attempts: Vec<(AttemptId, bool)> = tx.rows(sql, params![self.run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut lost = Vec::new();
        let count = attempts.len();
        for (at, (attempt, active)) in attempts.into_iter().enumerate() {
            let conflict = || Fail::Word("version_conflict");
            let mut live = Live::load(tx, self.run, attempt)?.ok_or_else(conflict)?;
            if active {
                live.end.error_code = Some(RESOLVED_LOST.into());
                live.end.unproven = true;
                if !live.move_attempt(tx, AttemptMove::Lose, actor, &facts)? {
                    return Err(conflict());
                }
                lost.push(attempt);
            }
            if at + 1 == count {
                live.run_error = Some(RESOLVED_LOST.into());
                if !live.move_run(tx, RunMove::Lose, actor, &facts)? {
                    return Err(conflict());
                }
            }
            live.save(tx)?;
        }
        Ok(lost)
    }
}
