//! A state folder, a store, an API, and people with roles.

use qinglet::access::bootstrap::init_owner;
use qinglet::access::keyring::Keyring;
use qinglet::access::pepper::Pepper;
use qinglet::access::rejections::Rejections;
use qinglet::access::token::Token;
use qinglet::execution::board::{Board, Undecided};
use qinglet::execution::evidence::{Look, ReceiptSeen, Seen};
use qinglet::execution::files::Files;
use qinglet::execution::host::Inspection;
use qinglet::execution::logs::{LogRead, LogReadError, LogSlice};
use qinglet::http::message::{Answer, Bearer, Request, Service};
use qinglet::http::route;
use qinglet::http::routes::ROUTES;
use qinglet::http::service::{Api, Parts};
use qinglet::model::config::Config;
use qinglet::model::id::AttemptId;
use qinglet::model::limits::{EDGE, Limits, Profile};
use qinglet::model::name::Name;
use qinglet::model::policy::Role;
use qinglet::model::settings::{InForce, Settings};
use qinglet::store::Store;
use qinglet::store::audit::ListAudit;
use qinglet::store::evidence::ActiveAttempt;
use qinglet::store::open::{self, Options};
use qinglet::store::state::{StateDir, StateLock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

/// A folder that goes when the test does.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("api-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn options(limits: &'static Limits) -> Options {
    let clock_ms = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    Options { limits, clock_ms, vfs: None }
}

/// Logs in memory, by artifact id.
#[derive(Default)]
pub struct Logs(pub Mutex<BTreeMap<String, Result<Vec<u8>, LogReadError>>>);

impl LogRead for Logs {
    fn read(&self, artifact: &str, offset: u64, length: u32) -> Result<LogSlice, LogReadError> {
        let bytes = self.0.lock().unwrap().get(artifact).cloned().unwrap_or(Err(LogReadError::Missing))?;
        let start = (offset as usize).min(bytes.len());
        let end = (start + length as usize).min(bytes.len());
        Ok(LogSlice {
            bytes: bytes[start..end].to_vec(),
            start: start as u64,
            total: bytes.len() as u64,
            truncated: None,
            dropped_bytes: None,
        })
    }
}

/// What the engine and the process side would say.
#[derive(Default)]
pub struct Side {
    pub board: Arc<Board>,
    pub look: Arc<Sight>,
    /// Attempts that the engine was told to let go.
    pub settled: Arc<Mutex<Vec<AttemptId>>>,
    /// What the board says nobody can decide.
    pub doubts: Mutex<Vec<Undecided>>,
}

/// What is seen of every Attempt.
pub struct Sight(pub Mutex<Seen>);

impl Default for Sight {
    fn default() -> Self {
        Self(Mutex::new(Seen { receipt: ReceiptSeen::Absent, process: Some(Inspection::Unavailable) }))
    }
}

impl Files for Sight {}

impl Look for Sight {
    fn look(&self, _: &ActiveAttempt) -> Seen {
        *self.0.lock().unwrap()
    }
}

pub struct World {
    _scratch: Scratch,
    pub state: StateDir,
    pub lock: StateLock,
    pub store: Store,
    pub api: Arc<Api>,
    pub rejections: Arc<Rejections>,
    pub logs: Arc<Logs>,
    pub pokes: Arc<AtomicUsize>,
    pub side: Side,
    pub owner: String,
    limits: &'static Limits,
}

impl World {
    pub fn new() -> Self {
        Self::with(&EDGE)
    }

