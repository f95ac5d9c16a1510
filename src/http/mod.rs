//! HTTP: the gate that owns the sockets, the library behind it, the one route table, and a file for
//! each resource (design D12).

pub mod access;
pub mod admit;
pub mod audit;
pub mod cancel;
pub mod evidence;
pub mod gate;
pub mod head;
pub mod logs;
pub mod message;
pub mod poll;
pub mod query;
pub mod reply;
mod retry;
pub mod route;
pub mod routes;
pub mod runs;
mod secrets;
pub mod server;
pub mod service;
pub mod socket;
pub mod starts;
pub mod system;
pub mod tasks;
pub mod triggers;
pub mod upstream;
pub mod wire;
mod worker;
