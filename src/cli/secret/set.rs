//! `secret set`: stores a value that tasks may use. It comes from the standard input, never from the
//! command line, where every process could read it.

use super::super::args::Given;
use super::super::command::Command;
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::mutation;
use super::secret_name;
use crate::model::limits::{REDACT_BYTES_MIN, SECRET_BYTES_MAX};
use crate::model::word::Exit;
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Read as _, stdin};
use zeroize::{Zeroize as _, Zeroizing};

/// The command.
pub const COMMAND: Command = Command {
    words: "secret set",
    args: &["NAME"],
    rest: None,
    flags: &[],
    summary: "store a secret for tasks, its value from the standard input",
    more: "One newline at the end is not part of the value. A task gets it by `task add --secret-env`,\n\
           and the new value with its next start:\n\n  \
           printf %s \"$PASSWORD\" | qinglet secret set db\n  \
           qinglet secret set wifi < /root/wifi.txt",
    body: set,
};

fn set(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let name = secret_name(given.arg(0))?;
    let client = context.client();
    let what = format!("set the secret \"{name}\"");
    let found = client.send("GET", &format!("/secrets/{name}"), None)?;
    let current = match found.status {
        404 => 0,
        _ => found.done(&what)?["secret"]["version"].as_i64().unwrap_or(0),
    };
    let value = read_value()?;
    let mut body = json!({
        "schema": "qinglong/secret@v1",
        "mutationId": mutation::fresh()?.to_string(),
        "name": name.as_str(),
        "plaintext": value.as_str(),
        "expectedCurrentVersion": current,
    });
    let reply = client.send_patiently("PUT", "/secrets", Some(&body));
    if let Some(Value::String(plaintext)) = body.get_mut("plaintext") {
        plaintext.zeroize();
    }
    let answer = reply?.done(&what)?;
    if context.json {
        print_json(&answer)?;
        return Ok(Exit::Done);
    }
    if value.len() < REDACT_BYTES_MIN {
        note(&format!(
            "qinglet: it is shorter than {REDACT_BYTES_MIN} bytes: a task that prints it shows it in its log"
        ));
    }
    let version = answer["secret"]["version"].as_i64().unwrap_or(0);
    let state = context.state_option();
    let hint = if version == 1 {
        format!("; use it with `qinglet {state}task add ID --secret-env NAME={name} ...`")
    } else {
        String::new()
    };
    print(&format!("set secret {name}, version {version}{hint}\n"))?;
    Ok(Exit::Done)
}

fn read_value() -> Result<Zeroizing<String>, Failure> {
    if stdin().is_terminal() {
        note("qinglet: type the value, then Enter and Ctrl-D; it is shown while you type");
    }
    // Room for the longest at once, so that no copy is left behind by a growing buffer.
    let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_BYTES_MAX + 64));
    let read = stdin().lock().take(SECRET_BYTES_MAX as u64 + 2).read_to_end(&mut bytes);
    read.map_err(|e| Failure::usage(format!("the value could not be read from the standard input: {e}")))?;
    bytes.pop_if(|last| *last == b'\n');
    if bytes.is_empty() {
        return Err(Failure::usage(
            "there is no value on the standard input; give it like `qinglet secret set NAME < FILE`",
        ));
    }
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(Failure::usage(format!(
            "the value is longer than {SECRET_BYTES_MAX} bytes, the most a variable can hold"
        )));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains('\0') => {
            Err(Failure::usage("the value holds a NUL byte, which no variable can hold"))
        }
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(Failure::usage(
            "the value is not UTF-8 text; encode it, for instance with `base64`, and decode it in the task",
        )),
    }
}
