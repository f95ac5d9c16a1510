//! What the store's tests share: a throw-away state, a settable clock, and a store with one owner
//! and one task in it.
#![allow(dead_code)] // each test file uses its own part
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

pub mod faults;

use qinglet::model::command::SCHEMA;
use qinglet::model::digest::Digest;
use qinglet::model::id::{AttemptId, MutationId, RunId, Uuid};
use qinglet::model::limits::{EDGE, Limits};
use qinglet::model::name::Name;
use qinglet::model::policy::{Authority, Fence, Subject};
use qinglet::model::record::{Completion, End};
use qinglet::model::secret::Envelope;
use qinglet::model::task::{Definition, TaskPut, TaskRef};
use qinglet::store::access::BootstrapOwner;
use qinglet::store::open::{self, Options};
use qinglet::store::secrets::PutSecret;
use qinglet::store::start::{AdmitStart, Admitted, BeginStart, Complete, Started, Step, TakeOwnership};
use qinglet::store::state::{StateDir, StateLock};
use qinglet::store::tasks::{PublishTask, Published};
use qinglet::store::{Operation, Store, StoreError};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

pub static CLOCK: AtomicI64 = AtomicI64::new(1_800_000_000_000);

pub fn clock_ms() -> i64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// In memory where there is a place for it: thousands of stores, and none is kept.
    pub fn fast() -> Self {
        let memory = Path::new("/dev/shm");
        Self::within(if memory.is_dir() { memory } else { Path::new("/tmp") })
    }

    fn within(parent: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("qinglet-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = parent.canonicalize().unwrap().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn options() -> Options {
    Options { limits: &EDGE, clock_ms, vfs: None }
}

pub fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub fn project() -> Name {
    Name::default_project()
}

pub fn owner() -> Subject {
    Subject::parse("owner").unwrap()
}

/// A fresh mutation id.
pub fn mutation() -> MutationId {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    mutation_of(COUNT.fetch_add(1, Ordering::Relaxed))
}

pub fn mutation_of(number: u64) -> MutationId {
    let mut bytes = [0x40; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    MutationId(Uuid::from_bytes(bytes))
}

pub fn authority() -> Authority {
    Authority {
        project: project(),
        subject: owner(),
        credential_id: "owner-1".into(),
        credential_version: 1,
        valid_until_ms: None,
        fence: Fence { project_version: 1, binding_version: 1 },
    }
}

pub fn definition(script: &str, enabled: bool) -> Definition {
    let spec = json!({"schema": SCHEMA, "config": {
        "command": {"kind": "shell", "command": script},
        "environment": [{"name": "A", "kind": "public", "value": "1"}],
    }});
    Definition::check("Say hi".into(), None, "command", &spec, BTreeMap::new(), enabled)
        .unwrap_or_else(|e| panic!("{e}"))
}

/// A new task that is tried again after so long, twice at most.
pub fn put_retrying(task: &str, delay_ms: i64) -> PublishTask {
    let spec = json!({"schema": SCHEMA, "config": {
        "command": {"kind": "shell", "command": "true"},
        "retry": {"maxAttempts": 3, "delayMs": delay_ms, "on": ["failed", "timed_out", "lost"], "safety": "idempotent"},
    }});
    let definition = Definition::check("Try".into(), None, "command", &spec, BTreeMap::new(), true);
    let definition = definition.unwrap_or_else(|e| panic!("{e}"));
    let put = TaskPut { task: name(task), mutation: mutation(), expected_revision: None, definition, repin: true };
    PublishTask { authority: authority(), put }
}

pub fn put(task: &str, expected_revision: Option<i64>, script: &str, enabled: bool) -> PublishTask {
    let definition = definition(script, enabled);
    let put = TaskPut { task: name(task), mutation: mutation(), expected_revision, definition, repin: true };
    PublishTask { authority: authority(), put }
}

/// A state with its lock held and a running store.
pub struct Bench {
    pub folder: Folder,
    pub state: StateDir,
    pub lock: Option<StateLock>,
    pub store: Store,
}

impl Bench {
    /// Initialised, started, with an owner.
    pub fn new() -> Self {
        Self::with(&options())
    }

    pub fn fast() -> Self {
        Self::within(Folder::fast(), &options())
    }

    pub fn with(options: &Options) -> Self {
        Self::within(Folder::new(), options)
    }

    fn within(folder: Folder, options: &Options) -> Self {
        let state = StateDir::create(&folder.state()).unwrap();
        let lock = state.lock("test").unwrap();
        open::init(&state, &lock, options).unwrap();
        let store = Store::start(&state, &lock, options.clone()).unwrap();
        let bench = Self { folder, state, lock: Some(lock), store };
        let credential_id = "owner-1".into();
        assert!(bench.call(BootstrapOwner { subject: owner(), credential_id, secret_digest: [7; 32] }));
        bench
    }

    pub fn limited(limits: &'static Limits) -> Self {
        Self::with(&Options { limits, ..options() })
    }

    pub fn lock(&self) -> &StateLock {
        self.lock.as_ref().unwrap()
    }

    /// Does what must succeed.
    pub fn call<O: Operation>(&self, operation: O) -> O::Out {
        self.store.call(operation).unwrap_or_else(|e| panic!("{e:?}"))
    }

    pub fn task(&self, task: &str) -> TaskRef {
        match self.call(put(task, None, "true", true)) {
            Published::Created(head) => head.task_ref,
            other => panic!("{other:?}"),
        }
    }

    /// A task that is tried again.
    pub fn retrying(&self, task: &str, delay_ms: i64) -> TaskRef {
        match self.call(put_retrying(task, delay_ms)) {
            Published::Created(head) => head.task_ref,
            other => panic!("{other:?}"),
        }
    }

    pub fn start(&self, task: &str, task_ref: TaskRef) -> Admitted {
        match self.call(admit(task, task_ref, mutation())) {
            Started::Accepted(admitted) => admitted,
            other => panic!("{other:?}"),
        }
    }

    /// Takes a queued Run to running.
    pub fn run(&self, admitted: &Admitted) {
        assert_eq!(self.call(begin(admitted)), Step::Done);
        assert_eq!(self.call(own(admitted)), Step::Done);
    }

    /// Closes and opens the store again.
    pub fn restart(&mut self, options: &Options) -> Result<(), String> {
        self.store.close();
        self.store = Store::start(&self.state, self.lock(), options.clone()).map_err(|e| e.to_string())?;
        Ok(())
    }

    /// The database's path, found by looking, for tests that damage it.
    pub fn database(&self) -> PathBuf {
        database(self.state.path())
    }

    /// Closes the store, changes the database with SQL from outside, and starts it again.
    pub fn tamper(&mut self, sql: &str) -> Result<(), String> {
        self.store.close();
        raw(&self.database()).execute_batch(sql).unwrap();
        self.store = Store::start(&self.state, self.lock(), options()).map_err(|e| e.to_string())?;
        Ok(())
    }
}

pub fn database(state: &Path) -> PathBuf {
    let files = std::fs::read_dir(state).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.extension().is_some_and(|e| e == "db")).unwrap()
}

pub fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

pub fn admit(task: &str, expected: TaskRef, mutation: MutationId) -> AdmitStart {
    AdmitStart { authority: authority(), task: name(task), mutation, expected }
}

pub fn token_digest() -> Digest {
    Digest::of("token", b"secret")
}

pub fn begin(admitted: &Admitted) -> BeginStart {
    begin_of(admitted.run, admitted.attempt)
}

pub fn begin_of(run: RunId, attempt: AttemptId) -> BeginStart {
    let log_artifact = "local-0123456789abcdef0123456789abcd".into();
    BeginStart { run, attempt, token_digest: token_digest(), log_artifact, deadline: None, resolved: Vec::new() }
}

pub fn own(admitted: &Admitted) -> TakeOwnership {
    let (run, attempt) = (admitted.run, admitted.attempt);
    TakeOwnership { run, attempt, token_digest: token_digest(), handle: "ql3lp1.b.42.42.7".into(), pid: 42 }
}

pub fn complete(admitted: &Admitted, exit_code: i32) -> Complete {
    let now_ms = CLOCK.load(Ordering::Relaxed);
    let end = End { exit_code: Some(exit_code), log_complete: Some(true), leftovers: Some(0), ..End::default() };
    let completion = Completion {
        run: admitted.run,
        attempt: admitted.attempt,
        token_digest: token_digest(),
        sequence: 1,
        started_at_ms: now_ms,
        finished_at_ms: now_ms + 5,
        end,
    };
    Complete { completion, resolved: Vec::new() }
}

pub fn unavailable(word: &'static str) -> StoreError {
    StoreError::Unavailable(word)
}

/// A version of a secret; the store never looks into what is sealed.
pub fn envelope(secret: &str, version: i64, key: &str) -> Envelope {
    Envelope {
        project: project(),
        name: name(secret),
        version,
        key_id: key.into(),
        nonce: [3; 24],
        sealed: vec![version as u8; 40],
        mutation: mutation(),
        created_at_ms: 0,
    }
}

pub fn put_secret(secret: &str, version: i64, exists: bool) -> PutSecret {
    let expected_version = exists.then_some(version - 1);
    PutSecret { authority: authority(), expected_version, envelope: envelope(secret, version, "old") }
}
