//! Task definitions: publication (T13), deletion and reads.

use super::definition;
use super::fail::Fail;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::{MutationId, RunId};
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::Authority;
use crate::model::record::{Task, TaskHead};
use crate::model::task::TaskPut;
use crate::model::word::FenceReason;
use rusqlite::params;

/// T13: stores a revision, its context recipe, its execution revision (when enabled) and the head,
/// with the `allowed` audit row, in one transaction. Disabling cancels the task's queued Runs in
/// the same transaction (design D14).
pub struct PublishTask {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// What to store.
    pub put: TaskPut,
}

/// What became of a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The task is new.
    Created(TaskHead),
    /// It has a new revision. These of its queued Runs were cancelled.
    Updated(TaskHead, Vec<RunId>),
    /// The same mutation was stored before.
    Existing(TaskHead),
    /// A fence did not hold.
    Refused(FenceReason),
    /// A record needed for the decision is missing or damaged.
    Unavailable(&'static str),
}

/// Deletes a task: a tombstone, so that its id is never used for something else unseen (a later
/// PUT with `expectedRevision` null starts at the next revision). Its queued Runs are cancelled in
/// the same transaction; its history stays.
pub struct DeleteTask {
    /// Who asks and on what basis.
    pub authority: Authority,
    /// Which task.
    pub task: Name,
    /// The mutation's name.
    pub mutation: MutationId,
    /// The revision the caller has seen.
    pub expected_revision: i64,
}

/// What became of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone. These of its queued Runs were cancelled.
    Done(Vec<RunId>),
    /// The same mutation deleted it before.
    Existing,
    /// No such task.
    NotFound,
    /// A fence did not hold.
    Refused(FenceReason),
}

/// Reads one task, whole, its digest checked. `None`: no such task.
pub struct GetTask {
    /// The project.
    pub project: Name,
    /// Which task.
    pub task: Name,
}

impl Operation for GetTask {
    type Out = Option<Task>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        definition::current(tx, &self.project, &self.task)
    }
}

/// Reads one page of tasks by id, disabled ones included.
pub struct ListTasks {
    /// The project.
    pub project: Name,
    /// Only ids greater than this.
    pub after: Option<Name>,
    /// At most so many.
    pub limit: usize,
}

impl Operation for ListTasks {
    /// The page and whether there are more.
    type Out = (Vec<TaskHead>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = self.limit.min(limits::PAGE_MAX);
        let after = self.after.as_ref().map_or("", Name::as_str);
        let sql = "SELECT id FROM tasks WHERE project = ?1 AND id > ?2 AND deleted = 0 ORDER BY id LIMIT ?3";
        let ids: Vec<Name> = tx.rows(sql, params![self.project, after, limit + 1], |row| row.get(0))?;
        let more = ids.len() > limit;
        let mut page = Vec::with_capacity(limit);
        for id in ids.iter().take(limit) {
            page.extend(definition::current(tx, &self.project, id)?.map(|task| task.head));
        }
        Ok((page, more))
    }
}
