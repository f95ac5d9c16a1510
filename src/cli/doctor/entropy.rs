//! Whether there are random bytes: without, no token can be made and no run can start.

use super::finding::Finding;
use super::place::Place;
use crate::runtime::look;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    decide(look::has_entropy().map_err(|error| error.to_string()))
}

fn decide(ready: Result<bool, String>) -> Finding {
    match ready {
        Ok(true) => Finding::ok("random bytes come at once"),
        Ok(false) => Finding::warn(
            "the kernel has no random bytes yet, as right after boot; starts wait for them",
            "wait, or start a source of them (haveged, urngd)",
        ),
        Err(error) => {
            Finding::fail(format!("the kernel gives no random bytes: {error}"), "use a kernel with getrandom (3.17)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn early_is_a_warning_and_never_is_a_failure() {
        assert_eq!(decide(Ok(true)).level, Level::Ok);
        assert_eq!(decide(Ok(false)).level, Level::Warn);
        assert_eq!(decide(Err("x".into())).level, Level::Fail);
    }
}
