//! The slow housekeeping (design D8, D11): expired tokens, groups and receipts of ended Attempts, logs, ended
//! Runs, audit rows.
//! A round has its steps in this order, each step its pages, each page one transaction that is posted
//! and answered by a message; files are deleted a few a turn. A round that fails ends and the next
//! one takes up what it left.
//!
//! Files go before the store says so (spec/execution section 9): what a crash cuts in between is found
//! by the next round as already gone.
//!
//! Count and size decide always; age only while the wall clock is trusted (design D9).

use super::engine::{Door, Engine};
use super::host::{Cleared, Host, LogSpace};
use super::inbox::Message;
use crate::model::id::{AttemptId, RunId};
use crate::model::limits::{
    AUDIT_TRIM_PAGE, LOG_AGE_PRESSED_MS, LOG_PAGE, LOG_SHARE_MEMORY, LOG_SHARE_PRESSURE, LOG_SHARE_TOTAL,
    LOST_RUNS_KEPT, Limits,
};
use crate::model::record::LogRetired;
use crate::schedule::trust::{Reading, judge};
use crate::store::access::ExpireCredentials;
use crate::store::lost::CloseLost;
use crate::store::retention::{
    Age, AuditEdge, ClockKnown, DeleteRuns, KeptLog, ListLogs, ListOldRuns, LogPage, NoteClock, OldRun, ReadClock,
    RetireLogs, RunRule, TrimAudit,
};
use crate::store::start::{ListResolvable, Resolvable};
use crate::store::{Operation, StoreError};
use std::collections::VecDeque;

/// The store's answer to a step; `None`: it could not do it.
pub(super) enum Kept {
    Clock(Option<ClockKnown>),
    Noted(Option<()>),
    /// So many tokens have expired.
    Expired(Option<usize>),
    Receipts(Option<Vec<Resolvable>>),
    Measured(Option<LogPage>),
    Logs(Option<LogPage>),
    Retired(Option<()>),
    /// So many lost Runs were closed.
    Closed(Option<usize>),
    Runs(Option<Vec<OldRun>>),
    Deleted(Option<usize>),
    /// There are more audit rows to be removed.
    Audit(AuditEdge),
    /// There are none, or it could not be done.
    Trimmed,
}

/// What a round is at.
enum Work {
    /// None is under way.
    Idle,
    /// A page is with the store.
    Asked,
    /// Logs that may be too many or too old. `more`: this page was not the last.
    Logs { queue: VecDeque<KeptLog>, gone: Vec<(RunId, i64, LogRetired)>, more: bool },
    /// Runs that go, with their logs first. `full`: there may be more.
    Runs { queue: VecDeque<OldRun>, gone: Vec<RunId>, full: bool },
}

/// Where housekeeping stands.
pub(super) struct Housekeeping {
    /// When to go on, in boot milliseconds. `None`: the store's answer is awaited.
    due_ms: Option<u64>,
    /// Somebody waits for space.
    hurried: bool,
    /// The round under way has made space.
    has_freed: bool,
    work: Work,
    /// The wall clock, while it may decide.
    trusted_ms: Option<i64>,
    /// The order of the last ended Run whose logs are counted in `taken_bytes`.
    measured: i64,
    /// What the logs of ended Runs take.
    taken_bytes: u64,
    /// The oldest log that was there when they were first measured, by its Run's order and its
    /// Attempt's number. Those before it were removed by an earlier round that a crash has cut, or
    /// went with a log folder in memory; (0, 0) while nobody has seen one.
    first_there: (i64, i64),
    /// There were some before it.
    some_cut: bool,
    /// No log of a Run up to this order is there to be removed.
    oldest: i64,
    /// The next value of `oldest`, once the page at hand has one.
    oldest_seen: Option<i64>,
    /// How far the step's pages have come, by order.
    after: i64,
    caps: Caps,
    /// What was free where the logs lie when they were measured last.
    free_bytes: u64,
}

impl Default for Housekeeping {
    fn default() -> Self {
        Self {
            due_ms: Some(0),
            hurried: false,
            has_freed: false,
            work: Work::Idle,
            trusted_ms: None,
            measured: 0,
            taken_bytes: 0,
            first_there: (0, 0),
            some_cut: false,
            oldest: 0,
            oldest_seen: None,
            after: 0,
            caps: Caps { total_bytes: u64::MAX, age_ms: i64::MAX },
            free_bytes: 0,
        }
    }
}

