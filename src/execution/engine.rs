//! The engine: one value, owned by the control loop, advanced by turns. A turn takes what has
//! arrived, does what is due, dispatches, and says when it wants the next one. It never sleeps and
//! never waits for the store: transactions are posted and their answers arrive as messages.

use super::board::{Board, Undecided, WaitReason};
use super::host::{Host, Now};
use super::housekeeping::Housekeeping;
use super::inbox::{Inbox, Message};
use super::place::{Phase, Place, ReceiptBy, Recovery};
use super::retry::Retries;
use super::schedule::{Notice, Schedules};
use crate::model::id::{AttemptId, RunId};
use crate::model::limits::{Limits, RESOLVED_MAX, WAIT_RECHECK_MS};
use crate::store::start::{ListCandidates, Resolve, Step};
use crate::store::{Operation, Store, StoreError};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Where the look for Runs that were asked to end stands.
pub(super) struct Cancels {
    /// There may be some.
    pub(super) wanted: bool,
    /// A page is being read.
    pub(super) reading: bool,
    /// When to look again, in boot milliseconds.
    pub(super) again_ms: Option<u64>,
}

/// Whether something new is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Door {
    /// As places become free.
    Open,
    /// Nothing yet: what an earlier daemon left is being settled by looking, and until that is done
    /// nothing is signalled or timed out either.
    NotYetOpen,
    /// Nothing any more; what is under way goes on.
    Closed,
    /// Nothing any more; what is under way is asked to end because the daemon does.
    ShutDown,
}

/// The engine over a host.
pub struct Engine<H> {
    pub(super) host: H,
    pub(super) store: Store,
    pub(super) limits: Limits,
    pub(super) inbox: Inbox,
    messages: Receiver<Message>,
    pub(super) board: Arc<Board>,
    pub(super) places: BTreeMap<AttemptId, Place>,
    /// Attempts whose receipts are deleted and whose journal rows go with the next commit.
    pub(super) resolved: Vec<AttemptId>,
    wait: Option<WaitReason>,
    /// Something may be startable.
    pub(super) hungry: bool,
    /// A page of candidates is being read.
    reading: bool,
    /// When to look for room again, in boot milliseconds.
    recheck_ms: Option<u64>,
    /// Looking for Runs that were asked to end.
    pub(super) cancels: Cancels,
    /// Looking for Runs that wait for another Attempt.
    pub(super) retries: Retries,
    /// What is to be said in the log, oldest first; at most one for each change.
    pub(super) notices: VecDeque<Notice>,
    /// Schedules coming due.
    pub(super) schedules: Schedules,
    /// Clearing away what is old.
    pub(super) keeping: Housekeeping,
    /// Whether something new is started.
    pub(super) door: Door,
}

impl<H: Host> Engine<H> {
    /// An engine with nothing under way. `wake` makes the thread that calls [`turn`](Self::turn)
    /// do so soon.
    pub fn new(host: H, store: Store, limits: &Limits, board: Arc<Board>, wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        let (inbox, messages) = Inbox::new(wake);
        Self {
            host,
            store,
            limits: *limits,
            inbox,
            messages,
            board,
            places: BTreeMap::new(),
            resolved: Vec::new(),
            wait: None,
            hungry: true,
            reading: false,
            recheck_ms: None,
            cancels: Cancels { wanted: true, reading: false, again_ms: None },
            retries: Retries::new(),
            notices: VecDeque::new(),
            schedules: Schedules::default(),
            keeping: Housekeeping::default(),
            door: Door::Open,
        }
    }

