//! Task definitions in the store: publication all or nothing, replay, revisions, deletion, reads.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::task::TaskRef;
use qinglet::model::word::FenceReason;
use qinglet::store::audit::ListAudit;
use qinglet::store::start::{ListCandidates, Started};
use qinglet::store::tasks::{DeleteTask, Deleted, GetTask, ListTasks, PublishTask, Published};
use store_support::*;

fn get(bench: &Bench, task: &str) -> Option<(i64, bool)> {
    let task = bench.call(GetTask { project: project(), task: name(task) })?;
    Some((task.head.task_ref.revision, task.head.enabled))
}

fn delete(task: &str, expected_revision: i64) -> DeleteTask {
    DeleteTask { authority: authority(), task: name(task), mutation: mutation(), expected_revision }
}

#[test]
fn revisions_count_without_holes_and_stale_ones_are_refused() {
    let bench = Bench::new();
    let changed = Published::Refused(FenceReason::DefinitionChanged);
    assert_eq!(bench.call(put("a", Some(1), "true", true)), changed, "nothing to update");
    let Published::Created(first) = bench.call(put("a", None, "true", true)) else { panic!() };
    assert_eq!((first.task_ref.revision, first.created_at_ms), (1, first.updated_at_ms));
    assert_eq!(bench.call(put("a", None, "true", true)), changed, "it is there already");
    let Published::Updated(second, cancelled) = bench.call(put("a", Some(1), "true", false)) else { panic!() };
    assert_eq!((second.task_ref.revision, second.enabled, cancelled.len()), (2, false, 0));
    assert_eq!(second.created_at_ms, first.created_at_ms);
    assert_eq!(bench.call(put("a", Some(1), "true", true)), changed);
    assert_eq!(get(&bench, "a"), Some((2, false)));
    let rows = bench.call(ListAudit { project: project(), after: None, limit: 64 }).0;
    let rows: Vec<_> = rows.iter().map(|row| (row.operation.as_str(), row.target.as_deref())).collect();
    assert_eq!(rows[..2], [("task.update", Some("a")), ("task.create", Some("a"))]);
}

#[test]
fn a_put_is_replayed_exactly_or_conflicts() {
    let bench = Bench::new();
    let first = put("a", None, "true", true);
    let again = |change: &dyn Fn(&mut PublishTask)| {
        let mut put = PublishTask { authority: first.authority.clone(), put: first.put.clone() };
        change(&mut put);
        put
    };
    let Published::Created(head) = bench.call(again(&|_| ())) else { panic!() };
    bench.call(put("a", Some(1), "false", true));
    assert_eq!(bench.call(again(&|_| ())), Published::Existing(head), "as that mutation made it");
    let conflict = Published::Refused(FenceReason::MutationConflict);
    assert_eq!(bench.call(again(&|p| p.put.task = name("b"))), conflict);
    assert_eq!(bench.call(again(&|p| p.put.expected_revision = Some(2))), conflict);
    assert_eq!(bench.call(again(&|p| p.put.definition.title = "Other".into())), conflict);
    let deletion = DeleteTask { mutation: first.put.mutation, ..delete("a", 2) };
    assert_eq!(bench.call(deletion), Deleted::Refused(FenceReason::MutationConflict));
}

#[test]
fn replay_does_not_repair_missing_revision() {
    let mut bench = Bench::new();
    let first = put("a", None, "true", true);
    let again = || PublishTask { authority: first.authority.clone(), put: first.put.clone() };
    let Published::Created(head) = bench.call(again()) else { panic!() };
    assert_eq!(bench.call(again()), Published::Existing(head));
    for (sql, word) in [
        ("UPDATE execution_revisions SET execution = '{}'", "execution_revision_damaged"),
        ("DELETE FROM execution_revisions", "execution_revision_missing"),
    ] {
        bench.tamper(sql).unwrap();
        let before = rows(&bench);
        for _ in 0..2 {
            assert_eq!(bench.call(again()), Published::Unavailable(word));
        }
        assert_eq!(rows(&bench), before);
    }
}

/// How many rows a publication could have added.
fn rows(bench: &Bench) -> [i64; 5] {
    // A copy as it lies there: the store has the file to itself.
    let folder = Folder::new();
    for entry in std::fs::read_dir(bench.state.path()).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), folder.0.join(entry.file_name())).unwrap();
        }
    }
    let conn = raw(&database(&folder.0));
    ["tasks", "task_revisions", "context_recipes", "execution_revisions", "audit"]
        .map(|table| conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap())
}

