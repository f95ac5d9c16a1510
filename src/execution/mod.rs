//! The protocol: materialise, start, dispatch, complete. The only place where the store and the
//! process side meet; it sees the operating system through one trait.

pub mod board;
mod control;
pub mod engine;
pub mod environment;
pub mod evidence;
mod finish;
pub mod host;
mod housekeeping;
mod inbox;
mod kept;
pub mod linux;
pub mod logs;
mod place;
mod recover;
mod retry;
mod schedule;
mod secret;
mod start;
mod stop;
mod token;

pub use engine::Engine;
pub use inbox::Inbox;
pub use recover::RecoveryError;
