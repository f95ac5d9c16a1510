//! T13: storing a task's revision with everything that a start of it needs, and deleting tasks.

use super::audit;
use super::definition::{self, MutationRow};
use super::fail::Fail;
use super::fence;
use super::tasks::{DeleteTask, Deleted, PublishTask, Published};
use super::thread::Operation;
use super::trigger_put;
use super::tx::Tx;
use super::withdraw;
use crate::model::event::Actor;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::Permission;
use crate::model::record::TaskHead;
use crate::model::task::{Compiled, Definition, TaskRef};
use crate::model::word::FenceReason;
use rusqlite::params;

const DELETE: &str = "task.delete";

impl Operation for PublishTask {
    type Out = Published;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Published, Fail> {
        let (by, put) = (&self.authority, &self.put);
        let (operation, permission) = match put.expected_revision {
            None => ("task.create", Permission::TaskCreate),
            Some(_) => ("task.update", Permission::TaskUpdate),
        };
        if fence::held(tx, by, permission)?.is_none() {
            return Ok(Published::Refused(audit::fenced(tx, by, operation, put.task.as_str())?));
        }
        let uses_secrets = !put.definition.command.secrets().is_empty();
        if uses_secrets && fence::held(tx, by, Permission::SecretUse)?.is_none() {
            return Ok(Published::Refused(audit::fenced(tx, by, operation, put.task.as_str())?));
        }
        if let Some(stored) = definition::publication(tx, put.mutation)? {
            return self.replay(tx, &stored);
        }
        if definition::deletion(tx, put.mutation)?.is_some() {
            return Ok(Published::Refused(FenceReason::MutationConflict));
        }
        let head = definition::head(tx, &by.project, &put.task)?;
        // A deleted task is not there for an update, and its number goes on for a new one.
        let current = head.as_ref().filter(|head| !head.deleted).map(|head| head.revision);
        if current != put.expected_revision {
            return Ok(Published::Refused(FenceReason::DefinitionChanged));
        }
        let revision = head.as_ref().map_or(0, |head| head.revision) + 1;
        if revision > limits::REVISION_MAX {
            return Ok(Published::Unavailable("revisions_used_up"));
        }
        let now_ms = head.as_ref().map_or(0, |head| head.updated_at_ms).max(tx.now_ms());
        let created_at_ms = head.filter(|head| !head.deleted).map_or(now_ms, |head| head.created_at_ms);
        let task_ref = self.store(tx, revision, now_ms)?;
        let sql = "INSERT INTO tasks VALUES (?1, ?2, ?3, 0, ?4, ?5) ON CONFLICT DO UPDATE
            SET revision = excluded.revision, deleted = 0, created_at_ms = excluded.created_at_ms,
            updated_at_ms = excluded.updated_at_ms";
        tx.change(sql, params![by.project, put.task, revision, created_at_ms, now_ms])?;
        let mut cancelled = Vec::new();
        if !put.definition.enabled {
            let actor = Actor::Subject(by.subject.clone());
            cancelled = withdraw::queued_runs(tx, &by.project, &put.task, &actor)?;
        } else if put.repin {
            trigger_put::repin(tx, &by.project, &put.task, task_ref)?;
        }
        audit::allowed(tx, by, operation, put.task.as_str())?;
        let head = TaskHead {
            task: put.task.clone(),
            task_ref,
            title: put.definition.title.clone(),
            enabled: put.definition.enabled,
            created_at_ms,
            updated_at_ms: now_ms,
        };
        Ok(match put.expected_revision {
            None => Published::Created(head),
            Some(_) => Published::Updated(head, cancelled),
        })
    }
}

