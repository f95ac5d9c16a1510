//! Stores as an earlier version left them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Puts a store of the first schema in place of one that nobody has open, with the same owner and tasks. `scratch` is
/// a name that is free.
pub fn make_older(store: &Path, scratch: &Path) {
    let conn = rusqlite::Connection::open(scratch).unwrap();
    conn.execute("ATTACH ?1 AS new", [store.to_str().unwrap()]).unwrap();
    let get = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    for pragma in ["page_size", "application_id"] {
        let value = get(&format!("PRAGMA new.{pragma}"));
        conn.execute_batch(&format!("PRAGMA main.{pragma} = {value}")).unwrap();
    }
    let history = "SELECT sql FROM new.sqlite_schema WHERE name = 'schema_migrations'";
    let history: String = conn.query_row(history, [], |row| row.get(0)).unwrap();
    conn.execute_batch(&history).unwrap();
    conn.execute_batch(include_str!("../../src/store/schema/0001-first.sql")).unwrap();
    conn.execute_batch("INSERT INTO main.schema_migrations SELECT * FROM new.schema_migrations WHERE id = 1").unwrap();
    let names = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name <> 'schema_migrations'";
    let tables: Vec<String> = list(&conn, names);
    conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    for table in tables {
        let all = conn.prepare(&format!("SELECT * FROM main.\"{table}\"")).unwrap();
        let columns = all.column_names().iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let copy = format!("INSERT OR REPLACE INTO main.\"{table}\" ({columns}) SELECT {columns} FROM new.\"{table}\"");
        conn.execute_batch(&copy).unwrap_or_else(|e| panic!("{table}: {e}"));
    }
    conn.execute_batch("DETACH new").unwrap();
    drop(conn);
    let name = store.file_name().unwrap().to_str().unwrap();
    for entry in fs::read_dir(store.parent().unwrap()).unwrap().map(Result::unwrap) {
        // With what stands beside it in journals.
        if entry.file_name().to_str().unwrap().starts_with(name) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    fs::copy(scratch, store).unwrap();
    fs::remove_file(scratch).unwrap();
    fs::set_permissions(store, Permissions::from_mode(0o600)).unwrap();
}

fn list(conn: &rusqlite::Connection, sql: &str) -> Vec<String> {
    conn.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}
