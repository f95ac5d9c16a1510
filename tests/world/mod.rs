//! A simulated host over the real store: the operating system as a value that a test can bend.

#![allow(dead_code)] // each test file uses its own part

use faults::{Kind, Plan};
use qinglet::access::seal::Value;
use qinglet::execution::Engine;
use qinglet::execution::board::{Board, WaitReason};
use qinglet::execution::host::{
    Cleared, EnvironmentOf, Hold, Host, Inspection, Launch, LaunchFailure, LaunchReply, LogGrant, LogRemoved, LogSpace,
    NotOpened, Now, Receipt, ReceiptRead, Signalled, Stop, Swept,
};
use qinglet::model::digest::Digest;
use qinglet::model::id::{AttemptId, MutationId, RunId, Uuid};
use qinglet::model::life::{AttemptState, RunState};
use qinglet::model::limits::EDGE;
use qinglet::model::name::Name;
use qinglet::model::policy::{Authority, Fence, Subject};
use qinglet::model::record::{End, Event, Run, Schedule};
use qinglet::model::secret::Envelope;
use qinglet::model::task::{Definition, TaskPut, TaskRef};
use qinglet::model::trigger::Trigger;
use qinglet::store::Store;
use qinglet::store::access::{BootstrapOwner, FindStanding};
use qinglet::store::cancel::{CancelRequested, RequestCancel};
use qinglet::store::open::{self, Options};
use qinglet::store::resolve::{ResolveRun, Resolved, Resolver};
use qinglet::store::runs::{GetRun, ListEvents, ListRuns, RunCursor};
use qinglet::store::secrets::{PutSecret, SecretPut};
use qinglet::store::start::{AdmitStart, ListInFlight, ListResolvable, Started};
use qinglet::store::state::{StateDir, StateLock};
use qinglet::store::tasks::{PublishTask, Published};
use qinglet::store::triggers::{GetTrigger, PutTrigger, TriggerPut};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

#[path = "../store_support/faults.rs"]
#[allow(dead_code)]
mod faults;

/// What the launcher saw in the store when it was called.
#[derive(Clone)]
pub struct Seen {
    pub run: Run,
    pub token_digest: Option<Digest>,
    pub events: Vec<Event>,
}

/// A simulated process: a shim that lives until it is told otherwise.
pub struct Process {
    pub run: RunId,
    pub token: [u8; 32],
    pub released: bool,
}

/// The bendable operating system.
#[allow(clippy::struct_excessive_bools)] // each is a fault of its own
pub struct World {
    pub boot_ms: u64,
    pub alive: BTreeMap<AttemptId, Process>,
    pub exited: Vec<AttemptId>,
    pub receipts: BTreeMap<AttemptId, Receipt>,
    pub signals: Vec<Stop>,
    pub launches: usize,
    pub released: usize,
    pub quarantined: usize,
    pub kills: usize,
    pub launch_fails: Option<String>,
    /// Why secrets cannot be opened, once each.
    pub secrets_closed: Vec<NotOpened>,
    /// How often secrets were to be opened.
    pub openings: usize,
    /// The secrets' variables of the last launch.
    pub secrets_at_launch: Vec<String>,
    pub before_ownership: Option<fn()>,
    pub signal_answer: Option<Signalled>,
    pub inspect_answer: Option<Inspection>,
    pub deaf: bool,
    /// Not even KILL ends anything.
    pub frozen: bool,
    /// What a sweep finds.
    pub sweep_answer: Swept,
    pub sweeps: usize,
    /// What reading a receipt gives, instead of what is there.
    pub receipt_answer: Option<ReceiptRead>,
    /// What lies in a receipt's place cannot be moved.
    pub stuck_receipts: bool,
    pub room: Result<(), WaitReason>,
    pub seen_at_launch: Option<Seen>,
    pub state_at_release: Option<(RunState, AttemptState)>,
    /// The wall clock.
    pub wall_ms: i64,
    /// Something keeps it right.
    pub synchronised: bool,
    /// Which boot it is.
    pub boot: u8,
    /// What each log takes.
    pub logs: BTreeMap<String, u64>,
    /// How many logs were made.
    pub logs_made: usize,
    /// What the next log takes.
    pub log_bytes: u64,
    /// The size of the log file system.
    pub log_space: u64,
    /// Logs removed, or looked for in order to be.
    pub removals: usize,
    /// Looks at the log file system's space; a round of housekeeping takes one.
    pub space_looks: usize,
}

