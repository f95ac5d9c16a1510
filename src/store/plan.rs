//! A test of every SQL text in the program: no statement walks or sorts what grows with history.
//!
//! The texts are read out of the sources, so a new one is seen without being named here. What a plan
//! is does not depend on the rows: without `ANALYZE`, which we never run, the planner knows only the
//! schema. So the schema alone is enough to ask it.

use super::migrate::{self, MIGRATIONS};
use super::runs::ListRuns;
use crate::model::id::{RunId, Uuid};
use crate::model::life::RunState;
use crate::model::name::Name;
use crate::store::runs::RunCursor;
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};

/// Steps of a plan that walk or sort, and why they may: a part of the statement, how the step begins.
const MAY: &[(&str, &str, &str)] = &[
    // What is as small whatever happens.
    ("sqlite_schema", "SCAN sqlite_schema", "tables and indexes: as many as the schema has"),
    ("sqlite_schema", "USE TEMP B-TREE FOR ORDER BY", "the same"),
    ("FROM schema_migrations", "SCAN schema_migrations", "as many as there are steps"),
    ("FROM projects", "SCAN projects", "one"),
    // What is open: as small as the queue, and lost Runs beyond a few are closed.
    ("SELECT status, count(*) FROM runs INDEXED BY runs_open", "SCAN runs USING COVERING INDEX runs_open", "open"),
    ("'dispatching', 'running') ORDER BY r.id LIMIT", "USE TEMP B-TREE FOR ORDER BY", "open"),
    ("r.status = 'lost' ORDER BY r.id DESC", "USE TEMP B-TREE FOR ORDER BY", "open"),
    ("ORDER BY next_attempt_boot_ms, id", "USE TEMP B-TREE FOR ORDER BY", "open"),
    ("r.status IN ('queued', 'retry_wait')", "USE TEMP B-TREE FOR ORDER BY", "open"),
    ("created_at_ms <= ?2 AND retry_of IS NOT NULL", "SCAN runs USING INDEX runs_open", "open"),
    ("SELECT max(created_at_ms) FROM runs INDEXED BY runs_open", "SEARCH runs USING INDEX runs_open", "open"),
    // What was found by a search in the same statement.
    (") r JOIN run_events e", "SCAN r", "Runs that were tried again within a minute"),
    // The journal: active and just ended Attempts. It refers to Attempts, so a removed one is looked for.
    ("DELETE FROM attempts WHERE run = ?1", "SCAN receipt_journal", "the journal"),
    // One row from the end of an order, found without a walk.
    ("SELECT at_ms FROM audit", "SEARCH audit USING PRIMARY KEY (project=?)", "one row"),
    ("SELECT max(id) FROM audit", "SEARCH audit USING PRIMARY KEY (project=?)", "one row"),
    ("SELECT max(id) AS id FROM runs", "SEARCH runs USING PRIMARY KEY", "one row"),
    ("SELECT 1 FROM role_bindings LIMIT 1", "SCAN role_bindings", "one row"),
    // Once in a round of housekeeping.
    ("LIMIT 1 OFFSET ?2", "SEARCH audit USING PRIMARY KEY (project=?)", "the audit rows that are kept, 10,000 at most"),
    // What people make by hand, and where a walk is rare.
    ("role = 'owner' AND", "SEARCH b USING PRIMARY KEY (project=?)", "up to another owner, when one is taken away"),
    ("ORDER BY status, changed_at_ms DESC, id", "USE TEMP B-TREE FOR ORDER BY", "one subject's tokens"),
    ("SELECT count(*) FROM secrets", "SEARCH secrets USING PRIMARY KEY (project=?)", "names of secrets, for a new one"),
    ("FROM secret_envelopes", "SCAN secret_envelopes", "a few versions of at most 256 secrets, for a new key"),
    // What is to look at every row.
    ("SET log_retired_at_ms = ?1, log_retired_bytes = 0", "SCAN attempts", "restore, before anything runs"),
    ("pragma_integrity_check", "SCAN pragma_integrity_check", "check"),
    ("pragma_foreign_key_check", "SCAN pragma_foreign_key_check", "check"),
];

/// What the run list is put together of, by how each begins. It has a test of its own.
const RUN_LIST: [&str; 3] = ["SELECT {RUN} FROM runs INDEXED BY {index}", " UNION ALL ", "{parts} ORDER BY "];

/// A statement and the file it stands in.
struct Statement {
    file: String,
    sql: String,
}

/// Every source that a release is built of.
fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    files.retain(|path| !path.ends_with("tests.rs") && !path.ends_with(file!()));
    files.sort();
    files
}

/// The string literals in a source, without its comments and the tests at its end.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let mut chars = source.chars().peekable();
    let mut found = Vec::new();
    while let Some(c) = chars.next() {
        match c {
            '/' if chars.peek() == Some(&'/') => drop(chars.find(|c| *c == '\n')),
            // A character or a lifetime: only a quote and a backslash in it would mislead.
            '\'' if chars.next_if(|c| *c == '\\').is_some() => drop(chars.next()),
            '\'' => drop(chars.next_if(|c| *c == '"')),
            '"' => {
                let mut text = String::new();
                while let Some(c) = chars.next().filter(|c| *c != '"') {
                    text.extend(if c == '\\' { chars.next() } else { Some(c) });
                }
                found.push(text);
            }
            _ => {}
        }
    }
    found
}

