//! The gate's bounds in one value, so that a test can run the same code with shorter times.

use crate::model::limits::{self, Limits};
use std::time::Duration;

/// Counts, sizes and times the gate keeps to. Sizes of one head, request or answer do not vary and
/// stand in `model/limits.rs` alone.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Client connections open at once.
    pub connections: usize,
    /// Connections to the HTTP library, and threads that run handlers.
    pub workers: usize,
    /// All buffers together, in bytes.
    pub buffers_bytes: usize,
    /// From accept to the end of the head.
    pub head: Duration,
    /// From accept to the end of the body.
    pub request: Duration,
    /// How long a whole request waits for a worker.
    pub wait: Duration,
    /// How long a worker may take.
    pub answer: Duration,
    /// How long a client may take to read its answer.
    pub deliver: Duration,
    /// How long what comes after an early answer is thrown away.
    pub linger: Duration,
    /// How long the listeners rest when accept fails for want of something.
    pub pause: Duration,
}

impl Bounds {
    /// A profile's bounds.
    pub const fn of(limits: &Limits) -> Self {
        Self {
            connections: limits.connections,
            workers: limits.http_workers,
            buffers_bytes: limits::GATE_BYTES_MAX,
            head: Duration::from_millis(limits::HEAD_MS_MAX),
            request: Duration::from_millis(limits::REQUEST_MS_MAX),
            wait: Duration::from_millis(limits::UPSTREAM_WAIT_MS),
            answer: Duration::from_millis(limits::ANSWER_MS_MAX),
            deliver: Duration::from_millis(limits::DELIVER_MS_MAX),
            linger: Duration::from_millis(limits::LINGER_MS_MAX),
            pause: Duration::from_millis(limits::ACCEPT_PAUSE_MS),
        }
    }

    /// What connections and workers may hold between them: the total without the gate's own chunk and
    /// a short refusal for each connection, which must always be possible.
    pub(super) const fn shared_bytes(&self) -> usize {
        const REFUSAL_BYTES: usize = 512;
        self.buffers_bytes.saturating_sub(limits::GATE_CHUNK_BYTES + self.connections * REFUSAL_BYTES)
    }
}
