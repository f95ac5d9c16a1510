//! Whose account tasks run with: the one that owns the state.

use crate::model::passwd;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name; its number when it has none.
    pub name: String,
    /// Its home.
    pub home: String,
}

/// The owner of a state folder; without one the caller.
pub fn of(state: &Path) -> Account {
    let owner = fs::metadata(state).or_else(|_| fs::metadata("/proc/self"));
    let uid = owner.map_or(0, |owner| owner.uid());
    find(&fs::read_to_string("/etc/passwd").unwrap_or_default(), uid)
}

fn find(passwd: &str, uid: u32) -> Account {
    let (name, home) = passwd::find(passwd, uid).map_or((uid.to_string(), ""), |(name, home)| (name.to_owned(), home));
    Account { name, home: if home.is_empty() { "/".into() } else { home.to_owned() } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_an_entry_or_a_home_has_both() {
        let passwd = "root:x:0:0:root:/root:/bin/ash\nnohome:x:7:7:::\n";
        let is = |name: &str, home: &str| Account { name: name.into(), home: home.into() };
        assert_eq!(find(passwd, 0), is("root", "/root"));
        assert_eq!(find(passwd, 7), is("nohome", "/"));
        assert_eq!(find(passwd, 8), is("8", "/"));
    }
}
