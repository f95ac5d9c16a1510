//! The kernel's age: 4.4 is the oldest that everything was tried on.

use super::finding::Finding;
use super::place::Place;
use std::fs;

/// Looks, and decides.
pub fn look(_: &Place) -> Finding {
    decide(fs::read_to_string("/proc/sys/kernel/osrelease").ok().as_deref())
}

/// `None`: it does not say.
fn decide(release: Option<&str>) -> Finding {
    let Some(release) = release.map(str::trim) else {
        return Finding::fail("its release cannot be read", "mount /proc: mount -t proc proc /proc");
    };
    match version(release) {
        Some(version) if version < (4, 4) => {
            Finding::fail(format!("Linux {release} is older than 4.4"), "use a firmware with a newer kernel")
        }
        Some(_) => Finding::ok(format!("Linux {release}")),
        None => Finding::warn(format!("{release} is no release of Linux"), "use Linux 4.4 or newer"),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Whether the running kernel is at least this.
pub fn is_at_least(wanted: (u32, u32)) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    version(release.trim()).is_some_and(|version| version >= wanted)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn older_than_the_oldest_fails() {
        let level = |release| decide(release).level;
        for fine in ["4.4.0\n", "4.4", "4.14.221", "5.15.134-openwrt", "6.1.0-13-amd64", "10.0"] {
            assert_eq!(level(Some(fine)), Level::Ok, "{fine}");
        }
        for old in ["4.3.9", "3.10.14", "2.6.36.4brcmarm"] {
            assert_eq!(level(Some(old)), Level::Fail, "{old}");
        }
        assert_eq!(level(Some("unknown")), Level::Warn);
        assert_eq!(level(None), Level::Fail);
    }
}
