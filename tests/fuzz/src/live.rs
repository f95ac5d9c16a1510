//! Counts the bytes that are allocated. The process's size says little about growth, because the fuzzer
//! itself keeps every interesting input; what our own code holds is counted exactly here.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most that one input may ever hold at once: four times a whole request with its answer.
const PEAK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Runs after which everything that is made once has been made.
const WARM: usize = 4096;
/// What may come and go beside that: one request in the hands of other threads.
const SLACK_BYTES: usize = 64 * 1024;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static RUNS: AtomicUsize = AtomicUsize::new(0);
static KEPT: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Runs one input. Panics, which the fuzzer reports, when it held too much at once or when what is held
/// afterwards has grown since the first runs.
pub fn bounded(run: impl FnOnce()) {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    run();
    let (runs, after) = (RUNS.fetch_add(1, Relaxed), LIVE.load(Relaxed));
    // What is made once is made by the first input.
    let held = PEAK.load(Relaxed).saturating_sub(before);
    assert!(runs == 0 || held <= PEAK_BYTES_MAX, "one input held {held} bytes");
    if runs == WARM {
        KEPT.store(after, Relaxed);
    }
    let kept = KEPT.load(Relaxed);
    assert!(runs < WARM || after <= kept + SLACK_BYTES, "after {runs} inputs {after} bytes are held, {kept} at first");
}
