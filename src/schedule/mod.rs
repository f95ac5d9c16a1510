//! When things are due: expressions, zones, and whether the clock can be believed. Pure, but for reading
//! the system's zones.

pub mod cron;
pub mod host_zone;
pub mod next;
pub mod occurrence;
pub mod trust;
pub mod zone;