/// What logs may take and for how long they are kept, on one device at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caps {
    total_bytes: u64,
    age_ms: i64,
}

impl Caps {
    fn of(limits: &Limits, space: LogSpace) -> Self {
        let shares = [Some(space.total_bytes / LOG_SHARE_TOTAL), space.memory_bytes.map(|all| all / LOG_SHARE_MEMORY)];
        let total_bytes = shares.into_iter().flatten().fold(limits.logs_bytes, u64::min);
        let pressed = space.free_bytes < limits.log_pressure_bytes.min(space.total_bytes / LOG_SHARE_PRESSURE);
        Self { total_bytes, age_ms: if pressed { LOG_AGE_PRESSED_MS } else { limits.log_age_ms } }
    }
}

impl Housekeeping {
    /// When it wants a turn by itself, in boot milliseconds.
    pub(super) fn wants_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// Somebody waits for space, or much was written: a round soon, after the one that may be under way.
    pub(super) fn hurry(&mut self) {
        self.hurried = true;
    }

    fn age(&self, age_ms: i64) -> Option<Age> {
        self.trusted_ms.map(|now_ms| Age { now_ms, before_ms: now_ms.saturating_sub(age_ms) })
    }

    fn run_rule(&self, limits: &Limits) -> RunRule {
        RunRule { keep: limits.runs_kept, age: self.age(limits.run_age_ms) }
    }
}

impl<H: Host> Engine<H> {
    /// Begins a round when it is time, or goes on with the files of the one under way.
    pub(super) fn keep_house(&mut self, now_boot_ms: u64) {
        let keeping = &mut self.keeping;
        let idle = matches!(keeping.work, Work::Idle);
        let due = keeping.due_ms.is_some_and(|at| at <= now_boot_ms) || keeping.hurried && idle;
        if self.door != Door::Open || !due {
            return;
        }
        keeping.due_ms = None;
        if !idle {
            return self.delete_some();
        }
        keeping.hurried = false;
        keeping.work = Work::Asked;
        let places = &self.places;
        self.host.clear_groups(&|attempt| places.contains_key(&attempt));
        self.ask(ReadClock, Kept::Clock);
    }

    fn ask<O: Operation>(&self, operation: O, kept: fn(Option<O::Out>) -> Kept) {
        let inbox = self.inbox.clone();
        let reply = move |answer: Result<O::Out, StoreError>| inbox.send(Message::Kept(kept(answer.ok())));
        self.store.post(operation, reply);
    }

    /// A Run has ended: when logs have taken half of what they may since they were measured, the next
    /// round comes early. Between two rounds a tmpfs could else fill with logs, at everybody's expense.
    pub(super) fn look_at_space(&mut self) {
        let Some(space) = self.host.log_space() else { return };
        let taken = self.keeping.free_bytes.saturating_sub(space.free_bytes);
        if taken > Caps::of(&self.limits, space).total_bytes / 2 {
            self.keeping.hurry();
        }
    }

    fn end_round(&mut self) {
        self.keeping.work = Work::Idle;
        self.keeping.due_ms = Some(self.later(self.limits.housekeeping_ms));
    }

    /// The store has answered: the next page, or the next step.
    pub(super) fn kept(&mut self, answer: Kept) {
        if self.door != Door::Open {
            return self.end_round();
        }
        match answer {
            Kept::Clock(Some(known)) => self.judge_clock(known),
            Kept::Noted(Some(())) => self.clock_noted(),
            Kept::Expired(Some(count)) if count == self.limits.housekeeping_page => self.clock_noted(),
            Kept::Expired(Some(_)) => self.ask_receipts(None),
            Kept::Receipts(Some(page)) => self.receipts(&page),
            Kept::Measured(Some(page)) => self.measured(&page),
            Kept::Logs(Some(page)) => {
                self.keeping.after = page.upto;
                self.keeping.work = Work::Logs { queue: page.logs.into(), gone: Vec::new(), more: page.more };
                self.go_on();
            }
            Kept::Retired(Some(())) => {
                self.host.crash_point("retain.retired");
                self.next_logs();
            }
            Kept::Closed(Some(count)) if count == self.limits.housekeeping_page => self.close_lost(),
            Kept::Closed(Some(_)) => self.begin_runs(),
            Kept::Runs(Some(page)) => {
                self.keeping.after = page.last().map_or(self.keeping.after, |run| run.order);
                let full = page.len() == self.limits.housekeeping_page;
                self.keeping.work = Work::Runs { queue: page.into(), gone: Vec::new(), full };
                self.go_on();
            }
            Kept::Deleted(Some(_)) => self.next_runs(),
            Kept::Audit(edge) => self.ask_audit(Some(edge)),
            Kept::Trimmed
            | Kept::Clock(None)
            | Kept::Noted(None)
            | Kept::Expired(None)
            | Kept::Receipts(None)
            | Kept::Measured(None)
            | Kept::Logs(None)
            | Kept::Retired(None)
            | Kept::Closed(None)
            | Kept::Runs(None)
            | Kept::Deleted(None) => self.end_round(),
        }
    }

