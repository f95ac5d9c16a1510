//! Reading the file, within a bound, and what it is called from then on.

use super::super::failure::Failure;
use crate::model::digest::Digest;
use crate::model::limits::{CRONTAB_BYTES_MAX, LABEL_VALUE_BYTES_MAX};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of a crontab; `-` is the standard input.
pub fn read(file: &str) -> Result<Vec<u8>, Failure> {
    let shown = if file == "-" { "the standard input".to_owned() } else { file.escape_debug().to_string() };
    let wrong = |why: String| Failure::usage(format!("{shown}: {why}"));
    let mut bytes = Vec::new();
    let result = if file == "-" {
        io::stdin().lock().take(CRONTAB_BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        if Path::new(file).is_dir() {
            return Err(wrong("is a folder; import the files in it one by one".into()));
        }
        File::open(file).and_then(|opened| opened.take(CRONTAB_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    result.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > CRONTAB_BYTES_MAX {
        return Err(wrong(format!("longer than {CRONTAB_BYTES_MAX} bytes, so this is no crontab")));
    }
    Ok(bytes)
}

/// The file's name as a label's value, the same whatever folder one stands in.
pub fn label(file: &str) -> String {
    let whole = if file == "-" { Ok(file.into()) } else { fs::canonicalize(file) };
    let name = whole.ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| file.to_owned());
    if name.len() <= LABEL_VALUE_BYTES_MAX && !name.chars().any(char::is_control) {
        return name;
    }
    format!("sha256:{}", Digest::of("qinglet.crontab-file.v1", name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_short_and_plain() {
        assert_eq!(label("-"), "-");
        assert_eq!(label("/nonexistent/crontab"), "/nonexistent/crontab");
        for odd in ["a\nb".to_owned(), "x".repeat(300)] {
            assert!(label(&odd).starts_with("sha256:") && label(&odd).len() == 71);
        }
    }
}
