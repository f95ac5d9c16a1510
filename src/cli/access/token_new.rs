//! `access token new`: makes a token; the only moment its secret is shown.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::subject;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "access token new",
    args: &["SUBJECT"],
    rest: None,
    flags: &[Flag::later("expires", "TIME")],
    summary: "make a token for a subject and print it, once",
    more: "Keep it in a file that only you can read: umask 077; qinglet access token new alice > alice.token",
    body: Some(new),
};

fn new(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let who = subject(given.arg(0))?;
    let body = json!({
        "schema": "qinglong/credential@v1",
        "mutationId": mutation::fresh()?.to_string(),
        "subject": super::wire(&who),
    });
    let reply = context.client().send_patiently("POST", "/access/tokens", Some(&body))?;
    let answer = reply.done(&format!("make a token for {who}"))?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    let Some(token) = answer["token"].as_str() else {
        return Err(Failure::unavailable(
            "the token was made, but its answer was lost; list it with `qinglet access list`, revoke it and make another",
        ));
    };
    print(&format!("{token}\n"))?;
    note(&format!("this token of {who} is shown only now"));
    Ok(Exit::Done)
}
