//! When things are due: cron expressions, zones, what is due next, and whether the clock is right.
//! Reads the system's zone data and nothing else; no clock, no store.

pub mod civil;
pub mod cron;
mod cron_parse;
pub mod host_zone;
pub mod next;
pub mod trust;
pub mod zone;
mod zone_file;
mod zone_posix;
mod zone_table;

pub use cron::{Cron, CronError};
pub use cron_parse::expand;
pub use next::next_after;
pub use zone::{Zone, ZoneError};
