//! `secret rekey`: seals every secret under a new key, and forgets the old ones.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use crate::model::word::Exit;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "secret rekey",
    args: &[],
    rest: None,
    flags: &[],
    summary: "seal every secret under a new key",
    more: "Broken off, it is finished by the next one. Copies of the old keyring open nothing that is stored\n\
           from then on; an older backup of the state still needs the keyring of its own time.",
    body: rekey,
};

fn rekey(context: &Context, _: &Given) -> Result<Exit, Failure> {
    let client = context.client();
    let body = json!({"schema": "qinglong/keyring-rotation@v1", "mutationId": mutation::fresh()?.to_string()});
    let mut moved = 0;
    loop {
        let mut answer = client
            .send_patiently("POST", "/keyring/rotation", Some(&body))?
            .done("seal the secrets under a new key")?;
        moved += answer["moved"].as_i64().unwrap_or(0);
        if answer["status"] == "more" {
            if !context.json {
                note(&format!("qinglet: {moved} values sealed anew, {} to go", answer["remaining"]));
            }
            continue;
        }
        answer["moved"] = moved.into();
        if context.json {
            print_json(&answer)?;
        } else {
            print(&format!("sealed {moved} values anew; the keyring has one key\n"))?;
        }
        return Ok(Exit::Done);
    }
}
