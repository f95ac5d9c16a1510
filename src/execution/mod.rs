//! The protocol: materialise, start, dispatch, complete. The only place where the store and the
//! process side meet; it sees the operating system through one trait.

pub mod board;
pub mod logs;
