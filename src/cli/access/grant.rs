//! `access grant`: gives a subject a role.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::super::nearest::nearest;
use super::subject;
use crate::model::policy::Role;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "access grant",
    args: &["SUBJECT", "ROLE"],
    rest: None,
    flags: &[],
    summary: "give a subject a role: owner, admin, operator or viewer",
    more: "viewer looks; operator also defines, starts and stops tasks; admin also deletes tasks and manages\n\
           access; owner also gives and takes the owner role. Who becomes an owner needs a new token: those there\n\
           were end.",
    body: grant,
};

fn grant(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let who = subject(given.arg(0))?;
    let word = given.arg(1);
    let role = Role::parse(word).ok_or_else(|| {
        let near = nearest(word, Role::ALL.map(Role::word)).unwrap_or_default();
        Failure::usage(format!("there is no role \"{}\"; the nearest is {near}", word.escape_debug()))
    })?;
    let body = json!({
        "schema": super::BINDING,
        "mutationId": mutation::fresh()?.to_string(),
        "subject": super::wire(&who),
        "role": role.word(),
    });
    let reply = context.client().send_patiently("PUT", "/access", Some(&body))?;
    let answer = reply.done(&format!("make {who} {}", role.word()))?;
    if context.json {
        print_json(&answer)?;
    } else {
        let state = context.state_option();
        print(&format!("{who} is {} now; `qinglet {state}access token new {who}` makes a token\n", role.word()))?;
    }
    Ok(Exit::Done)
}
