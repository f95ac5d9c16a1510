//! The run list: whatever it is filtered by, its pages are every Run once, newest first, however the
//! parts that answer it are merged.

mod store_support;

use qinglet::model::id::RunId;
use qinglet::model::life::RunState;
use qinglet::store::runs::{ListRuns, RunCursor};
use store_support::{Bench, name, project, raw};

/// Runs of three tasks in every state, some made in the same millisecond, some while the clock stood behind.
const RUNS: &str = "
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400),
    made(i, state, at_ms) AS (SELECT i, CASE
        WHEN i % 37 = 0 THEN 'queued' WHEN i % 41 = 0 THEN 'running' WHEN i % 43 = 0 THEN 'lost'
        WHEN i % 7 = 0 THEN 'failed' WHEN i % 11 = 0 THEN 'cancelled' WHEN i % 13 = 0 THEN 'timed_out'
        ELSE 'succeeded' END, 1000000 + i / 3 - CASE WHEN i BETWEEN 200 AND 250 THEN 120 ELSE 0 END FROM n)
    INSERT INTO runs (id, project, task, task_revision, task_digest, status, version, event_sequence, priority, origin,
        trigger_type, created_at_ms, finished_at_ms, end_order)
    SELECT unhex(printf('%032x', i)), 'default', 'task-' || (i % 3), 1, zeroblob(32), state, 2, 2, 0, 'manual',
        'manual', at_ms, CASE WHEN state IN ('queued', 'running', 'lost') THEN NULL ELSE at_ms END,
        CASE WHEN state IN ('queued', 'running', 'lost') THEN NULL ELSE i END FROM made";

#[test]
fn a_list_by_task_and_state_is_every_run_once_newest_first() {
    let mut bench = Bench::fast();
    bench.tamper(RUNS).unwrap();
    let truth: Vec<(RunId, String, String)> = {
        bench.store.close();
        let conn = raw(&bench.database());
        let sql = "SELECT id, task, status FROM runs NOT INDEXED ORDER BY created_at_ms DESC, id DESC";
        let mut query = conn.prepare(sql).unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    bench.restart(&store_support::options()).unwrap();
    assert_eq!(truth.len(), 400);
    for state in RunState::ALL.iter().map(|state| Some(*state)).chain([None]) {
        for task in [None, Some("task-0"), Some("task-1"), Some("task-9")] {
            let is_wanted = |row: &&(RunId, String, String)| {
                task.is_none_or(|task| task == row.1) && state.is_none_or(|state| state.word() == row.2)
            };
            let wanted: Vec<RunId> = truth.iter().filter(is_wanted).map(|row| row.0).collect();
            for limit in [7, 64] {
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let asked = ListRuns { project: project(), task: task.map(name), state, after, limit };
                    let (page, more) = bench.call(asked);
                    assert!(page.len() == limit || !more, "a page that is not the last is full");
                    found.extend(page.iter().map(|run| run.id));
                    let Some(last) = page.last().filter(|_| more) else { break };
                    after = Some(RunCursor { created_at_ms: last.created_at_ms, run: last.id });
                }
                assert_eq!(found, wanted, "{task:?} {state:?} by {limit}");
            }
        }
    }
}
