//! JSON values as table cells.

use super::time::rfc3339;
use serde_json::Value;

/// A value as text; `-` for what is not there.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Epoch milliseconds as a time for people; `-` for what is not there.
pub fn time(value: &Value) -> String {
    value.as_i64().map_or_else(|| "-".into(), rfc3339)
}

/// A subject `{type, id}` as the command line writes it; `-` for what is not there.
pub fn subject_cell(value: &Value) -> String {
    match (value["type"].as_str(), value["id"].as_str()) {
        (Some(kind), Some(id)) => format!("{kind}:{id}"),
        _ => "-".into(),
    }
}
