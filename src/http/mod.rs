//! HTTP: the gate that owns the sockets, the library behind it, the one route table, and a file for
//! each resource (design D12).

pub mod gate;
pub mod head;
pub mod message;
pub mod poll;
pub mod reply;
pub mod route;
pub mod server;
pub mod socket;
pub mod upstream;
mod worker;
