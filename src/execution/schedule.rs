//! Schedules coming due: read, decided and committed one page a turn, on a wall clock that can be
//! believed (design D8, D9, D10). What a decision is stands in `schedule`; that it holds, in the store.

use super::engine::{Door, Engine};
use super::host::{Host, Now};
use super::inbox::Message;
use crate::model::limits::{CLOCK_SET_BACK_MS, CLOCK_SETTLED_MS, CLOCK_UNTRUSTED_RECHECK_MS, WAIT_RECHECK_MS};
use crate::model::name::Name;
use crate::model::trigger::When;
use crate::schedule::cron::Cron;
use crate::schedule::next::next_after;
use crate::schedule::occurrence::{Standing, decide};
use crate::schedule::trust::BUILT_AT_MS;
use crate::schedule::zone::Zone;
use crate::store::StoreError;
use crate::store::fire::{Due, Fire, FireAtBoot, Fired, ListDue, RecomputeAfter};
use crate::store::retention::ReadClock;

/// Where schedules stand.
#[derive(Default)]
pub(super) struct Schedules {
    /// There may be some that are due, or changed.
    pub(super) wanted: bool,
    /// So many answers of the store are awaited.
    under_way: usize,
    /// When the next one is due, on the wall clock.
    due_wall_ms: Option<i64>,
    /// When to look again, in boot milliseconds.
    pub(super) again_ms: Option<u64>,
    /// The newest time that was stored when this daemon began; unknown before it was read.
    newest_ms: Option<i64>,
    /// The wall clock may have been set back since schedules were computed.
    set_back: bool,
    /// The settings say that the wall clock is always right.
    pub(super) always: bool,
    /// Triggers at boot are still to be looked at, after this one.
    boot: AtBoot,
    /// Occurrences that were missed, since somebody was told.
    missed: u64,
}

/// How far the look for triggers at boot is.
#[derive(Clone, Default)]
enum AtBoot {
    /// Over, or not begun.
    #[default]
    Done,
    /// To be gone on with after this one.
    After(Option<(Name, Name)>),
}

