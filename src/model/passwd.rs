//! The text of /etc/passwd (passwd(5)), as far as anybody here needs it.

/// The name and the home of the user with this id. Home is empty where the file says nothing.
pub fn find(passwd: &str, uid: u32) -> Option<(&str, &str)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        let home = fields.nth(2)?;
        (id.parse() == Ok(uid)).then_some((name, home))
    })
}
