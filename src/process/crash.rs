//! Places where a debug build kills itself with signal 9 when it was told to, so that every step of
//! the start protocol can be cut off by a test. Release builds have none of this.

/// Which process passes a point.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The daemon, told by the variable `QINGLET_CRASH_AT`.
    Daemon,
    /// The shim, told with its orders.
    Shim,
    /// `init`, told by the same variable as the daemon.
    Init,
    /// `backup` and `restore`, told by it too.
    Copy,
}

/// One numbered place.
#[cfg(debug_assertions)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Its name.
    pub name: &'static str,
    /// Who passes it.
    pub side: Side,
}

#[cfg(debug_assertions)]
const fn point(name: &'static str, side: Side) -> Point {
    Point { name, side }
}

/// Every point, in the order they are passed: by `init`, then by a run.
#[cfg(debug_assertions)]
pub const POINTS: &[Point] = &[
    point("bootstrap.pepper", Side::Init),     // the pepper is there, no owner
    point("bootstrap.token", Side::Init),      // the token has its temporary name, no owner
    point("bootstrap.commit", Side::Init),     // the owner is committed
    point("bootstrap.publish", Side::Init),    // the token has its name
    point("start.materialised", Side::Daemon), // command, environment and log are ready, nothing is written
    point("start.intent", Side::Daemon),       // dispatching and starting are committed
    point("launch.forked", Side::Daemon),      // the shim exists and knows nothing
    point("launch.ordered", Side::Daemon),     // the orders are sent
    point("shim.read", Side::Shim),            // the orders are read
    point("shim.prepared", Side::Shim),        // the user's process is held, nothing is reported
    point("start.held", Side::Daemon),         // the held shim's identity is known
    point("start.owned", Side::Daemon),        // running is committed
    point("start.released", Side::Daemon),     // the release is given
    point("shim.released", Side::Shim),        // the release is taken, the user's process still held
    point("shim.execed", Side::Shim),          // user code runs
    point("shim.exited", Side::Shim),          // the tree is gone, no receipt yet
    point("shim.published", Side::Shim),       // the receipt is out
    point("cancel.intent", Side::Daemon),      // an intent to end it is committed, nothing is signalled
    point("cancel.termed", Side::Daemon),      // TERM is sent
    point("cancel.killed", Side::Daemon),      // everything below the shim is killed
    point("finish.seen", Side::Daemon),        // the receipt is read
    point("finish.committed", Side::Daemon),   // the end is committed
    point("finish.deleted", Side::Daemon),     // the receipt is deleted
    point("retry.waiting", Side::Daemon),      // an end that is followed by another Attempt is committed
    point("retry.armed", Side::Daemon),        // when that is due in this boot is committed
    point("retry.queued", Side::Daemon),       // the next Attempt is made
    point("recover.taken", Side::Daemon),      // a Run of an earlier daemon was looked at
    point("recover.reconciled", Side::Daemon), // that its process lives is committed
    point("recover.lost", Side::Daemon),       // that it is lost is committed
    point("schedule.fired", Side::Daemon),     // the run of an occurrence is committed
    point("schedule.booted", Side::Daemon),    // the runs of triggers at boot are committed
    point("retain.removed", Side::Daemon),     // files of old logs are gone, the store does not say so
    point("retain.retired", Side::Daemon),     // the store says so
    point("backup.written", Side::Copy),       // a backup is whole, under its temporary name
    point("restore.placed", Side::Copy),       // the database is in the folder that is being built
    point("restore.built", Side::Copy),        // everything is
    point("restore.whole", Side::Copy),        // its mark of being unfinished is gone
    point("restore.exchanged", Side::Copy),    // it has its place, and the old state its
];

#[cfg(debug_assertions)]
static TOLD: std::sync::OnceLock<Option<Point>> = std::sync::OnceLock::new();

/// The point this process was told by its environment; read once. In the shim, what it was ordered.
#[cfg(debug_assertions)]
pub fn told() -> Option<Point> {
    *TOLD.get_or_init(|| {
        let name = std::env::var("QINGLET_CRASH_AT").ok()?;
        POINTS.iter().copied().find(|point| point.name == name)
    })
}

/// Tells this process, before it looks at its environment: the shim's orders.
#[cfg(debug_assertions)]
pub(super) fn tell(name: &str) {
    let _ = TOLD.set(POINTS.iter().copied().find(|point| point.name == name));
}

/// Dies here if this is the point.
#[cfg(debug_assertions)]
pub fn at(name: &str) {
    debug_assert!(POINTS.iter().any(|point| point.name == name), "{name} is not in the table");
    if told().is_some_and(|point| point.name == name) {
        let _ = super::signals::send(std::process::id() as i32, libc::SIGKILL);
        loop {
            std::thread::park();
        }
    }
}

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
#[inline(always)]
#[allow(clippy::inline_always)] // the call must leave no trace
pub fn at(_name: &str) {}
