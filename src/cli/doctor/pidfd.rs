//! Whether processes can be named by descriptors. Without, everything works: identities are checked
//! in /proc right before a signal.

use super::finding::Finding;
use super::kernel;
use super::place::Place;
use crate::runtime::look;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    decide(look::pidfd().err().map(|error| error.raw_os_error().unwrap_or(0)), kernel::is_at_least((5, 3)))
}

fn decide(refused: Option<i32>, is_new: bool) -> Finding {
    const WITHOUT: &str = "identities are checked in /proc right before each signal";
    match refused {
        None => Finding::ok("there, so what was verified is what is signalled"),
        Some(_) if !is_new => Finding::ok(format!("not in this kernel (5.3 has it): {WITHOUT}")),
        Some(errno) => Finding::warn(
            format!("refused ({}): {WITHOUT}", std::io::Error::from_raw_os_error(errno)),
            "allow pidfd_open in the container's system call filter",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn only_what_could_be_there_and_is_refused_is_a_warning() {
        let level = |refused, is_new| decide(refused, is_new).level;
        assert_eq!(level(None, true), Level::Ok);
        assert_eq!(level(Some(libc::ENOSYS), false), Level::Ok);
        assert_eq!(level(Some(libc::ENOSYS), true), Level::Warn);
        assert_eq!(level(Some(libc::EPERM), true), Level::Warn);
    }
}
