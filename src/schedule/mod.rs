//! When things are due: expressions, zones, and whether the clock can be believed. Pure, but for reading
//! the system's zones.

pub mod civil;
pub mod cron;
mod cron_parse;
pub mod host_zone;
pub mod next;
pub mod occurrence;
pub mod trust;
pub mod zone;
mod zone_file;
mod zone_posix;
mod zone_table;
