//! A state with a past: many ended runs, copied inside the database from one that the program made
//! itself.

use crate::Outcome;
use crate::daemon::State;
use crate::place::Place;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

/// Settings under which nothing of the past is cleared away.
pub fn keep_all() -> Value {
    json!({"limits": {"historyRuns": 1_000_000, "historyDays": 3650, "auditRows": 1_000_000, "logDays": 3650}})
}

/// A state with so many ended runs of a task `tiny`, half of them of others.
pub fn made(place: &Place, runs: i64, words: &[&std::path::Path]) -> Outcome<State> {
    let state = State::new(place, &keep_all())?;
    let daemon = state.serve()?;
    let task = daemon.add_task("tiny", words)?;
    daemon.run(&task)?;
    daemon.stop()?;
    let conn = Connection::open(state.database())?;
    conn.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA synchronous = OFF; BEGIN")?;
    for table in ["runs", "attempts", "run_events", "audit"] {
        conn.execute_batch(&format!("CREATE TEMP TABLE one_{table} AS SELECT * FROM {table}"))?;
    }
    conn.execute_batch("CREATE TEMP TABLE numbers (n INTEGER PRIMARY KEY)")?;
    conn.execute(
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?1) INSERT INTO numbers SELECT n FROM c",
        [runs],
    )?;
    // Ids as the program makes them, rising with time, from before its own first one; `tail` tells those
    // of one run apart.
    let at = |tail: &str| {
        let ms = "(SELECT created_at_ms FROM one_runs) - (?1 - n + 1) * 1000";
        format!("unhex(printf('%012x70008%015x', {ms}, {tail}))")
    };
    let (run, attempt, event, audit) = (at("1"), at("2"), at("2 + sequence"), at("20 + one_audit.rowid"));
    copy(
        &conn,
        "runs",
        runs,
        &[
            ("id", &run),
            ("task", "CASE WHEN n % 2 THEN task ELSE 'other-' || (n % 50) END"),
            (
                "idempotency_key",
                "printf('ql3:task-start:v1:%012x-%s', created_at_ms - (?1 - n + 1) * 1000, hex(randomblob(8)))",
            ),
            ("created_at_ms", "created_at_ms - (?1 - n + 1) * 1000"),
            ("finished_at_ms", "finished_at_ms - (?1 - n + 1) * 1000"),
            ("end_order", "n + 1"),
        ],
    )?;
    copy(
        &conn,
        "attempts",
        runs,
        &[
            ("run", &run),
            ("id", &attempt),
            ("log_retired_at_ms", "finished_at_ms"),
            ("log_retired_bytes", "0"),
            ("log_retired_truncated", "0"),
        ],
    )?;
    copy(&conn, "run_events", runs, &[("run", &run), ("id", &event)])?;
    copy(&conn, "audit", runs, &[("id", &audit)])?;
    conn.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(state)
}

/// Copies every row of a table so often, with these columns computed.
fn copy(conn: &Connection, table: &str, count: i64, computed: &[(&str, &str)]) -> Outcome<()> {
    let mut columns = Vec::new();
    let mut query = conn.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
    for name in query.query_map([], |row| row.get::<_, String>(0))? {
        let name = name?;
        let by = computed.iter().find(|(column, _)| *column == name);
        columns.push(by.map_or_else(|| format!("one_{table}.{name}"), |(_, by)| (*by).to_owned()));
    }
    let sql =
        format!("INSERT INTO {table} SELECT {} FROM numbers, one_{table} WHERE n <= ?1 ORDER BY n", columns.join(", "));
    conn.execute(&sql, params![count])?;
    Ok(())
}