    // ---- The clock ------------------------------------------------------------------------------

    fn judge_clock(&mut self, known: ClockKnown) {
        let now = self.host.now();
        // Without a boot's name nothing can be noted, so age decides nothing.
        let judged = self.host.boot().map(|boot| {
            let synchronised = self.schedules.always || self.host.clock_synchronised();
            let (wall_ms, boot_ms) = (now.wall_ms, now.boot_ms);
            judge(&Reading { boot, wall_ms, boot_ms, synchronised, newest_ms: known.newest_ms }, known.watch)
        });
        let may_age = judged.is_some_and(|(_, may_age)| may_age);
        self.keeping.trusted_ms = may_age.then_some(now.wall_ms);
        match judged.map(|(watch, _)| watch).filter(|watch| known.watch != Some(*watch)) {
            // Before anything goes by it: a daemon that starts again must know of the step.
            Some(watch) => self.ask(NoteClock(watch), Kept::Noted),
            None => self.clock_noted(),
        }
    }

    /// Shows what the clock may decide, and ends the tokens whose time is over: a token that has expired
    /// must not work again after a boot into 1970.
    fn clock_noted(&self) {
        self.board.show_age(self.keeping.trusted_ms.is_some());
        match self.keeping.trusted_ms {
            Some(now_ms) => {
                self.ask(ExpireCredentials { now_ms, limit: self.limits.housekeeping_page }, Kept::Expired);
            }
            None => self.ask_receipts(None),
        }
    }

    // ---- Receipts -------------------------------------------------------------------------------

    fn ask_receipts(&self, after: Option<AttemptId>) {
        self.ask(ListResolvable { after, limit: self.limits.housekeeping_page }, Kept::Receipts);
    }

    /// Clears a page of receipts away (spec/execution section 4). One that is there has nothing to say
    /// about an Attempt that has ended. Where one may still come, it is waited for.
    fn receipts(&mut self, page: &[Resolvable]) {
        let wait_ms = self.limits.receipt_wait_ms;
        let trusted_ms = self.keeping.trusted_ms;
        let over = |since_ms: i64| trusted_ms.is_some_and(|now_ms| now_ms.saturating_sub(since_ms) >= wait_ms);
        for row in page {
            if self.places.contains_key(&row.attempt) || self.resolved.contains(&row.attempt) {
                continue;
            }
            let waited = row.since_ms.is_none_or(over);
            let cleared = self.host.clear_receipt(row.attempt);
            let done = match cleared {
                Cleared::Failed => false,
                Cleared::Deleted => !row.quarantined || waited,
                Cleared::Absent => waited,
            };
            if done && self.host.purge_receipt(row.attempt) {
                self.resolved.push(row.attempt);
            }
        }
        self.resolve_now();
        match page.last() {
            Some(last) if page.len() == self.limits.housekeeping_page => self.ask_receipts(Some(last.attempt)),
            _ => self.measure(),
        }
    }

    // ---- Logs -----------------------------------------------------------------------------------

    fn measure(&self) {
        self.ask(ListLogs { after: self.keeping.measured, limit: LOG_PAGE }, Kept::Measured);
    }

    /// Counts what the logs of Runs take that have ended since the last look.
    fn measured(&mut self, page: &LogPage) {
        for log in &page.logs {
            let taken_bytes = self.host.log_taken_bytes(&log.artifact);
            let keeping = &mut self.keeping;
            let nothing_yet = keeping.first_there == (0, 0);
            match taken_bytes {
                Some(bytes) => {
                    keeping.taken_bytes = keeping.taken_bytes.saturating_add(bytes);
                    if nothing_yet {
                        keeping.first_there = (log.order, log.number);
                    }
                }
                None => keeping.some_cut |= nothing_yet && !log.lost,
            }
        }
        self.keeping.measured = page.upto;
        if page.more {
            return self.measure();
        }
        let Some(space) = self.host.log_space() else { return self.end_round() };
        let keeping = &mut self.keeping;
        keeping.caps = Caps::of(&self.limits, space);
        keeping.free_bytes = space.free_bytes;
        (keeping.after, keeping.oldest_seen) = (keeping.oldest, None);
        let some_cut = keeping.some_cut && keeping.first_there != (0, 0);
        if keeping.taken_bytes > keeping.caps.total_bytes || keeping.trusted_ms.is_some() || some_cut {
            if some_cut {
                keeping.some_cut = false;
            }
            self.ask_logs();
        } else {
            self.close_lost();
        }
    }

