//! Storing a trigger, pinned to its task as it is now.

use super::super::client::Client;
use super::super::failure::Failure;
use super::super::reply::Reply;
use super::super::{mutation, task};
use crate::model::name::Name;
use serde_json::{Value, json};

/// The wire's name for a trigger PUT.
const SCHEMA: &str = "qinglong/trigger-definition@v1";

/// Stores a trigger in place of `expected_revision`, or as a new one.
pub fn send(
    client: &Client,
    id: &Name,
    expected_revision: Option<i64>,
    of: &Name,
    spec: &Value,
    enabled: bool,
) -> Result<Reply, Failure> {
    let task = task::get(client, of, &format!("read task \"{of}\""))?;
    pinned(client, id, expected_revision, &task, spec, enabled)
}

/// The same with the task as it was read: its id, revision and digest.
pub fn pinned(
    client: &Client,
    id: &Name,
    expected_revision: Option<i64>,
    task: &Value,
    spec: &Value,
    enabled: bool,
) -> Result<Reply, Failure> {
    let body = json!({
        "schema": SCHEMA,
        "mutationId": mutation::fresh()?.to_string(),
        "expectedRevision": expected_revision,
        "taskId": task["taskId"],
        "taskRevision": task["revision"],
        "taskContentDigest": task["contentDigest"],
        "spec": spec,
        "enabled": enabled,
    });
    client.send_patiently("PUT", &super::path(id), Some(&body))
}