    /// How others tell the engine that there may be something to start.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// The host, for the loop's own use.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The host, to be told of changed settings.
    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// From now on these numbers count. What is under way goes on, also where it is more than that now.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.limits = *limits;
        self.hungry = true;
        self.keeping.hurry();
    }

    /// Attempts that hold a place.
    pub fn active(&self) -> usize {
        self.places.len()
    }

    /// Starts nothing from now on; what is under way goes on.
    pub fn close(&mut self) {
        self.door = Door::Closed;
    }

    /// Whether no start is half done: every place has released its program, or never will.
    pub fn settled(&self) -> bool {
        let steady = |place: &Place| matches!(place.phase, Phase::Running | Phase::Unclear { .. });
        !self.reading && self.places.values().all(steady)
    }

    /// Whether something taken up from an earlier daemon is still being settled. What cannot be
    /// decided does not count: it keeps its place and shows (design D21).
    pub fn recovering(&self) -> bool {
        let open = |place: &Place| match place.phase {
            Phase::Losing { .. } | Phase::Completing { .. } | Phase::Stopped { .. } => true,
            Phase::Unclear { looks } => looks > 0 && place.doubt.is_none(),
            _ => place.recovery == Some(Recovery::Noting),
        };
        self.places.values().any(open)
    }

    /// Takes one turn. Answers in how many milliseconds the next is due by itself, if ever.
    pub fn turn(&mut self) -> Option<u64> {
        for attempt in self.host.reap() {
            self.exited(attempt);
        }
        for attempt in self.host.published() {
            self.published(attempt);
        }
        while let Ok(message) = self.messages.try_recv() {
            self.take(message);
        }
        let now = self.host.now();
        let due: Vec<AttemptId> =
            self.places.iter().filter(|(_, p)| p.due_ms.is_some_and(|at| at <= now.boot_ms)).map(|(a, _)| *a).collect();
        for attempt in due {
            self.look_again(attempt, now);
        }
        if self.door == Door::NotYetOpen {
            self.show();
            let next = self.places.values().filter_map(|place| place.due_ms).min();
            return next.map(|at| at.saturating_sub(self.host.now().boot_ms));
        }
        let halting = |place: &Place| place.halt.is_some_and(|halt| halt.due_ms <= now.boot_ms);
        let halts: Vec<AttemptId> = self.places.iter().filter(|(_, p)| halting(p)).map(|(a, _)| *a).collect();
        for attempt in halts {
            self.halt_step(attempt);
        }
        self.time_out(now.boot_ms);
        if self.cancels.again_ms.is_some_and(|at| at <= now.boot_ms) {
            self.cancels.again_ms = None;
            self.cancels.wanted = true;
        }
        self.retries.come_due(now.boot_ms);
        if self.recheck_ms.is_some_and(|at| at <= now.boot_ms) {
            self.recheck_ms = None;
            self.hungry = true;
        }
        if self.inbox.take_poke() {
            self.hungry = true;
            self.cancels.wanted = true;
        }
        if self.inbox.take_trigger_poke() {
            self.schedules.wanted = true;
        }
        self.list_cancelling();
        self.list_retries(now.boot_ms);
        self.tick(now);
        self.dispatch();
        self.keep_house(now.boot_ms);
        self.show();
        let open = self.door == Door::Open;
        let others = [
            self.recheck_ms,
            self.cancels.again_ms,
            self.retries.again_ms.filter(|_| open),
            self.schedules.again_ms.filter(|_| open),
            self.keeping.wants_ms().filter(|_| open),
        ];
        let next = self.places.values().filter_map(Place::wants_ms).chain(others.into_iter().flatten()).min();
        next.map(|at| at.saturating_sub(self.host.now().boot_ms))
    }

    fn show(&self) {
        self.board.show(self.places.len(), self.wait);
        let undecided = self.places.iter().filter_map(|(&attempt, place)| {
            let (doubt, since_ms) = place.doubt?;
            Some(Undecided { run: place.run, attempt, doubt, since_ms })
        });
        self.board.show_undecided(undecided);
    }

    fn take(&mut self, message: Message) {
        if let Some(answered) = message.store_answered()
            && self.board.show_store(!answered)
        {
            self.notices.push_back(if answered {
                ("store_recovered", "the store does what it is asked for again".to_owned())
            } else {
                let sentence = "the store cannot write: runs end and are stopped late until it can; free some space";
                ("store_failing", sentence.to_owned())
            });
        }
        match message {
            Message::Candidates(page) => self.candidates(page),
            Message::SecretsRead(attempt, answer) => self.secrets_read(attempt, answer),
            Message::Launched(attempt, outcome) => self.launched(attempt, outcome),
            Message::Stepped(attempt, answer) => self.stepped(attempt, answer),
            Message::Completed(attempt, answer) => self.completed(attempt, answer),
            Message::Quarantined(attempt) => self.quarantined(attempt),
            Message::Cancelling(page) => self.cancelling(page),
            Message::Asked(attempt, answer) => self.asked(attempt, answer),
            Message::ClockRead(newest_ms) => self.clock_read(newest_ms),
            Message::Recomputed(done) => self.recomputed(done),
            Message::Due(page) => self.due(page),
            Message::Fired(answer) => self.fired(&answer),
            Message::FiredAtBoot(answer) => self.fired_at_boot(answer),
            Message::Survivor(attempt, answer) => self.survivor(attempt, answer),
            Message::Settled(attempt) => self.settled_by_hand(attempt),
            Message::Retries(page) => self.retries(page),
            Message::Retried(answer) => self.retried(answer),
            Message::Kept(answer) => self.kept(answer),
            Message::Resolved(attempts, done) => {
                if !done {
                    self.resolved.extend(attempts);
                }
            }
        }
    }

    /// Posts a transaction whose answer is a [`Step`] for this Attempt.
    pub(super) fn post_step<O: Operation<Out = Step>>(&self, attempt: AttemptId, operation: O) {
        let inbox = self.inbox.clone();
        self.store.post(operation, move |answer| inbox.send(Message::Stepped(attempt, answer)));
    }

    /// Takes the journal rows that may go with the next commit.
    pub(super) fn take_resolved(&mut self) -> Vec<AttemptId> {
        let keep = self.resolved.len().saturating_sub(RESOLVED_MAX);
        self.resolved.split_off(keep)
    }

    /// Resolves journal rows in a commit of their own: at the end, when no other commit will come.
    pub fn resolve_now(&mut self) {
        let attempts = self.take_resolved();
        if !attempts.is_empty() {
            let inbox = self.inbox.clone();
            let again = attempts.clone();
            self.store.post(Resolve { attempts }, move |answer| inbox.send(Message::Resolved(again, answer.is_ok())));
        }
    }

    /// Gives an Attempt's place up and looks for the next candidate.
    pub(super) fn leave(&mut self, attempt: AttemptId) {
        if self.places.remove(&attempt).is_some_and(|place| place.receipt_by != ReceiptBy::End) {
            self.host.forget_receipt(attempt);
        }
        self.hungry = true;
    }

    /// Puts an Attempt into another phase.
    pub(super) fn set(&mut self, attempt: AttemptId, phase: Phase, due_ms: Option<u64>) {
        if let Some(place) = self.places.get_mut(&attempt) {
            place.phase = phase;
            place.due_ms = due_ms;
        }
    }

    /// The instant `after_ms` from now, in boot milliseconds.
    pub(super) fn later(&self, after_ms: u64) -> u64 {
        self.host.now().boot_ms + after_ms
    }

    /// Looks for room again later.
    pub(super) fn recheck(&mut self) {
        self.recheck_ms = Some(self.later(WAIT_RECHECK_MS));
    }

    fn free(&self) -> usize {
        self.limits.active_attempts.saturating_sub(self.places.len())
    }

    /// Asks the store for candidates while there is hunger: with no place free still for one, to
    /// know whether anybody waits.
    fn dispatch(&mut self) {
        if !self.hungry || self.reading || self.door != Door::Open {
            return;
        }
        self.hungry = false;
        self.reading = true;
        let intending = |p: &&Place| matches!(p.phase, Phase::Opening { .. } | Phase::Intending { .. });
        let intending = self.places.values().filter(intending);
        let except: Vec<RunId> = intending.map(|p| p.run).collect();
        let limit = self.free().min(self.limits.dispatch_page) + 1;
        let inbox = self.inbox.clone();
        self.store.post(ListCandidates { limit, except }, move |page| inbox.send(Message::Candidates(page)));
    }

    fn candidates(&mut self, page: Result<Vec<crate::store::start::Candidate>, StoreError>) {
        self.reading = false;
        let Ok(page) = page else {
            self.recheck();
            return;
        };
        self.wait = None;
        if self.door != Door::Open {
            return;
        }
        for (taken, candidate) in page.into_iter().enumerate() {
            if self.free() == 0 {
                self.wait = Some(WaitReason::Capacity);
                return;
            }
            if taken == self.limits.dispatch_page {
                self.hungry = true;
                return;
            }
            if let Err(reason) = self.host.room().and_then(|()| self.begin(candidate)) {
                return self.wait_for(reason);
            }
        }
    }

    /// Starts wait for this; it is looked for again later.
    pub(super) fn wait_for(&mut self, reason: WaitReason) {
        self.wait = Some(reason);
        self.recheck();
        if reason == WaitReason::Disk {
            self.keeping.hurry();
        }
    }

    /// What a place wants when its time has come.
    fn look_again(&mut self, attempt: AttemptId, now: Now) {
        let Some(place) = self.places.get_mut(&attempt) else { return };
        place.due_ms = None;
        match &place.phase {
            Phase::Intending { .. } => self.post_intent(attempt),
            Phase::Owning { .. } => self.post_ownership(attempt),
            Phase::Failing { .. } => self.post_failure(attempt),
            Phase::Stopping { next } => {
                let next = *next;
                self.stop_step(attempt, next, now);
            }
            Phase::Losing { .. } => self.post_loss(attempt),
            Phase::Stopped { .. } => self.post_asked_end(attempt),
            Phase::Completing { .. } => self.post_completion(attempt),
            Phase::Running | Phase::Unclear { .. } => self.look(attempt),
            Phase::Opening { .. } | Phase::Launching => {}
        }
    }

    /// The store has answered the transaction that the phase waits for.
    fn stepped(&mut self, attempt: AttemptId, answer: Result<Step, StoreError>) {
        let Some(place) = self.places.get(&attempt) else {
            // One without a place was ended as it was asked: another may have followed it.
            self.hungry = true;
            return;
        };
        match &place.phase {
            Phase::Intending { .. } => self.intended(attempt, answer),
            Phase::Owning { .. } => self.owned(attempt, answer),
            Phase::Failing { .. } | Phase::Losing { .. } | Phase::Stopped { .. } => self.ended(attempt, answer),
            _ => {}
        }
    }
}