impl PublishTask {
    /// Stores the revision, its recipe and its execution revision.
    fn store(&self, tx: &Tx<'_>, revision: i64, now_ms: i64) -> Result<TaskRef, Fail> {
        let (project, put) = (&self.authority.project, &self.put);
        let canonical = put.definition.canonical(project, &put.task, revision);
        let task_ref = TaskRef { revision, digest: Definition::digest(&canonical) };
        let sql = "INSERT INTO task_revisions (project, task, revision, replaces, mutation, digest, created_at_ms,
            definition) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        tx.change(
            sql,
            params![
                project,
                put.task,
                revision,
                put.expected_revision,
                put.mutation,
                task_ref.digest,
                now_ms,
                canonical,
            ],
        )?;
        if !put.definition.enabled {
            return Ok(task_ref);
        }
        let compiled = Compiled::new(&put.definition.command, project, &put.task, task_ref);
        let sql = "SELECT bindings FROM context_recipes WHERE ref = ?1";
        match tx.find(sql, params![compiled.context_ref], |row| row.get::<_, String>(0))? {
            Some(bindings) if bindings == compiled.context => {}
            Some(_) => return Err(Fail::Word("context_recipe_damaged")),
            None => {
                let sql = "INSERT INTO context_recipes VALUES (?1, ?2, ?3)";
                tx.change(sql, params![compiled.context_ref, compiled.context, now_ms])?;
            }
        }
        let sql = "INSERT INTO execution_revisions (project, task, revision, task_digest, digest, context_ref,
            created_at_ms, execution) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        tx.change(
            sql,
            params![
                project,
                put.task,
                revision,
                task_ref.digest,
                compiled.execution_digest,
                compiled.context_ref,
                now_ms,
                compiled.execution,
            ],
        )?;
        Ok(task_ref)
    }

    /// Answers from what the same mutation stored, when it is the same and still whole.
    fn replay(&self, tx: &Tx<'_>, stored: &MutationRow) -> Result<Published, Fail> {
        let (project, put) = (&self.authority.project, &self.put);
        if (&stored.project, &stored.task, stored.replaces) != (project, &put.task, put.expected_revision) {
            return Ok(Published::Refused(FenceReason::MutationConflict));
        }
        let revision = match definition::revision(tx, project, &put.task, stored.revision) {
            Ok(revision) => revision,
            Err(Fail::Word(word)) => return Ok(Published::Unavailable(word)),
            Err(fail) => return Err(fail),
        };
        if put.definition.canonical(project, &put.task, stored.revision) != revision.canonical {
            return Ok(Published::Refused(FenceReason::MutationConflict));
        }
        if put.definition.enabled
            && let Err(why) = definition::executable(tx, project, &put.task, revision.task_ref)?
        {
            return Ok(Published::Unavailable(why.word()));
        }
        let head = definition::head(tx, project, &put.task)?.ok_or(definition::TASK_DAMAGED)?;
        Ok(Published::Existing(TaskHead {
            task: put.task.clone(),
            task_ref: revision.task_ref,
            title: revision.definition.title,
            enabled: revision.definition.enabled,
            created_at_ms: head.created_at_ms,
            updated_at_ms: revision.created_at_ms,
        }))
    }
}

impl Operation for DeleteTask {
    type Out = Deleted;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Deleted, Fail> {
        let by = &self.authority;
        if fence::held(tx, by, Permission::TaskDelete)?.is_none() {
            return Ok(Deleted::Refused(audit::fenced(tx, by, DELETE, self.task.as_str())?));
        }
        if let Some(stored) = definition::deletion(tx, self.mutation)? {
            let asked: (&Name, &Name, i64) = (&by.project, &self.task, self.expected_revision);
            let same = (&stored.project, &stored.task, stored.revision) == asked;
            return Ok(if same { Deleted::Existing } else { Deleted::Refused(FenceReason::MutationConflict) });
        }
        if definition::publication(tx, self.mutation)?.is_some() {
            return Ok(Deleted::Refused(FenceReason::MutationConflict));
        }
        let Some(head) = definition::head(tx, &by.project, &self.task)?.filter(|head| !head.deleted) else {
            return Ok(Deleted::NotFound);
        };
        if head.revision != self.expected_revision {
            return Ok(Deleted::Refused(FenceReason::DefinitionChanged));
        }
        let now_ms = head.updated_at_ms.max(tx.now_ms());
        let sql = "UPDATE tasks SET deleted = 1, updated_at_ms = ?3 WHERE project = ?1 AND id = ?2";
        tx.change(sql, params![by.project, self.task, now_ms])?;
        let sql = "INSERT INTO task_deletions VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![self.mutation, by.project, self.task, head.revision, now_ms];
        tx.change(sql, row)?;
        let actor = Actor::Subject(by.subject.clone());
        let cancelled = withdraw::queued_runs(tx, &by.project, &self.task, &actor)?;
        audit::allowed(tx, by, DELETE, self.task.as_str())?;
        Ok(Deleted::Done(cancelled))
    }
}
