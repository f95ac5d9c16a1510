//! The user that a task runs as, looked up in /etc/passwd and /etc/group when it starts: those two files are
//! all that a router has, and nothing of a directory service is loaded into a static binary.

use super::own;
use crate::model::confinement::RunAs;
use crate::model::limits::SUPPLEMENTARY_GROUPS_MAX;
use crate::model::passwd;
use std::fs;

/// A user as a process has it, with what its environment says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's number.
    pub uid: u32,
    /// The group's.
    pub gid: u32,
    /// The further groups, sorted; the first one's own is not among them.
    pub groups: Vec<u32>,
    /// The name, or the number where there is none.
    pub name: String,
    /// The home; `/` where the file says nothing.
    pub home: String,
    /// The shell; `/bin/sh` where the file says nothing.
    pub shell: String,
}

impl Account {
    /// Looks it up. The error says in words what is not there.
    pub fn find(run_as: &RunAs) -> Result<Self, String> {
        let read = |file: &str| fs::read_to_string(file).map_err(|e| format!("{file} cannot be read: {e}"));
        let groups = read("/etc/group").unwrap_or_default();
        Self::of(run_as, &read("/etc/passwd")?, &groups)
    }

    fn of(run_as: &RunAs, users: &str, all_groups: &str) -> Result<Self, String> {
        let wanted = run_as.user.as_str();
        let user = passwd::user(users, wanted);
        let group = match &run_as.group {
            None => user.map(|user| user.gid),
            Some(group) => {
                let found = passwd::group(all_groups, group);
                Some(found.ok_or_else(|| format!("there is no group {group:?} in /etc/group"))?)
            }
        };
        let uid = user.map(|user| user.uid).or_else(|| passwd::id(wanted));
        let uid = uid.ok_or_else(|| format!("there is no user {wanted:?} in /etc/passwd"))?;
        let gid = group.ok_or_else(|| {
            format!("there is no user {wanted} in /etc/passwd whose group could be taken; give one: {wanted}:GROUP")
        })?;
        let mut groups: Vec<u32> =
            user.map_or_else(Vec::new, |user| passwd::member_of(all_groups, user.name).collect());
        // The user's first group belongs to it even where another was asked for (initgroups(3)).
        groups.extend(user.map(|user| user.gid).filter(|_| run_as.group.is_some()));
        groups.retain(|one| *one != gid);
        groups.sort_unstable();
        groups.dedup();
        groups.truncate(SUPPLEMENTARY_GROUPS_MAX);
        let or = |text: &str, other: &str| if text.is_empty() { other.to_owned() } else { text.to_owned() };
        Ok(Self {
            uid,
            gid,
            groups,
            name: user.map_or_else(|| wanted.to_owned(), |user| user.name.to_owned()),
            home: or(user.map_or("", |user| user.home), "/"),
            shell: or(user.map_or("", |user| user.shell), "/bin/sh"),
        })
    }

    /// Whether this process is just that already, so that nothing has to be changed.
    pub fn is_own(&self) -> bool {
        own::ids() == (self.uid, self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/ash\nhttp:x:33:34::/www:\n";
    const GROUPS: &str = "root:x:0:\nwww:x:34:\naudio:x:29:root,http\nvideo:x:44:http\n";

    fn of(text: &str) -> Result<Account, String> {
        Account::of(&RunAs::parse(text).unwrap(), USERS, GROUPS)
    }

    #[test]
    fn a_user_comes_with_its_groups_and_what_its_environment_says() {
        let http = of("http").unwrap();
        assert_eq!((http.uid, http.gid, &http.groups[..]), (33, 34, &[29, 44][..]));
        assert_eq!((http.name.as_str(), http.home.as_str(), http.shell.as_str()), ("http", "/www", "/bin/sh"));
        let other = of("33:audio").unwrap();
        assert_eq!((other.uid, other.gid, &other.groups[..], other.name.as_str()), (33, 29, &[34, 44][..], "http"));
        let bare = of("900:901").unwrap();
        assert_eq!((bare.uid, bare.gid, bare.groups.len(), bare.home.as_str()), (900, 901, 0, "/"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(of("nemo").unwrap_err().contains("no user \"nemo\""));
        assert!(of("http:nemo").unwrap_err().contains("no group \"nemo\""));
        assert!(of("900").unwrap_err().contains("900:GROUP"));
    }
}
