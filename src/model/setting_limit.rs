//! The numbers of a profile that a configuration may set, and within which bounds.

use super::limits::{DAY_MS, LAUNCH_QUEUE, LOG_BYTES_MAX, LOG_BYTES_MIN, Limits, Profile};

/// One number that may be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum SettingLimit {
    /// Attempts at once.
    ActiveAttempts,
    /// Runs that wait.
    QueuedRuns,
    /// All logs together.
    LogBytes,
    /// One Attempt's log.
    AttemptLogBytes,
    /// How long logs are kept.
    LogDays,
    /// Ended Runs that are kept.
    HistoryRuns,
    /// How long ended Runs are kept.
    HistoryDays,
    /// Audit rows that are kept.
    AuditRows,
}

use SettingLimit::{
    ActiveAttempts, AttemptLogBytes, AuditRows, HistoryDays, HistoryRuns, LogBytes, LogDays, QueuedRuns,
};

impl SettingLimit {
    /// Every one, in the order in which they are shown.
    pub const ALL: [Self; 8] =
        [ActiveAttempts, QueuedRuns, LogBytes, AttemptLogBytes, LogDays, HistoryRuns, HistoryDays, AuditRows];

    /// Its whole key in the configuration.
    pub const fn key(self) -> &'static str {
        match self {
            ActiveAttempts => "limits.activeAttempts",
            QueuedRuns => "limits.queuedRuns",
            LogBytes => "limits.logBytes",
            AttemptLogBytes => "limits.attemptLogBytes",
            LogDays => "limits.logDays",
            HistoryRuns => "limits.historyRuns",
            HistoryDays => "limits.historyDays",
            AuditRows => "limits.auditRows",
        }
    }

    /// Its key within `limits`.
    pub fn name(self) -> &'static str {
        self.key().split_once('.').map_or("", |(_, name)| name)
    }

    /// What it may be under a profile, both ends included.
    pub const fn range(self, profile: Profile) -> (i64, i64) {
        match (self, profile) {
            // Each Attempt takes two process ids at least, and a router has 64 of them (design D17).
            (ActiveAttempts, Profile::Edge) => (1, 16),
            // No more than the launcher's queue takes.
            (ActiveAttempts, Profile::Standalone) => (1, 64),
            // A waiting Run takes about a KiB of the store.
            (QueuedRuns, Profile::Edge) => (1, 4_096),
            (QueuedRuns, Profile::Standalone) => (1, 65_536),
            (LogBytes, _) => (LOG_BYTES_MIN, 1 << 40),
            // As a task may say itself.
            (AttemptLogBytes, _) => (LOG_BYTES_MIN, LOG_BYTES_MAX),
            // A day is how long logs are kept when space is short; ten years outlast every router.
            (LogDays | HistoryDays, _) => (1, 3_650),
            // Enough to look back at a bad night; a Run takes some KiB of the store.
            (HistoryRuns | AuditRows, _) => (100, 1_000_000),
        }
    }

    /// What it may be under some profile.
    pub const fn widest(self) -> (i64, i64) {
        let (edge, standalone) = (self.range(Profile::Edge), self.range(Profile::Standalone));
        (
            if edge.0 < standalone.0 { edge.0 } else { standalone.0 },
            if edge.1 > standalone.1 { edge.1 } else { standalone.1 },
        )
    }

    /// What it is among these numbers.
    pub const fn of(self, limits: &Limits) -> i64 {
        match self {
            ActiveAttempts => limits.active_attempts as i64,
            QueuedRuns => limits.queued_runs as i64,
            LogBytes => limits.logs_bytes as i64,
            AttemptLogBytes => limits.attempt_log_bytes as i64,
            LogDays => limits.log_age_ms / DAY_MS,
            HistoryRuns => limits.runs_kept,
            HistoryDays => limits.run_age_ms / DAY_MS,
            AuditRows => limits.audit_kept as i64,
        }
    }

    /// Puts it into these numbers. It must be within its bounds.
    pub const fn put(self, limits: &mut Limits, value: i64) {
        match self {
            ActiveAttempts => limits.active_attempts = value as usize,
            QueuedRuns => limits.queued_runs = value as usize,
            LogBytes => limits.logs_bytes = value as u64,
            AttemptLogBytes => limits.attempt_log_bytes = value as u64,
            LogDays => limits.log_age_ms = value * DAY_MS,
            HistoryRuns => limits.runs_kept = value,
            HistoryDays => limits.run_age_ms = value * DAY_MS,
            AuditRows => limits.audit_kept = value as usize,
        }
    }
}

const _: () = assert!(ActiveAttempts.widest().1 <= LAUNCH_QUEUE as i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_set_alone_and_the_profiles_own_are_within_bounds() {
        for profile in [Profile::Edge, Profile::Standalone] {
            for limit in SettingLimit::ALL {
                let own = limit.of(profile.limits());
                let (least, most) = limit.range(profile);
                assert!((least..=most).contains(&own), "{} {own}", limit.key());
                let mut changed = *profile.limits();
                limit.put(&mut changed, most);
                assert_eq!(limit.of(&changed), most);
                limit.put(&mut changed, own);
                assert_eq!(&changed, profile.limits(), "{}", limit.key());
            }
        }
    }
}