/// The texts that a source gives a name to.
fn constants(source: &str) -> Vec<(&str, String)> {
    let all = source.split("const ").skip(1).filter_map(|rest| rest.split_once(": &str ="));
    all.filter_map(|(name, rest)| Some((name, literals(rest).into_iter().next()?))).collect()
}

/// Every statement there is, whole, but the run list's.
fn statements() -> Vec<Statement> {
    let mut all = Vec::new();
    for path in sources() {
        let source = fs::read_to_string(&path).unwrap();
        let file = path.display();
        let texts = literals(&source);
        for text in &texts {
            if path.ends_with("store/runs.rs") && RUN_LIST.iter().any(|begins| text.starts_with(begins)) {
                continue;
            }
            if ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "WITH "]
                .iter()
                .any(|verb| text.starts_with(verb))
            {
                let mut sql = text.clone();
                for (name, value) in constants(&source) {
                    sql = sql.replace(&format!("{{{name}}}"), &value);
                }
                assert!(!sql.contains('{'), "{file}: this test cannot see the whole of {sql}");
                all.push(Statement { file: file.to_string(), sql });
            } else {
                // Else a statement could be put together where this test does not see it.
                let is_piece = ["FROM ", "JOIN ", "WHERE ", "ORDER BY ", "INDEXED BY ", "UNION ", "SET "]
                    .iter()
                    .any(|word| text.starts_with(word) || text.contains(&format!(" {word}")));
                assert!(!is_piece, "{file}: a piece of a statement: {text}");
            }
        }
    }
    all
}

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

/// Whether a step of a plan walks or sorts. What is in a project, which is nearly everything, is walked
/// too by a search that knows no more than the project, and by one that knows nothing: for a least or a
/// greatest value, which is one row only where an index ends with it.
fn is_long(step: &str) -> bool {
    let searches = step.starts_with("SEARCH ");
    let found = step.contains(" (subquery");
    let knows = step.contains('(') && !step.ends_with(" (project=?)");
    !found && (step.contains("SCAN ") || step.contains("TEMP B-TREE") || searches && !knows)
}

#[test]
fn no_statement_walks_or_sorts_what_grows() {
    let conn = made();
    let mut used = vec![false; MAY.len()];
    let mut wrong = Vec::new();
    let all = statements();
    for Statement { file, sql } in &all {
        for step in plan(&conn, sql).iter().filter(|step| is_long(step)) {
            let may = MAY.iter().position(|(part, begins, _)| sql.contains(part) && step.starts_with(begins));
            match may {
                Some(may) => used[may] = true,
                None => wrong.push(format!("{file}: {step}\n{sql}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(all.len() > 130, "found only {} statements", all.len());
    let unused: Vec<_> = MAY.iter().zip(used).filter(|(_, used)| !used).map(|(may, _)| may).collect();
    assert!(unused.is_empty(), "these exceptions are not needed any more: {unused:#?}");
}

#[test]
fn nothing_tells_the_planner_about_rows() {
    // With statistics a plan would depend on what one router holds, and the tests here would say nothing.
    for path in sources() {
        for text in literals(&fs::read_to_string(&path).unwrap()) {
            let tells = ["analyze", "optimize", "sqlite_stat"].iter().any(|word| text.to_lowercase().contains(word));
            assert!(!tells, "{}: {text}", path.display());
        }
    }
}

#[test]
fn every_filter_of_the_run_list_is_answered_in_order_by_an_index() {
    let conn = made();
    let cursor = RunCursor { created_at_ms: 1, run: RunId(Uuid::from_bytes([0; 16])) };
    let states = RunState::ALL.iter().map(|state| Some(*state));
    for state in states.chain([None]) {
        for task in [None, Name::parse("hello")] {
            let (project, by_task) = (Name::default_project(), task.is_some());
            let sql = ListRuns { project, task, state, after: Some(cursor), limit: 1 }.sql();
            let steps = plan(&conn, &sql);
            let (index, known) =
                if by_task { ("runs_ended_by_task", "project=? AND task=?") } else { ("runs_ended", "project=?") };
            let ended = format!("SEARCH runs USING INDEX {index} ({known} AND status=? AND (created_at_ms,id)<(?,?))");
            let ended = steps.iter().filter(|step| **step == ended).count();
            let open = steps.iter().filter(|step| step.contains("USING INDEX runs_open")).count();
            let sorted = steps.iter().filter(|step| step.contains("TEMP B-TREE")).count();
            let merged = steps.iter().filter(|step| *step == "MERGE (UNION ALL)").count();
            // Only what is open is sorted, and nothing is walked but that.
            let want = match state {
                None => (4, 1, 1, 4),
                Some(state) if state.is_terminal() => (1, 0, 0, 0),
                Some(_) => (0, 1, 1, 0),
            };
            assert_eq!((ended, open, sorted, merged), want, "{sql}\n{steps:#?}");
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
