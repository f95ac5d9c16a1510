//! The rounds: start, load, kill, look; and in between a quiet time in which everything must end.

use super::load::{Asked, Client, Known};
use super::look::{self, Facts};
use super::marks;
use super::plan::{Act, CrashAt, Plan, ShimKill};
use super::shims;
use super::snapshot::Snapshot;
use super::support::{Bench, http, tree};
use super::tasks::{self, Pin};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// From a start to the first answer, on the slowest machine.
const RISE: Duration = Duration::from_secs(30);
/// A daemon that is to kill itself gets so long after its kill was due.
const OVERTIME: Duration = Duration::from_millis(500);
/// Until everything has ended when nobody disturbs.
const QUIET: Duration = Duration::from_secs(60);
/// Until what the last daemon left lying is cleared away.
const CLEARED: Duration = Duration::from_secs(20);
/// Clients of the command line at once.
const CLIENTS_MAX: usize = 4;

/// What came of it all.
#[derive(Default, Debug)]
pub struct Tally {
    /// Kills of the daemon, its own included.
    pub kills: u64,
    /// Of those, at a crash point of its own.
    pub own_deaths: u64,
    /// Supervisors killed.
    pub shims: u64,
    /// Runs by their state at the end.
    pub outcomes: BTreeMap<String, u64>,
    /// Attempts whose user code ran.
    pub ran: u64,
    /// Attempts whose receipt was taken.
    pub receipts: u64,
    /// Processes that had got away from a killed supervisor.
    pub escaped: u64,
    /// The slowest start to the first answer, and its round.
    pub slowest: (Duration, u64),
}

/// One state in the storm.
pub struct Storm {
    bench: Bench,
    seed: u64,
    marks: PathBuf,
    pins: Vec<Pin>,
    known: Known,
    clients: Vec<(Child, PathBuf)>,
    before: Snapshot,
    excused: BTreeSet<String>,
    entries: BTreeSet<String>,
    /// What came of it.
    pub tally: Tally,
}

impl Storm {
    /// A fresh state with its tasks.
    pub fn new(seed: u64) -> Self {
        let mut bench = Bench::serving();
        let marks = bench.root().join("marks");
        let pins = tasks::add(&bench, &marks);
        bench.kill();
        let (known, tally, before) = Default::default();
        let (clients, excused, entries) = Default::default();
        Self { bench, seed, marks, pins, known, clients, before, excused, entries, tally }
    }

    /// One round. What was wrong after it.
    pub fn round(&mut self, round: u64) -> Vec<String> {
        let plan = Plan::of(self.seed, round);
        match plan.crash_at {
            Some(CrashAt::Daemon(point) | CrashAt::Shim(point)) => self.bench.env("QINGLET_CRASH_AT", point),
            None => self.bench.no_env("QINGLET_CRASH_AT"),
        };
        let mut wrong = Vec::new();
        let mut dies_itself = false;
        if let Some(early_ms) = plan.early_ms {
            self.bench.launch(&["--profile", plan.profile]);
            std::thread::sleep(Duration::from_millis(early_ms));
            dies_itself = !self.bench.is_served();
            if !dies_itself {
                self.bench.kill();
            }
        } else if self.rise(plan.profile, round, &mut wrong) {
            if plan.patient {
                self.stale_receipts_go(&mut wrong);
            }
            dies_itself = self.act(&plan);
        } else if self.bench.is_served() {
            self.bench.kill();
        } else {
            dies_itself = true;
        }
        self.tally.kills += 1;
        self.tally.own_deaths += u64::from(dies_itself);
        if dies_itself && !matches!(plan.crash_at, Some(CrashAt::Daemon(_))) {
            wrong.push("the daemon ended by itself".into());
        }
        if let Some((ShimKill::After, nth)) = plan.shim_kill {
            self.kill_shim(nth);
        }
        wrong.append(&mut self.known.wrong);
        wrong.extend(self.look(matches!(plan.crash_at, Some(CrashAt::Shim(_))), false));
        std::thread::sleep(Duration::from_millis(plan.dead_ms));
        wrong
    }

