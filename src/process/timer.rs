//! A timerfd: on boottime for durations, on the wall clock for schedules (design D8).

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One absolute alarm at a time.
#[derive(Debug)]
pub struct Timer {
    file: File,
    flags: libc::c_int,
}

/// What a look at a timer found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alarm {
    /// Not due yet.
    Silent,
    /// Due.
    Due,
    /// The wall clock was set; the alarm must be worked out anew.
    ClockSet,
}

impl Timer {
    /// Runs on boottime: never jumps, counts suspend.
    pub fn boottime() -> io::Result<Self> {
        Self::on(libc::CLOCK_BOOTTIME, libc::TFD_TIMER_ABSTIME)
    }

    /// Runs on the wall clock and rings at once when somebody sets it.
    pub fn wall() -> io::Result<Self> {
        // TFD_TIMER_CANCEL_ON_SET of timerfd_create(2); not every libc names it.
        const CANCEL_ON_SET: libc::c_int = 1 << 1;
        Self::on(libc::CLOCK_REALTIME, libc::TFD_TIMER_ABSTIME | CANCEL_ON_SET)
    }

    fn on(clock: libc::clockid_t, flags: libc::c_int) -> io::Result<Self> {
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::timerfd_create(clock, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened and belongs to nobody else.
        Ok(Self { file: File::from(unsafe { OwnedFd::from_raw_fd(fd) }), flags })
    }

    /// Sets the alarm to an absolute time of its clock, or takes it off. A time that is past is due at once.
    #[allow(deprecated)] // for musl, `time_t` will be wider one day; it is named here for whatever width it has
    pub fn set(&self, at_ms: Option<i64>) -> io::Result<()> {
        // All zero takes the alarm off, so the earliest time is one nanosecond.
        let at_ms = at_ms.map(|ms| ms.max(0));
        let seconds = at_ms.map_or(0, |ms| ms / 1000);
        let nanos = at_ms.map_or(0, |ms| ((ms % 1000) * 1_000_000).max(i64::from(ms == 0)));
        // SAFETY: all-zero is a sound itimerspec. It is not written out, because it has padding fields
        // where time_t is wider than a register.
        let mut alarm = unsafe { MaybeUninit::<libc::itimerspec>::zeroed().assume_init() };
        alarm.it_value.tv_sec = libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX);
        alarm.it_value.tv_nsec = nanos as libc::c_long;
        // SAFETY: `alarm` is a valid itimerspec; the old value is not asked for.
        let done =
            unsafe { libc::timerfd_settime(self.file.as_raw_fd(), self.flags, &raw const alarm, std::ptr::null_mut()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Looks, and takes the ring away if there was one.
    pub fn take(&self) -> io::Result<Alarm> {
        match (&self.file).read(&mut [0; 8]) {
            Ok(_) => Ok(Alarm::Due),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Alarm::Silent),
            Err(e) if e.raw_os_error() == Some(libc::ECANCELED) => Ok(Alarm::ClockSet),
            Err(e) => Err(e),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{clock, poll};

    #[test]
    fn an_alarm_is_due_once_at_its_time_and_can_be_taken_off() {
        for (timer, now) in
            [(Timer::boottime(), clock::boottime_ms as fn() -> i64), (Timer::wall(), clock::wall_ms as fn() -> i64)]
        {
            let timer = timer.unwrap();
            let due = now() + 30;
            timer.set(Some(due)).unwrap();
            assert_eq!(timer.take().unwrap(), Alarm::Silent);
            poll::wait(&mut [poll::readable(timer.as_fd())], Some(10_000)).unwrap();
            assert!(now() >= due);
            assert_eq!((timer.take().unwrap(), timer.take().unwrap()), (Alarm::Due, Alarm::Silent));
            for past in [0, -5, 1] {
                timer.set(Some(past)).unwrap();
                poll::wait(&mut [poll::readable(timer.as_fd())], Some(10_000)).unwrap();
                assert_eq!(timer.take().unwrap(), Alarm::Due, "{past}");
            }
            timer.set(Some(now() + 30)).unwrap();
            timer.set(None).unwrap();
            assert_eq!(poll::wait(&mut [poll::readable(timer.as_fd())], Some(60)).unwrap(), 0);
        }
    }
}
