//! Rejected authentications, folded: a flood of bad tokens must not become a flood of synced rows
//! (design D13). Workers count, the control loop writes.

use crate::model::limits::REJECTION_FOLD_MS;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The reasons there are. The words go to the audit, never to the caller.
pub const REASONS: [&str; 4] = ["bearer_missing", "bearer_malformed", "credential_rejected", "other"];

/// No row was written yet.
const NEVER: i64 = i64::MIN;

/// Counts of what was rejected since the last rows.
pub struct Rejections {
    counts: [AtomicU64; REASONS.len()],
    last_row_ms: AtomicI64,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejections").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl Rejections {
    /// None so far. `wake` is called, by whoever notes, when there is something to write after
    /// there was nothing; it must not block.
    pub fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { counts: Default::default(), last_row_ms: AtomicI64::new(NEVER), wake }
    }

    /// Counts one rejection. Never blocks. A word that is not in [`REASONS`] counts as `other`.
    pub fn note(&self, reason: &'static str) {
        let at = REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len() - 1);
        let quiet = self.is_empty();
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        if quiet {
            (self.wake)();
        }
    }

    /// What is to be written now, by reason: at once when nothing was written for
    /// [`REJECTION_FOLD_MS`], else when that time is over. `now_ms` is a clock that does not jump
    /// (boottime). For the one thread that writes.
    pub fn due(&self, now_ms: i64) -> Option<Vec<(&'static str, u64)>> {
        if self.due_at_ms()? > now_ms {
            return None;
        }
        self.last_row_ms.store(now_ms, Ordering::Relaxed);
        Some(self.take())
    }

    /// When there will be something to write; `None` while nothing was rejected. The control loop
    /// sleeps no longer than until then.
    pub fn due_at_ms(&self) -> Option<i64> {
        let last = self.last_row_ms.load(Ordering::Relaxed);
        (!self.is_empty()).then(|| if last == NEVER { NEVER } else { last.saturating_add(REJECTION_FOLD_MS as i64) })
    }

    /// Everything counted, whatever the time: for the end of serving.
    pub fn take(&self) -> Vec<(&'static str, u64)> {
        let taken = REASONS.iter().zip(&self.counts).map(|(reason, count)| (*reason, count.swap(0, Ordering::Relaxed)));
        taken.filter(|(_, count)| *count > 0).collect()
    }

    /// Puts counts back that could not be written, to go with the next rows.
    pub fn give_back(&self, counts: &[(&'static str, u64)]) {
        for (reason, count) in counts {
            if let Some(at) = REASONS.iter().position(|known| known == reason) {
                self.counts[at].fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn quiet() -> Rejections {
        Rejections::new(Arc::new(|| {}))
    }

    #[test]
    fn the_first_is_due_at_once_then_once_a_minute() {
        let rejections = quiet();
        assert_eq!((rejections.due(0), rejections.due_at_ms()), (None, None));
        rejections.note("credential_rejected");
        assert_eq!(rejections.due(5), Some(vec![("credential_rejected", 1)]));
        rejections.note("credential_rejected");
        rejections.note("bearer_missing");
        rejections.note("nonsense");
        assert_eq!(rejections.due(60_004), None);
        assert_eq!(rejections.due_at_ms(), Some(60_005));
        let want = vec![("bearer_missing", 1), ("credential_rejected", 1), ("other", 1)];
        assert_eq!(rejections.due(60_005), Some(want));
        assert_eq!(rejections.due(300_000), None, "nothing new, no row");
    }

    #[test]
    fn ten_thousand_bad_tokens_are_two_rows_in_any_minute() {
        let rejections = quiet();
        let mut rows = Vec::new();
        for i in 0..10_000 {
            rejections.note("credential_rejected");
            let now_ms = i * 12;
            rows.extend(rejections.due(now_ms).into_iter().flatten().map(|(_, count)| (now_ms, count)));
        }
        let written: u64 = rows.iter().map(|(_, count)| count).sum();
        let left: u64 = rejections.take().iter().map(|(_, count)| count).sum();
        assert_eq!(written + left, 10_000, "every one is counted once");
        for (at, _) in &rows {
            let near = rows.iter().filter(|(other, _)| (*at..=*at + 60_000).contains(other)).count();
            assert!(near <= 2, "{rows:?}");
        }
    }

    #[test]
    fn the_writer_is_woken_once_and_failed_counts_come_again() {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let rejections = Rejections::new(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        rejections.note("bearer_missing");
        rejections.note("bearer_missing");
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        let counts = rejections.due(0).unwrap();
        rejections.give_back(&counts);
        assert_eq!(rejections.due(60_000), Some(vec![("bearer_missing", 2)]));
    }
}
