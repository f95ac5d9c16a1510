//! `backup`: the state in one file. Asks the daemon, or copies by itself when none runs.

use super::args::Given;
use super::client::{Client, Pause};
use super::command::{Command, Flag};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use super::mutation;
use super::table::printable;
use crate::http::backups::{DELETE_SCHEMA, SCHEMA};
use crate::model::word::Exit;
use crate::runtime::backup::{Pieces, Progress, Unserved, not_copied, write};
use crate::runtime::backup_file::{Draft, NotWritten};
use base64ct::{Base64, Encoding as _};
use serde_json::json;
use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

/// The command.
pub const COMMAND: Command = Command {
    words: "backup",
    args: &["FILE"],
    rest: None,
    flags: &[
        Flag::switch("with-keyring", "the keys of secrets too; whoever has the file then has the secrets"),
        Flag::switch("force", "replace a file that is there"),
    ],
    summary: "copy the state into one file",
    more: "The file holds the database as it is at the end of the copying, and what tokens are checked with,\n\
           so that they go on working after `qinglet restore FILE`. Logs are not in it, nor is any token. Keep it\n\
           private all the same. Works while the daemon serves (role owner) and with none running.",
    body: backup,
};

fn backup(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let (target, replace) = (Path::new(given.arg(0)), given.has("force"));
    let with_keyring = given.has("with-keyring");
    let bar = Bar::new();
    let draft = Draft::begin(target, replace).map_err(failure)?;
    let client = context.client();
    let made = if client.is_served() {
        let mut served = Served::copy(&client, &|done, total| bar.show("copying", done, total))?;
        let made = write(&context.state, draft, replace, with_keyring, &mut served, &|done, total| {
            bar.show("reading", done, total);
        });
        served.let_go();
        match served.trouble.take() {
            Some(trouble) => Err(trouble),
            None => made.map_err(failure),
        }
    } else {
        let copied = Unserved::copy(&context.state, &draft, &|done, total| bar.show("copying", done, total));
        let mut unserved = copied.map_err(failure)?;
        let made = write(&context.state, draft, replace, with_keyring, &mut unserved, &|done, total| {
            bar.show("writing", done, total);
        });
        made.map_err(failure)
    };
    bar.clear();
    let made = made?;
    if context.json {
        print_json(&json!({"backup": {
            "file": target.to_string_lossy(), "bytes": made.bytes, "sha256": made.sha256, "keyIds": made.key_ids,
            "withKeyring": made.with_keyring,
        }}))?;
        return Ok(Exit::Done);
    }
    print(&format!("{}: {} bytes, read back and checked.\n", printable(&target.to_string_lossy()), made.bytes))?;
    if !made.with_keyring && !made.key_ids.is_empty() {
        note(&format!(
            "qinglet: the keys of the secrets are not in it; keep a copy of {}/keyring somewhere else, or use --with-keyring",
            context.state.display()
        ));
    }
    Ok(Exit::Done)
}

fn failure(error: NotWritten) -> Failure {
    match error {
        NotWritten::Refused(why) => Failure::refused(format!("cannot make the backup: {why}")),
        NotWritten::Failed(why) => Failure::unavailable(format!("cannot make the backup: {why}")),
    }
}

/// A copy that a daemon has made, as pieces.
struct Served<'a> {
    client: &'a Client,
    id: String,
    offset: u64,
    total: u64,
    sha256: Option<String>,
    /// What the daemon said, in its own words.
    trouble: Option<Failure>,
}

impl<'a> Served<'a> {
    /// Asks for a copy and waits until it is there.
    fn copy(client: &'a Client, progress: Progress<'_>) -> Result<Self, Failure> {
        let what = "make the backup";
        let body = json!({"schema": SCHEMA, "mutationId": mutation::fresh()?.to_string()});
        let mut answer = client.send_patiently("POST", "/backups", Some(&body))?.done(what)?;
        let id = answer["backup"]["id"].as_str().unwrap_or("").to_owned();
        let mut pause = Pause::new();
        loop {
            let backup = &answer["backup"];
            let number = |name: &str| backup[name].as_u64().unwrap_or(0);
            match backup["status"].as_str() {
                Some("ready") => {
                    let total = number("totalBytes");
                    return Ok(Self { client, id, offset: 0, total, sha256: None, trouble: None });
                }
                Some("failed") => return Err(failure(not_copied(backup["reason"].as_str().unwrap_or("")))),
                _ => progress(number("copiedBytes"), number("totalBytes")),
            }
            pause.wait();
            answer = client.send_patiently("GET", &format!("/backups/{id}"), None)?.done(what)?;
        }
    }

    fn piece(&mut self) -> Result<Vec<u8>, Failure> {
        let path = format!("/backups/{}/content?offset={}", self.id, self.offset);
        let answer = self.client.send_patiently("GET", &path, None)?.done("read the backup")?;
        let bytes = answer["content"].as_str().and_then(|text| Base64::decode_vec(text).ok());
        let fits = answer["start"] == json!(self.offset) && answer["totalBytes"] == json!(self.total);
        let bytes = bytes.filter(|_| fits).ok_or_else(|| Failure::unavailable("the daemon's piece cannot be read"))?;
        self.offset += bytes.len() as u64;
        self.sha256 = answer["sha256"].as_str().map(str::to_owned);
        Ok(bytes)
    }

    /// Tells the daemon that the copy is not needed any more. It finds out by itself, later.
    fn let_go(&self) {
        let _ = self.client.send("DELETE", &format!("/backups/{}", self.id), Some(&json!({"schema": DELETE_SCHEMA})));
    }
}

impl Pieces for Served<'_> {
    fn next(&mut self) -> Result<Vec<u8>, NotWritten> {
        if self.offset >= self.total {
            return Ok(Vec::new());
        }
        self.piece().map_err(|trouble| {
            self.trouble = Some(trouble);
            NotWritten::Failed(String::new())
        })
    }

    fn total_bytes(&self) -> u64 {
        self.total
    }

    fn sha256(&self) -> Option<String> {
        self.sha256.clone()
    }
}

/// How far long work is, on a terminal.
struct Bar {
    shown: bool,
    percent: Cell<u64>,
}

impl Bar {
    fn new() -> Self {
        Self { shown: io::stderr().is_terminal(), percent: Cell::new(u64::MAX) }
    }

    fn show(&self, what: &str, done: u64, total: u64) {
        let percent = done.saturating_mul(100) / total.max(1);
        if self.shown && self.percent.replace(percent) != percent {
            let _ = write!(io::stderr().lock(), "\r{what} {percent:3} %");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
