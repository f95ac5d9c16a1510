//! Resident memory, and what an idle daemon does.

use crate::Outcome;
use crate::daemon::State;
use crate::figure::{Figure, Table};
use crate::history;
use crate::place::Place;
use crate::process::{cpu_ms, family, memory, switches};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Memory of daemon and supervisors, then idleness.
pub fn measure(place: &Place) -> Outcome<Vec<Table>> {
    Ok(vec![resident(place)?, idle(place)?])
}

fn resident(place: &Place) -> Outcome<Table> {
    let mut table = Table::new(
        "Memory",
        "KiB. Proportional counts a page that is shared by n processes as one n-th of it; private is what the process \
         has written. The tasks sleep; processes are those beside the tasks' own.",
        ["state", "resident", "proportional", "private", "each supervisor, private", "processes beside the daemon"],
    );
    let state = State::new(place, &json!({"limits": {"activeAttempts": 16}}))?;
    let daemon = state.serve()?;
    let task = daemon.add_task("sleep", &[Path::new("/bin/sleep"), Path::new("600")])?;
    daemon.get("/status")?;
    let mut running = Vec::new();
    for count in [0, 4, 16] {
        while running.len() < count {
            running.push(daemon.start(&task)?);
        }
        let shims = settled(daemon.pid(), count)?;
        let own = memory(daemon.pid())?;
        let private = shims.iter().map(|pid| Ok(memory(*pid)?.private as f64)).collect::<Outcome<Vec<_>>>()?;
        table.row([
            if count == 0 { "idle".into() } else { format!("{count} tasks running") },
            own.resident.to_string(),
            own.proportional.to_string(),
            own.private.to_string(),
            if private.is_empty() { "-".into() } else { Figure::of(private).to_string() },
            shims.len().to_string(),
        ]);
    }
    for run in &running {
        state.say(&["stop", run])?;
    }
    daemon.stop()?;
    let runs = if place.full { 1_000_000 } else { 100_000 };
    let state = history::made(place, runs, &[&place.tiny])?;
    {
        let daemon = state.serve()?;
        daemon.add_tasks(10_000, "tiny")?;
        daemon.stop()?;
    }
    let daemon = state.serve()?;
    daemon.run(&daemon.task("tiny")?)?;
    for list in ["/tasks", "/runs", "/audit"] {
        daemon.get(list)?;
    }
    let own = memory(daemon.pid())?;
    table.row([
        format!("idle, 10,000 tasks, {runs} past runs"),
        own.resident.to_string(),
        own.proportional.to_string(),
        own.private.to_string(),
        "-".into(),
        "0".into(),
    ]);
    daemon.stop()?;
    Ok(table)
}

/// The supervisors, once each has its task below it.
fn settled(daemon: u32, count: usize) -> Outcome<Vec<u32>> {
    for _ in 0..1000 {
        let all = family(daemon)?;
        let tasks = all.values().filter(|name| *name == "sleep").count();
        if tasks == count {
            // The kernel has the pages of an exec'd program in place a little later.
            std::thread::sleep(Duration::from_millis(500));
            return Ok(all
                .iter()
                .filter(|(pid, name)| **pid != daemon && *name != "sleep")
                .map(|(pid, _)| *pid)
                .collect());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the tasks do not start".into())
}

fn idle(place: &Place) -> Outcome<Table> {
    const SECONDS: u64 = 120;
    let mut table = Table::new(
        "Idle",
        &format!(
            "{SECONDS} seconds of all four at once, half a minute after their start. The triggers are due once a year."
        ),
        ["daemon", "voluntary switches", "CPU, ms", "resident, KiB", "threads"],
    );
    let kinds = [("edge", 0), ("edge", 5000), ("standalone", 0), ("standalone", 5000)];
    let states = kinds.map(|(profile, triggers)| scheduled(place, &json!({"profile": profile}), triggers));
    let states = states.into_iter().collect::<Outcome<Vec<_>>>()?;
    let daemons = states.iter().map(State::serve).collect::<Outcome<Vec<_>>>()?;
    std::thread::sleep(Duration::from_secs(30));
    let look =
        || daemons.iter().map(|d| Ok((switches(d.pid())?, cpu_ms(d.pid(), false)?))).collect::<Outcome<Vec<_>>>();
    let before = look()?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    let after = look()?;
    for (at, (profile, triggers)) in kinds.into_iter().enumerate() {
        let pid = daemons[at].pid();
        table.row([
            format!("{profile}, {triggers} triggers"),
            (after[at].0 - before[at].0).to_string(),
            (after[at].1 - before[at].1).to_string(),
            memory(pid)?.resident.to_string(),
            std::fs::read_dir(format!("/proc/{pid}/task"))?.count().to_string(),
        ]);
    }
    Ok(table)
}

/// A state with so many copies of a trigger.
fn scheduled(place: &Place, settings: &Value, triggers: i64) -> Outcome<State> {
    let state = State::new(place, settings)?;
    let daemon = state.serve()?;
    let task = daemon.add_task("tiny", &[&place.tiny])?;
    daemon.run(&task)?;
    if triggers > 0 {
        state.say(&["trigger", "set", "one", "--task", "tiny", "--cron", "0 4 1 1 *", "--zone", "UTC"])?;
    }
    daemon.stop()?;
    let conn = Connection::open(state.database())?;
    let mut sql = format!(
        "CREATE TEMP TABLE numbers AS WITH RECURSIVE c (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c WHERE n < {triggers})
         SELECT n FROM c WHERE n <= {triggers};"
    );
    for (table, name) in [("triggers", "id"), ("trigger_revisions", "trigger_id"), ("trigger_schedules", "trigger_id")]
    {
        let mut query = conn.prepare(&format!("SELECT name FROM pragma_table_info('{table}')"))?;
        let columns = query.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
        let columns: Vec<String> = columns
            .into_iter()
            .map(|column| match column.as_str() {
                "mutation" => "randomblob(16)".into(),
                column if column == name => "'more-' || n".into(),
                column => format!("t.{column}"),
            })
            .collect();
        let columns = columns.join(", ");
        write!(sql, "INSERT INTO {table} SELECT {columns} FROM numbers, {table} t WHERE t.{name} = 'one';")?;
    }
    conn.execute_batch(&sql)?;
    Ok(state)
}
