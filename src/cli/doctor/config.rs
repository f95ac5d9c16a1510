//! The configuration file: whether it can be taken, and who could change it.

use super::finding::Finding;
use super::place::Place;
use crate::model::config::Config;
use crate::model::settings::Settings;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let read = place.file.read().map_err(|unusable| unusable.sentence);
    let together = read.and_then(|config| {
        let settled = Settings::resolve(&Config::default(), config.as_ref().unwrap_or(&Config::default()));
        settled.map(|_| config.is_some()).map_err(|why| format!("{}: {why}", place.file.path.display()))
    });
    let mode = fs::metadata(&place.file.path).ok().map(|file| file.mode());
    decide(&place.file.path.to_string_lossy(), together, mode)
}

fn decide(path: &str, read: Result<bool, String>, mode: Option<u32>) -> Finding {
    match (read, mode) {
        (Err(sentence), _) => Finding::fail(sentence, "correct the file; `serve` does not start with it"),
        (Ok(true), Some(mode)) if mode & 0o022 != 0 => {
            Finding::warn(format!("{path} can be changed by others than its owner"), format!("chmod go-w {path}"))
        }
        (Ok(true), _) => Finding::ok(path),
        (Ok(false), _) => Finding::ok(format!("there is no {path}: what holds is the profile's")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_broken_file_fails_and_one_that_others_can_change_warns() {
        assert_eq!(decide("/c", Ok(true), Some(0o100_644)).level, Level::Ok);
        assert_eq!(decide("/c", Ok(false), None).level, Level::Ok);
        assert_eq!(decide("/c", Ok(true), Some(0o100_664)).level, Level::Warn);
        assert_eq!(decide("/c", Err("/c: no".into()), Some(0o100_644)).level, Level::Fail);
    }
}
