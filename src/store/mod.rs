//! The one SQLite connection and the thread that owns it.
//!
//! Face: named operations, one per transaction of spec/execution section 2, and named reads. No
//! SQL and no closure over a connection leaves this module, so that another adapter can later pass
//! the same contract tests. Nobody is answered before the commit that holds its change (design D2).
//!
//! `state` guards the folder, `open` is the only file that names the database, `migrate` knows its
//! shape, `thread` and `batch` do what is queued; the rest is one file for each aggregate or verb.

pub mod access;
mod admit;
mod advance;
mod answer;
pub mod audit;
mod batch;
mod binding;
pub mod cancel;
mod candidate;
mod chain;
mod column;
mod credential;
mod definition;
mod event;
pub mod evidence;
mod fail;
mod fence;
pub mod fire;
pub mod folders;
mod journal;
pub mod lost;
mod migrate;
pub mod open;
mod owner;
#[cfg(test)]
mod plan;
mod publish;
mod queue;
pub mod reconcile;
mod rerun;
pub mod resolve;
pub mod retention;
pub mod retry;
pub mod runs;
mod secret;
pub mod secrets;
pub mod start;
pub mod state;
pub mod tasks;
mod thread;
mod trigger;
mod trigger_put;
pub mod triggers;
mod tx;
pub mod use_limits;
mod withdraw;

pub use thread::{Operation, Store, StoreError};
