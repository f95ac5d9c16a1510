//! The gate: one thread that owns the listeners and every client connection (design D12).
//!
//! It waits in poll(2), reads requests whole and unparsed within their bounds, refuses what a head
//! alone can refuse, and hands whole requests, first come first served, to the few connections behind which handlers
//! work. It never blocks elsewhere, starts no thread and runs no handler. With nothing pending it sleeps
//! until a client comes.

mod bounds;
mod front;
mod intake;
mod refusals;
mod slot;
mod slots;

pub use bounds::Bounds;

use super::head::{self, Refusal};
use super::message::Answer;
use super::poll::{self, Watched};
use super::reply;
use super::route::Route;
use super::socket::Listener;
use super::upstream::{Outcome, Upstream, Why};
use crate::model::limits::{ACCEPTS_PER_TURN, GATE_CHUNK_BYTES, LINGER_BYTES_MAX};
use crate::model::word;
use front::{Front, Taken};
use refusals::{BUSY, DRAINING, LATE, LOST, NO_ROOM, TOO_SLOW};
use slot::{Sent, Slot, Stage};
use slots::Slots;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const BROKEN: &str = "a connection to the HTTP library broke; it is opened again when there is something to spare";

/// What the gate shows of itself, and how it is told to stop.
#[derive(Debug, Default)]
pub struct Shared {
    /// Client connections open.
    pub connections: AtomicUsize,
    /// Whole requests waiting for a worker.
    pub waiting: AtomicUsize,
    /// Requests with the workers.
    pub in_flight: AtomicUsize,
    /// Bytes in buffers.
    pub buffered_bytes: AtomicUsize,
    /// How often the gate woke.
    pub turns: AtomicU64,
    /// How long accepted requests may still take, in ms plus one; 0 = no end is asked for.
    pub drain: AtomicU64,
}