impl World {
    /// Makes every write of the store fail from now on.
    pub fn fail_writes() {
        faults::arm(Plan { kind: Kind::Write, at: 1, full: false, sticky: true });
    }
}

/// A store with one owner and one task, a world, and a board.
pub struct Bench {
    pub world: Arc<Mutex<World>>,
    pub board: Arc<Board>,
    store: Store,
    authority: Authority,
    task: TaskRef,
    folder: PathBuf,
    lock: StateLock,
    _turn: MutexGuard<'static, ()>,
}

struct SimHost {
    world: Arc<Mutex<World>>,
    store: Store,
}

struct SimHold {
    world: Arc<Mutex<World>>,
    store: Store,
    run: RunId,
    attempt: AttemptId,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// When every world begins.
const BEGIN_MS: i64 = 1_800_000_000_000;

/// The wall clock as the store reads it; always the world's. One bench at a time, so one clock.
static WALL_MS: AtomicI64 = AtomicI64::new(BEGIN_MS);

/// When user code was released last, by that clock.
static RELEASED_MS: AtomicI64 = AtomicI64::new(BEGIN_MS);

fn mutation() -> MutationId {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    MutationId(Uuid::from_bytes(bytes))
}

fn wall_ms() -> i64 {
    WALL_MS.load(Ordering::SeqCst)
}

impl Bench {
    pub fn new() -> Self {
        Self::with(serde_json::json!({}))
    }

    /// Stores a secret; the simulated host opens it to these bytes.
    pub fn set_secret(&self, name: &str, value: &[u8]) {
        let envelope = Envelope {
            project: Name::default_project(),
            name: Name::parse(name).unwrap(),
            version: 1,
            key_id: "k".into(),
            nonce: [0; 24],
            sealed: [value, &[0; 16]].concat(),
            mutation: mutation(),
            created_at_ms: 0,
        };
        let put = PutSecret { authority: self.authority.clone(), expected_version: None, envelope };
        assert!(matches!(self.store.call(put), Ok(SecretPut::Created(_))));
    }

