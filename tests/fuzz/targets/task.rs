//! A task's definition: what is accepted is stored as one text with one digest, reads back as the same,
//! and compiles to the same bytes. What is refused does not repeat a value that may be a secret.

use qinglet::model::command::Command;
use qinglet::model::json;
use qinglet::model::limits::SPEC_BYTES_MAX;
use qinglet::model::name::Name;
use qinglet::model::task::{Compiled, Definition, TaskRef};
use serde_json::Value;
use std::collections::BTreeMap;

/// Stands in the values of the kept inputs.
const CANARY: &str = "hunter2";

pub fn run(data: &[u8]) {
    let Ok(value) = json::parse(data) else { return };
    // A whole definition or a spec alone.
    let spec = value.get("spec").unwrap_or(&value);
    match Command::from_spec(spec) {
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty());
            assert!(!said.contains(CANARY) || named(spec), "a value is repeated: {said}");
        }
        Ok(command) => accepted(&command, &value),
    }
}

fn accepted(command: &Command, value: &Value) {
    let spec = command.to_spec();
    assert!(spec.to_string().len() <= SPEC_BYTES_MAX);
    let Ok(again) = Command::from_spec(&spec) else { panic!("its own spec is refused: {spec}") };
    assert!(again == *command && again.to_spec() == spec, "the canonical form stays");
    assert!(command.argv().first().is_some_and(|program| program.starts_with('/')));
    assert!(command.argv().iter().all(|arg| !arg.contains('\0')));
    assert!(command.environment.is_sorted_by(|one, next| one.0 < next.0));

    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let labels = value.get("labels").and_then(Value::as_object).into_iter().flatten();
    let labels: BTreeMap<_, _> = labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect();
    let title = text("name").unwrap_or_else(|| "a".into());
    let enabled = value.get("enabled") != Some(&Value::Bool(false));
    let checked = Definition::check(title, text("description"), "command", &spec, labels, enabled);
    let Ok(definition) = checked else { return };
    let (project, task) = (name("default"), name("a"));
    let stored = definition.canonical(&project, &task, 7);
    let read = Definition::from_canonical(&stored, &project, &task, 7).expect("what is stored reads back");
    assert!(read == definition);
    assert_eq!(Definition::digest(&read.canonical(&project, &task, 7)), Definition::digest(&stored));
    assert!(Definition::from_canonical(&stored, &project, &task, 8).is_none(), "only as its own revision");

    let task_ref = TaskRef { revision: 7, digest: Definition::digest(&stored) };
    assert_eq!(TaskRef::parse(&task_ref.to_string()), Some(task_ref));
    let compiled = Compiled::new(command, &project, &task, task_ref);
    assert!(
        compiled.to_command(&project, &task, task_ref).as_ref() == Some(command),
        "what is launched is what was put"
    );
}

pub fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

/// Whether the canary has got to where it is a name and no value.
fn named(value: &Value) -> bool {
    let is = |text: &str| text.contains(CANARY);
    match value {
        Value::Object(entries) => entries.iter().any(|(key, value)| {
            is(key) || (matches!(key.as_str(), "name" | "kind") && value.as_str().is_some_and(is)) || named(value)
        }),
        Value::Array(items) => items.iter().any(named),
        _ => false,
    }
}
