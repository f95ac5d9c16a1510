//! The texts of /etc/passwd (passwd(5)) and /etc/group (group(5)), as far as anybody here needs them.

/// One user of /etc/passwd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User<'a> {
    /// The name.
    pub name: &'a str,
    /// The number.
    pub uid: u32,
    /// The number of the group it belongs to first.
    pub gid: u32,
    /// Its home; empty where the file says nothing.
    pub home: &'a str,
    /// Its shell; empty where the file says nothing.
    pub shell: &'a str,
}

fn users(passwd: &str) -> impl Iterator<Item = User<'_>> {
    passwd.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let (home, shell) = (fields.nth(1)?, fields.next().unwrap_or(""));
        Some(User { name, uid: number(uid)?, gid: number(gid)?, home, shell })
    })
}

/// A user's or group's number: digits, and not the one that stands for none (chown(2)).
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| digits && *id != u32::MAX)
}

/// The name and the home of the user with this id. Home is empty where the file says nothing.
pub fn find(passwd: &str, uid: u32) -> Option<(&str, &str)> {
    users(passwd).find(|user| user.uid == uid).map(|user| (user.name, user.home))
}

/// The user with this name, or else with this number.
pub fn user<'a>(passwd: &'a str, who: &str) -> Option<User<'a>> {
    users(passwd).find(|user| user.name == who).or_else(|| {
        let uid = number(who)?;
        users(passwd).find(|user| user.uid == uid)
    })
}

/// The number that a text is, if it is one.
pub fn id(text: &str) -> Option<u32> {
    number(text)
}

/// The number of the group with this name, or else the number that the text is.
pub fn group(groups: &str, who: &str) -> Option<u32> {
    let named = lines(groups).find(|(name, ..)| *name == who).map(|(_, gid, _)| gid);
    named.or_else(|| number(who))
}

/// The groups that name this user as a member.
pub fn member_of<'a>(groups: &'a str, user: &'a str) -> impl Iterator<Item = u32> + 'a {
    lines(groups).filter(move |(_, _, members)| members.split(',').any(|one| one == user)).map(|(_, gid, _)| gid)
}

fn lines(groups: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    groups.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
        Some((name, number(gid)?, fields.next().unwrap_or("")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_are_found_by_name_first_and_then_by_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/ash\nbroken\n33:x:7:8::/odd:\nhttp:x:33:34::/www:/bin/false\nlast:x:9:9:::\n";
        assert_eq!(user(passwd, "http").unwrap().gid, 34);
        assert_eq!(user(passwd, "33").unwrap().uid, 7, "a name wins");
        assert_eq!(user(passwd, "9").unwrap(), User { name: "last", uid: 9, gid: 9, home: "", shell: "" });
        assert_eq!(user(passwd, "0").unwrap().shell, "/bin/ash");
        assert!(user(passwd, "nobody").is_none() && user(passwd, "+9").is_none());
        assert_eq!(find(passwd, 33), Some(("http", "/www")));
        let groups = "root:x:0:\nwheel:x:10:root,http\nwww:x:34:http\nbad\nempty:x:11\n";
        assert_eq!((group(groups, "wheel"), group(groups, "77"), group(groups, "x")), (Some(10), Some(77), None));
        assert_eq!(member_of(groups, "http").collect::<Vec<_>>(), [10, 34]);
        assert_eq!(member_of(groups, "htt").count(), 0);
        assert_eq!((id("4294967295"), id("4294967294"), id("")), (None, Some(4_294_967_294), None));
    }
}
