//! One client connection and how far it has come.

use crate::http::socket::Stream;
use std::io::{ErrorKind, Write};
use std::time::Instant;

/// Where a connection stands. It only ever goes down this list.
pub enum Stage {
    /// Its head is being read.
    Head {
        /// What has come.
        bytes: Vec<u8>,
        /// How much of it was looked at.
        scanned: usize,
    },
    /// Its head was admitted; its body is being read, unparsed.
    Body {
        /// The request as it goes to a worker.
        request: Vec<u8>,
        /// Bytes still to come.
        missing: usize,
    },
    /// The request is whole and waits for a worker.
    Waiting {
        /// The request as it goes to a worker.
        request: Vec<u8>,
    },
    /// A worker has it.
    Answering,
    /// Its answer is being sent.
    Delivering {
        /// The whole answer.
        answer: Vec<u8>,
        /// How much of it was sent.
        sent: usize,
    },
    /// Answered before all was read; what still comes is thrown away.
    Lingering {
        /// Bytes that may still come.
        left: usize,
    },
}

/// One client connection.
pub struct Slot {
    /// The socket.
    pub stream: Stream,
    /// When it was accepted.
    pub opened: Instant,
    /// Since when it has been making the gate wait for its client.
    pub since: Instant,
    /// When the present stage is over, if the client's time is what is being spent.
    pub deadline: Option<Instant>,
    /// How far it has come.
    pub stage: Stage,
    /// Whether the request was a HEAD, whose answer has no body.
    pub head_only: bool,
    /// Whether the whole request was read, so that nothing more is expected.
    pub whole: bool,
}

/// What became of a try to send.
pub enum Sent {
    /// All is with the kernel.
    All,
    /// The rest must wait.
    Some,
    /// The client is gone.
    Gone,
}

impl Slot {
    /// A fresh connection.
    pub fn new(stream: Stream, now: Instant, deadline: Instant) -> Self {
        let stage = Stage::Head { bytes: Vec::new(), scanned: 0 };
        Self { stream, opened: now, since: now, deadline: Some(deadline), stage, head_only: false, whole: false }
    }

    /// Bytes its buffers hold.
    pub fn bytes(&self) -> usize {
        match &self.stage {
            Stage::Head { bytes, .. } => bytes.capacity(),
            Stage::Body { request, .. } | Stage::Waiting { request } => request.capacity(),
            Stage::Delivering { answer, .. } => answer.capacity(),
            Stage::Answering | Stage::Lingering { .. } => 0,
        }
    }

    /// Whether it may be closed to make place: it waits for its client, not for us.
    pub fn evictable(&self) -> bool {
        !matches!(self.stage, Stage::Waiting { .. } | Stage::Answering)
    }

    /// Whether it waits for bytes, and whether it waits to send.
    pub fn wants(&self) -> (bool, bool) {
        match self.stage {
            Stage::Head { .. } | Stage::Body { .. } | Stage::Lingering { .. } => (true, false),
            Stage::Delivering { .. } => (false, true),
            Stage::Waiting { .. } | Stage::Answering => (false, false),
        }
    }

    /// Sends what the kernel takes of the answer.
    pub fn send(&mut self) -> Sent {
        let Stage::Delivering { answer, sent } = &mut self.stage else { return Sent::Some };
        while *sent < answer.len() {
            match self.stream.write(&answer[*sent..]) {
                Ok(0) => return Sent::Gone,
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Sent::Some,
                Err(_) => return Sent::Gone,
            }
        }
        Sent::All
    }

    /// Sends a last word to a client that is about to be dropped, if the kernel takes it at once and
    /// no part of another answer has left.
    pub fn farewell(&mut self, answer: &[u8]) {
        let silent = match &self.stage {
            Stage::Head { bytes, .. } => bytes.is_empty(),
            Stage::Delivering { .. } | Stage::Lingering { .. } => true,
            Stage::Body { .. } | Stage::Waiting { .. } | Stage::Answering => false,
        };
        if !silent {
            let _ = self.stream.write(answer);
        }
    }
}