    fn ask_logs(&self) {
        self.ask(ListLogs { after: self.keeping.after, limit: LOG_PAGE }, Kept::Logs);
    }

    /// Deletes a few files, then says so to the store when the page is through.
    fn delete_some(&mut self) {
        let mut left = self.limits.log_deletions;
        match std::mem::replace(&mut self.keeping.work, Work::Asked) {
            Work::Idle | Work::Asked => self.end_round(),
            Work::Logs { mut queue, mut gone, mut more } => {
                while left > 0
                    && let Some(log) = queue.pop_front()
                {
                    match self.verdict(&log) {
                        Verdict::Pass => {}
                        Verdict::Stay => {
                            self.keeping.oldest_seen.get_or_insert(log.order);
                        }
                        Verdict::Stop => {
                            self.keeping.oldest_seen.get_or_insert(log.order);
                            more = false;
                            queue.clear();
                        }
                        Verdict::Go => {
                            left -= 1;
                            gone.extend(self.remove(&log).map(|removed| (log.run, log.number, removed)));
                        }
                    }
                }
                let through = queue.is_empty();
                self.keeping.work = Work::Logs { queue, gone, more };
                if through { self.retire() } else { self.go_on() }
            }
            Work::Runs { mut queue, mut gone, full } => {
                while left > 0
                    && let Some(run) = queue.front_mut()
                {
                    match run.logs.pop() {
                        Some(log) => {
                            left -= 1;
                            // A log that cannot be removed keeps its Run; the next round tries again.
                            if !self.remove_with_run(run.order, &log) {
                                queue.pop_front();
                            }
                        }
                        None => gone.extend(queue.pop_front().map(|run| run.run)),
                    }
                }
                let through = queue.is_empty();
                self.keeping.work = Work::Runs { queue, gone, full };
                if through { self.delete_runs() } else { self.go_on() }
            }
        }
    }

    /// Files are deleted at one place of a turn only, so that a turn deletes no more than it may.
    fn go_on(&mut self) {
        self.keeping.due_ms = Some(0);
    }

    fn verdict(&self, log: &KeptLog) -> Verdict {
        let keeping = &self.keeping;
        if log.order > keeping.measured {
            return Verdict::Stop;
        }
        if log.lost {
            return Verdict::Pass;
        }
        let over = keeping.taken_bytes > keeping.caps.total_bytes;
        let age = keeping.age(keeping.caps.age_ms).map(|age| age.is_over(log.finished_at_ms));
        match age {
            _ if log.held => Verdict::Stay,
            _ if (log.order, log.number) < keeping.first_there => Verdict::Go,
            Some(Some(true)) => Verdict::Go,
            _ if over => Verdict::Go,
            // It ended when the clock was far off: says nothing about those after it.
            Some(None) => Verdict::Stay,
            Some(Some(false)) | None => Verdict::Stop,
        }
    }

    fn remove(&mut self, log: &KeptLog) -> Option<LogRetired> {
        let Some(removed) = self.host.remove_log(&log.artifact) else {
            self.keeping.oldest_seen.get_or_insert(log.order);
            return None;
        };
        self.keeping.taken_bytes = self.keeping.taken_bytes.saturating_sub(removed.taken_bytes);
        self.keeping.has_freed |= removed.taken_bytes > 0;
        let at_ms = self.host.now().wall_ms;
        Some(LogRetired { at_ms, bytes: removed.bytes, truncated: removed.truncated })
    }

    fn retire(&mut self) {
        let Work::Logs { gone, .. } = &mut self.keeping.work else { return self.end_round() };
        let logs = std::mem::take(gone);
        if logs.is_empty() {
            return self.next_logs();
        }
        self.host.crash_point("retain.removed");
        self.ask(RetireLogs { logs }, Kept::Retired);
    }

