//! `restore`: a backup becomes the state. No daemon may run.

use super::args::Given;
use super::command::{Command, Flag, LOGS};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use super::time::rfc3339;
use crate::model::word::Exit;
use crate::runtime::restore::{NotRestored, Restored, Wanted, restore};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;

/// The command.
pub const COMMAND: Command = Command {
    words: "restore",
    args: &["FILE"],
    rest: None,
    flags: &[
        Flag::switch("force", "put a state that is there aside; it is kept under another name"),
        Flag::value("keyring", "FILE", "the keys of secrets, for a backup without them"),
        LOGS,
    ],
    summary: "make a backup the state again",
    more: "The daemon must not be running. The backup is read through first: its digest, every page, every\n\
           reference, its version. Runs that were active in it are lost once the daemon starts; runs that waited\n\
           start. Logs are not in a backup; those in a log folder outside of the state stay. A crash leaves the old state or the new one, whole.",
    body,
};

fn body(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let logs = context.logs(given)?;
    let wanted = Wanted {
        state: &context.state,
        logs: &logs,
        file: Path::new(given.arg(0)),
        force: given.has("force"),
        keyring: given.path("keyring").map(Path::new),
    };
    let restored = restore(&wanted).map_err(|error| match error {
        NotRestored::Refused(why) => Failure::refused(format!("cannot restore: {why}")),
        NotRestored::Failed(why) => Failure::unavailable(format!("cannot restore: {why}")),
    })?;
    if context.json {
        print_json(&json!({"restored": {
            "state": context.state.to_string_lossy(),
            "aside": restored.aside.as_ref().map(|aside| aside.to_string_lossy()),
            "migrated": restored.migrated,
            "madeAtMs": restored.made_at_ms,
            "missingKeys": restored.missing_keys,
            "ownerToken": restored.owner_token,
        }}))?;
        return Ok(Exit::Done);
    }
    print(&text(context, &restored))?;
    if !restored.missing_keys.is_empty() {
        note(&format!(
            "qinglet: the secrets need keys that are not in the backup ({}): put their keyring to {}/keyring (mode 0600), or \
             delete the secrets, run `qinglet {}init` and set them anew",
            restored.missing_keys.join(", "),
            context.state.display(),
            context.state_option()
        ));
    }
    Ok(Exit::Done)
}

fn text(context: &Context, restored: &Restored) -> String {
    let (state, option) = (context.state.display(), context.state_option());
    let mut text = format!("{state} is as it was at {}.\n", rfc3339(restored.made_at_ms));
    // Writing to a String cannot fail.
    if let Some(aside) = &restored.aside {
        let _ = writeln!(text, "The state that was there is kept as {}.", aside.display());
    }
    if restored.migrated {
        text += "It was of an older version and was brought up to date; the store as it was is kept beside it.\n";
    }
    let _ = if restored.owner_token {
        write!(text, "The owner's token is in {state}/owner.token. ")
    } else {
        write!(
            text,
            "Tokens work as before; if you have none, `qinglet {option}init --reissue-owner` makes a new one. "
        )
    };
    let _ = writeln!(text, "Now: qinglet {option}serve");
    text
}
