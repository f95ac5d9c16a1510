//! The host's time zone, found the way small systems keep it: `/etc/TZ` (OpenWrt: a POSIX string
//! or a name), then where `/etc/localtime` points, then UTC. What was found and why is kept, so
//! that a fallback is visible (reports 15 and 16).

use super::zone::Zone;
use crate::model::limits::ZONE_BYTES_MAX;
use std::path::Path;

/// The host's zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostZone {
    /// As `TZ` takes it: a zone's name or a POSIX string.
    pub zone: String,
    /// Where it was found, or why it is UTC.
    pub source: &'static str,
}

/// Reads the host's zone. Never fails: without an answer it is UTC, and says why.
pub fn read() -> HostZone {
    let tz = std::fs::read_to_string("/etc/TZ").ok();
    let link = std::fs::read_link("/etc/localtime").ok();
    let leads_somewhere = Path::new("/etc/localtime").exists();
    decide(tz.as_deref(), link.as_deref().and_then(Path::to_str), leads_somewhere)
}

/// The host's zone, ready for use, and where it was found, for people. A text that names no zone
/// gives UTC, and says so.
pub fn zone() -> (Zone, String) {
    resolve(&read())
}

fn resolve(host: &HostZone) -> (Zone, String) {
    if let Ok(zone) = Zone::parse(&host.zone) {
        return (zone, host.source.to_owned());
    }
    let unknown = host.zone.escape_debug();
    (Zone::utc(), format!("{} names no zone, but {unknown}: UTC", host.source))
}

fn decide(etc_tz: Option<&str>, localtime: Option<&str>, leads_somewhere: bool) -> HostZone {
    let utc = |source| HostZone { zone: "UTC".into(), source };
    let plain = |zone: &str| zone.len() <= ZONE_BYTES_MAX && zone.bytes().all(|c| c.is_ascii_graphic());
    if let Some(text) = etc_tz {
        // A trailing newline is part of every such file and of no zone's name.
        let zone = text.trim();
        return match zone {
            "" => utc("/etc/TZ is empty: UTC"),
            _ if plain(zone) => HostZone { zone: zone.into(), source: "/etc/TZ" },
            _ => utc("/etc/TZ holds no zone: UTC"),
        };
    }
    match localtime.and_then(|target| target.split_once("zoneinfo/")) {
        Some((_, name)) if leads_somewhere && plain(name) => HostZone { zone: name.into(), source: "/etc/localtime" },
        Some(_) => utc("/etc/localtime leads nowhere: UTC"),
        None if leads_somewhere => utc("/etc/localtime has no name: UTC"),
        None => utc("neither /etc/TZ nor /etc/localtime: UTC"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_zone_is_utc_and_named() {
        let resolved = |zone: &str| {
            let (zone, whence) = resolve(&HostZone { zone: zone.into(), source: "/etc/TZ" });
            (zone.name().to_owned(), whence)
        };
        assert_eq!(resolved("<+03>-3"), ("<+03>-3".into(), "/etc/TZ".into()));
        assert_eq!(resolved("Mars/Olympus"), ("UTC".into(), "/etc/TZ names no zone, but Mars/Olympus: UTC".into()));
    }

    #[test]
    fn newline_dangling_link_empty_and_missing_each_have_a_named_answer() {
        let zone = |tz, link, leads| {
            let found = decide(tz, link, leads);
            (found.zone, found.source)
        };
        let is = |zone: &str, source: &'static str| (zone.to_owned(), source);
        assert_eq!(zone(Some("Europe/Prague\n"), None, false), is("Europe/Prague", "/etc/TZ"));
        assert_eq!(zone(Some("<+03>-3\n"), Some("../usr/share/zoneinfo/UTC"), true), is("<+03>-3", "/etc/TZ"));
        assert_eq!(zone(Some("\n"), None, true), is("UTC", "/etc/TZ is empty: UTC"));
        assert_eq!(zone(Some("a b"), None, true), is("UTC", "/etc/TZ holds no zone: UTC"));
        assert_eq!(zone(None, Some("/usr/share/zoneinfo/Asia/Shanghai"), true), is("Asia/Shanghai", "/etc/localtime"));
        assert_eq!(
            zone(None, Some("/usr/share/zoneinfo/Asia/Shanghai"), false),
            is("UTC", "/etc/localtime leads nowhere: UTC")
        );
        assert_eq!(zone(None, None, true), is("UTC", "/etc/localtime has no name: UTC"));
        assert_eq!(zone(None, None, false), is("UTC", "neither /etc/TZ nor /etc/localtime: UTC"));
    }
}
