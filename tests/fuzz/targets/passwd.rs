//! /etc/passwd, behind a first line with the user's number.

use qinglet::model::passwd::find;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (first, file) = text.split_once('\n').unwrap_or(("0", text));
    let Ok(uid) = first.parse() else { return };
    let Some((name, home)) = find(file, uid) else { return };
    let plain = |text: &str| !text.contains([':', '\n']);
    assert!(plain(name) && plain(home));
    let line = format!("{name}:x:{uid}:0::{home}:/bin/sh");
    assert_eq!(find(&line, uid), Some((name, home)));
    assert_eq!(find(&format!("# no user\n\n{file}"), uid), Some((name, home)), "other lines change nothing");
}
