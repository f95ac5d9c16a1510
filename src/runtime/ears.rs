//! What the control loop listens to, in one poll: signals, the bell of other threads, the timers, the
//! ends of adopted shims, and receipts whose shims stay.

use crate::model::limits;
use crate::process::adopted::Adopted;
use crate::process::poll;
use crate::process::published::Published;
use crate::process::signals::{Signal, Signals};
use crate::process::timer::{Alarm, Timer};
use crate::process::wake::Wake;
use std::cell::Cell;
use std::os::fd::AsFd as _;

/// The descriptors, and how often a signal said stop.
pub(super) struct Ears<'a> {
    signals: &'a Signals,
    bell: &'a Wake,
    timer: Timer,
    wall: Timer,
    adopted: &'a Adopted,
    published: &'a Published,
    stops: Cell<u32>,
    hung_up: Cell<bool>,
}

/// What there was to hear besides what is looked at anyway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Nothing.
    Nothing,
    /// Somebody has set the wall clock.
    ClockSet,
}

/// An alarm that never rings by itself, but does when the wall clock is set: far beyond every time
/// that is stored, within what every kernel's timer takes.
const NEVER_MS: i64 = i64::MAX / 2_000_000;

impl<'a> Ears<'a> {
    /// Ears that have heard nothing. `timer` runs on boottime, `wall` on the wall clock.
    pub(super) fn new(
        signals: &'a Signals,
        bell: &'a Wake,
        timer: Timer,
        wall: Timer,
        adopted: &'a Adopted,
        published: &'a Published,
    ) -> Self {
        Self { signals, bell, timer, wall, adopted, published, stops: Cell::new(0), hung_up: Cell::new(false) }
    }

    /// How often a signal has said stop so far.
    pub(super) fn stops(&self) -> u32 {
        self.stops.get()
    }

    /// Whether a signal has said since the last look that the configuration is to be read again.
    pub(super) fn take_hung_up(&self) -> bool {
        self.hung_up.take()
    }

    /// Sleeps until a signal, a ring, the end of an adopted shim, a receipt, or this boot time.
    pub(super) fn wait(&self, until_ms: Option<i64>) {
        self.wait_or(until_ms, None);
    }

    /// The same, or until this time on the wall clock, or until somebody sets that.
    pub(super) fn wait_or(&self, until_ms: Option<i64>, until_wall_ms: Option<i64>) -> Heard {
        // Without an alarm it would sleep too long, so a timer that fails becomes a short sleep.
        let set = self.timer.set(until_ms).and_then(|()| self.wall.set(Some(until_wall_ms.unwrap_or(NEVER_MS))));
        let fallback_ms = set.is_err().then_some(limits::WAIT_RECHECK_MS);
        let mut look = [self.signals.as_fd(), self.bell.as_fd(), self.timer.as_fd(), self.wall.as_fd()]
            .map(poll::readable)
            .to_vec();
        self.adopted.poll_with(&mut look);
        self.published.poll_with(&mut look);
        let _ = poll::wait(&mut look, fallback_ms);
        self.bell.clear();
        let _ = self.timer.take();
        let clock_set = matches!(self.wall.take(), Ok(Alarm::ClockSet));
        while let Ok(Some(signal)) = self.signals.take() {
            match signal {
                Signal::Terminate | Signal::Interrupt => self.stops.set(self.stops.get().saturating_add(1)),
                Signal::Hangup => self.hung_up.set(true),
                // The turn that follows reaps.
                Signal::Child => {}
            }
        }
        if clock_set { Heard::ClockSet } else { Heard::Nothing }
    }
}
