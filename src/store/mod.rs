//! The one SQLite connection and the thread that owns it.
//!
//! Face: named operations, one per transaction of spec/execution section 2, and named reads. No
//! SQL and no closure over a connection leaves this module, so that another adapter can later pass
//! the same contract tests. Nobody is answered before the commit that holds its change (design D2).

pub mod access;
pub mod audit;
pub mod open;
pub mod runs;
pub mod start;
pub mod tasks;
mod thread;

pub use thread::{Operation, Store, StoreError};
