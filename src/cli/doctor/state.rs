//! The state folder: there, ours alone, served or not.

use super::finding::Finding;
use super::place::Place;
use crate::http::socket::connect;
use crate::store::folders::runtime_of;
use crate::store::state::StateDir;

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let path = place.state.display().to_string();
    if !place.state.exists() {
        return decide(&path, None, false, &place.option);
    }
    let opened = StateDir::open(&place.state).map(drop).map_err(|error| error.to_string());
    decide(&path, Some(opened), connect(&runtime_of(&place.state).join("api.sock")).is_ok(), &place.option)
}

fn decide(path: &str, opened: Option<Result<(), String>>, is_served: bool, option: &str) -> Finding {
    match opened {
        None => Finding::warn(format!("there is none at {path}"), format!("make it: qinglet {option}init")),
        // The sentence says what to do itself.
        Some(Err(sentence)) => Finding::fail(sentence, "then ask again"),
        Some(Ok(())) if is_served => Finding::ok(format!("{path}, a daemon serves it")),
        Some(Ok(())) => Finding::ok(format!("{path}, no daemon answers there")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn none_is_a_warning_and_one_that_cannot_be_used_a_failure() {
        assert_eq!(decide("/s", None, false, "").level, Level::Warn);
        assert_eq!(
            decide("/s", Some(Err("/s has mode 0755: run `chmod 700 /s`".into())), false, "").level,
            Level::Fail
        );
        assert_eq!(decide("/s", Some(Ok(())), true, "").level, Level::Ok);
        assert_eq!(decide("/s", Some(Ok(())), false, "").level, Level::Ok);
    }
}
