//! The store thread: takes what is queued, runs it in one transaction, commits, answers.

use super::answer;
use super::batch::{Keeper, Request};
use super::copy::{CopyJob, Copying};
use super::fail::Fail;
use super::open::{self, Options};
use super::state::{StateDir, StateError, StateLock};
use super::tx::Tx;
use crate::model::limits;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, ThreadId};
use std::time::Duration;

/// One named transaction or read. Sealed: only this module's files can name what `perform` takes.
pub trait Operation: Send + 'static {
    /// What it answers when it was committed. Refusals of the domain are part of it.
    type Out: Send + 'static;

    #[doc(hidden)]
    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail>;
}

/// Why an operation was not done, or why it is not known whether it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The queue is full, or the store did not come to it in time. Nothing was done.
    Busy,
    /// The daemon is stopping. Nothing was done.
    Closed,
    /// The store could not do it: I/O, space, or a record that does not match its digest. The word
    /// says which. Unless it is `commit_unknown`, nothing was done.
    Unavailable(&'static str),
}

/// The word for an outcome that only a later look can tell.
pub(super) const UNKNOWN: StoreError = StoreError::Unavailable("commit_unknown");

/// A handle on the store thread. Cheap to clone; when the last one is dropped the thread finishes
/// what it accepted and ends.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    id: ThreadId,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(u64, Box<dyn Request>)>,
    tickets: u64,
    copy: Option<CopyJob>,
    closing: bool,
}

/// What the thread is to do next.
enum Work {
    Batch(Vec<Box<dyn Request>>),
    Copy(CopyJob),
}

/// What there is to do between two steps of a copy.
pub(super) enum Meanwhile {
    /// Nothing but copying on.
    Nothing,
    /// These come first.
    Batch(Vec<Box<dyn Request>>),
    /// The store is being closed; the copy is given up.
    Closing,
}

impl Store {
    /// Checks the store (design D2) and starts the thread that owns its connection. Never migrates.
    pub fn start(state: &StateDir, lock: &StateLock, options: Options) -> Result<Self, StateError> {
        lock.must_cover(state)?;
        let conn = open::open(state.path(), &options)?;
        Self::spawn(Keeper::new(state.path().to_owned(), options, conn)?)
    }

    /// The same only to look: nothing of the state is written, not even a time of a file, and every
    /// mutation fails. `false`: what a killed daemon left in the journal could not be seen.
    pub fn look(state: &StateDir, lock: &StateLock, options: Options) -> Result<(Self, bool), StateError> {
        let (conn, whole) = open::look(state, lock, &options)?;
        let keeper = Keeper::looking(state.path().to_owned(), options, conn);
        Ok((Self::spawn(keeper)?, whole))
    }

    fn spawn(mut keeper: Keeper) -> Result<Self, StateError> {
        let queue = Arc::new(Queue { state: Mutex::default(), wake: Condvar::new() });
        let taken = Arc::clone(&queue);
        let thread = Builder::new().name("store".into()).stack_size(limits::STORE_STACK_BYTES).spawn(move || {
            // Even if the keeper panics, nobody may wait for ever: what is queued is answered.
            let _fence = Fence(Arc::clone(&taken));
            while let Some(work) = taken.next() {
                match work {
                    Work::Batch(batch) => keeper.run(batch),
                    Work::Copy(job) => keeper.copy(&job, &|| taken.meanwhile()),
                }
            }
            keeper.close();
        });
        let thread = thread.map_err(|e| {
            StateError::new(format!("cannot start the store's thread ({e}): free some memory or processes first"))
        })?;
        let id = thread.thread().id();
        Ok(Self { inner: Arc::new(Inner { queue, id, thread: Mutex::new(Some(thread)) }) })
    }

    /// Does one operation and waits for its commit, at most [`limits::STORE_WAIT_MS`].
    pub fn call<O: Operation>(&self, operation: O) -> Result<O::Out, StoreError> {
        let (giver, taker) = answer::pair();
        let ticket = self.inner.queue.push(Pending::boxed(operation, move |result| giver.give(result)));
        match taker.wait(Duration::from_millis(limits::STORE_WAIT_MS)) {
            Ok(Some(result)) => result,
            // Still in the queue: taken out again, so it never happens.
            Err(()) if ticket.is_some_and(|t| self.inner.queue.withdraw(t)) => Err(StoreError::Busy),
            Ok(None) | Err(()) => Err(UNKNOWN),
        }
    }

    /// Queues one operation and returns at once; `reply` is called by the store thread after the
    /// commit (or by the caller's own thread with `Busy` or `Closed` when it could not be queued),
    /// so it must be short and must not block.
    pub fn post<O: Operation>(&self, operation: O, reply: impl FnOnce(Result<O::Out, StoreError>) + Send + 'static) {
        self.inner.queue.push(Pending::boxed(operation, reply));
    }

