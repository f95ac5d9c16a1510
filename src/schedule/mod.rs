//! When things are due. Today: the host's zone, which tasks get as `TZ`.

pub mod host_zone;
pub mod trust;
