//! What user code says of itself: a line when it starts, a line with the code it is about to exit with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What one Attempt's user code has said.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Mark {
    /// How often it started.
    pub starts: usize,
    /// What it said it would exit with.
    pub ends: Vec<i64>,
}

/// By Run and Attempt number.
pub type Marks = BTreeMap<(String, i64), Mark>;

/// Reads them all.
pub fn read(path: &Path) -> Marks {
    let mut marks = Marks::new();
    let text = fs::read_to_string(path).unwrap_or_default();
    // Tasks that outlived the daemon may be writing.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, run, number, code @ ..] = words.as_slice() else { panic!("{line:?} is no mark") };
        let mark = marks.entry(((*run).to_owned(), number.parse().unwrap())).or_default();
        match (*what, code) {
            ("start", []) => mark.starts += 1,
            ("end", [code]) => mark.ends.push(code.parse().unwrap()),
            _ => panic!("{line:?} is no mark"),
        }
    }
    marks
}
