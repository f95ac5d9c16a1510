//! What the system talks about, and nothing else: no I/O, no clock, no randomness of its own.
//! Every other module may use this one; it uses none of them.

pub mod capability;
pub mod command;
pub mod config;
pub mod confinement;
pub mod digest;
pub mod event;
pub mod id;
pub mod json;
pub mod life;
pub mod limits;
pub mod log_level;
pub mod name;
pub mod nearest;
pub mod on_stop;
pub mod passwd;
pub mod policy;
pub mod profile;
pub mod record;
pub mod retry;
pub mod secret;
pub mod setting_limit;
pub mod settings;
pub mod size;
pub mod task;
pub mod trigger;
pub mod word;
