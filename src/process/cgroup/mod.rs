//! Control groups (cgroups(7)), version 1 and 2, whichever of the two has a controller: what a machine
//! can limit, the group of an Attempt, and groups that a crash left behind.
//!
//! An Attempt's groups are `qinglet-<state folder>.<attempt>` below the daemon's own group, one in each tree
//! that is needed, and no folder of ours stands between, which nobody would remove. The shim makes them, lets the user's process join before it has run anything, counts what the
//! out-of-memory killer took, and removes them; it stays outside itself, so no limit of a task stops it from
//! writing the receipt.

mod controller;
mod found;
mod group;
mod stale;
pub(super) mod tree;

pub(super) use controller::PlanView;
pub use controller::{OomCount, Plan};
pub use found::Groups;
pub(super) use found::find;
pub(super) use group::{Group, OomKills};