    fn next_logs(&mut self) {
        let Work::Logs { more, .. } = std::mem::replace(&mut self.keeping.work, Work::Asked) else {
            return self.end_round();
        };
        let keeping = &mut self.keeping;
        // Before the first that stays there is nothing left to do.
        keeping.oldest = keeping.oldest_seen.map_or(keeping.after, |order| order - 1);
        if more {
            return self.ask_logs();
        }
        // Whoever waits for space need not wait for the next look. Only if there is more of it: else
        // waiting and looking would chase each other.
        self.hungry |= std::mem::take(&mut self.keeping.has_freed);
        self.close_lost();
    }

    // ---- Runs -----------------------------------------------------------------------------------

    /// Closes lost Runs that are too many or too old, a page at a time, so that the next page of Runs may
    /// remove them.
    fn close_lost(&self) {
        let age = self.keeping.age(self.limits.run_age_ms);
        self.ask(CloseLost { keep: LOST_RUNS_KEPT, age, limit: self.limits.housekeeping_page }, Kept::Closed);
    }

    fn begin_runs(&mut self) {
        self.keeping.after = 0;
        self.ask_runs();
    }

    fn ask_runs(&self) {
        let (rule, after) = (self.keeping.run_rule(&self.limits), self.keeping.after);
        self.ask(ListOldRuns { rule, after, limit: self.limits.housekeeping_page }, Kept::Runs);
    }

    fn remove_with_run(&mut self, order: i64, artifact: &str) -> bool {
        let Some(removed) = self.host.remove_log(artifact) else { return false };
        if order <= self.keeping.measured {
            self.keeping.taken_bytes = self.keeping.taken_bytes.saturating_sub(removed.taken_bytes);
        }
        true
    }

    fn delete_runs(&mut self) {
        let Work::Runs { gone, .. } = &mut self.keeping.work else { return self.end_round() };
        let runs = std::mem::take(gone);
        if runs.is_empty() {
            return self.next_runs();
        }
        self.ask(DeleteRuns { rule: self.keeping.run_rule(&self.limits), runs }, Kept::Deleted);
    }

    fn next_runs(&mut self) {
        match std::mem::replace(&mut self.keeping.work, Work::Asked) {
            Work::Runs { full: true, .. } => self.ask_runs(),
            _ => self.ask_audit(None),
        }
    }

    // ---- The audit ------------------------------------------------------------------------------

    fn ask_audit(&self, on: Option<AuditEdge>) {
        self.ask(TrimAudit { keep: self.limits.audit_kept, limit: AUDIT_TRIM_PAGE, on }, |left| {
            left.flatten().map_or(Kept::Trimmed, Kept::Audit)
        });
    }
}

/// What becomes of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It goes now.
    Go,
    /// It stays, and is looked at again in the next round.
    Stay,
    /// It goes with its Run only.
    Pass,
    /// It stays, and so does everything that ended after it.
    Stop,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::limits::{EDGE, STANDALONE};

    const MIB: u64 = 1024 * 1024;

    fn caps(limits: &Limits, free: u64, total: u64, memory: Option<u64>) -> Caps {
        Caps::of(
            limits,
            LogSpace { free_bytes: free * MIB, total_bytes: total * MIB, memory_bytes: memory.map(|m| m * MIB) },
        )
    }

    #[test]
    fn what_logs_may_take_scales_with_the_device() {
        let total = |limits, total, memory| caps(limits, total, total, memory).total_bytes;
        assert_eq!(total(&EDGE, 1024, None), 16 * MIB, "the profile's");
        assert_eq!(total(&EDGE, 80, None), 8 * MIB, "a tenth");
        assert_eq!(total(&EDGE, 8, Some(128)), 8 * MIB / 10, "a tenth of a small tmpfs");
        assert_eq!(total(&EDGE, 1024, Some(128)), 8 * MIB, "a sixteenth of memory");
        assert_eq!(total(&STANDALONE, 1 << 20, None), 1024 * MIB);
    }

    #[test]
    fn short_space_shortens_how_long_logs_are_kept() {
        let pressed = |limits, free, total| caps(limits, free, total, None).age_ms == LOG_AGE_PRESSED_MS;
        assert!(pressed(&EDGE, 63, 1024));
        assert!(!pressed(&EDGE, 64, 1024));
        assert!(!pressed(&EDGE, 2, 8), "a small device is not short of space for being small");
        assert!(pressed(&EDGE, 1, 8));
        assert!(pressed(&STANDALONE, 255, 1 << 20));
        assert!(!pressed(&STANDALONE, 256, 1 << 20));
    }
}