/// Everything the gate works with.
pub struct Parts {
    /// Its bounds.
    pub bounds: Bounds,
    /// The route table.
    pub routes: &'static [Route],
    /// Listeners that do not block.
    pub listeners: Vec<Listener>,
    /// The connections to the workers.
    pub upstream: Upstream,
    /// A byte here means: look at `shared`. It does not block.
    pub waker: UnixStream,
    /// What is shown to others.
    pub shared: Arc<Shared>,
    /// Told why a 401 was given here.
    pub on_rejected: Arc<dyn Fn(&'static str) + Send + Sync>,
    /// Told what an operator should know.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The gate.
pub struct Gate {
    bounds: Bounds,
    routes: &'static [Route],
    front: Front,
    slots: Slots,
    queue: VecDeque<usize>,
    upstream: Upstream,
    waker: UnixStream,
    shared: Arc<Shared>,
    on_rejected: Arc<dyn Fn(&'static str) + Send + Sync>,
    warn: Arc<dyn Fn(&str) + Send + Sync>,
    drain_until: Option<Instant>,
    chunk: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Who {
    Waker,
    Listener(usize),
    Channel(usize),
    Client(usize),
}

impl Gate {
    /// Makes a gate. It does nothing before [`run`](Self::run).
    pub fn new(parts: Parts) -> Self {
        let Parts { bounds, routes, listeners, upstream, waker, shared, on_rejected, warn } = parts;
        let farewell = Answer::refusal(word::SERVER_OVERLOADED, "too many connections; this one was the slowest");
        Self {
            bounds,
            routes,
            front: Front::new(listeners, bounds.pause),
            slots: Slots::new(bounds.connections, bounds.shared_bytes(), reply::whole(&farewell, None, false)),
            queue: VecDeque::with_capacity(bounds.connections),
            upstream,
            waker,
            shared,
            on_rejected,
            warn,
            drain_until: None,
            chunk: vec![0; GATE_CHUNK_BYTES],
        }
    }

    /// Serves until it is told to stop; then until accepted requests have been answered, or the time
    /// for that is over.
    pub fn run(mut self) {
        let (mut watched, mut whose) = (Vec::new(), Vec::new());
        loop {
            self.watch(&mut watched, &mut whose);
            let timeout = self.due().map(|due| due.saturating_duration_since(Instant::now()));
            if poll::wait(&mut watched, timeout).is_err() {
                // Only a lack of kernel memory is left as a reason (poll(2)); it passes or it does not.
                std::thread::sleep(self.bounds.pause);
            }
            let now = Instant::now();
            self.hear(now);
            // Answers first: they free workers and places. New clients last: those here are served before.
            for (seen, who) in watched.iter().zip(&whose).filter(|(seen, _)| seen.any()) {
                match *who {
                    Who::Channel(number) => self.serve_channel(number, now),
                    Who::Client(place) => self.serve_client(place, seen.gone(), now),
                    Who::Waker | Who::Listener(_) => {}
                }
            }
            self.expire(now);
            self.dispatch(now);
            for (_, who) in watched.iter().zip(&whose).filter(|(seen, _)| seen.any()) {
                if let Who::Listener(listener) = *who {
                    self.accept(listener, now);
                }
            }
            self.front.wake(now);
            self.dispatch(now);
            self.show();
            if self.drain_until.is_some_and(|until| until <= now || self.drained()) {
                return self.leave();
            }
        }
    }

    fn watch(&self, watched: &mut Vec<Watched>, whose: &mut Vec<Who>) {
        watched.clear();
        whose.clear();
        let mut add = |one: Watched, who: Who| {
            watched.push(one);
            whose.push(who);
        };
        add(Watched::new(&self.waker, true, false), Who::Waker);
        for (number, one) in self.upstream.watched() {
            add(one, Who::Channel(number));
        }
        for (place, slot) in self.slots.iter() {
            let (read, write) = slot.wants();
            add(Watched::new(&slot.stream, read, write), Who::Client(place));
        }
        if self.slots.can_take() {
            for (number, listener) in self.front.awake().iter().enumerate() {
                add(Watched::new(listener, true, false), Who::Listener(number));
            }
        }
    }

    fn due(&self) -> Option<Instant> {
        let slots = self.slots.iter().filter_map(|(_, slot)| slot.deadline).min();
        [slots, self.upstream.due(), self.front.due(), self.drain_until].into_iter().flatten().min()
    }

    /// Empties the waker and looks whether an end is asked for.
    fn hear(&mut self, now: Instant) {
        while matches!(self.waker.read(&mut self.chunk), Ok(count) if count > 0) {}
        let Some(drain_ms) = self.shared.drain.load(Ordering::Acquire).checked_sub(1) else { return };
        let until = now + Duration::from_millis(drain_ms);
        if self.drain_until.is_some_and(|known| known <= until) {
            return;
        }
        self.drain_until = Some(until);
        let places: Vec<usize> = self.slots.iter().map(|(place, _)| place).collect();
        for place in places {
            match self.slots.get(place).map(|slot| &slot.stage) {
                Some(Stage::Head { bytes, .. }) if bytes.is_empty() => self.slots.close(place),
                Some(Stage::Head { .. } | Stage::Body { .. }) => self.refuse(place, &DRAINING, now),
                _ => {}
            }
        }
    }

    fn drained(&self) -> bool {
        self.slots.iter().all(|(_, slot)| matches!(slot.stage, Stage::Head { .. } | Stage::Lingering { .. }))
    }

    /// Tells those who still wait that nothing more will come, and lets go of everything.
    fn leave(mut self) {
        let answer = reply::whole(&Answer::refusal(DRAINING.word, DRAINING.message), None, false);
        for slot in self.slots.iter_mut() {
            if matches!(slot.stage, Stage::Waiting { .. } | Stage::Answering) {
                let _ = slot.stream.write(&answer);
            }
        }
        drop(self.slots);
        for (gauge, value) in [
            (&self.shared.connections, 0),
            (&self.shared.waiting, 0),
            (&self.shared.in_flight, 0),
            (&self.shared.buffered_bytes, 0),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
    }

    fn show(&self) {
        self.shared.connections.store(self.slots.len(), Ordering::Relaxed);
        self.shared.waiting.store(self.queue.len(), Ordering::Relaxed);
        self.shared.in_flight.store(self.upstream.in_flight(), Ordering::Relaxed);
        self.shared.buffered_bytes.store(self.slots.bytes() + self.upstream.bytes(), Ordering::Relaxed);
        self.shared.turns.fetch_add(1, Ordering::Relaxed);
    }

    fn accept(&mut self, listener: usize, now: Instant) {
        for _ in 0..ACCEPTS_PER_TURN {
            if !self.slots.can_take() {
                return;
            }
            match self.front.accept(listener) {
                Taken::Stream(stream) => {
                    // A time of its own, so that of those accepted in one turn the oldest is known.
                    let opened = Instant::now();
                    let slot = Slot::new(stream, opened, opened + self.bounds.head);
                    if let Some(place) = self.slots.insert(slot) {
                        // Most clients have sent their request by now.
                        self.read(place, now);
                    }
                }
                Taken::Gone => {}
                Taken::Nobody => return,
                Taken::Short(error) => {
                    if self.slots.evict(None).is_none() {
                        (self.warn)(&format!("the API cannot accept connections just now: {error}"));
                        self.front.rest(now);
                        return;
                    }
                }
            }
        }
    }

    fn serve_client(&mut self, place: usize, gone: bool, now: Instant) {
        let Some(slot) = self.slots.get(place) else { return };
        match slot.stage {
            Stage::Head { .. } | Stage::Body { .. } | Stage::Lingering { .. } => self.read(place, now),
            Stage::Delivering { .. } => self.deliver(place, now),
            Stage::Waiting { .. } if gone => {
                self.queue.retain(|waiting| *waiting != place);
                self.slots.close(place);
            }
            Stage::Answering if gone => {
                self.upstream.forget(place);
                self.slots.close(place);
            }
            Stage::Waiting { .. } | Stage::Answering => {}
        }
    }

    /// Hands waiting requests to free workers.
    fn dispatch(&mut self, now: Instant) {
        while let Some(number) = self.upstream.idle() {
            let Some(place) = self.queue.pop_front() else { return };
            let Some(slot) = self.slots.get(place) else { continue };
            if let Stage::Waiting { request } = &mut slot.stage {
                let request = std::mem::take(request);
                slot.stage = Stage::Answering;
                slot.deadline = None;
                self.upstream.send(number, place, request, now + self.bounds.answer);
                self.serve_channel(number, now);
            }
        }
    }

    fn serve_channel(&mut self, number: usize, now: Instant) {
        let held = self.upstream.bytes();
        let slots = &mut self.slots;
        let outcome = self.upstream.turn(number, now, &mut self.chunk, &mut |bytes| slots.make_room(bytes, held, None));
        if let Some(outcome) = outcome {
            self.settle(outcome, now);
        }
    }

    fn settle(&mut self, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Answered(place, answer) => self.begin_delivery(place, answer, now),
            Outcome::Lost(place, why) => {
                if why == Why::Broken {
                    (self.warn)(BROKEN);
                }
                let refusal = match why {
                    Why::Broken => &LOST,
                    Why::Late => &LATE,
                    Why::NoRoom => &NO_ROOM,
                };
                self.refuse(place, refusal, now);
            }
            Outcome::Broken => (self.warn)(BROKEN),
        }
    }

    /// Answers a client without a worker.
    fn refuse(&mut self, place: usize, refusal: &Refusal, now: Instant) {
        if let Some(why) = refusal.rejected {
            (self.on_rejected)(why);
        }
        let Some(slot) = self.slots.get(place) else { return };
        // A head that ends too early or comes too slowly has a method all the same.
        if let Stage::Head { bytes, .. } = &slot.stage
            && !bytes.is_empty()
        {
            slot.head_only = head::method_of(bytes) == b"HEAD";
        }
        let answer = Answer::refusal(refusal.word, refusal.message);
        let answer = reply::whole(&answer, refusal.allow.as_deref(), slot.head_only);
        self.begin_delivery(place, answer, now);
    }

    fn begin_delivery(&mut self, place: usize, answer: Vec<u8>, now: Instant) {
        let Some(slot) = self.slots.get(place) else { return };
        slot.stage = Stage::Delivering { answer, sent: 0 };
        slot.since = now;
        slot.deadline = Some(now + self.bounds.deliver);
        self.deliver(place, now);
    }

    fn deliver(&mut self, place: usize, now: Instant) {
        let Some(slot) = self.slots.get(place) else { return };
        match slot.send() {
            Sent::Some => {}
            Sent::Gone => self.slots.close(place),
            Sent::All => {
                // Bytes still unread when a socket is closed make the kernel reset the connection, and the
                // client may lose the answer; so they are read first.
                let _ = slot.stream.end_writing();
                let quiet = match slot.stream.read(&mut [0; 256]) {
                    Ok(0) => true,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => slot.whole,
                    Ok(_) => false,
                    Err(_) => true,
                };
                if quiet {
                    self.slots.close(place);
                } else {
                    slot.stage = Stage::Lingering { left: LINGER_BYTES_MAX };
                    slot.deadline = Some(now + self.bounds.linger);
                }
            }
        }
    }

    /// Ends what has taken too long.
    fn expire(&mut self, now: Instant) {
        let over = |(place, slot): (usize, &Slot)| slot.deadline.is_some_and(|due| due <= now).then_some(place);
        let over: Vec<usize> = self.slots.iter().filter_map(over).collect();
        for place in over {
            let Some(slot) = self.slots.get(place) else { continue };
            match &slot.stage {
                Stage::Head { bytes, .. } if bytes.is_empty() => self.slots.close(place),
                Stage::Head { .. } | Stage::Body { .. } => self.refuse(place, &TOO_SLOW, now),
                Stage::Waiting { .. } => {
                    self.queue.retain(|waiting| *waiting != place);
                    self.refuse(place, &BUSY, now);
                }
                Stage::Delivering { .. } | Stage::Lingering { .. } => self.slots.close(place),
                Stage::Answering => {}
            }
        }
        for outcome in self.upstream.overdue(now) {
            self.settle(outcome, now);
        }
    }
}
