//! One answer, from the store's thread to whoever waits for it. A channel of the standard library
//! would do as well, at 4 KiB of code for each of the sixty kinds of answers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where the answer will be, and how one is told that it is there.
struct Slot<T> {
    bell: Bell,
    value: Mutex<Option<T>>,
}

/// Rung once: by the answer, or when nobody will answer any more.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        *self.lock() = true;
        self.wake.notify_all();
    }

    /// Waits for it, at most so long: whether it was rung.
    fn wait(&self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut rung = self.lock();
        while !*rung {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            rung = self.wake.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Gives the answer, once. Dropped without one, it tells the waiter that there will be none.
pub(super) struct Giver<T>(Arc<Slot<T>>);

/// Waits for the answer.
pub(super) struct Taker<T>(Arc<Slot<T>>);

/// The two ends.
pub(super) fn pair<T>() -> (Giver<T>, Taker<T>) {
    let slot = Arc::new(Slot { bell: Bell::default(), value: Mutex::new(None) });
    (Giver(Arc::clone(&slot)), Taker(slot))
}

impl<T> Giver<T> {
    /// Gives it; if nobody waits any more, to nobody.
    pub(super) fn give(self, value: T) {
        *self.0.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        self.0.bell.ring();
    }
}

impl<T> Taker<T> {
    /// Waits at most so long. `Err`: nothing has come yet. `Ok(None)`: nothing ever will.
    pub(super) fn wait(&self, longest: Duration) -> Result<Option<T>, ()> {
        if !self.0.bell.wait(longest) {
            return Err(());
        }
        Ok(self.0.value.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_across_threads() {
        let (giver, taker) = pair();
        let thread = std::thread::spawn(move || giver.give(7));
        assert_eq!(taker.wait(Duration::from_secs(10)), Ok(Some(7)));
        thread.join().unwrap();
    }

    #[test]
    fn whoever_waits_is_told_when_no_answer_will_come() {
        let (giver, taker) = pair::<i32>();
        assert_eq!(taker.wait(Duration::from_millis(1)), Err(()), "not yet");
        drop(giver);
        assert_eq!(taker.wait(Duration::from_secs(10)), Ok(None));
    }

    #[test]
    fn an_answer_that_nobody_waits_for_goes_nowhere() {
        let (giver, taker) = pair();
        drop(taker);
        giver.give(7);
    }
}
