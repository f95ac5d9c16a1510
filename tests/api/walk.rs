//! One right request for every guarded route, and a picture of everything that it could change.

use super::world::{World, start, task, uuid};
use qinglet::execution::board::{Doubt, Undecided};
use qinglet::http::message::Request;
use qinglet::http::route::{Guard, Method, Route};
use qinglet::http::routes::ROUTES;
use qinglet::model::digest::Digest;
use qinglet::model::id::{AttemptId, RunId};
use qinglet::model::policy::{Permission, Role};
use qinglet::store::cancel::{EndAsked, ListCancelling};
use qinglet::store::start::{BeginStart, TakeOwnership};
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs;
use std::sync::atomic::Ordering;

/// Every route that needs somebody.
pub fn guarded() -> impl Iterator<Item = &'static Route> {
    ROUTES.iter().filter(|route| route.guard != Guard::Public)
}

/// Every one that changes something. Letting a copy of the state go changes nothing that is stored.
pub fn mutations() -> impl Iterator<Item = &'static Route> {
    guarded().filter(|route| route.method != Method::Get && route.operation != "backup.delete")
}

/// The weakest role that may do any mutation of this kind.
pub fn strong_enough(route: &Route) -> Role {
    if route.guard == Guard::Holds(Permission::ProjectManage) { Role::Owner } else { Role::Admin }
}

/// A request that does what its route is for, about something of its own.
pub struct Ask {
    method: &'static str,
    target: String,
    body: String,
    /// The status it gets from who may.
    pub done: u16,
}

impl Ask {
    pub fn by(&self, world: &World, token: &str) -> (u16, Value) {
        world.ask(token, self.method, &self.target, &self.body)
    }

    pub fn request(&self, token: &str) -> Request {
        World::request(token, self.method, &self.target, &self.body)
    }
}

fn ask(method: &'static str, target: impl Into<String>, body: &Value, done: u16) -> Ask {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Ask { method, target: target.into(), body, done }
}

fn named(schema: &str) -> Value {
    json!({"schema": schema, "mutationId": uuid()})
}

/// A name that nothing has yet.
fn fresh(kind: &str) -> String {
    format!("{kind}-{}", &uuid()[24..])
}

/// Makes, as the owner, what the route's request is about.
pub fn prepare(world: &World, operation: &str) -> Ask {
    let get = |target: String| ask("GET", target, &Value::Null, 200);
    match operation {
        "project.status" => get("status".into()),
        "task.list" => get("tasks".into()),
        "task.put" => ask("PUT", format!("tasks/{}", fresh("t")), &task(None, true), 201),
        "run.list" => get("runs".into()),
        "trigger.list" => get("triggers".into()),
        "secret.list" => get("secrets".into()),
        "access.list" => get("access".into()),
        "audit.list" => get("audit".into()),
        "secret.rekey" => ask("POST", "keyring/rotation", &named("qinglong/keyring-rotation@v1"), 200),
        "secret.put" => ask("PUT", "secrets", &secret(&fresh("s"), 0, "of a walk"), 201),
        "state.check" => get("check".into()),
        _ if operation.starts_with("backup.") => of_backup(world, operation),
        _ if operation.starts_with("secret.") => of_secret(world, operation),
        _ if operation.starts_with("access.") || operation.starts_with("credential.") => of_somebody(world, operation),
        _ => of_task(world, operation),
    }
}

/// The body of a secret's PUT.
pub fn secret(name: &str, expected: i64, plaintext: &str) -> Value {
    let mut body = named("qinglong/secret@v1");
    body["name"] = json!(name);
    body["plaintext"] = json!(plaintext);
    body["expectedCurrentVersion"] = json!(expected);
    body
}

fn of_secret(world: &World, operation: &str) -> Ask {
    let name = fresh("s");
    assert_eq!(world.ask(&world.owner, "PUT", "secrets", &secret(&name, 0, "of a walk").to_string()).0, 201);
    let target = format!("secrets/{name}");
    match operation {
        "secret.get" => ask("GET", target, &Value::Null, 200),
        "secret.delete" => {
            let mut body = named("qinglong/secret-deletion@v1");
            body["expectedCurrentVersion"] = json!(1);
            ask("DELETE", target, &body, 200)
        }
        _ => panic!("no request for {operation}"),
    }
}

