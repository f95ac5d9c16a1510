//! Storing a task definition, and turning one that was read back into one that can be stored.

use super::super::client::Client;
use super::super::failure::Failure;
use super::super::mutation;
use super::super::reply::Reply;
use crate::model::task::Definition;
use crate::model::{command, name::Name};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The wire's name for a task PUT.
pub const SCHEMA: &str = "qinglong/task-definition@v1";

/// Checks a definition given as the wire's fields. Here, so that a mistake is named even when no
/// daemon runs; the daemon checks again.
pub fn check(fields: &Value) -> Result<Definition, Failure> {
    let text = |field: &str| match &fields[field] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        _ => Err(Failure::usage(format!("{field}: must be a string"))),
    };
    let mut labels = BTreeMap::new();
    match &fields["labels"] {
        Value::Null => {}
        Value::Object(map) => {
            for (name, value) in map {
                let Some(value) = value.as_str() else {
                    return Err(Failure::usage(format!("labels.{}: must be a string", name.escape_debug())));
                };
                labels.insert(name.clone(), value.to_owned());
            }
        }
        _ => return Err(Failure::usage("labels: must be an object of strings")),
    }
    let enabled = match &fields["enabled"] {
        Value::Null => true,
        Value::Bool(enabled) => *enabled,
        _ => return Err(Failure::usage("enabled: must be true or false")),
    };
    let title = text("name")?.ok_or_else(|| Failure::usage("name: must be a string"))?;
    let kind = text("kind")?.unwrap_or_else(|| command::KIND.to_owned());
    Definition::check(title, text("description")?, &kind, &fields["spec"], labels, enabled)
        .map_err(|error| Failure::usage(error.to_string()))
}

/// Stores a definition in place of `expected_revision`, or as a new task.
pub fn send(
    client: &Client,
    task: &Name,
    expected_revision: Option<i64>,
    definition: &Definition,
) -> Result<Reply, Failure> {
    let mut body = json!({
        "schema": SCHEMA,
        "mutationId": mutation::fresh()?.to_string(),
        "expectedRevision": expected_revision,
        "name": definition.title,
        "kind": command::KIND,
        "spec": definition.command.to_spec(),
        "labels": definition.labels,
        "enabled": definition.enabled,
        "repinTriggers": true,
    });
    if let Some(description) = &definition.description {
        body["description"] = description.as_str().into();
    }
    client.send_patiently("PUT", &super::path(task), Some(&body))
}