    /// With more in the task's config.
    pub fn with(config: serde_json::Value) -> Self {
        let turn = faults::turn();
        WALL_MS.store(BEGIN_MS, Ordering::SeqCst);
        RELEASED_MS.store(BEGIN_MS, Ordering::SeqCst);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory where there is a place for it: syncs are not what these tests are about.
        let memory = std::path::Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("qinglet-protocol-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let state = StateDir::create(&folder).unwrap();
        let lock = state.lock("test").unwrap();
        let options = || Options { limits: &EDGE, clock_ms: wall_ms, vfs: Some(faults::NAME.to_owned()) };
        open::init(&state, &lock, &options()).unwrap();
        let store = Store::start(&state, &lock, options()).unwrap();
        let subject = Subject::parse("owner").unwrap();
        let boot = BootstrapOwner { subject: subject.clone(), credential_id: "c".into(), secret_digest: [1; 32] };
        assert!(store.call(boot).unwrap());
        let project = Name::default_project();
        let standing = store.call(FindStanding { project: project.clone(), subject: subject.clone() }).unwrap();
        let fence =
            Fence { project_version: standing.project.unwrap().0, binding_version: standing.binding.unwrap().0 };
        let authority = Authority { project, subject, credential_id: "c".into(), credential_version: 1, fence };
        let mut config = config;
        config["command"] = serde_json::json!({"kind": "shell", "command": "true"});
        let spec = serde_json::json!({"schema": "qinglong/command@v1", "config": config});
        let Ok(definition) = Definition::check("T".into(), None, "command", &spec, BTreeMap::new(), true) else {
            panic!()
        };
        let put = TaskPut {
            task: Name::parse("t").unwrap(),
            mutation: mutation(),
            expected_revision: None,
            definition,
            repin: false,
        };
        let Published::Created(head) = store.call(PublishTask { authority: authority.clone(), put }).unwrap() else {
            panic!()
        };
        let world = World {
            boot_ms: 1_000,
            alive: BTreeMap::new(),
            exited: Vec::new(),
            receipts: BTreeMap::new(),
            signals: Vec::new(),
            launches: 0,
            released: 0,
            quarantined: 0,
            kills: 0,
            launch_fails: None,
            secrets_closed: Vec::new(),
            openings: 0,
            secrets_at_launch: Vec::new(),
            before_ownership: None,
            signal_answer: None,
            inspect_answer: None,
            deaf: false,
            frozen: false,
            sweep_answer: Swept::Empty,
            sweeps: 0,
            receipt_answer: None,
            stuck_receipts: false,
            room: Ok(()),
            seen_at_launch: None,
            state_at_release: None,
            wall_ms: wall_ms(),
            synchronised: true,
            boot: 7,
            logs: BTreeMap::new(),
            logs_made: 0,
            log_bytes: 1000,
            log_space: 1 << 40,
            removals: 0,
            space_looks: 0,
        };
        Self {
            world: Arc::new(Mutex::new(world)),
            board: Arc::default(),
            store,
            authority,
            task: head.task_ref,
            folder,
            lock,
            _turn: turn,
        }
    }

    /// Admits one Run.
    pub fn start(&self) -> RunId {
        let task = Name::parse("t").unwrap();
        let admit = AdmitStart { authority: self.authority.clone(), task, mutation: mutation(), expected: self.task };
        match self.store.call(admit).unwrap() {
            Started::Accepted(admitted) => admitted.run,
            other => panic!("{other:?}"),
        }
    }

    /// Makes a trigger of the one task.
    pub fn trigger(&self, id: &str, spec: &serde_json::Value) {
        let trigger = Trigger::check(Name::parse("t").unwrap(), self.task, spec, true).unwrap();
        let put = PutTrigger {
            authority: self.authority.clone(),
            id: Name::parse(id).unwrap(),
            mutation: mutation(),
            expected_revision: None,
            trigger,
            boot: None,
        };
        assert!(matches!(self.store.call(put).unwrap(), TriggerPut::Created(_)));
    }

    /// How far a trigger has come.
    pub fn schedule(&self, id: &str) -> Schedule {
        let get = GetTrigger { project: Name::default_project(), id: Name::parse(id).unwrap() };
        self.store.call(get).unwrap().unwrap().schedule
    }

    /// Every Run there is, oldest first, with the instant it was for.
    pub fn runs(&self) -> Vec<(RunId, RunState)> {
        let list = ListRuns { project: Name::default_project(), task: None, state: None, after: None, limit: 64 };
        let (mut runs, more) = self.store.call(list).unwrap();
        assert!(!more, "more runs than a test should make");
        runs.reverse();
        runs.into_iter().map(|run| (run.id, run.state)).collect()
    }

    pub fn engine(&self) -> Engine<impl Host + use<>> {
        let host = SimHost { world: self.world.clone(), store: self.store.clone() };
        Engine::new(host, self.store.clone(), &EDGE, self.board.clone(), Arc::new(|| ()))
    }

    pub fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.lock().unwrap();
        let seen = look(&mut world);
        WALL_MS.store(world.wall_ms, Ordering::SeqCst);
        seen
    }

    /// The sequences of what happened to a Run.
    pub fn sequences(&self, run: RunId) -> Vec<i64> {
        let list = ListEvents { project: Name::default_project(), run, after_sequence: 0, limit: 64 };
        self.store.call(list).unwrap().unwrap().0.iter().map(|event| event.sequence).collect()
    }

    pub fn run(&self, run: RunId) -> Run {
        read_run(&self.store, run)
    }

    /// Whether the store has this Run.
    pub fn is_there(&self, run: RunId) -> bool {
        let get = GetRun { project: Name::default_project(), run, attempt_number: None };
        self.store.call(get).unwrap().is_some()
    }

