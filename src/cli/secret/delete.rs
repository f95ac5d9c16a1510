//! `secret delete`: removes a secret with every version of its value.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::secret_name;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "secret delete",
    args: &["NAME"],
    rest: None,
    flags: &[],
    summary: "delete a secret; tasks that use it cannot start any more",
    more: "What is running already has its value and goes on.",
    body: delete,
};

fn delete(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let name = secret_name(given.arg(0))?;
    let client = context.client();
    let what = format!("delete the secret \"{name}\"");
    let found = client.get(&format!("/secrets/{name}"), &what)?;
    let body = json!({
        "schema": "qinglong/secret-deletion@v1",
        "mutationId": mutation::fresh()?.to_string(),
        "expectedCurrentVersion": found["secret"]["version"],
    });
    let answer = client.send_patiently("DELETE", &format!("/secrets/{name}"), Some(&body))?.done(&what)?;
    if context.json {
        print_json(&answer)?;
    } else {
        print(&format!("deleted secret {name}\n"))?;
    }
    Ok(Exit::Done)
}
