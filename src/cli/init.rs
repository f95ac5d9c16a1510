//! `init`: makes or migrates the state and its first owner. Works with no daemon running.

use super::args::Given;
use super::command::{Command, Flag};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use crate::access::bootstrap::OwnerState;
use crate::model::word::Exit;
use crate::runtime::{self, KeyringState, Report};
use crate::store::open::Initialised;

/// The command.
pub const COMMAND: Command = Command {
    words: "init",
    args: &[],
    rest: None,
    flags: &[Flag::switch("reissue-owner", "make a new owner token and end the older ones")],
    summary: "create or migrate the state folder; may be repeated",
    more: "The first time it also makes the owner and writes the owner's token to <state>/owner.token.\n\
           The daemon must not be running.",
    body: init,
};

fn init(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let reissue = given.has("reissue-owner");
    let report = runtime::init(&context.state, reissue).map_err(Failure::unavailable)?;
    let state = context.state.display();
    if context.json {
        let (store, owner) = (store_word(&report), owner_word(&report));
        print_json(&serde_json::json!({"state": state.to_string(), "store": store, "owner": owner}))?;
        return Ok(Exit::Done);
    }
    let store = match &report.store {
        Initialised::Created => "State created in".to_owned(),
        Initialised::Migrated { copy } => {
            format!("State brought up to date (the old store is kept as {}) in", copy.display())
        }
        Initialised::Unchanged => "State is up to date in".to_owned(),
    };
    print(&format!("{store} {state}.\n"))?;
    let token = format!("{state}/owner.token");
    print(&match report.owner {
        None => format!("The owner's new token is in {token}; the older ones no longer work.\n"),
        Some(OwnerState::Made | OwnerState::Finished) => format!("The owner's token is in {token}; keep it private.\n"),
        Some(OwnerState::Existing { token_file: true }) => format!("There is an owner; the token is in {token}.\n"),
        Some(OwnerState::Existing { token_file: false }) => format!(
            "There is an owner, but {token} is gone; `qinglet {}init --reissue-owner` makes a new token.\n",
            context.state_option()
        ),
    })?;
    if report.keyring == KeyringState::Missing {
        note(&format!(
            "qinglet: {state}/keyring is missing and stored secrets need it: restore it from a backup, or delete those \
             secrets, run this again and set them anew"
        ));
    }
    Ok(Exit::Done)
}

fn store_word(report: &Report) -> &'static str {
    match &report.store {
        Initialised::Created => "created",
        Initialised::Migrated { .. } => "migrated",
        Initialised::Unchanged => "unchanged",
    }
}

fn owner_word(report: &Report) -> &'static str {
    match report.owner {
        None => "reissued",
        Some(OwnerState::Made) => "made",
        Some(OwnerState::Finished) => "finished",
        Some(OwnerState::Existing { .. }) => "existing",
    }
}