thread_local! {
    /// The copy made last: there is one at a time, so it goes before the next.
    static COPY: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn of_backup(world: &World, operation: &str) -> Ask {
    let gone = json!({"schema": "qinglong/backup-deletion@v1"});
    if let Some(id) = COPY.take() {
        world.ask(&world.owner, "DELETE", &format!("backups/{id}"), &gone.to_string());
    }
    let body = named("qinglong/backup@v1");
    let id = body["mutationId"].as_str().unwrap().to_owned();
    COPY.set(Some(id.clone()));
    let target = format!("backups/{id}");
    if operation == "backup.create" {
        return ask("POST", "backups", &body, 202);
    }
    assert_eq!(world.ask(&world.owner, "POST", "backups", &body.to_string()).0, 202);
    let ready = || world.ask(&world.owner, "GET", &target, "").1["backup"]["status"] == "ready";
    assert!((0..1000).any(|_| ready() || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        false
    }));
    match operation {
        "backup.get" => ask("GET", target, &Value::Null, 200),
        "backup.read" => ask("GET", format!("{target}/content?offset=0"), &Value::Null, 200),
        "backup.delete" => ask("DELETE", target, &gone, 200),
        _ => panic!("no request for {operation}"),
    }
}

fn of_somebody(world: &World, operation: &str) -> Ask {
    let who = fresh("guest");
    let token = world.member(&who, Role::Viewer);
    let with = |schema: &str| {
        let mut body = named(schema);
        body["subject"] = json!({"type": "user", "id": who});
        body
    };
    match operation {
        "access.bind" => {
            let mut body = with("qinglong/role-binding@v1");
            body["role"] = json!("operator");
            ask("PUT", "access", &body, 200)
        }
        "credential.create" => ask("POST", "access/tokens", &with("qinglong/credential@v1"), 201),
        "credential.revoke" => {
            let id = token.split('_').nth(1).unwrap();
            let body = named("qinglong/credential-revocation@v1");
            ask("POST", format!("access/tokens/{id}/revocation"), &body, 200)
        }
        _ => panic!("no request for {operation}"),
    }
}

fn of_task(world: &World, operation: &str) -> Ask {
    let id = fresh("t");
    let seen = world.put_task(&id, None, true);
    let target = format!("tasks/{id}");
    match operation {
        "task.get" => ask("GET", target, &Value::Null, 200),
        "task.delete" => {
            let mut body = named("qinglong/task-deletion@v1");
            body["expectedRevision"] = json!(seen.0);
            ask("DELETE", target, &body, 200)
        }
        "task.start" => ask("POST", format!("{target}/runs"), &start(&uuid(), &seen), 202),
        _ if operation.starts_with("trigger.") => of_trigger(world, operation, &id, &seen),
        _ => of_run(world, operation, &id, &seen),
    }
}

fn of_trigger(world: &World, operation: &str, id: &str, seen: &(i64, String)) -> Ask {
    let mut put = named("qinglong/trigger-definition@v1");
    for (field, value) in [
        ("expectedRevision", Value::Null),
        ("taskId", json!(id)),
        ("taskRevision", json!(seen.0)),
        ("taskContentDigest", json!(seen.1)),
        ("spec", json!({"schema": "qinglong/boot@v1", "config": {}})),
        ("enabled", json!(true)),
    ] {
        put[field] = value;
    }
    let target = format!("triggers/{id}");
    if operation == "trigger.put" {
        return ask("PUT", target, &put, 201);
    }
    assert_eq!(world.ask(&world.owner, "PUT", &target, &put.to_string()).0, 201);
    match operation {
        "trigger.get" => ask("GET", target, &Value::Null, 200),
        "trigger.delete" => {
            let mut body = named("qinglong/trigger-deletion@v1");
            body["expectedRevision"] = json!(1);
            ask("DELETE", target, &body, 200)
        }
        _ => panic!("no request for {operation}"),
    }
}

