//! A process's durable name. What is read may be signalled, so only the one canonical text is one.

use qinglet::model::limits::HANDLE_BYTES_MAX;
use qinglet::process::handle::Handle;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some(handle) = Handle::parse(text) else { return };
    assert_eq!(handle.to_string(), text);
    assert!(text.len() <= HANDLE_BYTES_MAX && text.is_ascii());
    assert!(handle.pid > 1 && handle.pgid > 1, "never a group, never process 1");
    for other in [format!("{text} "), format!(" {text}"), format!("{text}."), text.to_uppercase()] {
        assert_eq!(Handle::parse(&other), None, "{other:?}");
    }
}
