//! The mounts that this process sees: /proc/self/mountinfo (`proc_pid_mountinfo(5)`), as far as a look
//! needs them.

use std::fs;
use std::path::PathBuf;

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Which part of the file system is mounted.
    pub root: String,
    /// Where it is.
    pub point: String,
    /// The file system's name.
    pub kind: String,
    /// Its options, those of the mount and those of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Whether an option is there.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// The value of an option `name=value`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Where a path of this file system is seen through this mount.
    pub fn below(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or("");
        PathBuf::from(format!("{}{below}", self.point))
    }
}

/// All of them; empty when they cannot be read.
pub fn read() -> Vec<Mount> {
    parse(&String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap_or_default()))
}

/// Reads the text; lines of another form are left out.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let (root, point, mount) = (left.nth(3)?, left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, file_system) = (right.next()?, right.nth(1).unwrap_or_default());
    let options = mount.split(',').chain(file_system.split(',')).map(str::to_owned).collect();
    // Blanks are written as octal digits.
    let plain = |path: &str| path.replace("\\040", " ");
    Some(Mount { root: plain(root), point: plain(point), kind: kind.to_owned(), options })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let text = "22 28 0:21 / /proc rw,nosuid,relatime shared:12 - proc proc rw,hidepid=2\n\
                    35 31 0:32 /outer/box /cg\\040roup rw - cgroup cgroup rw,memory\nnonsense\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].kind.as_str(), mounts[0].value("hidepid")), ("proc", Some("2")));
        assert!(mounts[1].has("memory") && mounts[1].point == "/cg roup");
        assert_eq!(mounts[1].below("/outer/box/a"), PathBuf::from("/cg roup/a"));
        assert_eq!(mounts[1].below("/elsewhere"), PathBuf::from("/cg roup"));
        assert_eq!(mounts[0].below("/a"), PathBuf::from("/proc/a"));
    }
}