    /// The journal's rows of ended Attempts.
    pub fn journal(&self) -> Vec<AttemptId> {
        let list = ListResolvable { after: None, limit: 64 };
        self.store.call(list).unwrap().into_iter().map(|row| row.attempt).collect()
    }

    pub fn in_flight(&self) -> Vec<RunId> {
        self.store.call(ListInFlight { limit: 256 }).unwrap().0.into_iter().map(|r| r.run).collect()
    }

    /// Lets the store thread get a word in.
    #[allow(clippy::unused_self)] // reads as the bench's own breath
    pub fn breathe(&self) {
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Turns until the world looks right, within a bound.
    pub fn turns<H: Host>(&self, engine: &mut Engine<H>, done: impl Fn(&mut World) -> bool) {
        self.turns_until(engine, || self.world(|w| done(w)));
    }

    /// Turns until something holds, within a bound; time passes a little with each.
    pub fn turns_until<H: Host>(&self, engine: &mut Engine<H>, done: impl Fn() -> bool) {
        for _ in 0..3_000 {
            engine.turn();
            if done() {
                return;
            }
            self.breathe();
        }
        panic!("did not happen");
    }

    /// Turns until nothing is half done.
    pub fn settle<H: Host>(&self, engine: &mut Engine<H>) {
        for _ in 0..200 {
            engine.turn();
            self.breathe();
            if engine.settled() && self.world(|w| w.launches) > 0 {
                engine.turn();
                return;
            }
        }
        panic!("did not settle");
    }

    /// Lets so much time pass, with turns on the way.
    pub fn pass<H: Host>(&self, engine: &mut Engine<H>, ms: u64) {
        for _ in 0..20 {
            self.world(|w| w.boot_ms += ms / 20);
            for _ in 0..3 {
                engine.turn();
                self.breathe();
            }
        }
    }

    /// Lets so much time pass on both clocks, in steps that no grace is shorter than.
    pub fn live<H: Host>(&self, engine: &mut Engine<H>, ms: u64) {
        const STEP_MS: u64 = 10_000;
        for step in 0..ms.div_ceil(STEP_MS) {
            let ms = STEP_MS.min(ms - step * STEP_MS);
            self.world(|w| {
                w.boot_ms += ms;
                w.wall_ms += ms as i64;
            });
            self.settle_schedules(engine);
        }
    }

    /// Turns until schedules have nothing to do at this time, within a bound.
    pub fn settle_schedules<H: Host>(&self, engine: &mut Engine<H>) {
        self.rest(engine);
        for _ in 0..2_000 {
            engine.turn();
            if engine.schedules_rest() {
                return;
            }
            self.breathe();
        }
        panic!("schedules do not come to rest");
    }

    /// A few turns.
    pub fn rest<H: Host>(&self, engine: &mut Engine<H>) {
        for _ in 0..4 {
            engine.turn();
            self.breathe();
        }
    }

    /// Somebody sets the wall clock.
    pub fn set_clock<H: Host>(&self, engine: &mut Engine<H>, by_ms: i64) {
        self.world(|w| w.wall_ms += by_ms);
        engine.clock_was_set();
        self.settle_schedules(engine);
    }

    /// Lets the store work again.
    pub fn heal(&self) {
        faults::disarm();
        self.world(|w| w.boot_ms += 10_000);
    }

    /// One living process ends and leaves its receipt.
    pub fn exit(&self, code: i32, signal: Option<i32>) {
        self.world(|w| {
            let (attempt, process) = w.alive.pop_first().expect("a living process");
            w.receipts.insert(attempt, receipt(process.run, attempt, process.token, code, signal));
            w.exited.push(attempt);
        });
    }

    /// One living process ends and leaves a receipt with another token.
    pub fn forge_exit(&self) {
        self.world(|w| {
            let (attempt, process) = w.alive.pop_first().expect("a living process");
            w.receipts.insert(attempt, receipt(process.run, attempt, [9; 32], 0, None));
            w.exited.push(attempt);
        });
    }

    /// One living process is gone without a word.
    pub fn vanish(&self) {
        self.world(|w| {
            let (attempt, _) = w.alive.pop_first().expect("a living process");
            w.exited.push(attempt);
        });
    }

    /// This Run's process ended while no daemon was there, with a receipt.
    pub fn leave_receipt_of(&self, run: RunId) {
        self.world(|w| {
            let attempt = *w.alive.iter().find(|(_, p)| p.run == run).unwrap().0;
            let process = w.alive.remove(&attempt).unwrap();
            w.receipts.insert(attempt, receipt(run, attempt, process.token, 0, None));
        });
    }

    /// Somebody asks a Run to end.
    pub fn ask_to_end(&self, run: RunId) {
        let authority = self.authority.clone();
        let asked = self.store.call(RequestCancel { authority, run, mutation: mutation() }).unwrap();
        assert_eq!(asked, CancelRequested::Accepted);
    }

    /// Somebody settles a Run by hand.
    pub fn resolve(&self, run: RunId) -> Resolved {
        let by = Resolver::Subject(self.authority.clone());
        self.store.call(ResolveRun { by, run, mutation: mutation(), version: self.run(run).version }).unwrap()
    }

    /// How many Runs are in this state.
    pub fn count(&self, state: RunState) -> usize {
        let (mut count, mut after) = (0, None);
        loop {
            let list = ListRuns { project: Name::default_project(), task: None, state: Some(state), after, limit: 64 };
            let (page, more) = self.store.call(list).unwrap();
            count += page.len();
            after = page.last().map(|run| RunCursor { created_at_ms: run.created_at_ms, run: run.id });
            if !more {
                return count;
            }
        }
    }

    /// What happened to a Run.
    pub fn events(&self, run: RunId) -> Vec<String> {
        let list = ListEvents { project: Name::default_project(), run, after_sequence: 0, limit: 64 };
        let (events, _) = self.store.call(list).unwrap().unwrap();
        events.iter().map(|event| event.kind.to_string()).collect()
    }

    /// Somebody outside changes the store.
    pub fn tamper(&mut self, sql: &str) {
        self.store.close();
        let file = std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        let file = file.into_iter().find(|path| path.extension().is_some_and(|e| e == "db")).unwrap();
        rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
        let state = StateDir::open(&self.folder).unwrap();
        let options = Options { limits: &EDGE, clock_ms: wall_ms, vfs: Some(faults::NAME.to_owned()) };
        self.store = Store::start(&state, &self.lock, options).unwrap();
    }

    /// One living process has left its receipt and stays for what it keeps.
    pub fn leave_receipt_and_stay(&self) {
        self.world(|w| {
            let (attempt, process) = w.alive.first_key_value().expect("a living process");
            w.receipts.insert(*attempt, receipt(process.run, *attempt, process.token, 0, None));
        });
    }

    /// This Run's process ended while no daemon was there, without a receipt.
    pub fn vanish_run(&self, run: RunId) {
        self.world(|w| w.alive.retain(|_, p| p.run != run));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.store.close();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn read_run(store: &Store, run: RunId) -> Run {
    store.call(GetRun { project: Name::default_project(), run, attempt_number: None }).unwrap().unwrap()
}

fn receipt(run: RunId, attempt: AttemptId, token: [u8; 32], code: i32, signal: Option<i32>) -> Receipt {
    let end = End { exit_code: Some(code), signal, log_complete: Some(true), leftovers: Some(0), ..End::default() };
    // As the shim writes it: it never ends before it began.
    let started_at_ms = RELEASED_MS.load(Ordering::SeqCst);
    let finished_at_ms = wall_ms().max(started_at_ms);
    Receipt { run, attempt, sequence: 1, token, started_at_ms, finished_at_ms, end }
}

impl Hold for SimHold {
    fn handle(&self) -> String {
        format!("ql3lp1.boot.7.7.{}", self.attempt)
    }

    fn pid(&self) -> i32 {
        7
    }

    fn release(self: Box<Self>) -> bool {
        let run = read_run(&self.store, self.run);
        let mut world = self.world.lock().unwrap();
        world.state_at_release = Some((run.state, run.attempt.unwrap().state));
        let Some(process) = world.alive.get_mut(&self.attempt) else { return false };
        process.released = true;
        RELEASED_MS.store(wall_ms(), Ordering::SeqCst);
        world.released += 1;
        true
    }
}

impl Drop for SimHold {
    fn drop(&mut self) {
        let mut world = self.world.lock().unwrap();
        let held = world.alive.get(&self.attempt).is_some_and(|p| !p.released);
        if held && !world.deaf && world.signal_answer.is_none() {
            world.alive.remove(&self.attempt);
            world.exited.push(self.attempt);
        }
    }
}

fn artifact(attempt: AttemptId) -> String {
    format!("local-{}", &attempt.to_string().replace('-', "")[2..])
}

impl Host for SimHost {
    fn now(&self) -> Now {
        let world = self.world.lock().unwrap();
        Now { wall_ms: world.wall_ms, boot_ms: world.boot_ms }
    }

    fn random(&self, buffer: &mut [u8]) -> bool {
        buffer.fill(NEXT.fetch_add(1, Ordering::Relaxed) as u8);
        true
    }

    fn room(&self) -> Result<(), WaitReason> {
        self.world.lock().unwrap().room
    }

    fn allocate_log(&self, _: RunId, attempt: AttemptId, _: Option<i64>) -> Option<LogGrant> {
        let artifact = artifact(attempt);
        let mut world = self.world.lock().unwrap();
        let bytes = world.log_bytes;
        world.logs_made += 1;
        world.logs.insert(artifact.clone(), bytes);
        Some(LogGrant { artifact, folder: PathBuf::new(), bytes_max: 1 << 20 })
    }

    fn environment(&self, _: &EnvironmentOf<'_>) -> Vec<(String, String)> {
        Vec::new()
    }

    fn open_secrets(&self, envelopes: &[Envelope]) -> Result<Vec<Value>, NotOpened> {
        let mut world = self.world.lock().unwrap();
        world.openings += 1;
        match world.secrets_closed.pop() {
            Some(why) => Err(why),
            None => Ok(envelopes
                .iter()
                .map(|envelope| Value::new(envelope.sealed[..envelope.sealed.len() - 16].to_vec()))
                .collect()),
        }
    }

    fn launch(&self, launch: Launch, reply: LaunchReply) {
        let run = read_run(&self.store, launch.run);
        let events = ListEvents { project: Name::default_project(), run: launch.run, after_sequence: 0, limit: 32 };
        let events = self.store.call(events).unwrap().unwrap().0;
        let in_flight = self.store.call(ListInFlight { limit: 256 }).unwrap().0;
        let token_digest = in_flight.iter().find(|r| r.run == launch.run).and_then(|r| r.token_digest);
        let before = {
            let mut world = self.world.lock().unwrap();
            world.seen_at_launch = Some(Seen { run, token_digest, events });
            world.launches += 1;
            world.secrets_at_launch = launch.secrets.iter().map(|(variable, _)| variable.clone()).collect();
            if let Some(why) = world.launch_fails.clone() {
                drop(world);
                return reply(Err(LaunchFailure(why)));
            }
            let process = Process { run: launch.run, token: launch.token, released: false };
            world.alive.insert(launch.attempt, process);
            world.before_ownership
        };
        if let Some(before) = before {
            before();
        }
        let hold =
            SimHold { world: self.world.clone(), store: self.store.clone(), run: launch.run, attempt: launch.attempt };
        reply(Ok(Box::new(hold)));
    }

    fn inspect(&self, handle: &str, _: i32) -> Inspection {
        let world = self.world.lock().unwrap();
        let lives = world.alive.keys().any(|attempt| handle.ends_with(&attempt.to_string()));
        world.inspect_answer.unwrap_or(if lives { Inspection::Running } else { Inspection::NotRunning })
    }

    fn boot(&self) -> Option<Uuid> {
        Some(Uuid::from_bytes([self.world.lock().unwrap().boot; 16]))
    }

    fn kill_descendants(&self, handle: &str) -> Option<usize> {
        let mut world = self.world.lock().unwrap();
        world.kills += 1;
        let found = world.alive.keys().find(|attempt| handle.ends_with(&attempt.to_string())).copied()?;
        if world.frozen {
            return Some(1);
        }
        let process = world.alive.remove(&found)?;
        world.receipts.insert(found, receipt(process.run, found, process.token, 137, Some(9)));
        world.exited.push(found);
        Some(1)
    }

    fn sweep(&self, _: &str, _: RunId) -> Swept {
        let mut world = self.world.lock().unwrap();
        world.sweeps += 1;
        world.sweep_answer
    }

    fn signal(&self, handle: &str, stop: Stop) -> Signalled {
        let mut world = self.world.lock().unwrap();
        world.signals.push(stop);
        if let Some(answer) = world.signal_answer {
            return answer;
        }
        let found = world.alive.keys().find(|attempt| handle.ends_with(&attempt.to_string())).copied();
        match found {
            None => Signalled::AlreadyExited,
            Some(attempt) if !world.deaf => {
                world.alive.remove(&attempt);
                world.exited.push(attempt);
                Signalled::Sent
            }
            Some(_) => Signalled::Sent,
        }
    }

    fn watch(&self, _: AttemptId, _: &str) -> bool {
        false
    }

    fn reap(&self) -> Vec<AttemptId> {
        std::mem::take(&mut self.world.lock().unwrap().exited)
    }

    fn watch_receipt(&self, _: AttemptId) -> bool {
        false
    }

    fn forget_receipt(&self, _: AttemptId) {}

    fn published(&self) -> Vec<AttemptId> {
        Vec::new()
    }

    fn read_receipt(&self, attempt: AttemptId) -> ReceiptRead {
        let world = self.world.lock().unwrap();
        if let Some(answer) = &world.receipt_answer {
            return answer.clone();
        }
        match world.receipts.get(&attempt) {
            Some(receipt) => ReceiptRead::Found(receipt.clone()),
            None => ReceiptRead::Absent,
        }
    }

    fn delete_receipt(&self, attempt: AttemptId) -> bool {
        self.world.lock().unwrap().receipts.remove(&attempt);
        true
    }

    fn quarantine_receipt(&self, attempt: AttemptId) -> bool {
        let mut world = self.world.lock().unwrap();
        if world.stuck_receipts {
            return false;
        }
        world.receipts.remove(&attempt);
        world.quarantined += 1;
        true
    }

    fn clock_synchronised(&self) -> bool {
        self.world.lock().unwrap().synchronised
    }

    fn clear_receipt(&self, attempt: AttemptId) -> Cleared {
        match self.world.lock().unwrap().receipts.remove(&attempt) {
            Some(_) => Cleared::Deleted,
            None => Cleared::Absent,
        }
    }

    fn purge_receipt(&self, _: AttemptId) -> bool {
        true
    }

    fn log_space(&self) -> Option<LogSpace> {
        let mut world = self.world.lock().unwrap();
        world.space_looks += 1;
        let taken: u64 = world.logs.values().sum();
        let total_bytes = world.log_space;
        Some(LogSpace { free_bytes: total_bytes.saturating_sub(taken), total_bytes, memory_bytes: None })
    }

    fn log_taken_bytes(&self, artifact: &str) -> Option<u64> {
        self.world.lock().unwrap().logs.get(artifact).copied()
    }

    fn discard_log(&self, _: RunId, attempt: AttemptId) {
        self.world.lock().unwrap().logs.remove(&artifact(attempt));
    }

    fn remove_log(&self, artifact: &str) -> Option<LogRemoved> {
        let mut world = self.world.lock().unwrap();
        world.removals += 1;
        let bytes = world.logs.remove(artifact).unwrap_or(0);
        Some(LogRemoved { bytes, taken_bytes: bytes, truncated: Some(false) })
    }

    fn crash_point(&self, _: &'static str) {}
}
