//! The daemon's children: one table, one reaper (design D4).
//!
//! The launcher enters a child under the table's lock around the fork, so no child is ever unknown;
//! while it holds one, its number cannot be freed and given to another process. Children that are not
//! in the table (the daemon may be process 1) are freed and forgotten, never mistaken for ours.

use super::signals;
use super::wait::{self, Waited};
use crate::model::id::AttemptId;
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy)]
struct Child {
    attempt: AttemptId,
    /// The launcher still needs its number to mean this process.
    held: bool,
}

/// The table; shared by the launcher and the control loop.
#[derive(Default)]
pub struct Children(Mutex<HashMap<i32, Child>>);

impl Children {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<i32, Child>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forks and enters the child, held, before anybody can look.
    pub(super) fn enter(&self, attempt: AttemptId, fork: impl FnOnce() -> io::Result<i32>) -> io::Result<i32> {
        let mut table = self.table();
        let pid = fork()?;
        table.insert(pid, Child { attempt, held: true });
        Ok(pid)
    }

    /// The launcher is done with a child. Should it have ended meanwhile, its SIGCHLD was in vain, so
    /// another one follows.
    pub(super) fn let_go(&self, pid: i32) {
        if let Some(child) = self.table().get_mut(&pid) {
            child.held = false;
        }
        if wait::peek_one(pid) {
            let _ = signals::send(std::process::id() as i32, libc::SIGCHLD);
        }
    }

    /// Frees a held child that has ended and takes it out; `false` while it lives.
    pub(super) fn free(&self, pid: i32) -> bool {
        let mut table = self.table();
        match wait::one(pid) {
            Ok(Waited::Alive) | Err(_) => false,
            Ok(Waited::Gone(..) | Waited::Childless) => {
                table.remove(&pid);
                true
            }
        }
    }

    /// Frees what has ended and names the Attempts, each once. To be called on every SIGCHLD. It only
    /// names them: how they ended is in their receipts.
    pub fn reap(&self) -> Vec<AttemptId> {
        let mut table = self.table();
        let mut ended = Vec::new();
        table.retain(|pid, child| {
            let gone = !child.held && !matches!(wait::one(*pid), Ok(Waited::Alive) | Err(_));
            if gone {
                ended.push(child.attempt);
            }
            !gone
        });
        while let Some(pid) = wait::peek() {
            if table.contains_key(&pid) || !matches!(wait::one(pid), Ok(Waited::Gone(..))) {
                break;
            }
        }
        ended
    }

    /// How many children there are.
    pub fn count(&self) -> usize {
        self.table().len()
    }
}
