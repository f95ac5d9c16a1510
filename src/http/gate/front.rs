//! The listeners, and accepting when descriptors or memory have run out.
//!
//! accept(2) fails for reasons that pass: the client is gone again, or a limit is reached. None ends
//! the gate. At a limit the waiting connection stays in the kernel's queue and the listener stays
//! readable, so the listeners rest for a moment instead of spinning. One spare descriptor is kept, so that even
//! then one connection at a time can be served.

use crate::http::poll::{self, Watched};
use crate::http::socket::{Listener, Stream};
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// The listeners.
pub struct Front {
    listeners: Vec<Listener>,
    spare: Option<File>,
    rest_until: Option<Instant>,
    pause: Duration,
}

/// What accept brought.
pub enum Taken {
    /// A connection.
    Stream(Stream),
    /// That one is gone again; there may be others.
    Gone,
    /// Nobody is waiting.
    Nobody,
    /// A limit is reached: close a connection and try again, or rest.
    Short(io::Error),
}

impl Front {
    /// Takes over listeners that do not block.
    pub fn new(listeners: Vec<Listener>, pause: Duration) -> Self {
        Self { listeners, spare: File::open("/dev/null").ok(), rest_until: None, pause }
    }

    /// The listeners, unless they rest.
    pub fn awake(&self) -> &[Listener] {
        if self.rest_until.is_some() { &[] } else { &self.listeners }
    }

    /// When the rest is over.
    pub fn due(&self) -> Option<Instant> {
        self.rest_until
    }

    /// Lets the listeners rest.
    pub fn rest(&mut self, now: Instant) {
        self.rest_until = Some(now + self.pause);
    }

    /// Ends a rest that is over, and takes the spare descriptor back when there is one again.
    pub fn wake(&mut self, now: Instant) {
        if self.rest_until.is_some_and(|until| until <= now) {
            self.rest_until = None;
        }
        if self.spare.is_none() {
            self.spare = File::open("/dev/null").ok();
        }
    }

    /// Accepts one connection.
    pub fn accept(&mut self, listener: usize) -> Taken {
        let Some(listener) = self.listeners.get(listener) else { return Taken::Nobody };
        match listener.accept() {
            // The kernel takes a descriptor before it looks whether anybody waits.
            Err(error) if limit(&error) && !waiting(listener) => Taken::Nobody,
            Err(error) if limit(&error) && self.spare.take().is_some() => sort(listener.accept()),
            result => sort(result),
        }
    }
}

fn waiting(listener: &Listener) -> bool {
    let mut watched = [Watched::new(listener, true, false)];
    poll::wait(&mut watched, Some(Duration::ZERO)).is_ok() && watched[0].any()
}

fn sort(result: io::Result<Stream>) -> Taken {
    match result {
        Ok(stream) => Taken::Stream(stream),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Taken::Nobody,
        Err(error) if limit(&error) => Taken::Short(error),
        // ECONNABORTED, EINTR, EPROTO, and the network's errors, which belong to that one connection
        // (accept(2), "Error handling").
        Err(_) => Taken::Gone,
    }
}

fn limit(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
