//! The two clocks: the wall for people, boottime for durations (design D9).

use std::mem::MaybeUninit;

/// Epoch milliseconds of the wall clock; 0 when it stands before 1970, as on a board without a battery. Never the
/// standard library's: where that was built with 32-bit times (some releases on armv7 with musl), it panics from 2038.
pub fn wall_ms() -> i64 {
    read_ms(libc::CLOCK_REALTIME).max(0)
}

/// Milliseconds since boot, suspend included. It never jumps, so every duration runs on it.
pub fn boottime_ms() -> i64 {
    read_ms(libc::CLOCK_BOOTTIME)
}

#[allow(clippy::useless_conversion)] // time_t is 32 bits wide on some targets
fn read_ms(clock: libc::clockid_t) -> i64 {
    // Not written out, because it has padding fields where time_t is wider than a register.
    let mut now = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: `now` is valid for the call to fill.
    let done = unsafe { libc::clock_gettime(clock, now.as_mut_ptr()) };
    debug_assert_eq!(done, 0, "both exist since Linux 2.6.39");
    // SAFETY: filled by the call, and all-zero is sound.
    let now = unsafe { now.assume_init() };
    i64::from(now.tv_sec) * 1000 + i64::from(now.tv_nsec) / 1_000_000
}

/// Whether something keeps the wall clock right, as the kernel knows it (adjtimex(2)): no time server's
/// client has set it since boot, or it has given up, when this is false.
pub fn is_synchronised() -> bool {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all-zero is a valid timex, and its `modes` of 0 only reads.
    if unsafe { libc::adjtimex(state.as_mut_ptr()) } < 0 {
        return false;
    }
    // SAFETY: all-zero before the call, filled by it.
    let state = unsafe { state.assume_init() };
    state.status & libc::STA_UNSYNC == 0
}
