//! The store thread: takes what is queued, runs it in one transaction, commits, answers.

/// One named transaction or read. Sealed: only this module's files implement it.
pub trait Operation: Send + 'static {
    /// What it answers when it was committed. Refusals of the domain are part of it.
    type Out: Send + 'static;
}

/// Why an operation was not done, or why it is not known whether it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The queue is full. Nothing was done.
    Busy,
    /// The daemon is stopping. Nothing was done.
    Closed,
    /// The store could not do it: I/O, space, or a record that does not match its digest. The word
    /// says which. Unless it is `commit_unknown`, nothing was done.
    Unavailable(&'static str),
}

/// A handle on the store thread. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    _private: (),
}

impl Store {
    /// Does one operation and waits for its commit, at most [`limits::STORE_WAIT_MS`](crate::model::limits::STORE_WAIT_MS).
    pub fn call<O: Operation>(&self, _operation: O) -> Result<O::Out, StoreError> {
        unimplemented!()
    }

    /// Queues one operation and returns at once; `reply` is called by the store thread after the
    /// commit (or by the caller's own thread with `Busy` or `Closed` when it could not be queued),
    /// so it must be short and must not block.
    pub fn post<O: Operation>(&self, _operation: O, _reply: impl FnOnce(Result<O::Out, StoreError>) + Send + 'static) {
        unimplemented!()
    }
}
