//! Role bindings: append-only, the highest version is the current one (spec/control section 1).

use super::access::{Bind, Bound, ListAccess};
use super::audit;
use super::credential;
use super::fail::Fail;
use super::fence;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::MutationId;
use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::{Permission, Role, Subject, SubjectKind};
use crate::model::record::Binding;
use crate::model::word::FenceReason;
use rusqlite::{Row, params};

/// A binding's next version.
pub(super) struct Next<'a> {
    pub(super) project: &'a Name,
    pub(super) subject: &'a Subject,
    pub(super) role: Option<Role>,
    pub(super) mutation: Option<MutationId>,
    pub(super) by: &'a Subject,
}

/// Stores a binding's next version.
pub(super) fn append(tx: &Tx<'_>, next: &Next<'_>) -> Result<Binding, Fail> {
    let version = fence::binding(tx, next.project, next.subject)?.map_or(0, |(version, _)| version) + 1;
    let now_ms = tx.now_ms();
    let sql = "INSERT INTO role_bindings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    tx.change(
        sql,
        params![
            next.project,
            next.subject.kind,
            next.subject.id,
            version,
            next.role,
            next.mutation,
            next.by.kind,
            next.by.id,
            now_ms,
        ],
    )?;
    Ok(Binding { subject: next.subject.clone(), role: next.role, version, changed_at_ms: now_ms })
}

/// Whether somebody other than `subject` is an owner now. An agent only reads, so one does not count.
fn other_owner(tx: &Tx<'_>, project: &Name, subject: &Subject) -> Result<bool, Fail> {
    let sql = "SELECT 1 FROM role_bindings b WHERE project = ?1 AND role = 'owner' AND subject_type <> 'agent'
        AND version = (SELECT max(version) FROM role_bindings WHERE project = b.project
            AND subject_type = b.subject_type AND subject_id = b.subject_id)
        AND (subject_type, subject_id) <> (?2, ?3) LIMIT 1";
    let mut query = tx.conn.prepare_cached(sql)?;
    Ok(query.exists(params![project, subject.kind, subject.id])?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Binding> {
    Ok(Binding {
        subject: fence::read_subject(row, 0)?,
        role: row.get(2)?,
        version: row.get(3)?,
        changed_at_ms: row.get(4)?,
    })
}

impl Operation for Bind {
    type Out = Bound;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Bound, Fail> {
        let (by, project) = (&self.authority, &self.authority.project);
        let operation = if self.role.is_some() { "access.grant" } else { "access.revoke" };
        let target = self.subject.to_string();
        let Some(own_role) = fence::held(tx, by, Permission::PolicyManage)? else {
            return Ok(Bound::Refused(audit::fenced(tx, by, operation, &target)?));
        };
        let sql = "SELECT subject_type, subject_id, role, version, changed_at_ms FROM role_bindings
            WHERE project = ?1 AND mutation = ?2";
        let stored = tx.find(sql, params![project, self.mutation], read)?;
        if let Some(stored) = stored {
            let same = stored.subject == self.subject && stored.role == self.role;
            return Ok(if same { Bound::Existing(stored) } else { Bound::Refused(FenceReason::MutationConflict) });
        }
        let current = fence::binding(tx, project, &self.subject)?.and_then(|(_, role)| role);
        if current.is_none() && self.role.is_none() {
            return Ok(Bound::NotFound);
        }
        let touches_owner = [current, self.role].contains(&Some(Role::Owner));
        let allowed =
            self.subject.kind != SubjectKind::System && (!touches_owner || own_role.holds(Permission::ProjectManage));
        if !allowed {
            audit::refused(tx, by, operation, &target, "forbidden")?;
            return Ok(Bound::Forbidden);
        }
        let takes_owner = current == Some(Role::Owner) && self.role != Some(Role::Owner);
        if takes_owner && !other_owner(tx, project, &self.subject)? {
            audit::refused(tx, by, operation, &target, FenceReason::LastOwner.word())?;
            return Ok(Bound::Refused(FenceReason::LastOwner));
        }
        let (mutation, subject) = (Some(self.mutation), &self.subject);
        let binding = append(tx, &Next { project, subject, role: self.role, mutation, by: &by.subject })?;
        audit::allowed(tx, by, operation, &target)?;
        if self.role == Some(Role::Owner) && current != self.role {
            // An admin may have made some of them, and must not come to hold an owner's.
            for id in credential::revoke_all(tx, subject, &by.subject)? {
                audit::allowed(tx, by, "credential.revoke", &credential::target(subject, &id))?;
            }
        }
        Ok(Bound::Done(binding))
    }
}

impl Operation for ListAccess {
    /// Bindings with their subjects' credentials and the days these were used last, and whether there are
    /// more.
    type Out = (Vec<(Binding, Vec<credential::Used>)>, bool);

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let limit = limits::PAGE_MAX;
        let after = self.after.as_ref().map_or(("", ""), |subject| (subject.kind.word(), &subject.id));
        let sql = "SELECT subject_type, subject_id, role, version, changed_at_ms FROM role_bindings b
            WHERE project = ?1 AND (subject_type, subject_id) > (?2, ?3)
            AND version = (SELECT max(version) FROM role_bindings WHERE project = b.project
                AND subject_type = b.subject_type AND subject_id = b.subject_id)
            ORDER BY subject_type, subject_id LIMIT ?4";
        let mut bindings = tx.rows(sql, params![self.project, after.0, after.1, limit + 1], read)?;
        let more = bindings.len() > limit;
        bindings.truncate(limit);
        let mut page = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let credentials = credential::of_subject(tx, &binding.subject, limit)?;
            page.push((binding, credentials));
        }
        Ok((page, more))
    }
}
