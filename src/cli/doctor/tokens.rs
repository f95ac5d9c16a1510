//! The files that let somebody in: the owner's token, the key that tokens are digested under, and the
//! token file that the environment names.

use super::super::token::VARIABLE;
use super::finding::Finding;
use super::place::Place;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// One such file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Facts {
    path: String,
    what: What,
    /// Mode with the kind of file, and owner; `None`: it is not there.
    found: Option<(u32, u32)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Owner,
    Pepper,
    Named,
}

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let facts = |path: &Path, what| Facts {
        path: path.display().to_string(),
        what,
        found: fs::symlink_metadata(path).ok().map(|file| (file.mode(), file.uid())),
    };
    let mut all =
        vec![facts(&place.state.join("pepper"), What::Pepper), facts(&place.state.join("owner.token"), What::Owner)];
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        all.push(facts(Path::new(&path), What::Named));
    }
    let own = fs::metadata("/proc/self").map_or(0, |own| own.uid());
    decide(place.state.exists(), &all, own, &place.option)
}

fn decide(is_state: bool, all: &[Facts], own: u32, option: &str) -> Finding {
    if !is_state {
        return Finding::ok("none yet: there is no state");
    }
    let mut missing = None;
    for Facts { path, what, found } in all {
        match (*found, what) {
            (None, What::Pepper) => {
                return Finding::fail(format!("{path} is missing: no token works"), "restore a backup");
            }
            (None, What::Owner) => {
                missing = Some((path, format!("where it is wanted: qinglet {option}init --reissue-owner")));
            }
            (None, What::Named) => missing = Some((path, format!("correct ${VARIABLE}"))),
            (Some((mode, _)), _) if mode & libc::S_IFMT != libc::S_IFREG => {
                return Finding::fail(format!("{path} is not a regular file"), "put the real file in its place");
            }
            (Some((mode, _)), _) if mode & 0o077 != 0 => {
                let text = format!("{path} has mode {:04o}: others may read it", mode & 0o7777);
                return Finding::fail(text, format!("chmod 600 {path}, and make new tokens"));
            }
            (Some((_, uid)), What::Pepper | What::Owner) if uid != own => {
                let text = format!("{path} belongs to user id {uid}, and this runs as {own}");
                return Finding::fail(text, "run as that user");
            }
            (Some(_), _) => {}
        }
    }
    match missing {
        Some((path, todo)) => Finding::warn(format!("{path} is not there"), todo),
        None => Finding::ok("private"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_others_may_read_fails_and_a_missing_token_warns() {
        let level = |pepper: Option<(u32, u32)>, owner: Option<(u32, u32)>| {
            let facts = |what, found| Facts { path: "/s/x".into(), what, found };
            decide(true, &[facts(What::Pepper, pepper), facts(What::Owner, owner)], 7, "").level
        };
        let fine = Some((0o100_600, 7));
        assert_eq!(level(fine, fine), Level::Ok);
        assert_eq!(level(fine, None), Level::Warn);
        assert_eq!(level(None, fine), Level::Fail);
        assert_eq!(level(fine, Some((0o100_640, 7))), Level::Fail);
        assert_eq!(level(Some((0o100_604, 7)), fine), Level::Fail);
        assert_eq!(level(fine, Some((0o120_777, 7))), Level::Fail);
        assert_eq!(level(fine, Some((0o100_600, 8))), Level::Fail);
        assert_eq!(decide(false, &[], 7, "").level, Level::Ok);
    }
}