/// A notice for the log: machine word and sentence.
pub type Notice = (&'static str, String);

impl<H: Host> Engine<H> {
    /// Believes the wall clock whatever speaks against it: the setting `clock: "always"`.
    pub fn trust_the_clock(&mut self) {
        self.schedules.always = true;
    }

    /// The wall clock was set: everything that goes by it is looked at anew.
    pub fn clock_was_set(&mut self) {
        self.schedules.wanted = true;
        self.schedules.set_back = true;
        // Nothing ends for its age by a clock that nobody has looked at.
        self.board.show_age(false);
        self.keeping.hurry();
    }

    /// When the next schedule is due, on the wall clock; the loop sets its alarm by it.
    pub fn due_wall_ms(&self) -> Option<i64> {
        self.schedules.due_wall_ms.filter(|_| self.door == Door::Open)
    }

    /// What is to be said in the log, if anything is. One notice for a jump, however many
    /// occurrences it went over.
    pub fn take_notice(&mut self) -> Option<Notice> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        if self.schedules.missed == 0 || self.schedules.under_way > 0 || self.schedules.wanted {
            return None;
        }
        let missed = std::mem::take(&mut self.schedules.missed);
        Some((
            "schedule_missed",
            format!("{missed} occurrences of schedules were missed, by a pause or a jump of the clock"),
        ))
    }

    /// Whether nothing about schedules is awaited or due: for tests of time.
    pub fn schedules_rest(&self) -> bool {
        let schedules = &self.schedules;
        let due = schedules.due_wall_ms.is_some_and(|at_ms| at_ms <= self.host.now().wall_ms);
        schedules.under_way == 0 && !schedules.wanted && !due && matches!(schedules.boot, AtBoot::Done)
            || self.door != Door::Open
    }

    /// Schedules begin when the door opens.
    pub(super) fn begin_schedules(&mut self) {
        self.schedules.wanted = true;
        self.schedules.set_back = true;
        self.schedules.boot = AtBoot::After(None);
    }

    /// Looks at schedules when one is due, changed, or the clock was set.
    pub(super) fn tick(&mut self, now: Now) {
        if self.door != Door::Open || self.schedules.under_way > 0 {
            return;
        }
        if let AtBoot::After(after) = self.schedules.boot.clone() {
            return self.ask_boot(after);
        }
        let due = self.schedules.due_wall_ms.is_some_and(|at_ms| at_ms <= now.wall_ms);
        let again = self.schedules.again_ms.is_some_and(|at_ms| at_ms <= now.boot_ms);
        if !(self.schedules.wanted || due || again) {
            return;
        }
        self.schedules.again_ms = None;
        if self.schedules.newest_ms.is_none() {
            self.schedules.under_way = 1;
            let inbox = self.inbox.clone();
            return self.store.post(ReadClock, move |known| {
                inbox.send(Message::ClockRead(known.map(|known| known.newest_ms)));
            });
        }
        let believed = self.clock_is_believed(now);
        self.board.show_clock(believed);
        if !believed {
            // Visibly waiting, and looked at again: nothing tells when a time server has answered.
            self.schedules.again_ms = Some(now.boot_ms + CLOCK_UNTRUSTED_RECHECK_MS);
            self.schedules.wanted = false;
            self.schedules.due_wall_ms = None;
            return;
        }
        self.schedules.under_way = 1;
        let inbox = self.inbox.clone();
        if std::mem::take(&mut self.schedules.set_back) {
            self.schedules.wanted = true;
            let recompute = RecomputeAfter { after_ms: now.wall_ms.saturating_add(CLOCK_SET_BACK_MS) };
            return self.store.post(recompute, move |done| inbox.send(Message::Recomputed(done.is_ok())));
        }
        self.schedules.wanted = false;
        let list = ListDue { now_ms: now.wall_ms, limit: self.limits.schedule_page };
        self.store.post(list, move |page| inbox.send(Message::Due(page)));
    }

    /// Whether schedules may go by the wall clock. Times that this daemon stored itself do not count
    /// against it: a clock that was wrong for an hour, and was put right, is right (design D9 names
    /// the newest stored time; taken at its word it would stop every schedule for 50 years).
    fn clock_is_believed(&self, now: Now) -> bool {
        let settled = || now.boot_ms > CLOCK_SETTLED_MS && now.wall_ms >= self.schedules.newest_ms.unwrap_or(0);
        self.schedules.always || (now.wall_ms >= BUILT_AT_MS && (self.host.clock_synchronised() || settled()))
    }

    /// The newest stored time was read.
    pub(super) fn clock_read(&mut self, newest_ms: Result<i64, StoreError>) {
        self.schedules.under_way = 0;
        match newest_ms {
            Ok(newest_ms) => {
                self.schedules.newest_ms = Some(newest_ms);
                self.schedules.wanted = true;
            }
            Err(_) => self.schedules.again_ms = Some(self.later(WAIT_RECHECK_MS)),
        }
    }

    /// Schedules that were computed by a clock that was ahead are to be computed anew, or not.
    pub(super) fn recomputed(&mut self, done: bool) {
        self.schedules.under_way = 0;
        if !done {
            self.schedules.set_back = true;
            self.schedules.wanted = false;
            self.schedules.again_ms = Some(self.later(WAIT_RECHECK_MS));
        }
    }

    /// Decides a page of schedules that are due.
    pub(super) fn due(&mut self, page: Result<(Vec<Due>, Option<i64>), StoreError>) {
        self.schedules.under_way = 0;
        let Ok((page, next_ms)) = page else {
            self.schedules.again_ms = Some(self.later(WAIT_RECHECK_MS));
            return;
        };
        self.schedules.due_wall_ms = next_ms;
        let now_ms = self.host.now().wall_ms;
        for due in page {
            self.schedules.under_way += 1;
            // After them the next ones are read: with new times of their own.
            self.schedules.wanted = true;
            let fire = fire(due, now_ms, self.limits.schedule_grace_ms);
            let inbox = self.inbox.clone();
            self.store.post(fire, move |answer| inbox.send(Message::Fired(answer)));
        }
    }

    /// The store has made the run of an occurrence, or not.
    pub(super) fn fired(&mut self, answer: &Result<Fired, StoreError>) {
        self.schedules.under_way = self.schedules.under_way.saturating_sub(1);
        match answer {
            Ok(Fired::Admitted(_)) => {
                self.host.crash_point("schedule.fired");
                self.hungry = true;
            }
            Ok(Fired::Skipped(reason)) => self.schedules.missed += u64::from(*reason == "misfire"),
            Ok(Fired::Existing | Fired::Moved | Fired::Raced) => {}
            Err(_) => {
                // Not at once again: a store that fails must not be asked in a loop.
                self.schedules.wanted = false;
                self.schedules.due_wall_ms = None;
                self.schedules.again_ms = Some(self.later(WAIT_RECHECK_MS));
            }
        }
    }

    fn ask_boot(&mut self, after: Option<(Name, Name)>) {
        let Some(boot) = self.host.boot() else {
            // Without a boot's name nobody can say that this one is new.
            self.schedules.boot = AtBoot::Done;
            return;
        };
        if self.schedules.again_ms.is_some_and(|at_ms| at_ms > self.host.now().boot_ms) {
            return;
        }
        self.schedules.under_way = 1;
        let fire = FireAtBoot { boot, after, limit: self.limits.schedule_page };
        let inbox = self.inbox.clone();
        self.store.post(fire, move |answer| inbox.send(Message::FiredAtBoot(answer)));
    }

    /// A page of triggers at boot was looked at.
    pub(super) fn fired_at_boot(&mut self, answer: Result<(Option<(Name, Name)>, usize), StoreError>) {
        self.schedules.under_way = 0;
        match answer {
            Ok((more, made)) => {
                self.host.crash_point("schedule.booted");
                self.schedules.boot = more.map_or(AtBoot::Done, |last| AtBoot::After(Some(last)));
                self.hungry |= made > 0;
            }
            Err(_) => self.schedules.again_ms = Some(self.later(WAIT_RECHECK_MS)),
        }
    }
}

/// What to commit for a schedule that is due. An expression or zone that means nothing any more, which
/// takes another version of the zones to happen, ends the schedule and says so.
fn fire(due: Due, now_ms: i64, grace_ms: i64) -> Fire {
    let cron = match &due.trigger.when {
        When::Cron { expression, zone, misfire } => Some((Cron::parse(expression), Zone::parse(zone), *misfire)),
        _ => None,
    };
    let Some((Ok(cron), Ok(zone), misfire)) = cron else {
        let scheduled_for_ms = Some(now_ms);
        return Fire {
            due,
            scheduled_for_ms,
            skip: Some("schedule_unreadable"),
            next_fire_at_ms: None,
            computed_at_ms: now_ms,
        };
    };
    let standing = Standing { due_ms: due.next_fire_at_ms, now_ms, grace_ms, misfire };
    let decision = decide(standing, |after_ms| next_after(&cron, &zone, after_ms));
    Fire {
        due,
        scheduled_for_ms: decision.scheduled_for_ms,
        skip: decision.skip,
        next_fire_at_ms: decision.next_ms,
        computed_at_ms: now_ms,
    }
}
