//! `init`: makes or migrates the state and its first owner. Works with no daemon running.

use super::args::Given;
use super::command::{Command, Flag};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use super::time::now_ms;
use crate::access::bootstrap::{self, BootstrapError, OwnerState};
use crate::model::limits::EDGE;
use crate::model::word::Exit;
use crate::store::Store;
use crate::store::open::{self, Initialised, Options};
use crate::store::state::{StateDir, StateError};
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "init",
    args: &[],
    rest: None,
    flags: &[Flag::switch("reissue-owner", "make a new owner token and end the older ones")],
    summary: "create or migrate the state folder; may be repeated",
    more: "The first time it also makes the owner and writes the owner's token to <state>/owner.token.\n\
           The daemon must not be running.",
    body: Some(init),
};

/// The commands that use the store themselves open it with the smaller profile's cache.
const OPTIONS: Options = Options { limits: &EDGE, clock_ms: now_ms, vfs: None };

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl From<BootstrapError> for Failure {
    fn from(error: BootstrapError) -> Self {
        Self::unavailable(error.to_string())
    }
}

fn init(context: &Context, given: &Given) -> Result<Exit, Failure> {
    if given.has("reissue-owner") {
        return reissue(context);
    }
    let state = StateDir::create(&context.state)?;
    let lock = state.lock("init")?;
    let done = open::init(&state, &lock, &OPTIONS)?;
    let store = Store::start(&state, &lock, OPTIONS)?;
    let owner = first_owner(&state, &store);
    store.close();
    let owner = owner?;
    let token = state.owner_token_path().display().to_string();
    if context.json {
        print_json(&json!({
            "status": match done {
                Initialised::Created => "created",
                Initialised::Migrated { .. } => "migrated",
                Initialised::Unchanged => "unchanged",
            },
            "owner": match owner {
                OwnerState::Made | OwnerState::Finished => "created",
                OwnerState::Existing { .. } => "existing",
            },
            "state": state.path().display().to_string(),
            "tokenFile": token,
        }))?;
        return Ok(Exit::Done);
    }
    let folder = state.path().display();
    print(&match done {
        Initialised::Created => format!("made the state at {folder}\n"),
        Initialised::Migrated { copy } => {
            format!("brought the state at {folder} up to date; the old store is kept as {}\n", copy.display())
        }
        Initialised::Unchanged => format!("the state at {folder} is up to date\n"),
    })?;
    match owner {
        OwnerState::Made | OwnerState::Finished => print(&format!("made the owner; the token is in {token}\n"))?,
        OwnerState::Existing { token_file: true } => {}
        OwnerState::Existing { token_file: false } => {
            let option = context.state_option();
            note(&format!("the owner's token is not at {token}; `qinglet {option}init --reissue-owner` makes another"));
        }
    }
    Ok(Exit::Done)
}

/// Works on a state that is there and up to date only: it must never make one by a mistyped path.
fn reissue(context: &Context) -> Result<Exit, Failure> {
    let state = StateDir::open(&context.state)?;
    let lock = state.lock("init")?;
    let store = Store::start(&state, &lock, OPTIONS)?;
    let done = new_owner_token(&state, &store);
    store.close();
    done?;
    let token = state.owner_token_path().display().to_string();
    if context.json {
        print_json(&json!({"status": "reissued", "tokenFile": token}))?;
    } else {
        print(&format!("made a new owner token in {token}; older ones work for nobody any more\n"))?;
    }
    Ok(Exit::Done)
}

#[cfg(not(debug_assertions))]
fn first_owner(state: &StateDir, store: &Store) -> Result<OwnerState, BootstrapError> {
    bootstrap::init_owner(state, store)
}

#[cfg(not(debug_assertions))]
fn new_owner_token(state: &StateDir, store: &Store) -> Result<(), BootstrapError> {
    bootstrap::reissue_owner(state, store)
}

#[cfg(debug_assertions)]
fn first_owner(state: &StateDir, store: &Store) -> Result<OwnerState, BootstrapError> {
    bootstrap::init_owner_at(state, store, &crash_at)
}

#[cfg(debug_assertions)]
fn new_owner_token(state: &StateDir, store: &Store) -> Result<(), BootstrapError> {
    bootstrap::reissue_owner_at(state, store, &crash_at)
}

/// Ends the process on the spot after the step a test names.
#[cfg(debug_assertions)]
fn crash_at(step: &'static str) {
    if std::env::var_os("QINGLET_CRASH_AT").is_some_and(|wanted| wanted == step) {
        std::process::abort();
    }
}
