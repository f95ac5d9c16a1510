//! The API over a real store, called directly: no socket, no gate, no process.

// A test's own helpers fail by panicking too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod access;
mod auth;
mod bootstrap;
mod cancel;
mod meanwhile;
mod readme;
mod resolve;
mod retry;
mod roles;
mod runs;
mod secrets;
mod starts;
mod stolen;
mod tasks;
mod tokens;
mod triggers;
mod walk;
mod world;
