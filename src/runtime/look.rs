//! What `doctor` may look at of the machine. Nothing here changes anything.

pub use crate::process::clock::{boottime_ms, is_synchronised, wall_ms};
pub use crate::process::probe::{can_map_shared, file_system, has_entropy, is_writable, pidfd};
pub use crate::process::room::{Space, memory_free, pids_free, space};
