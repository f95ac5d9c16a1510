//! A test of every SQL text in this module: no statement walks a table that grows with history.

use super::migrate::{self, MIGRATIONS};
use super::runs::ListRuns;
use crate::model::id::{RunId, Uuid};
use crate::model::life::RunState;
use crate::model::name::Name;
use crate::store::runs::RunCursor;
use rusqlite::Connection;

const SOURCES: [&str; 30] = [
    include_str!("admit.rs"),
    include_str!("advance.rs"),
    include_str!("audit.rs"),
    include_str!("batch.rs"),
    include_str!("binding.rs"),
    include_str!("cancel.rs"),
    include_str!("candidate.rs"),
    include_str!("chain.rs"),
    include_str!("credential.rs"),
    include_str!("definition.rs"),
    include_str!("evidence.rs"),
    include_str!("fence.rs"),
    include_str!("fire.rs"),
    include_str!("journal.rs"),
    include_str!("lost.rs"),
    include_str!("owner.rs"),
    include_str!("publish.rs"),
    include_str!("queue.rs"),
    include_str!("reconcile.rs"),
    include_str!("rerun.rs"),
    include_str!("resolve.rs"),
    include_str!("retention.rs"),
    include_str!("retry.rs"),
    include_str!("runs.rs"),
    include_str!("tasks.rs"),
    include_str!("token_time.rs"),
    include_str!("trigger.rs"),
    include_str!("trigger_put.rs"),
    include_str!("triggers.rs"),
    include_str!("withdraw.rs"),
];

/// Walks that are as small as what they walk, and why.
const SMALL: [&str; 7] = [
    "SCAN runs USING COVERING INDEX runs_open", // what is open: as small as the queue
    "SCAN j",                                   // the journal: active and just ended Attempts
    "SCAN receipt_journal",                     // the same, for its references
    "SCAN projects",                            // one
    "SCAN role_bindings",                       // stops at the first row
    "SCAN (subquery",                           // rows that were found by a search
    "SCAN CONSTANT ROW",
];

fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let count = query.parameter_count();
    let rows = query.query_map(rusqlite::params_from_iter(vec![1; count]), |row| row.get(3)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn made() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    migrate::apply(&conn, MIGRATIONS, 0).unwrap();
    conn
}

fn check(conn: &Connection, sql: &str) {
    for line in plan(conn, sql) {
        let small = SMALL.iter().any(|small| line.starts_with(small));
        assert!(!line.contains("SCAN") || small, "{line}\n{sql}");
    }
}

#[test]
fn no_statement_walks_a_table_that_grows() {
    let conn = made();
    let mut seen = 0;
    for source in SOURCES {
        for text in source.split('"').skip(1).step_by(2).filter(|text| !text.contains('{')) {
            if ["SELECT ", "UPDATE ", "DELETE "].iter().any(|verb| text.starts_with(verb)) {
                check(&conn, text);
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "found only {seen} statements");
}

#[test]
fn every_filter_of_the_run_list_is_answered_in_order_by_an_index() {
    let conn = made();
    let cursor = RunCursor { created_at_ms: 1, run: RunId(Uuid::from_bytes([0; 16])) };
    for task in [None, Name::parse("hello")] {
        for state in [None, Some(RunState::Queued), Some(RunState::Failed)] {
            for after in [None, Some(cursor)] {
                let (project, task) = (Name::default_project(), task.clone());
                let sql = ListRuns { project, task: task.clone(), state, after, limit: 1 }.sql();
                check(&conn, &sql);
                let sorted = plan(&conn, &sql).iter().any(|line| line.contains("TEMP B-TREE"));
                let open = task.is_none() && state == Some(RunState::Queued);
                assert_eq!(sorted, open, "only what is open is sorted: {sql}");
            }
        }
    }
}

#[test]
fn the_queue_is_read_and_counted_in_its_index_alone() {
    let conn = made();
    let source = include_str!("candidate.rs");
    let sql = source.split('"').find(|text| text.contains("ORDER BY r.priority DESC")).unwrap();
    let plan = plan(&conn, sql);
    assert!(plan[0].contains("SEARCH r USING INDEX runs_open (status=?)"), "{plan:?}");
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{plan:?}");
    let source = include_str!("queue.rs");
    let sql = source.split('"').find(|text| text.starts_with("SELECT count(*) FROM runs")).unwrap();
    let plan = super::plan::plan(&conn, sql);
    assert!(plan[0].contains("SEARCH runs USING COVERING INDEX runs_open (status=?"), "{plan:?}");
}

#[test]
fn a_look_for_what_is_due_is_a_walk_along_its_index() {
    let conn = made();
    let source = include_str!("fire.rs");
    let sql = source.split('"').find(|text| text.contains("trigger_schedules_due")).unwrap();
    let plan = plan(&conn, sql);
    assert!(plan[0].contains("USING INDEX trigger_schedules_due"), "{plan:?}");
    assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{plan:?}");
}
