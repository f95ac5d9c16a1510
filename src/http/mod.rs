//! HTTP: the gate that owns the sockets, the library behind it, the one route table, and a file for
//! each resource (design D12).

pub mod message;
pub mod route;
