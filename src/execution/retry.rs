//! Making the next Attempt of Runs that wait for it, when it is due on the boot clock (design D8, D9).
//! That a Run waits is committed with the end of the Attempt before; here it only comes due.

use super::engine::{Door, Engine};
use super::host::Host;
use super::inbox::Message;
use crate::model::id::Uuid;
use crate::model::limits::WAIT_RECHECK_MS;
use crate::store::StoreError;
use crate::store::retry::{BeginRetry, ListRetries, Waiting};
use crate::store::start::Step;

/// Where the look for Runs that wait for another Attempt stands.
pub(super) struct Retries {
    /// There may be some that nobody has looked at.
    pub(super) wanted: bool,
    /// A page is being read, or so many next Attempts are being made.
    under_way: usize,
    /// When to look again, in boot milliseconds.
    pub(super) again_ms: Option<u64>,
    /// What stands for this boot where its id cannot be read.
    instead_of_boot: Option<Uuid>,
}

impl Retries {
    /// Nothing was looked at yet.
    pub(super) const fn new() -> Self {
        Self { wanted: true, under_way: 0, again_ms: None, instead_of_boot: None }
    }

    /// Looks when the time has come.
    pub(super) fn come_due(&mut self, now_boot_ms: u64) {
        if self.again_ms.is_some_and(|at| at <= now_boot_ms) {
            self.again_ms = None;
            self.wanted = true;
        }
    }
}

impl<H: Host> Engine<H> {
    /// Asks the store who waits for another Attempt. A daemon that starts nothing any more does not.
    pub(super) fn list_retries(&mut self, now_boot_ms: u64) {
        if !self.retries.wanted || self.retries.under_way > 0 || self.door != Door::Open {
            return;
        }
        let Some(boot) = self.this_boot() else {
            self.retries.again_ms = Some(self.later(WAIT_RECHECK_MS));
            self.retries.wanted = false;
            return;
        };
        self.retries.wanted = false;
        self.retries.under_way = 1;
        let list = ListRetries {
            boot,
            boot_ms: i64::try_from(now_boot_ms).unwrap_or(i64::MAX),
            limit: self.limits.retry_page + 1,
        };
        let inbox = self.inbox.clone();
        self.store.post(list, move |page| inbox.send(Message::Retries(page)));
    }

    /// Makes the next Attempts that are due, and looks again when the next one is.
    pub(super) fn retries(&mut self, page: Result<Vec<Waiting>, StoreError>) {
        self.retries.under_way = 0;
        let Ok(page) = page else {
            self.retries.again_ms = Some(self.later(WAIT_RECHECK_MS));
            return;
        };
        if !page.is_empty() {
            self.host.crash_point("retry.armed");
        }
        let now_boot_ms = self.host.now().boot_ms;
        for (place, waiting) in page.iter().enumerate() {
            let due_boot_ms = waiting.due_boot_ms.unsigned_abs();
            if due_boot_ms > now_boot_ms {
                self.retries.again_ms = Some(due_boot_ms);
                return;
            }
            if place == self.limits.retry_page || self.door != Door::Open {
                return;
            }
            self.retries.under_way += 1;
            let inbox = self.inbox.clone();
            self.store.post(BeginRetry { run: waiting.run }, move |answer| inbox.send(Message::Retried(answer)));
        }
    }

    /// The store has made a next Attempt, or not.
    pub(super) fn retried(&mut self, answer: Result<Step, StoreError>) {
        self.retries.under_way = self.retries.under_way.saturating_sub(1);
        if answer.is_err() {
            // Not at once again: a store that fails must not be asked in a loop.
            self.retries.again_ms = Some(self.later(WAIT_RECHECK_MS));
            return;
        }
        self.host.crash_point("retry.queued");
        self.retries.wanted = true;
        self.hungry = true;
    }

    /// This boot, or, where nobody can tell which it is, a name for the life of this daemon: delays
    /// then begin again with the next one.
    fn this_boot(&mut self) -> Option<Uuid> {
        if let Some(boot) = self.host.boot().or(self.retries.instead_of_boot) {
            return Some(boot);
        }
        let mut bytes = [0; 16];
        self.retries.instead_of_boot = self.host.random(&mut bytes).then(|| Uuid::from_bytes(bytes));
        self.retries.instead_of_boot
    }
}
