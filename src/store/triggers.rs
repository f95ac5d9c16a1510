//! Triggers: storing, deleting and reading them. This is their face; `trigger` reads rows, `fire` and
//! `chain` make runs of them.

use super::fail::Fail;
use super::thread::Operation;
use super::trigger;
use super::tx::Tx;
use crate::model::id::{MutationId, RunId, Uuid};
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::Authority;
use crate::model::record::TriggerHead;
use crate::model::trigger::Trigger;
use crate::model::word::FenceReason;
use rusqlite::params;

/// Stores a trigger's revision, its head and a fresh schedule, with the `allowed` audit row, in one
/// transaction. An enabled one must pin the current, enabled revision of its task; a disabled one may
/// keep an old pin, so that it can always be switched off. Disabling cancels its waiting Runs.
pub struct PutTrigger {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which trigger.
    pub id: Name,
    /// The mutation's own name.
    pub mutation: MutationId,
    /// The revision it replaces; `None` creates.
    pub expected_revision: Option<i64>,
    /// What it becomes.
    pub trigger: Trigger,
    /// This boot, in which a new trigger at boot is not due any more. `None`: nobody knows it.
    pub boot: Option<Uuid>,
}

/// What became of storing a trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerPut {
    /// It is new.
    Created(Box<TriggerHead>),
    /// It has a new revision. These of its waiting Runs were cancelled.
    Updated(Box<TriggerHead>, Vec<RunId>),
    /// The same mutation was stored before.
    Existing(Box<TriggerHead>),
    /// A fence did not hold.
    Refused(FenceReason),
    /// Its task, or the task it watches, is not there.
    TaskNotFound,
    /// A record needed for the decision is missing or damaged.
    Unavailable(&'static str),
}

/// Deletes a trigger and cancels its waiting Runs. Its runs and revisions stay.
pub struct DeleteTrigger {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which trigger.
    pub id: Name,
    /// The mutation's name.
    pub mutation: MutationId,
    /// The revision the caller has seen.
    pub expected_revision: i64,
}

/// What became of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerDeleted {
    /// It is gone. These of its waiting Runs were cancelled.
    Done(Vec<RunId>),
    /// The same mutation deleted it before.
    Existing,
    /// No such trigger.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
}

/// Reads one trigger. `None`: no such trigger.
pub struct GetTrigger {
    /// The project.
    pub project: Name,
    /// Which trigger.
    pub id: Name,
}

impl Operation for GetTrigger {
    type Out = Option<TriggerHead>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        trigger::current(tx, &self.project, &self.id)
    }
}

/// Reads one page of triggers by id, disabled ones included.
pub struct ListTriggers {
    /// The project.
    pub project: Name,
    /// Only ids greater than this.
    pub after: Option<Name>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListTriggers {
    /// The page and whether there are more.
    type Out = (Vec<TriggerHead>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = self.limit.min(limits::PAGE_MAX);
        let after = self.after.as_ref().map_or("", Name::as_str);
        let sql = "SELECT id FROM triggers WHERE project = ?1 AND id > ?2 AND deleted = 0 ORDER BY id LIMIT ?3";
        let ids: Vec<Name> = tx.rows(sql, params![self.project, after, limit + 1], |row| row.get(0))?;
        let more = ids.len() > limit;
        let mut page = Vec::with_capacity(limit);
        for id in ids.iter().take(limit) {
            page.extend(trigger::current(tx, &self.project, id)?);
        }
        Ok((page, more))
    }
}
