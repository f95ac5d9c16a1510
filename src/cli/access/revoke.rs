//! `access revoke`: takes a subject's role away.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::subject;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "access revoke",
    args: &["SUBJECT"],
    rest: None,
    flags: &[],
    summary: "take a subject's role away",
    more: "Its tokens prove who it is, and that it may do nothing; given a role again, they work again. The last\n\
           owner stays.",
    body: revoke,
};

fn revoke(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let who = subject(given.arg(0))?;
    let body = json!({
        "schema": super::BINDING,
        "mutationId": mutation::fresh()?.to_string(),
        "subject": super::wire(&who),
        "role": null,
    });
    let reply = context.client().send_patiently("PUT", "/access", Some(&body))?;
    let answer = reply.done(&format!("revoke the role of {who}"))?;
    if context.json {
        print_json(&answer)?;
    } else {
        print(&format!("{who} has no role any more\n"))?;
    }
    Ok(Exit::Done)
}
