//! Storing and deleting triggers, and pinning those of a task to its new revision.

use super::audit;
use super::definition;
use super::fail::Fail;
use super::fence;
use super::thread::Operation;
use super::trigger::{self, HeadRow};
use super::triggers::{DeleteTrigger, PutTrigger, TriggerDeleted, TriggerPut};
use super::tx::Tx;
use super::withdraw;
use crate::model::digest::Digest;
use crate::model::event::Actor;
use crate::model::id::{MutationId, Uuid};
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::Permission;
use crate::model::task::TaskRef;
use crate::model::trigger::{Trigger, When};
use crate::model::word::FenceReason;
use rusqlite::params;

const DELETE: &str = "trigger.delete";

/// Whose mutation this is, if it was stored. `definition` is `None` for a deletion.
struct Stored {
    project: Name,
    id: Name,
    revision: i64,
    replaces: Option<i64>,
    definition: Option<String>,
}

fn stored(tx: &Tx<'_>, mutation: MutationId) -> Result<Option<Stored>, Fail> {
    let sql = "SELECT project, trigger_id, revision, replaces, definition FROM trigger_revisions WHERE mutation = ?1";
    tx.find(sql, params![mutation], |row| {
        Ok(Stored {
            project: row.get(0)?,
            id: row.get(1)?,
            revision: row.get(2)?,
            replaces: row.get(3)?,
            definition: row.get(4)?,
        })
    })
}

impl Operation for PutTrigger {
    type Out = TriggerPut;

    fn perform(self, tx: &mut Tx<'_>) -> Result<TriggerPut, Fail> {
        let by = &self.authority;
        let operation = if self.expected_revision.is_none() { "trigger.create" } else { "trigger.update" };
        if fence::held(tx, by, Permission::TaskUpdate)?.is_none() {
            return Ok(TriggerPut::Refused(audit::fenced(tx, by, operation, self.id.as_str())?));
        }
        if let Some(stored) = stored(tx, self.mutation)? {
            return self.replay(tx, &stored);
        }
        let head = trigger::head(tx, &by.project, &self.id)?;
        let live = head.as_ref().filter(|head| !head.deleted);
        if live.map(|head| head.revision) != self.expected_revision {
            return Ok(TriggerPut::Refused(FenceReason::DefinitionChanged));
        }
        if let Some(head) = live
            && head.task != self.trigger.task
        {
            return Ok(TriggerPut::Refused(FenceReason::TaskFixed));
        }
        if let Some(no) = self.pin_refused(tx)? {
            return Ok(no);
        }
        let revision = head.as_ref().map_or(0, |head| head.revision) + 1;
        if revision > limits::REVISION_MAX {
            return Ok(TriggerPut::Unavailable("revisions_used_up"));
        }
        let created_at_ms = live.map(|head| head.created_at_ms);
        let now_ms = head.as_ref().map_or(0, |head| head.updated_at_ms).max(tx.now_ms());
        let new = Edition {
            project: &by.project,
            id: &self.id,
            revision,
            replaces: self.expected_revision,
            mutation: self.mutation,
            trigger: &self.trigger,
            created_at_ms: created_at_ms.unwrap_or(now_ms),
            now_ms,
        };
        new.store(tx, self.boot, created_at_ms.is_none())?;
        let mut cancelled = Vec::new();
        if !self.trigger.enabled {
            let actor = Actor::Subject(by.subject.clone());
            cancelled = withdraw::runs_of_trigger(tx, &by.project, &self.id, &actor)?;
        }
        audit::allowed(tx, by, operation, self.id.as_str())?;
        let head = trigger::current(tx, &by.project, &self.id)?.ok_or(trigger::DAMAGED)?;
        Ok(match self.expected_revision {
            None => TriggerPut::Created(Box::new(head)),
            Some(_) => TriggerPut::Updated(Box::new(head), cancelled),
        })
    }
}