#[test]
fn publish_all_or_nothing() {
    let mut bench = Bench::new();
    bench.task("a");
    // Damage that a publication meets only when its task and revision are written already.
    bench.tamper("UPDATE context_recipes SET bindings = '[]'").unwrap();
    let before = rows(&bench);
    for publish in [put("fresh", None, "true", true), put("a", Some(1), "false", true)] {
        assert_eq!(bench.store.call(publish), Err(unavailable("context_recipe_damaged")));
        assert_eq!(rows(&bench), before);
    }
    assert_eq!((get(&bench, "fresh"), get(&bench, "a")), (None, Some((1, true))));
}

#[test]
fn a_deleted_task_is_gone_its_runs_go_with_it_and_its_number_goes_on() {
    let bench = Bench::new();
    let task_ref = bench.task("a");
    let queued = bench.start("a", task_ref);
    assert_eq!(bench.call(delete("b", 1)), Deleted::NotFound);
    assert_eq!(bench.call(delete("a", 2)), Deleted::Refused(FenceReason::DefinitionChanged));
    let gone = delete("a", 1);
    let (mutation, again) = (gone.mutation, || DeleteTask { mutation: gone.mutation, ..delete("a", 1) });
    assert_eq!(bench.call(again()), Deleted::Done(vec![queued.run]));
    assert_eq!(bench.call(again()), Deleted::Existing);
    assert_eq!(bench.call(delete("a", 1)), Deleted::NotFound);
    assert_eq!(get(&bench, "a"), None);
    assert!(bench.call(ListTasks { project: project(), after: None, limit: 64 }).0.is_empty());
    assert!(bench.call(ListCandidates { limit: 4, except: Vec::new() }).is_empty());
    let mut reused = put("a", None, "true", true);
    reused.put.mutation = mutation;
    assert_eq!(bench.call(reused), Published::Refused(FenceReason::MutationConflict));
    let Published::Created(head) = bench.call(put("a", None, "true", true)) else { panic!() };
    assert_eq!(head.task_ref.revision, 2, "an old reference never means the new task");
    assert_eq!(bench.call(again()), Deleted::Existing);
    assert!(matches!(bench.call(admit("a", task_ref, store_support::mutation())), Started::Refused(_)));
    assert!(matches!(bench.call(admit("a", head.task_ref, store_support::mutation())), Started::Accepted(_)));
}

#[test]
fn tasks_are_listed_by_id_and_a_damaged_one_is_said() {
    let mut bench = Bench::new();
    for task in ["c", "a", "b", "d"] {
        bench.task(task);
    }
    bench.call(put("c", Some(1), "true", false));
    let list = |after: Option<&str>| ListTasks { project: project(), after: after.map(name), limit: 3 };
    let (page, more) = bench.call(list(None));
    assert!(more);
    let ids: Vec<_> = page.iter().map(|head| (head.task.as_str(), head.enabled)).collect();
    assert_eq!(ids, [("a", true), ("b", true), ("c", false)]);
    let (page, more) = bench.call(list(Some("c")));
    assert_eq!((page.len(), more), (1, false));
    bench.tamper("UPDATE task_revisions SET definition = replace(definition, 'Say', 'Cry') WHERE task = 'b'").unwrap();
    let damaged = Err(unavailable("task_record_damaged"));
    assert_eq!(bench.store.call(list(None)).map(drop), damaged);
    let task = GetTask { project: project(), task: name("b") };
    assert_eq!(bench.store.call(task).map(drop), damaged);
    assert_eq!(get(&bench, "a"), Some((1, true)));
}

#[test]
fn disabled_publishes_nothing() {
    let bench = Bench::new();
    let Published::Created(head) = bench.call(put("a", None, "true", false)) else { panic!() };
    let TaskRef { revision, digest } = head.task_ref;
    bench.store.close();
    let conn = raw(&bench.database());
    let count: i64 = conn.query_row("SELECT count(*) FROM execution_revisions", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 0);
    let stored: Vec<u8> = conn.query_row("SELECT digest FROM task_revisions", [], |row| row.get(0)).unwrap();
    assert_eq!((revision, stored.as_slice()), (1, &digest.as_bytes()[..]));
}
