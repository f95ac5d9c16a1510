//! Linux: launching, supervising, identifying and stopping processes, and the files they leave.
//!
//! Knows no states and no SQL. Two processes share this code: the daemon, and the shim that it makes of
//! its own binary. `unsafe` stays in the leaf files here, one system call or two at a time.

pub mod account;
pub mod adopted;
pub mod cgroup;
pub mod clock;
pub mod crash;
mod fact;
mod fd;
mod fork;
pub mod handle;
pub mod identity;
pub mod launch;
pub mod log;
pub mod machine;
mod memory;
pub mod open_path;
pub mod orders;
mod own;
pub mod pidfd;
pub mod poll;
mod private;
pub mod probe;
pub mod publish;
pub mod published;
pub mod reap;
pub mod receipt;
pub mod room;
#[cfg(test)]
mod scratch;
pub mod shim;
pub mod signals;
pub mod stat;
mod step;
pub mod stop;
pub mod sweep;
mod text;
pub mod timer;
mod tree;
mod wait;
pub mod wake;
mod weight;

/// No core dump of this process, and no look into its memory by others of the same user (prctl(2),
/// `PR_SET_DUMPABLE`). What it starts does not inherit that.
pub fn keep_memory_private() -> std::io::Result<()> {
    own::become_undumpable()
}
