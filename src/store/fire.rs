//! T1c: making the run of an occurrence, or noting why there is none, and moving the schedule on: one
//! transaction, so that no crash makes a run twice or not at all (spec/execution section 11).
//!
//! When a trigger is due next is not this module's knowledge; the caller says.

use super::definition;
use super::event::Fact;
use super::fail::Fail;
use super::queue::{self, NewRun};
use super::start::Admitted;
use super::thread::Operation;
use super::trigger;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::{RunId, Uuid};
use crate::model::life::RunState;
use crate::model::limits::PAGE_MAX;
use crate::model::name::Name;
use crate::model::record::TriggerHead;
use crate::model::trigger::{Overlap, Trigger};
use rusqlite::params;

/// Reads the triggers that are due by time or still to be computed, earliest first.
pub struct ListDue {
    /// The wall clock.
    pub now_ms: i64,
    /// At most so many.
    pub limit: usize,
}

/// A trigger that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Its project.
    pub project: Name,
    /// Which trigger.
    pub id: Name,
    /// Its revision, for the decision to be held to.
    pub revision: i64,
    /// Its schedule's version, for the same.
    pub version: i64,
    /// What it is.
    pub trigger: Trigger,
    /// When it was due; 0: still to be computed.
    pub next_fire_at_ms: i64,
    /// The last instant that was decided.
    pub last_scheduled_at_ms: Option<i64>,
}

impl Operation for ListDue {
    /// The page, and when the next one after it is due.
    type Out = (Vec<Due>, Option<i64>);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let sql = "SELECT s.project, s.trigger_id, s.version, s.next_fire_at_ms, s.last_scheduled_at_ms
            FROM trigger_schedules s INDEXED BY trigger_schedules_due
            WHERE s.next_fire_at_ms IS NOT NULL ORDER BY s.next_fire_at_ms LIMIT ?1";
        let limit = self.limit.min(PAGE_MAX);
        let rows: Vec<(Name, Name, i64, i64, Option<i64>)> = tx.rows(sql, params![limit + 1], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        })?;
        let mut page = Vec::new();
        for (at, (project, id, version, next_fire_at_ms, last_scheduled_at_ms)) in rows.into_iter().enumerate() {
            if next_fire_at_ms > self.now_ms || at == limit {
                return Ok((page, Some(next_fire_at_ms)));
            }
            // A damaged one must not hold up the others: it shows as damaged where it is read, and its
            // schedule ends until it is set anew.
            let found = match trigger::head(tx, &project, &id)? {
                Some(head) if !head.deleted => head.trigger(&project, &id).ok().map(|t| (head.revision, t)),
                _ => None,
            };
            let Some((revision, trigger)) = found else {
                let sql = "UPDATE trigger_schedules SET next_fire_at_ms = NULL, version = version + 1
                    WHERE project = ?1 AND trigger_id = ?2";
                tx.change(sql, params![project, id])?;
                continue;
            };
            page.push(Due { project, id, revision, version, trigger, next_fire_at_ms, last_scheduled_at_ms });
        }
        Ok((page, None))
    }
}

/// Decides one occurrence of a schedule.
pub struct Fire {
    /// What was due, as it was read.
    pub due: Due,
    /// The instant that is decided; `None` only computes what comes next.
    pub scheduled_for_ms: Option<i64>,
    /// Why it makes no run, if it was decided so before.
    pub skip: Option<&'static str>,
    /// When it is due next; `None`: never again.
    pub next_fire_at_ms: Option<i64>,
    /// The wall clock that this was computed by.
    pub computed_at_ms: i64,
}

/// What became of an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fired {
    /// It made a Run.
    Admitted(Admitted),
    /// It makes none; the machine word says why.
    Skipped(&'static str),
    /// It had made one before.
    Existing,
    /// There was no occurrence: what comes next was stored.
    Moved,
    /// Trigger or schedule have changed meanwhile; nothing was written.
    Raced,
}