impl PutTrigger {
    /// What an enabled trigger pins must be there as it was seen; what it watches must be there.
    fn pin_refused(&self, tx: &Tx<'_>) -> Result<Option<TriggerPut>, Fail> {
        let project = &self.authority.project;
        if !self.trigger.enabled {
            return Ok(None);
        }
        let task = match definition::current(tx, project, &self.trigger.task) {
            Ok(Some(task)) => task,
            Ok(None) => return Ok(Some(TriggerPut::TaskNotFound)),
            Err(Fail::Word(word)) => return Ok(Some(TriggerPut::Unavailable(word))),
            Err(fail) => return Err(fail),
        };
        if task.head.task_ref != self.trigger.pin {
            return Ok(Some(TriggerPut::Refused(FenceReason::DefinitionChanged)));
        }
        if !task.head.enabled {
            return Ok(Some(TriggerPut::Refused(FenceReason::TaskDisabled)));
        }
        if let When::RunFinished { task, .. } = &self.trigger.when
            && definition::head(tx, project, task)?.is_none_or(|head| head.deleted)
        {
            return Ok(Some(TriggerPut::TaskNotFound));
        }
        Ok(None)
    }

    fn replay(&self, tx: &Tx<'_>, stored: &Stored) -> Result<TriggerPut, Fail> {
        let project = &self.authority.project;
        let asked = (project, &self.id, self.expected_revision);
        let canonical = self.trigger.canonical(project, &self.id, stored.revision);
        let same = (&stored.project, &stored.id, stored.replaces) == asked
            && stored.definition.as_deref() == Some(canonical.as_str());
        if !same {
            return Ok(TriggerPut::Refused(FenceReason::MutationConflict));
        }
        match trigger::current(tx, project, &self.id)? {
            Some(head) => Ok(TriggerPut::Existing(Box::new(head))),
            // Stored, and deleted since: what it made is not there to be shown.
            None => Ok(TriggerPut::Refused(FenceReason::DefinitionChanged)),
        }
    }
}

/// A revision to be stored.
struct Edition<'a> {
    project: &'a Name,
    id: &'a Name,
    revision: i64,
    replaces: Option<i64>,
    mutation: MutationId,
    trigger: &'a Trigger,
    created_at_ms: i64,
    now_ms: i64,
}

impl Edition<'_> {
    /// Stores revision and head, and begins the schedule anew: no instant before now is due. A new
    /// trigger has no past either.
    fn store(&self, tx: &Tx<'_>, boot: Option<Uuid>, is_new: bool) -> Result<(), Fail> {
        let canonical = self.trigger.canonical(self.project, self.id, self.revision);
        let digest = Trigger::digest(&canonical);
        self.note(tx, Some(&canonical), digest)?;
        let (kind, watched) = match &self.trigger.when {
            When::Cron { .. } => ("cron", None),
            When::Boot => ("boot", None),
            When::RunFinished { task, .. } => ("run_finished", Some(task)),
        };
        let sql = "INSERT INTO triggers VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO UPDATE
            SET revision = excluded.revision, deleted = 0, kind = excluded.kind, enabled = excluded.enabled,
            task = excluded.task, watched = excluded.watched, digest = excluded.digest,
            definition = excluded.definition, created_at_ms = excluded.created_at_ms,
            updated_at_ms = excluded.updated_at_ms";
        tx.change(
            sql,
            params![
                self.project,
                self.id,
                self.revision,
                kind,
                self.trigger.enabled,
                self.trigger.task,
                watched,
                digest,
                canonical,
                self.created_at_ms,
                self.now_ms,
            ],
        )?;
        let due = (self.trigger.enabled && kind == "cron").then_some(0);
        let boot = boot.filter(|_| kind == "boot").map(|boot| *boot.as_bytes());
        if is_new {
            let sql = "DELETE FROM trigger_schedules WHERE project = ?1 AND trigger_id = ?2";
            tx.change(sql, params![self.project, self.id])?;
        }
        let sql = "INSERT INTO trigger_schedules (project, trigger_id, version, next_fire_at_ms, last_boot, skipped)
            VALUES (?1, ?2, 1, ?3, ?4, 0) ON CONFLICT DO UPDATE
            SET version = version + 1, next_fire_at_ms = excluded.next_fire_at_ms, computed_at_ms = NULL,
            last_boot = coalesce(last_boot, excluded.last_boot)";
        tx.change(sql, params![self.project, self.id, due, boot])?;
        Ok(())
    }

    fn note(&self, tx: &Tx<'_>, canonical: Option<&str>, digest: Digest) -> Result<(), Fail> {
        let sql = "INSERT INTO trigger_revisions (project, trigger_id, revision, replaces, mutation, digest,
            created_at_ms, definition) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        tx.change(sql, params![
            self.project,
            self.id,
            self.revision,
            self.replaces,
            self.mutation,
            digest,
            self.now_ms,
            canonical,
        ])?;
        Ok(())
    }
}

