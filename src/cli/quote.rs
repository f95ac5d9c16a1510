//! Words as one could type them into a shell.

/// The word in single quotes when a shell would take it apart; with control characters, which a terminal
/// must not see, in the form `$'..'` of bash and busybox.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else if word.chars().any(char::is_control) {
        let shown: String = word
            .chars()
            .map(|c| match c {
                '\'' | '\\' => format!("\\{c}"),
                '\n' => "\\n".into(),
                '\t' => "\\t".into(),
                c if c.is_control() => format!("\\x{:02x}", c as u32),
                c => c.into(),
            })
            .collect();
        format!("$'{shown}'")
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_shell_would_read_differently_is_quoted() {
        for (word, typed) in [
            ("/bin/a-b", "/bin/a-b"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$X", "'$X'"),
            ("a\nb", "$'a\\nb'"),
            ("a\\nb", "'a\\nb'"),
            ("\u{1}'", "$'\\x01\\''"),
        ] {
            assert_eq!(quote(word), typed);
        }
    }
}
