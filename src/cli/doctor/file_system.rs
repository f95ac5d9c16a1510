//! The file system of the state folder: what it is, whether it keeps what it is given, and whether it can
//! keep a WAL as SQLite does it for several processes. Ours does without shared memory, so that is not
//! needed (jffs2 cannot map files shared).

use super::finding::Finding;
use super::place::Place;
use crate::runtime::look;

/// What was seen of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Facts {
    path: String,
    magic: u32,
    writable: bool,
    /// `None`: there is no file to try it with.
    maps_shared: Option<bool>,
}

/// The numbers of statfs(2), with the names people know.
const NAMES: &[(u32, &str)] = &[
    (0xef53, "ext4"),
    (0xf2f5_2010, "f2fs"),
    (0x72b6, "jffs2"),
    (0x2405_1905, "ubifs"),
    (0x794c_7630, "overlay"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x6969, "nfs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x7371_7368, "squashfs"),
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0x2fc1_2fc1, "zfs"),
];

/// Looks, and decides.
pub fn look(place: &Place) -> Finding {
    let path = Place::nearest(&place.state);
    let shown = path.display().to_string();
    match look::file_system(path) {
        Ok(magic) => decide(&Facts {
            magic,
            writable: look::is_writable(path).unwrap_or(false),
            // The one file there that is nobody's data; the database itself must not be opened twice.
            maps_shared: look::can_map_shared(&place.state.join("lock")).ok(),
            path: shown,
        }),
        Err(error) => {
            Finding::fail(format!("the file system of {shown} does not answer: {error}"), "look at the device")
        }
    }
}

fn decide(facts: &Facts) -> Finding {
    let known = NAMES.iter().find(|(magic, _)| *magic == facts.magic);
    let name = known.map_or_else(|| format!("file system {:#x}", facts.magic), |(_, name)| (*name).to_owned());
    let path = &facts.path;
    if !facts.writable || name == "squashfs" {
        let todo = "mount it writable, run as the user it belongs to, or use another folder with --state";
        return Finding::fail(format!("{name}, and {path} cannot be written"), todo);
    }
    let wal = match facts.maps_shared {
        Some(true) => "a WAL can be kept, files can be mapped shared",
        Some(false) => "files cannot be mapped shared; the store keeps its WAL without",
        None => "whether files can be mapped shared is not known yet",
    };
    let text = format!("{path} is on {name}; {wal}");
    match name.as_str() {
        "tmpfs" | "ramfs" => Finding::warn(
            format!("{text}; it is memory, and everything is gone after a reboot"),
            "put the state on flash or disk (--state); logs may stay in memory (`logs`)",
        ),
        "nfs" | "9p" | "fuse" | "cifs" | "smb" => Finding::warn(
            format!("{text}; it may not keep locks and syncs its word"),
            "put the state on a file system of this machine with --state",
        ),
        "vfat" | "exfat" => Finding::warn(
            format!("{text}; it knows no owners and modes, and a power cut can take it whole"),
            "put the state on ext4, f2fs, ubifs or jffs2 with --state",
        ),
        _ => Finding::ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_keeps_its_word_is_fine_and_what_may_not_is_named() {
        let facts = |magic| Facts { path: "/s".into(), magic, writable: true, maps_shared: Some(true) };
        for (magic, name, level) in [
            (0xef53, "ext4", Level::Ok),
            (0xf2f5_2010, "f2fs", Level::Ok),
            (0x2405_1905, "ubifs", Level::Ok),
            (0x794c_7630, "overlay", Level::Ok),
            (0x0102_1994, "tmpfs", Level::Warn),
            (0x6969, "nfs", Level::Warn),
            (0x0102_1997, "9p", Level::Warn),
            (0x6573_5546, "fuse", Level::Warn),
            (0x7371_7368, "squashfs", Level::Fail),
            (0x1234, "file system 0x1234", Level::Ok),
        ] {
            let finding = decide(&facts(magic));
            assert_eq!(finding.level, level, "{name}");
            assert!(finding.text.contains(name), "{}", finding.text);
        }
        let jffs2 = decide(&Facts { maps_shared: Some(false), ..facts(0x72b6) });
        assert_eq!(jffs2.level, Level::Ok);
        assert!(jffs2.text.contains("jffs2") && jffs2.text.contains("keeps its WAL without"), "{}", jffs2.text);
        assert_eq!(decide(&Facts { writable: false, ..facts(0xef53) }).level, Level::Fail);
    }
}