impl Operation for DeleteTrigger {
    type Out = TriggerDeleted;

    fn perform(self, tx: &mut Tx<'_>) -> Result<TriggerDeleted, Fail> {
        let by = &self.authority;
        if fence::held(tx, by, Permission::TaskDelete)?.is_none() {
            return Ok(TriggerDeleted::Refused(audit::fenced(tx, by, DELETE, self.id.as_str())?));
        }
        if let Some(stored) = stored(tx, self.mutation)? {
            let asked = (&by.project, &self.id, Some(self.expected_revision));
            let same = stored.definition.is_none() && (&stored.project, &stored.id, stored.replaces) == asked;
            return Ok(if same {
                TriggerDeleted::Existing
            } else {
                TriggerDeleted::Refused(FenceReason::MutationConflict)
            });
        }
        let Some(head) = trigger::head(tx, &by.project, &self.id)?.filter(|head| !head.deleted) else {
            return Ok(TriggerDeleted::NotFound);
        };
        if head.revision != self.expected_revision {
            return Ok(TriggerDeleted::Refused(FenceReason::DefinitionChanged));
        }
        self.bury(tx, &head)?;
        let actor = Actor::Subject(by.subject.clone());
        let cancelled = withdraw::runs_of_trigger(tx, &by.project, &self.id, &actor)?;
        audit::allowed(tx, by, DELETE, self.id.as_str())?;
        Ok(TriggerDeleted::Done(cancelled))
    }
}

impl DeleteTrigger {
    /// A deletion takes a revision too, so that the next one of this id has another key for the same
    /// instant.
    fn bury(&self, tx: &Tx<'_>, head: &HeadRow) -> Result<(), Fail> {
        let project = &self.authority.project;
        let (revision, now_ms) = (head.revision + 1, head.updated_at_ms.max(tx.now_ms()));
        let sql = "UPDATE triggers SET deleted = 1, enabled = 0, revision = ?3, updated_at_ms = ?4
            WHERE project = ?1 AND id = ?2";
        tx.change(sql, params![project, self.id, revision, now_ms])?;
        let sql = "UPDATE trigger_schedules SET next_fire_at_ms = NULL, version = version + 1
            WHERE project = ?1 AND trigger_id = ?2";
        tx.change(sql, params![project, self.id])?;
        let sql = "INSERT INTO trigger_revisions (project, trigger_id, revision, replaces, mutation, digest,
            created_at_ms, definition) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, NULL)";
        let row = params![project, self.id, revision, head.revision, self.mutation, head.digest, now_ms];
        tx.change(sql, row)?;
        Ok(())
    }
}

/// Pins the enabled triggers of a task to the revision that was just stored, in its transaction. Each
/// gets a revision of its own; schedules go on as they were.
pub(super) fn repin(tx: &mut Tx<'_>, project: &Name, task: &Name, pin: TaskRef) -> Result<usize, Fail> {
    let sql = "SELECT id FROM triggers INDEXED BY triggers_by_task
        WHERE project = ?1 AND task = ?2 AND deleted = 0 AND enabled = 1 ORDER BY id";
    let ids: Vec<Name> = tx.rows(sql, params![project, task], |row| row.get(0))?;
    for id in &ids {
        let head = trigger::head(tx, project, id)?.ok_or(trigger::DAMAGED)?;
        // A damaged one keeps no task from changing; setting it anew mends it.
        let Ok(mut trigger) = head.trigger(project, id) else { continue };
        trigger.pin = pin;
        let now_ms = head.updated_at_ms.max(tx.now_ms());
        let mutation = MutationId(tx.id(now_ms)?);
        let revision = head.revision + 1;
        let new = Edition {
            project,
            id,
            revision,
            replaces: Some(head.revision),
            mutation,
            trigger: &trigger,
            created_at_ms: head.created_at_ms,
            now_ms,
        };
        let canonical = trigger.canonical(project, id, revision);
        let digest = Trigger::digest(&canonical);
        new.note(tx, Some(&canonical), digest)?;
        let sql = "UPDATE triggers SET revision = ?3, digest = ?4, definition = ?5, updated_at_ms = ?6
            WHERE project = ?1 AND id = ?2";
        tx.change(sql, params![project, id, revision, digest, canonical, now_ms])?;
    }
    Ok(ids.len())
}
