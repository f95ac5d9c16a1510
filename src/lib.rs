//! qinglet: a small, durable task runtime for routers.
//!
//! The map. A module may use those to its left, never those to its right:
//!
//! ```text
//! model <- store, process, schedule, access <- execution <- http <- runtime <- cli
//! ```
//!
//! `store` never knows `process`; `process` knows no states and no SQL; both meet in `execution`,
//! which sees the operating system through one trait only. tests/tidy.rs holds this.

// Here and not in Cargo.toml, because in tests a panic is how a test fails.
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod access;
pub mod cli;
pub mod execution;
pub mod http;
pub mod model;
pub mod process;
pub mod runtime;
pub mod schedule;
pub mod store;
