//! Words as one could type them into a shell.

/// The word in single quotes when a shell would take it apart.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_read_differently_is_quoted() {
        for (word, typed) in
            [("/bin/a-b", "/bin/a-b"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$X", "'$X'")]
        {
            assert_eq!(quote(word), typed);
        }
    }
}
