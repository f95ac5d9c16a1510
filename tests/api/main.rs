//! The API over a real store, called directly: no socket, no gate, no process.

mod access;
mod auth;
mod bootstrap;
mod roles;
mod runs;
mod starts;
mod tasks;
mod world;
