//! Looking at evidence, and settling what nobody can decide, while no daemon runs.

pub use crate::execution::evidence::{Evidence, Objection};
pub use crate::execution::inspect::FIRST as FIRST_STEP;
use crate::execution::inspect::{Inspector, Step};
use crate::execution::linux::{LogFiles, StateFiles, Witness};
use crate::model::id::{MutationId, RunId};
use crate::model::limits::{EDGE, RECOVERY_CANDIDATES_MAX};
use crate::model::name::Name;
use crate::process::clock;
use crate::process::log::LogStore;
use crate::process::receipt::ReceiptStore;
use crate::store::evidence::ReadEvidence;
use crate::store::open::Options;
use crate::store::resolve::{ResolveRun, Resolved, Resolver};
use crate::store::start::ListInFlight;
use crate::store::state::{StateDir, StateError, StateLock};
use crate::store::{Store, StoreError};
use std::path::{Path, PathBuf};

/// A state that no daemon serves, held so that none begins to meanwhile. Every error is a sentence.
pub struct Unserved {
    store: Store,
    look: Witness,
    logs: LogFiles,
    files: StateFiles,
    keyring: PathBuf,
    /// Everything that is stored was seen.
    is_whole: bool,
    _lock: StateLock,
}

impl Unserved {
    /// Takes the state's lock and opens its store as it is.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::with(path, None, |state, lock, options| Store::start(state, lock, options).map(|store| (store, true)))
    }

    /// The same only to look: nothing of it is changed.
    pub fn look(path: &Path, logs: &Path) -> Result<Self, String> {
        Self::with(path, Some(logs), Store::look)
    }

    fn with(
        path: &Path,
        logs: Option<&Path>,
        open: impl FnOnce(&StateDir, &StateLock, Options) -> Result<(Store, bool), StateError>,
    ) -> Result<Self, String> {
        let mut state = StateDir::open(path).map_err(|e| e.to_string())?;
        if let Some(logs) = logs {
            state.find_logs(logs).map_err(|e| e.to_string())?;
        }
        let lock = state.lock("check").map_err(|e| e.to_string())?;
        // The profile's sizes do not change what is stored.
        let options = Options { limits: &EDGE, clock_ms: clock::wall_ms, vfs: None };
        let (store, is_whole) = open(&state, &lock, options).map_err(|e| e.to_string())?;
        let receipts = ReceiptStore::new(state.receipts_dir());
        let logs = LogStore::new(state.logs_dir());
        Ok(Self {
            store,
            look: Witness(receipts.clone()),
            logs: LogFiles(logs.clone()),
            keyring: state.keyring_path(),
            files: StateFiles { state, logs, receipts },
            is_whole,
            _lock: lock,
        })
    }

    /// Whether everything that is stored was seen. Not when a killed daemon left a journal and there is no
    /// space to play it in elsewhere.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Does one step of looking the state through. `None`: there is none of this name.
    pub fn step(&self, name: &str) -> Option<Step> {
        let (store, logs, files, keyring) = (&self.store, &self.logs, &self.files, self.keyring.as_path());
        Inspector { store, logs, files, keyring, is_served: false }.step(name)
    }

    /// The evidence of one Run; `None`: there is no such Run.
    pub fn evidence(&self, run: RunId) -> Result<Option<Evidence>, String> {
        let stored = self.store.call(ReadEvidence { project: Name::default_project(), run });
        let stored = stored.map_err(|e| unreadable(&e))?;
        Ok(stored.map(|stored| Evidence::gather(stored, &self.look, None, false)))
    }

    /// The evidence of every Run that is under way in the store, by Run, at most 256.
    pub fn under_way(&self) -> Result<Vec<Evidence>, String> {
        let list = ListInFlight { limit: RECOVERY_CANDIDATES_MAX };
        let (runs, _) = self.store.call(list).map_err(|e| unreadable(&e))?;
        let all = runs.into_iter().map(|run| self.evidence(run.run));
        all.filter_map(Result::transpose).collect()
    }

    /// Calls a Run lost whose evidence was looked at and does not object.
    pub fn resolve(&self, evidence: &Evidence, mutation: MutationId) -> Result<Resolved, String> {
        let (run, version) = (evidence.stored.run.id, evidence.stored.run.version);
        let done = self.store.call(ResolveRun { by: Resolver::Local, run, mutation, version });
        done.map_err(|e| format!("the run was not settled: the store says {e:?}"))
    }
}

impl Drop for Unserved {
    fn drop(&mut self) {
        self.store.close();
    }
}

fn unreadable(error: &StoreError) -> String {
    format!("the store could not be read ({error:?})")
}
