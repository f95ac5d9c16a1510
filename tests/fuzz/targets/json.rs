//! The strict JSON reader against the lenient one: whatever it takes the other takes as the same value.

use qinglet::model::json;
use qinglet::model::limits::{JSON_DEPTH_MAX, JSON_ENTRIES_MAX, JSON_NODES_MAX, JSON_STRING_BYTES_MAX};
use serde_json::Value;

pub fn run(data: &[u8]) {
    let Ok(value) = json::parse(data) else { return };
    assert_eq!(serde_json::from_slice::<Value>(data).ok().as_ref(), Some(&value));
    let text = json::canonical(&value);
    assert!(text.len() <= data.len(), "nothing is shorter than the canonical text");
    assert_eq!(json::parse(text.as_bytes()).ok().as_ref(), Some(&value));
    let mut nodes = 0;
    bounded(&value, 0, &mut nodes);
    assert!(nodes <= JSON_NODES_MAX);
}

fn bounded(value: &Value, depth: usize, nodes: &mut usize) {
    *nodes += 1;
    assert!(depth <= JSON_DEPTH_MAX);
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => assert!(number.is_i64() || number.is_u64(), "only whole numbers"),
        Value::String(text) => assert!(text.len() <= JSON_STRING_BYTES_MAX),
        Value::Array(items) => {
            assert!(items.len() <= JSON_ENTRIES_MAX);
            for item in items {
                bounded(item, depth + 1, nodes);
            }
        }
        Value::Object(entries) => {
            assert!(entries.len() <= JSON_ENTRIES_MAX);
            for item in entries.values() {
                bounded(item, depth + 1, nodes);
            }
        }
    }
}
