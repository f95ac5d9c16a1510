//! T1: admitting a Run of a task, in the fixed order of seed 376 section 2.

use super::audit;
use super::definition;
use super::event::{Fact, in_payload};
use super::fail::Fail;
use super::fence;
use super::queue::{self, NewRun};
use super::start::{AdmitStart, Admitted, Started};
use super::thread::Operation;
use super::tx::Tx;
use crate::model::event::Actor;
use crate::model::id::RunId;
use crate::model::policy::Permission;
use crate::model::task::TaskRef;
use crate::model::word::FenceReason;
use rusqlite::params;

const OPERATION: &str = "task.start";
const RUN_DAMAGED: Fail = Fail::Word("run_record_damaged");

impl Operation for AdmitStart {
    type Out = Started;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Started, Fail> {
        // 1 and 2: project, role and credential are still what the decision was based on.
        if fence::held(tx, &self.authority, Permission::RunStart)?.is_none() {
            return Ok(Started::Refused(audit::fenced(tx, &self.authority, OPERATION, self.task.as_str())?));
        }
        // 3: before the task is looked at, so that a replay is answered whatever became of the task.
        let key = format!("ql3:task-start:v1:{}", self.mutation);
        if let Some(run) = queue::find(tx, &self.authority.project, &key)? {
            return self.replay(tx, run);
        }
        // 4: the definition that the caller has seen is the current one and switched on.
        let task = match definition::current(tx, &self.authority.project, &self.task) {
            Ok(Some(task)) => task,
            Ok(None) => return Ok(Started::TaskNotFound),
            Err(Fail::Word(word)) => return Ok(Started::Unavailable(word)),
            Err(fail) => return Err(fail),
        };
        if task.head.task_ref != self.expected {
            return Ok(Started::Refused(FenceReason::DefinitionChanged));
        }
        if !task.head.enabled {
            return Ok(Started::Refused(FenceReason::TaskDisabled));
        }
        // 5: and what it compiled to is there and whole. An enabled command always has one, so a
        // missing one is a damaged store and not a task that cannot be executed.
        let execution = match definition::executable(tx, &self.authority.project, &self.task, self.expected)? {
            Ok(executable) => executable.digest,
            Err(why) => return Ok(Started::Unavailable(why.word())),
        };
        if queue::is_full(tx)? {
            return Ok(Started::Unavailable("queue_full"));
        }
        // 6
        let actor = Actor::Subject(self.authority.subject.clone());
        let facts = [
            Fact::Definition(self.expected.digest),
            Fact::Execution(execution),
            Fact::Mutation(self.mutation),
            Fact::Fence(self.authority.fence),
        ];
        let new = NewRun {
            project: &self.authority.project,
            task: &self.task,
            task_ref: self.expected,
            origin: "manual",
            trigger_type: "task_start",
            trigger: None,
            serial: false,
            scheduled_for_ms: None,
            cause: None,
            retry_of: None,
            key: &key,
            actor: &actor,
            facts: &facts,
        };
        let admitted = queue::insert(tx, &new)?;
        audit::allowed(tx, &self.authority, OPERATION, self.task.as_str())?;
        Ok(Started::Accepted(admitted))
    }
}

impl AdmitStart {
    /// Compares with what is stored and answers from it, never from this request. The stored policy
    /// fence is history: a role that was given again may repeat its request.
    fn replay(&self, tx: &Tx<'_>, run: RunId) -> Result<Started, Fail> {
        let sql = "SELECT r.task, r.task_revision, r.task_digest, r.queued_at_ms, a.id
            FROM runs r JOIN attempts a ON a.run = r.id AND a.number = 1 WHERE r.id = ?1";
        let found = tx.find(sql, params![run], |row| {
            let task_ref = TaskRef { revision: row.get(1)?, digest: row.get(2)? };
            Ok(Admitted { run, attempt: row.get(4)?, task: row.get(0)?, task_ref, queued_at_ms: row.get(3)? })
        })?;
        let stored = found.ok_or(RUN_DAMAGED)?;
        let sql = "SELECT type, actor_type, actor_id,
                coalesce(mutation = ?2, instr(payload, ?3), 0) AND coalesce(definition_digest = ?4, instr(payload, ?5), 0)
            FROM run_events WHERE run = ?1 AND sequence <= 2 ORDER BY sequence";
        let (mutation, definition) = (self.mutation, self.expected.digest);
        let older = [in_payload("mutationId", &mutation), in_payload("definitionDigest", &definition)];
        let by = &self.authority.subject;
        let events = tx.rows(sql, params![run, mutation, older[0], definition, older[1]], |row| {
            let same_actor =
                row.get_ref(1)?.as_str()? == by.kind.word() && row.get_ref(2)?.as_str_or_null()? == Some(&*by.id);
            Ok((row.get::<_, String>(0)?, same_actor, row.get::<_, bool>(3)?))
        })?;
        let [created, queued] = events.as_slice() else { return Err(RUN_DAMAGED) };
        if (created.0.as_str(), queued.0.as_str()) != ("run.created", "run.queued") {
            return Err(RUN_DAMAGED);
        }
        let same = stored.task == self.task && stored.task_ref == self.expected && created.1 && queued.1 && created.2;
        Ok(if same { Started::Existing(stored) } else { Started::Refused(FenceReason::MutationConflict) })
    }
}