    /// Begins a copy of the store as it will be at the copy's end: into a new file `into`, or into one
    /// without a name in the state folder. Everything else is answered meanwhile. `Busy`: another copy
    /// has not begun yet.
    pub fn copy(&self, into: Option<PathBuf>) -> Result<Copying, StoreError> {
        let (job, copying) = CopyJob::new(into);
        let mut state = self.inner.queue.lock();
        if state.closing {
            return Err(StoreError::Closed);
        }
        if state.copy.is_some() {
            return Err(StoreError::Busy);
        }
        state.copy = Some(job);
        drop(state);
        self.inner.queue.wake.notify_one();
        Ok(copying)
    }

    /// Finishes what was accepted, writes everything back, closes. Afterwards every operation is
    /// answered `Closed`. Repeatable; every caller returns only when it is done.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn close(&self) {
        self.queue.lock().closing = true;
        self.queue.wake.notify_all();
        // A reply that closes the store runs on the store's own thread, which cannot wait for itself.
        if std::thread::current().id() == self.id {
            return;
        }
        // Held while waiting, so that everybody who closes returns only when it is done.
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It panicked: the panic was printed, and its fence has answered everybody.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that could panic runs under this lock, so the state is whole whatever happened.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request and says under which ticket, or answers it at once.
    fn push(&self, request: Box<dyn Request>) -> Option<u64> {
        let mut state = self.lock();
        let refusal = match (state.closing, state.waiting.len() < limits::STORE_QUEUE) {
            (true, _) => StoreError::Closed,
            (false, false) => StoreError::Busy,
            (false, true) => {
                state.tickets += 1;
                let ticket = state.tickets;
                state.waiting.push_back((ticket, request));
                drop(state);
                self.wake.notify_one();
                return Some(ticket);
            }
        };
        drop(state);
        request.answer(Err(refusal));
        None
    }

    /// Takes a request out again, if the thread has not begun it.
    fn withdraw(&self, ticket: u64) -> bool {
        let mut state = self.lock();
        let found = state.waiting.iter().position(|(waiting, _)| *waiting == ticket);
        let request = found.and_then(|at| state.waiting.remove(at));
        drop(state);
        request.is_some()
    }

    /// Waits for work. `None`: closing, and nothing is left.
    fn next(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() {
                return Some(Work::Batch(state.take_batch()));
            }
            if state.closing {
                return None;
            }
            if let Some(job) = state.copy.take() {
                return Some(Work::Copy(job));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Looks for work without waiting for it.
    fn meanwhile(&self) -> Meanwhile {
        let mut state = self.lock();
        match (state.waiting.is_empty(), state.closing) {
            (false, _) => Meanwhile::Batch(state.take_batch()),
            (true, true) => Meanwhile::Closing,
            (true, false) => Meanwhile::Nothing,
        }
    }
}

impl State {
    fn take_batch(&mut self) -> Vec<Box<dyn Request>> {
        let count = self.waiting.len().min(limits::STORE_BATCH);
        self.waiting.drain(..count).map(|(_, request)| request).collect()
    }
}

/// Answers what is left when the thread ends, however it ends.
struct Fence(Arc<Queue>);

impl Drop for Fence {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closing = true;
        let left = std::mem::take(&mut state.waiting);
        let copy = state.copy.take();
        drop(state);
        drop(copy);
        for (_, request) in left {
            request.answer(Err(StoreError::Closed));
        }
    }
}

/// An operation on its way: first the operation, then what it answered, which nobody sees before
/// the commit.
struct Pending<O: Operation, R: FnOnce(Result<O::Out, StoreError>)> {
    operation: Option<O>,
    out: Option<O::Out>,
    reply: Option<R>,
}

impl<O: Operation, R: FnOnce(Result<O::Out, StoreError>) + Send + 'static> Pending<O, R> {
    fn boxed(operation: O, reply: R) -> Box<dyn Request> {
        Box::new(Self { operation: Some(operation), out: None, reply: Some(reply) })
    }
}

impl<O: Operation, R: FnOnce(Result<O::Out, StoreError>) + Send> Request for Pending<O, R> {
    fn perform(&mut self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let operation = self.operation.take().ok_or(Fail::Word("store_error"))?;
        self.out = Some(operation.perform(tx)?);
        Ok(())
    }

    fn answer(mut self: Box<Self>, verdict: Result<(), StoreError>) {
        let out = verdict.and_then(|()| self.out.take().ok_or(UNKNOWN));
        if let Some(reply) = self.reply.take() {
            reply(out);
        }
    }
}

impl<O: Operation, R: FnOnce(Result<O::Out, StoreError>)> Drop for Pending<O, R> {
    /// Lost on the way (a panic of the thread itself): its caller must still hear something.
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply(Err(UNKNOWN));
        }
    }
}

#[cfg(test)]
mod tests;