impl Operation for Fire {
    type Out = Fired;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Fired, Fail> {
        let due = &self.due;
        let Some(head) = trigger::current(tx, &due.project, &due.id)? else { return Ok(Fired::Raced) };
        if head.revision != due.revision || head.schedule.version != due.version || !head.trigger.enabled {
            return Ok(Fired::Raced);
        }
        let sql = "UPDATE trigger_schedules SET next_fire_at_ms = ?3, computed_at_ms = ?4, version = version + 1,
            last_scheduled_at_ms = coalesce(?5, last_scheduled_at_ms)
            WHERE project = ?1 AND trigger_id = ?2";
        tx.change(
            sql,
            params![due.project, due.id, self.next_fire_at_ms, self.computed_at_ms, self.scheduled_for_ms,],
        )?;
        let Some(at_ms) = self.scheduled_for_ms else { return Ok(Fired::Moved) };
        if let Some(reason) = self.skip {
            skip(tx, &due.project, &due.id, at_ms, reason)?;
            return Ok(Fired::Skipped(reason));
        }
        let key = format!("ql3:cron:v1:{}:{}:{at_ms}", due.id, head.revision);
        let cause = Cause { scheduled_for_ms: Some(at_ms), at_ms, run: None, depth: None };
        admit(tx, &due.project, &head, &key, &cause)
    }
}

/// What an occurrence came of.
pub(super) struct Cause {
    /// The instant it was scheduled for.
    pub(super) scheduled_for_ms: Option<i64>,
    /// The time a skip is noted with.
    pub(super) at_ms: i64,
    /// The Run whose end it is.
    pub(super) run: Option<RunId>,
    /// How many Runs have led to one another before it.
    pub(super) depth: Option<i64>,
}

/// Makes the Run of an occurrence under its key, or notes why there is none.
pub(super) fn admit(
    tx: &mut Tx<'_>,
    project: &Name,
    head: &TriggerHead,
    key: &str,
    cause: &Cause,
) -> Result<Fired, Fail> {
    if queue::find(tx, project, key)?.is_some() {
        return Ok(Fired::Existing);
    }
    let trigger = &head.trigger;
    let reason = match head.pin.word() {
        Some(reason) => Some(reason),
        None if !may_start(tx, project, head)? => Some("overlap"),
        None if queue::is_full(tx)? => Some("queue_full"),
        None => None,
    };
    let executable = match reason {
        Some(reason) => Err(reason),
        None => definition::executable(tx, project, &trigger.task, trigger.pin)?.map_err(|why| why.word()),
    };
    let execution = match executable {
        Ok(executable) => executable.digest,
        Err(reason) => {
            skip(tx, project, &head.id, cause.at_ms, reason)?;
            return Ok(Fired::Skipped(reason));
        }
    };
    let mut facts = vec![
        Fact::Definition(trigger.pin.digest),
        Fact::Execution(execution),
        Fact::Trigger(head.revision, head.digest),
    ];
    facts.extend(cause.run.map(Fact::Cause));
    let new = NewRun {
        project,
        task: &trigger.task,
        task_ref: trigger.pin,
        origin: "trigger",
        trigger_type: match &trigger.when {
            crate::model::trigger::When::Cron { .. } => "cron",
            crate::model::trigger::When::Boot => "boot",
            crate::model::trigger::When::RunFinished { .. } => "run_finished",
        },
        trigger: Some((&head.id, head.revision)),
        serial: trigger.overlap == Overlap::Queue,
        scheduled_for_ms: cause.scheduled_for_ms,
        cause: cause.run.zip(cause.depth),
        retry_of: None,
        key,
        actor: &Actor::Scheduler,
        facts: &facts,
    };
    let admitted = queue::insert(tx, &new)?;
    let sql = "UPDATE trigger_schedules SET last_run = ?3 WHERE project = ?1 AND trigger_id = ?2";
    tx.change(sql, params![project, head.id, admitted.run])?;
    Ok(Fired::Admitted(admitted))
}