    /// Starts the daemon and waits for its first answer; `false` when it died before.
    fn rise(&mut self, profile: &str, round: u64, wrong: &mut Vec<String>) -> bool {
        let began = Instant::now();
        self.bench.launch(&["--profile", profile]);
        while self.bench.is_served() {
            if http::get(&self.bench.state(), "/api/health").is_ok_and(|reply| reply.status == 200) {
                self.tally.slowest = self.tally.slowest.max((began.elapsed(), round));
                return true;
            }
            if began.elapsed() > RISE {
                wrong.push(format!("the daemon gives no answer after {RISE:?}"));
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// The load, and in the midst of it the kill. Whether the daemon had died by itself before.
    fn act(&mut self, plan: &Plan) -> bool {
        for (at, _) in plan.acts.iter().enumerate().filter(|(_, (_, act))| matches!(act, Act::Client { .. })) {
            self.send_client(plan, at);
        }
        let over = AtomicBool::new(false);
        let (state, token) = (self.bench.state(), self.bench.token());
        let mut known = std::mem::take(&mut self.known);
        let client = Client { state: &state, token: &token, pins: &self.pins };
        let dies_itself = std::thread::scope(|scope| {
            let load = scope.spawn(|| client.act(&plan.acts, &mut known, || over.load(Ordering::SeqCst)));
            let began = Instant::now();
            let delay = Duration::from_millis(plan.delay_ms);
            if let Some((ShimKill::Before { ms }, nth)) = plan.shim_kill {
                std::thread::sleep(delay.saturating_sub(Duration::from_millis(ms)));
                self.bench.remember_tasks();
                if let Some(run) = shims::kill(nth, ours(&self.before, &self.marks)) {
                    self.excused.insert(run);
                    self.tally.shims += 1;
                }
            }
            let wait = delay + OVERTIME * u32::from(matches!(plan.crash_at, Some(CrashAt::Daemon(_))));
            while began.elapsed() < wait && self.bench.is_served() {
                std::thread::sleep(Duration::from_millis(2).min(wait.saturating_sub(began.elapsed())));
            }
            over.store(true, Ordering::SeqCst);
            let is_served = self.bench.is_served();
            if is_served {
                self.bench.kill();
            }
            load.join().expect("the load");
            !is_served
        });
        self.known = known;
        dies_itself
    }

    fn send_client(&mut self, plan: &Plan, at: usize) {
        self.clients.retain_mut(|(client, _)| client.try_wait().expect("a child of ours").is_none());
        let Act::Client { kind } = &plan.acts[at].1 else { return };
        if self.clients.len() < CLIENTS_MAX {
            let output = self.bench.root().join(format!("client-{}-{at}", self.tally.kills));
            let client = self.bench.spawn(&["run", kind.task(), "--wait"], &output);
            self.clients.push((client, output));
        }
    }

    fn kill_shim(&mut self, nth: usize) {
        if let Some(run) = shims::kill(nth, ours(&self.before, &self.marks)) {
            self.excused.insert(run);
            self.tally.shims += 1;
        }
    }

    /// Receipts whose Attempts had ended when the daemon died are the next one's first business.
    fn stale_receipts_go(&mut self, wrong: &mut Vec<String>) {
        let stale = look::stale_receipts(&self.before, &self.bench.state());
        let until = Instant::now() + CLEARED;
        while let Some(path) = stale.iter().find(|path| PathBuf::from(path).exists()) {
            if !self.bench.is_served() {
                return;
            }
            if Instant::now() > until {
                return wrong.push(format!("{path} is still there"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Looks at everything while the daemon is dead.
    fn look(&mut self, shims_died: bool, is_the_end: bool) -> Vec<String> {
        let now = Snapshot::read(&self.bench.db());
        if shims_died {
            let was = |run: &str, number: i64| {
                let run = self.before.runs.get(run);
                run.is_some_and(|run| run.attempts.iter().any(|a| a.number == number && a.is_authorised))
            };
            let told = now.attempts().filter(|(run, a)| a.is_authorised && !was(&run.id, a.number));
            self.excused.extend(told.map(|(run, _)| run.id.clone()));
        }
        let marks = marks::read(&self.marks);
        let alive = tree::all_marked().into_iter().map(|(_, run)| run).collect();
        let state = self.bench.state();
        let facts = Facts {
            now: &now,
            before: &self.before,
            marks: &marks,
            excused: &self.excused,
            alive: &alive,
            started: &self.known.started,
            cancelled: &self.known.cancelled,
            state: &state,
        };
        let mut wrong = look::after_a_kill(&facts);
        if is_the_end {
            wrong.extend(look::at_the_end(&facts));
            self.tally.ran = marks.values().filter(|mark| mark.starts > 0).count() as u64;
            self.tally.receipts = now.attempts().filter(|(_, a)| a.callback_sequence == 1).count() as u64;
            self.tally.outcomes.clear();
            for run in now.runs.values() {
                *self.tally.outcomes.entry(run.status.clone()).or_default() += 1;
            }
        }
        self.before = now;
        wrong
    }

    /// Lets everything end, then looks for what should not be there any more.
    pub fn quiet(&mut self, round: u64) -> Vec<String> {
        let mut wrong = Vec::new();
        self.bench.no_env("QINGLET_CRASH_AT");
        if !self.rise("standalone", round, &mut wrong) {
            wrong.push("the daemon does not start".into());
            return wrong;
        }
        self.everything_ends(&mut wrong);
        self.clients_end(&mut wrong);
        wrong.extend(self.stops());
        wrong.extend(self.look(false, false));
        // Once more: what is still lying about goes with the first round of housekeeping.
        if !self.rise("standalone", round, &mut wrong) {
            wrong.push("the daemon does not start".into());
            return wrong;
        }
        self.stale_receipts_go(&mut wrong);
        self.housekeeping_ends();
        wrong.extend(self.stops());
        wrong.extend(self.look(false, true));
        wrong.extend(self.nobody_is_left());
        wrong.extend(self.no_new_entries());
        wrong
    }

    /// Waits until the daemon, which nobody asks for anything, has nothing more to do by itself.
    fn housekeeping_ends(&mut self) {
        let until = Instant::now() + CLEARED;
        let mut before = tree::sleeps(self.bench.pid());
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let now = tree::sleeps(self.bench.pid());
            if std::mem::replace(&mut before, now) == now || Instant::now() > until {
                return;
            }
        }
    }

    fn stops(&mut self) -> Option<String> {
        let code = self.bench.stop();
        (code != 0).then(|| format!("the daemon ended with {code}"))
    }

    fn everything_ends(&mut self, wrong: &mut Vec<String>) {
        let (state, token) = (self.bench.state(), self.bench.token());
        let client = Client { state: &state, token: &token, pins: &self.pins };
        let until = Instant::now() + QUIET;
        loop {
            let asked: Vec<Asked> = std::mem::take(&mut self.known.unanswered);
            for asked in asked {
                client.start(&asked, &mut self.known);
            }
            let open = |status: &str| {
                let reply = self.bench.http("GET", &format!("/runs?status={status}&limit=1"), None);
                reply.body["runs"].as_array().is_none_or(|runs| !runs.is_empty())
            };
            let is_open = ["created", "queued", "dispatching", "running", "retry_wait"].into_iter().any(open);
            if !is_open && self.known.unanswered.is_empty() {
                return;
            }
            if Instant::now() > until {
                // What it is stands in the store; see `at_the_end`.
                return wrong.push(format!("not everything has ended after {QUIET:?}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The command line's clients know how their Runs have ended.
    fn clients_end(&mut self, wrong: &mut Vec<String>) {
        let until = Instant::now() + QUIET;
        for (mut client, output) in std::mem::take(&mut self.clients) {
            let code = loop {
                if let Some(status) = client.try_wait().expect("a child of ours") {
                    break status.code();
                }
                if Instant::now() > until {
                    let _ = client.kill();
                    let _ = client.wait();
                    break None;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            let text = std::fs::read_to_string(output).unwrap_or_default();
            let run = text.lines().next().unwrap_or_default();
            let status = self.bench.http("GET", &format!("/runs/{run}"), None).body["run"]["status"].take();
            let is_right = match code {
                Some(0) => status == "succeeded",
                Some(1) => status != Value::Null && status != "succeeded",
                // It gave up, saying so.
                Some(4) => true,
                _ => false,
            };
            if !is_right {
                wrong.push(format!("a client ended with {code:?} and its run is {status}: {text}"));
            }
        }
    }

    /// No process bears a mark of ours or has anything of ours open, but for what got away from killed
    /// supervisors.
    fn nobody_is_left(&mut self) -> Vec<String> {
        let is_ours = ours(&self.before, &self.marks);
        let left: Vec<_> = tree::all_marked().into_iter().filter(|(_, run)| is_ours(run)).collect();
        let (escaped, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, run)| self.excused.contains(run));
        self.tally.escaped += escaped.len() as u64;
        tree::end(&escaped.iter().map(|(process, _)| *process).collect::<Vec<_>>());
        let mut wrong: Vec<String> =
            left.into_iter().map(|(process, run)| format!("{process:?} of {run} is left")).collect();
        // Whoever was just ended may take a moment to let go.
        let until = Instant::now() + CLEARED;
        while let [process, ..] = tree::at_work_in(self.bench.root()).as_slice() {
            if Instant::now() > until || !wrong.is_empty() {
                wrong.push(format!("{process:?} is still at work in {}", self.bench.root().display()));
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        wrong
    }

    /// The state folder itself holds what it held when it was quiet last.
    fn no_new_entries(&mut self) -> Option<String> {
        let entries = std::fs::read_dir(self.bench.state()).expect("the state");
        let now: BTreeSet<String> = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let before = std::mem::replace(&mut self.entries, now);
        let is_new = !before.is_empty() && before != self.entries;
        is_new.then(|| format!("the state folder held {before:?} and now {:?}", self.entries))
    }

    /// Copies everything to a folder, for whoever wants to know why.
    pub fn keep(&self, folder: &str) {
        let _ = Command::new("cp").arg("-a").arg(self.bench.root()).arg(folder).status();
    }
}

/// Whether a Run is one of ours: other tests may run beside this one.
fn ours(before: &Snapshot, marks: &std::path::Path) -> impl Fn(&str) -> bool + use<> {
    let marked = marks::read(marks).into_keys().map(|(run, _)| run);
    let known: BTreeSet<String> = marked.chain(before.runs.keys().cloned()).collect();
    move |run| known.contains(run)
}

impl Drop for Storm {
    fn drop(&mut self) {
        for (client, _) in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
        if self.bench.is_served() {
            self.bench.kill();
        }
        // Nothing more is started now. A supervisor ends with what it supervises.
        let is_ours = ours(&self.before, &self.marks);
        for _ in 0..20 {
            let left: Vec<_> = tree::all_marked().into_iter().filter(|(_, run)| is_ours(run)).collect();
            if left.is_empty() {
                break;
            }
            tree::end(&left.iter().map(|(process, _)| *process).collect::<Vec<_>>());
        }
    }
}