fn of_run(world: &World, operation: &str, id: &str, seen: &(i64, String)) -> Ask {
    let (status, started) = world.start(&world.owner, id, &uuid(), seen);
    assert_eq!(status, 202, "{started}");
    let (run, attempt) = (started["runId"].as_str().unwrap(), started["attemptId"].as_str().unwrap());
    let target = format!("runs/{run}");
    let cancel = ask("POST", format!("{target}/cancellation"), &named("qinglong/run-cancellation@v1"), 202);
    match operation {
        "run.get" => ask("GET", target, &Value::Null, 200),
        "run.events.list" => ask("GET", format!("{target}/events"), &Value::Null, 200),
        "run.evidence" => ask("GET", format!("{target}/evidence"), &Value::Null, 200),
        "run.log.read" => ask("GET", format!("{target}/attempts/{attempt}/log"), &Value::Null, 202),
        "run.cancel" => cancel,
        "run.retry" => {
            assert_eq!(cancel.by(world, &world.owner).0, 202);
            for asked in world.store.call(ListCancelling { limit: 256 }).unwrap() {
                world.store.call(EndAsked { run: asked.run, attempt: asked.attempt, unproven: false }).unwrap();
            }
            ask("POST", format!("{target}/retry"), &named("qinglong/run-retry@v1"), 202)
        }
        "run.resolve" => {
            doubt(world, RunId::parse(run).unwrap(), AttemptId::parse(attempt).unwrap());
            let mut body = named("qinglong/run-resolution@v1");
            body["resolution"] = json!("lost");
            ask("POST", format!("{target}/resolution"), &body, 202)
        }
        _ => panic!("no request for {operation}"),
    }
}

/// Takes a run to where nobody can decide what became of it.
fn doubt(world: &World, run: RunId, attempt: AttemptId) {
    let token_digest = Digest::of("t", b"");
    let log_artifact = "local-0".into();
    let begin = BeginStart { run, attempt, token_digest, log_artifact, deadline: None, resolved: Vec::new() };
    world.store.call(begin).unwrap();
    let handle = "ql3lp1.b.42.42.7".into();
    world.store.call(TakeOwnership { run, attempt, token_digest, handle, pid: 42 }).unwrap();
    let mut doubts = world.side.doubts.lock().unwrap();
    doubts.push(Undecided { run, attempt, doubt: Doubt::ProcessUnknown, since_ms: 1_800_000_000_000 });
    world.side.board.show_undecided(doubts.iter().copied());
}

/// Everything a request could change except the audit: every row of every table, the keyring, and what
/// was told to others.
pub fn picture(world: &World) -> Vec<String> {
    let mut lines = rows(world, |table| table != "audit");
    lines.push(format!("keyring {:?}", fs::read_to_string(world.state.keyring_path()).unwrap()));
    lines.push(format!("pokes {}", world.pokes.load(Ordering::Relaxed)));
    lines.push(format!("settled {:?}", world.side.settled.lock().unwrap()));
    lines
}

/// The rows of these tables as a power cut would leave them.
pub fn rows(world: &World, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = world.state.path().join("picture");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut database = None;
    for path in fs::read_dir(world.state.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains(".db") && !name.ends_with("-shm") {
            match fs::copy(&path, folder.join(&name)) {
                // A copy for a backup loses its name while it is made.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                done => done.unwrap(),
            };
            if path.extension().is_some_and(|e| e == "db") {
                database = Some(folder.join(&name));
            }
        }
    }
    let db = rusqlite::Connection::open(database.unwrap()).unwrap();
    let mut tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut lines = Vec::new();
    for table in tables.iter().filter(|table| wanted(table)) {
        let mut query = db.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = query.column_count();
        let mut rows = query.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let cells = (0..columns).map(|at| match row.get_ref(at).unwrap() {
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            });
            lines.push(format!("{table} {}", cells.collect::<Vec<_>>().join(" ")));
        }
    }
    lines.sort();
    lines
}