/// Whether its overlap rule lets it start beside its own Runs that are not over. A lost one is over as
/// far as anybody knows.
fn may_start(tx: &Tx<'_>, project: &Name, head: &TriggerHead) -> Result<bool, Fail> {
    if head.trigger.overlap == Overlap::Allow {
        return Ok(true);
    }
    // What is open is as small as the queue.
    let sql = "SELECT status FROM runs INDEXED BY runs_open
        WHERE finished_at_ms IS NULL AND status IN ('queued', 'dispatching', 'running', 'retry_wait')
            AND trigger_id = ?2 AND project = ?1";
    let states = tx.rows(sql, params![project, head.id], |row| row.get::<_, RunState>(0))?;
    Ok(match head.trigger.overlap {
        Overlap::Allow => true,
        Overlap::Skip => states.is_empty(),
        Overlap::Queue => !states.contains(&RunState::Queued),
    })
}

/// Notes an occurrence that makes no Run.
pub(super) fn skip(tx: &Tx<'_>, project: &Name, id: &Name, at_ms: i64, reason: &str) -> Result<(), Fail> {
    let sql = "UPDATE trigger_schedules SET skipped = skipped + 1, last_skipped_at_ms = ?3, last_skip_reason = ?4
        WHERE project = ?1 AND trigger_id = ?2";
    tx.change(sql, params![project, id, at_ms, reason])?;
    Ok(())
}

/// Lets every schedule that was computed when the wall clock stood after this instant be computed anew:
/// the clock was set back.
pub struct RecomputeAfter {
    /// The instant.
    pub after_ms: i64,
}

impl Operation for RecomputeAfter {
    /// How many there were.
    type Out = usize;

    fn perform(self, tx: &mut Tx<'_>) -> Result<usize, Fail> {
        // Walks every schedule: asked for only when the clock was set back.
        let sql = "UPDATE trigger_schedules SET next_fire_at_ms = 0, version = version + 1
            WHERE next_fire_at_ms > 0 AND computed_at_ms > ?1";
        tx.change(sql, params![self.after_ms])
    }
}

/// Makes the Runs of triggers at boot that have none of this boot: at most a page of them.
pub struct FireAtBoot {
    /// This boot.
    pub boot: Uuid,
    /// Only triggers after this one.
    pub after: Option<(Name, Name)>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for FireAtBoot {
    /// The last trigger that was looked at when there may be more, and how many Runs were made.
    type Out = (Option<(Name, Name)>, usize);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let (project, id) = self.after.map_or((String::new(), String::new()), |(p, i)| (p.to_string(), i.to_string()));
        let limit = self.limit.min(PAGE_MAX);
        let sql = "SELECT project, id FROM triggers INDEXED BY triggers_at_boot
            WHERE kind = 'boot' AND (project, id) > (?1, ?2) ORDER BY project, id LIMIT ?3";
        let rows: Vec<(Name, Name)> =
            tx.rows(sql, params![project, id, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut made = 0;
        for (project, id) in &rows {
            let Ok(Some(head)) = trigger::current(tx, project, id) else { continue };
            let sql = "UPDATE trigger_schedules SET last_boot = ?3, version = version + 1
                WHERE project = ?1 AND trigger_id = ?2 AND last_boot IS NOT ?3";
            let fresh = tx.change(sql, params![project, id, *self.boot.as_bytes()])? == 1;
            if !fresh || !head.trigger.enabled {
                continue;
            }
            let key = format!("ql3:boot:v1:{id}:{}:{}", head.revision, self.boot);
            let cause = Cause { scheduled_for_ms: None, at_ms: tx.now_ms(), run: None, depth: None };
            made += usize::from(matches!(admit(tx, project, &head, &key, &cause)?, Fired::Admitted(_)));
        }
        let more = (rows.len() == limit).then(|| rows.into_iter().next_back()).flatten();
        Ok((more, made))
    }
}
