//! Reading triggers, each checked against its digest; what does not match is damaged.

use super::definition;
use super::fail::Fail;
use super::tx::Tx;
use crate::model::digest::Digest;
use crate::model::name::Name;
use crate::model::record::{PinState, Schedule, TriggerHead};
use crate::model::task::TaskRef;
use crate::model::trigger::Trigger;
use rusqlite::params;

/// A trigger whose record is not what it must be.
pub(super) const DAMAGED: Fail = Fail::Word("trigger_record_damaged");

/// A trigger's head row.
pub(super) struct HeadRow {
    pub(super) revision: i64,
    pub(super) deleted: bool,
    pub(super) created_at_ms: i64,
    pub(super) updated_at_ms: i64,
    pub(super) task: Name,
    pub(super) digest: Digest,
    pub(super) definition: String,
}

impl HeadRow {
    /// What it defines, checked.
    pub(super) fn trigger(&self, project: &Name, id: &Name) -> Result<Trigger, Fail> {
        if Trigger::digest(&self.definition) != self.digest {
            return Err(DAMAGED);
        }
        Trigger::from_canonical(&self.definition, project, id, self.revision).ok_or(DAMAGED)
    }
}

pub(super) fn head(tx: &Tx<'_>, project: &Name, id: &Name) -> Result<Option<HeadRow>, Fail> {
    let sql = "SELECT revision, deleted, created_at_ms, updated_at_ms, digest, definition, task FROM triggers
        WHERE project = ?1 AND id = ?2";
    tx.find(sql, params![project, id], |row| {
        Ok(HeadRow {
            revision: row.get(0)?,
            deleted: row.get(1)?,
            created_at_ms: row.get(2)?,
            updated_at_ms: row.get(3)?,
            digest: row.get(4)?,
            definition: row.get(5)?,
            task: row.get(6)?,
        })
    })
}

/// A live trigger, whole. `None`: no such trigger, or deleted.
pub(super) fn current(tx: &Tx<'_>, project: &Name, id: &Name) -> Result<Option<TriggerHead>, Fail> {
    let Some(row) = head(tx, project, id)?.filter(|row| !row.deleted) else { return Ok(None) };
    let trigger = row.trigger(project, id)?;
    let pin = pin(tx, project, &trigger.task, trigger.pin)?;
    Ok(Some(TriggerHead {
        id: id.clone(),
        revision: row.revision,
        digest: row.digest,
        pin,
        trigger,
        created_at_ms: row.created_at_ms,
        updated_at_ms: row.updated_at_ms,
        schedule: schedule(tx, project, id)?.ok_or(DAMAGED)?,
    }))
}

/// How the pinned task stands now.
pub(super) fn pin(tx: &Tx<'_>, project: &Name, task: &Name, pinned: TaskRef) -> Result<PinState, Fail> {
    let Some(current) = definition::current(tx, project, task)? else { return Ok(PinState::TaskDeleted) };
    Ok(match (current.head.enabled, current.head.task_ref == pinned) {
        (false, _) => PinState::TaskDisabled,
        (true, false) => PinState::Stale,
        (true, true) => PinState::Good,
    })
}

fn schedule(tx: &Tx<'_>, project: &Name, id: &Name) -> Result<Option<Schedule>, Fail> {
    let sql = "SELECT version, next_fire_at_ms, last_scheduled_at_ms, last_run, skipped, last_skipped_at_ms,
            last_skip_reason
        FROM trigger_schedules WHERE project = ?1 AND trigger_id = ?2";
    tx.find(sql, params![project, id], |row| {
        Ok(Schedule {
            version: row.get(0)?,
            next_fire_at_ms: row.get(1)?,
            last_scheduled_at_ms: row.get(2)?,
            last_run: row.get(3)?,
            skipped: row.get(4)?,
            last_skipped_at_ms: row.get(5)?,
            last_skip_reason: row.get(6)?,
        })
    })
}
