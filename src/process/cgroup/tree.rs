//! The cgroup trees that are mounted here, and where this process stands in each (cgroups(7)).

use crate::process::text;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A group in one tree.
pub(in crate::process) struct Place {
    /// Where the tree is mounted.
    pub(in crate::process) top: PathBuf,
    /// The own group's folder.
    pub(in crate::process) own: PathBuf,
    /// Whether it is the tree of version 2, which all its controllers share.
    pub(in crate::process) is_v2: bool,
    /// Whether the own group can be seen from here; else `own` is the top, which is another's.
    pub(in crate::process) is_seen: bool,
}

/// Where this process stands in the cgroup trees.
pub(in crate::process) struct Trees {
    root: PathBuf,
    own: String,
    mounts: Vec<u8>,
}

impl Trees {
    pub(in crate::process) fn of(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            own: text::text(&root.join("proc/self/cgroup")).unwrap_or_default(),
            // Mount points are bytes, not necessarily text.
            mounts: text::bytes(&root.join("proc/self/mountinfo")).unwrap_or_default(),
        }
    }

    /// Looks at the own group and every ancestor, in each tree that may have this controller.
    pub(in crate::process) fn levels(&self, controller: &str, look: impl Fn(&Path) -> Option<u64>) -> Option<u64> {
        let mut least = None;
        for place in self.places(controller) {
            let mut group = place.own;
            loop {
                least = [least, look(&group)].into_iter().flatten().min();
                if group == place.top || !group.pop() {
                    break;
                }
            }
        }
        least
    }

    /// The own group in each tree that may have this controller.
    pub(in crate::process) fn places(&self, controller: &str) -> Vec<Place> {
        let lines = self.mounts.split(|byte| *byte == b'\n');
        let places = lines.filter_map(Mount::parse).filter(|mount| mount.has(controller)).filter_map(|mount| {
            let version = if mount.is_v2 { "" } else { controller };
            let own = own_path(&self.own, version)?;
            // Of a mount that shows only a part, what lies above it is out of sight; of a group outside
            // that part, only the top is seen.
            let seen = own.strip_prefix(&mount.root);
            let (is_seen, below) = (seen.is_ok(), seen.unwrap_or(Path::new("")).to_path_buf());
            let top = self.root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            Some(Place { own: top.join(below), top, is_v2: mount.is_v2, is_seen })
        });
        places.collect()
    }
}

/// The group's path in the tree of this controller; of version 2 when it is empty (cgroups(7)).
fn own_path<'a>(own: &'a str, controller: &str) -> Option<&'a Path> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let found = if controller.is_empty() {
            id == "0" && controllers.is_empty()
        } else {
            controllers.split(',').any(|name| name == controller)
        };
        found.then_some(Path::new(path))
    })
}

/// One cgroup mount of /proc/self/mountinfo (`proc_pid_mountinfo(5)`).
struct Mount {
    root: PathBuf,
    point: PathBuf,
    is_v2: bool,
    options: Vec<u8>,
}

impl Mount {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        // Any number of optional fields ends at a lone dash.
        let kind = fields.by_ref().skip_while(|field| *field != b"-").nth(1)?;
        let is_v2 = match kind {
            b"cgroup2" => true,
            b"cgroup" => false,
            _ => return None,
        };
        let options = fields.nth(1)?.to_vec();
        Some(Self { root: unescape(root), point: unescape(point), is_v2, options })
    }

    fn has(&self, controller: &str) -> bool {
        self.is_v2 || self.options.split(|byte| *byte == b',').any(|option| option == controller.as_bytes())
    }
}

/// Blanks and backslashes in mountinfo are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] = rest {
            path.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = tail;
        } else {
            path.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(path))
}