    pub fn with(limits: &'static Limits) -> Self {
        let scratch = Scratch::new();
        let state = StateDir::create(&scratch.path().join("state")).unwrap();
        let lock = state.lock("test").unwrap();
        open::init(&state, &lock, &options(limits)).unwrap();
        let store = Store::start(&state, &lock, options(limits)).unwrap();
        init_owner(&state, &store).unwrap();
        Keyring::create(&state.keyring_path()).unwrap();
        let owner = std::fs::read_to_string(state.owner_token_path()).unwrap().trim_end().to_owned();
        let (logs, pokes) = (Arc::new(Logs::default()), Arc::new(AtomicUsize::new(0)));
        let rejections = Arc::new(Rejections::new(Arc::new(|| {})));
        let side = Side::default();
        let api = api(&store, &state, limits, &logs, &rejections, &pokes, &side);
        Self { _scratch: scratch, state, lock, store, api, rejections, logs, pokes, side, owner, limits }
    }

    /// Stops the store, changes its file behind its back, and opens it again.
    pub fn tampered(mut self, change: impl FnOnce(&rusqlite::Connection)) -> Self {
        self.store.close();
        let mut files = std::fs::read_dir(self.state.path()).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.extension().is_some_and(|e| e == "db")).unwrap();
        let connection = rusqlite::Connection::open(file).unwrap();
        change(&connection);
        connection.close().unwrap();
        self.store = Store::start(&self.state, &self.lock, options(self.limits)).unwrap();
        self.api = api(&self.store, &self.state, self.limits, &self.logs, &self.rejections, &self.pokes, &self.side);
        self
    }

    pub fn request(token: &str, method: &str, target: &str, body: &str) -> Request {
        let target = match target.strip_prefix('/') {
            Some(_) => target.to_owned(),
            None => format!("/api/v3/projects/default/{target}"),
        };
        let found = route::find(&ROUTES, method, &target).unwrap_or_else(|e| panic!("{method} {target}: {e:?}"));
        let bearer = (!token.is_empty()).then(|| Bearer::new(token.to_owned()));
        Request { route: found.route, params: found.params, query: found.query, bearer, body: body.into() }
    }

    pub fn answer(&self, token: &str, method: &str, target: &str, body: &str) -> Answer {
        self.api.answer(&Self::request(token, method, target, body))
    }

    /// Status and body.
    pub fn ask(&self, token: &str, method: &str, target: &str, body: &str) -> (u16, Value) {
        let answer = self.answer(token, method, target, body);
        assert!(answer.body.len() <= 64 * 1024);
        (answer.status, serde_json::from_slice(&answer.body).unwrap())
    }

    pub fn get(&self, token: &str, target: &str) -> (u16, Value) {
        self.ask(token, "GET", target, "")
    }

    /// A token for a new user with this role.
    pub fn member(&self, id: &str, role: Role) -> String {
        let subject = json!({"type": "user", "id": id});
        self.bind(&self.owner, &subject, Some(role.word()));
        self.token(&subject)
    }

    pub fn bind(&self, token: &str, subject: &Value, role: Option<&str>) -> (u16, Value) {
        let body =
            json!({"schema": "qinglong/role-binding@v1", "mutationId": uuid(), "subject": subject, "role": role});
        self.ask(token, "PUT", "access", &body.to_string())
    }

    pub fn token(&self, subject: &Value) -> String {
        let body = json!({"schema": "qinglong/credential@v1", "mutationId": uuid(), "subject": subject});
        let (status, made) = self.ask(&self.owner, "POST", "access/tokens", &body.to_string());
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().unwrap().to_owned()
    }

    /// Stores a task that runs `true`; answers its revision and digest.
    pub fn put_task(&self, id: &str, expected: Option<i64>, enabled: bool) -> (i64, String) {
        let (status, answer) =
            self.ask(&self.owner, "PUT", &format!("tasks/{id}"), &task(expected, enabled).to_string());
        assert!(matches!(status, 200 | 201), "{answer}");
        let task = &answer["task"];
        (task["revision"].as_i64().unwrap(), task["contentDigest"].as_str().unwrap().to_owned())
    }

    pub fn start(&self, token: &str, task: &str, mutation: &str, seen: &(i64, String)) -> (u16, Value) {
        self.ask(token, "POST", &format!("tasks/{task}/runs"), &start(mutation, seen).to_string())
    }

    /// Takes a token away, as the owner.
    pub fn revoke(&self, token: &str) {
        let credential = token.split('_').nth(1).unwrap();
        let body = json!({"schema": "qinglong/credential-revocation@v1", "mutationId": uuid()}).to_string();
        let target = format!("access/tokens/{credential}/revocation");
        let (status, answer) = self.ask(&self.owner, "POST", &target, &body);
        assert_eq!(status, 200, "{answer}");
    }

    /// Every audit row, newest first: operation, outcome, reason, whole row.
    pub fn audit(&self) -> Vec<(String, String, String)> {
        let (mut rows, mut after) = (Vec::new(), None);
        loop {
            let list = ListAudit { project: Name::default_project(), after, limit: 64 };
            let (page, more) = self.store.call(list).unwrap();
            after = page.last().map(|row| row.id);
            rows.extend(page.into_iter().map(|r| (r.operation, r.outcome, r.reason.unwrap_or_default())));
            if !more {
                return rows;
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.store.close();
    }
}

fn api(
    store: &Store,
    state: &StateDir,
    limits: &'static Limits,
    logs: &Arc<Logs>,
    rejections: &Arc<Rejections>,
    pokes: &Arc<AtomicUsize>,
    side: &Side,
) -> Arc<Api> {
    let pokes = Arc::clone(pokes);
    let settled = Arc::clone(&side.settled);
    Arc::new(Api::new(Parts {
        store: store.clone(),
        pepper: Pepper::load(&state.pepper_path()).unwrap(),
        profile: Profile::Edge,
        limits,
        capabilities: Arc::default(),
        settings: Arc::new(InForce::new(Settings::resolve(&Config::default(), &Config::default()).unwrap())),
        board: Arc::clone(&side.board),
        keyring: state.keyring_path(),
        logs: Arc::clone(logs) as Arc<dyn LogRead>,
        files: Arc::new(Sight::default()),
        look: Arc::clone(&side.look) as Arc<dyn Look>,
        clock_ms: qinglet::process::clock::wall_ms,
        rejections: Arc::clone(rejections),
        settled: Arc::new(move |attempt| settled.lock().unwrap().push(attempt)),
        poke: Arc::new(move || {
            pokes.fetch_add(1, Ordering::Relaxed);
        }),
        poke_triggers: Arc::new(|| ()),
        boot: Arc::new(|| None),
    }))
}

/// This token with another's secret.
pub fn bent(token: &str) -> String {
    let other = Token::make().unwrap();
    let other = other.reveal().expose().to_owned();
    format!("{}{}", &token[..token.len() - 43], &other[other.len() - 43..])
}

/// A fresh mutation id.
pub fn uuid() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    format!("00000000-0000-4000-8000-{:012x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn task(expected: Option<i64>, enabled: bool) -> Value {
    json!({
        "schema": "qinglong/task-definition@v1",
        "mutationId": uuid(),
        "expectedRevision": expected,
        "name": "A task",
        "kind": "command",
        "spec": {"schema": "qinglong/command@v1", "config": {
            "command": {"kind": "shell", "command": "true"},
            "environment": [{"name": "SECRET", "kind": "public", "value": "hunter2"}],
        }},
        "labels": {"a": "b"},
        "enabled": enabled,
    })
}

pub fn start(mutation: &str, seen: &(i64, String)) -> Value {
    json!({
        "schema": "qinglong/task-start@v1",
        "mutationId": mutation,
        "expectedRevision": seen.0,
        "expectedContentDigest": seen.1,
    })
}

/// `code` or `code/reason` of a refusal.
pub fn code(body: &Value) -> String {
    let code = body["code"].as_str().unwrap_or_else(|| panic!("no refusal: {body}"));
    match body["reason"].as_str() {
        Some(reason) => format!("{code}/{reason}"),
        None => code.to_owned(),
    }
}
