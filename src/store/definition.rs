//! Reading definitions and what they compile to, each checked against its digest. What does not
//! match is damaged: it is never repaired, and never replaced by something else.

use super::fail::Fail;
use super::tx::Tx;
use crate::model::command::Command;
use crate::model::digest::Digest;
use crate::model::id::MutationId;
use crate::model::name::Name;
use crate::model::record::{Task, TaskHead};
use crate::model::task::{Compiled, Definition, TaskRef};
use rusqlite::params;

pub(super) const TASK_DAMAGED: Fail = Fail::Word("task_record_damaged");

/// A task's head row.
pub(super) struct HeadRow {
    pub(super) revision: i64,
    pub(super) deleted: bool,
    pub(super) created_at_ms: i64,
    pub(super) updated_at_ms: i64,
}

pub(super) fn head(tx: &Tx<'_>, project: &Name, task: &Name) -> Result<Option<HeadRow>, Fail> {
    let sql = "SELECT revision, deleted, created_at_ms, updated_at_ms FROM tasks WHERE project = ?1 AND id = ?2";
    tx.find(sql, params![project, task], |row| {
        Ok(HeadRow {
            revision: row.get(0)?,
            deleted: row.get(1)?,
            created_at_ms: row.get(2)?,
            updated_at_ms: row.get(3)?,
        })
    })
}

/// One stored revision, its digest checked.
pub(super) struct Revision {
    pub(super) task_ref: TaskRef,
    pub(super) definition: Definition,
    pub(super) canonical: String,
    pub(super) created_at_ms: i64,
}

/// Reads a revision. A head that points to a revision which is not there is damaged too.
pub(super) fn revision(tx: &Tx<'_>, project: &Name, task: &Name, revision: i64) -> Result<Revision, Fail> {
    let sql = "SELECT digest, definition, created_at_ms FROM task_revisions
        WHERE project = ?1 AND task = ?2 AND revision = ?3";
    let found = tx.find(sql, params![project, task, revision], |row| {
        Ok((row.get::<_, Digest>(0)?, row.get::<_, String>(1)?, row.get(2)?))
    })?;
    let (digest, canonical, created_at_ms) = found.ok_or(TASK_DAMAGED)?;
    if Definition::digest(&canonical) != digest {
        return Err(TASK_DAMAGED);
    }
    let definition = Definition::from_canonical(&canonical, project, task, revision).ok_or(TASK_DAMAGED)?;
    Ok(Revision { task_ref: TaskRef { revision, digest }, definition, canonical, created_at_ms })
}

/// A live task's current revision, whole. `None`: no such task, or deleted.
pub(super) fn current(tx: &Tx<'_>, project: &Name, task: &Name) -> Result<Option<Task>, Fail> {
    let Some(row) = head(tx, project, task)?.filter(|row| !row.deleted) else { return Ok(None) };
    let revision = revision(tx, project, task, row.revision)?;
    let head = TaskHead {
        task: task.clone(),
        task_ref: revision.task_ref,
        title: revision.definition.title.clone(),
        enabled: revision.definition.enabled,
        created_at_ms: row.created_at_ms,
        updated_at_ms: row.updated_at_ms,
    };
    Ok(Some(Task { head, definition: revision.definition }))
}

/// Whose mutation this is, if it was stored.
pub(super) struct MutationRow {
    pub(super) project: Name,
    pub(super) task: Name,
    pub(super) revision: i64,
    pub(super) replaces: Option<i64>,
}

pub(super) fn publication(tx: &Tx<'_>, mutation: MutationId) -> Result<Option<MutationRow>, Fail> {
    let sql = "SELECT project, task, revision, replaces FROM task_revisions WHERE mutation = ?1";
    tx.find(sql, params![mutation], |row| {
        Ok(MutationRow { project: row.get(0)?, task: row.get(1)?, revision: row.get(2)?, replaces: row.get(3)? })
    })
}

pub(super) fn deletion(tx: &Tx<'_>, mutation: MutationId) -> Result<Option<MutationRow>, Fail> {
    let sql = "SELECT project, task, revision FROM task_deletions WHERE mutation = ?1";
    tx.find(sql, params![mutation], |row| {
        Ok(MutationRow { project: row.get(0)?, task: row.get(1)?, revision: row.get(2)?, replaces: None })
    })
}

/// The immutable inputs of a launch, checked: execution revision and context recipe.
pub(super) struct Executable {
    pub(super) digest: Digest,
    pub(super) command: Command,
}

/// Why a pinned revision cannot be executed.
pub(super) enum NotExecutable {
    /// No execution revision was published, or its recipe is not there.
    Missing,
    /// It does not match its digest, or was made for another definition.
    Damaged,
}

impl NotExecutable {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Missing => "execution_revision_missing",
            Self::Damaged => "execution_revision_damaged",
        }
    }
}

/// Reads and checks what a pinned revision runs.
pub(super) fn executable(
    tx: &Tx<'_>,
    project: &Name,
    task: &Name,
    task_ref: TaskRef,
) -> Result<Result<Executable, NotExecutable>, Fail> {
    let sql = "SELECT e.task_digest, e.digest, e.context_ref, e.execution, c.bindings
        FROM execution_revisions e LEFT JOIN context_recipes c ON c.ref = e.context_ref
        WHERE e.project = ?1 AND e.task = ?2 AND e.revision = ?3";
    let found = tx.find(sql, params![project, task, task_ref.revision], |row| {
        let context: Option<String> = row.get(4)?;
        let (digest, context_ref, execution) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let compiled = context.map(|context| Compiled { context_ref, context, execution, execution_digest: digest });
        Ok((row.get::<_, Digest>(0)?, compiled))
    })?;
    let Some((task_digest, Some(compiled))) = found else { return Ok(Err(NotExecutable::Missing)) };
    if task_digest != task_ref.digest {
        return Ok(Err(NotExecutable::Damaged));
    }
    // Compiling what was read gives the same bytes and digests, or it is not what was stored.
    Ok(match compiled.to_command(project, task, task_ref) {
        Some(command) => Ok(Executable { digest: compiled.execution_digest, command }),
        None => Err(NotExecutable::Damaged),
    })
}
