//! `access token revoke`: ends a token.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use crate::model::name::Name;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "access token revoke",
    args: &["ID"],
    rest: None,
    flags: &[],
    summary: "end a token; `access list` shows the ids",
    more: "",
    body: revoke,
};

fn revoke(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let typed = given.arg(0);
    // A pasted token is not echoed.
    let id = Name::parse(typed)
        .filter(|_| !typed.starts_with("ql3c_"))
        .ok_or_else(|| Failure::usage("this is not a token's id; `qinglet access list` shows the ids"))?;
    let body = json!({
        "schema": "qinglong/credential-revocation@v1",
        "mutationId": mutation::fresh()?.to_string(),
    });
    let reply = context.client().send_patiently("POST", &format!("/access/tokens/{id}/revocation"), Some(&body))?;
    let answer = reply.done(&format!("revoke token {id}"))?;
    if context.json {
        print_json(&answer)?;
    } else {
        print(&format!("token {id} works for nobody any more\n"))?;
    }
    Ok(Exit::Done)
}
