//! The percent sign of crontab(5): the first one that no backslash stands before ends the command, and
//! what follows is its standard input, with every further one a new line. busybox crond knows nothing
//! of this and leaves the sign to the shell.

/// Whether the text has a sign that the two crons read differently.
pub fn is_there(text: &str) -> bool {
    text.contains('%')
}

/// The command, and its standard input if it has any.
pub fn split(text: &str) -> (String, Option<String>) {
    let mut command = String::new();
    let mut chars = text.chars();
    let mut escaped = false;
    while let Some(c) = chars.next() {
        match c {
            '%' if escaped => {
                command.pop();
                command.push('%');
            }
            '%' => return (command, input(chars.as_str())),
            _ => command.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    (command, None)
}

/// Always ends with a new line, as cron writes it.
fn input(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let mut input = String::new();
    let mut escaped = false;
    for c in text.chars() {
        let bare = !std::mem::take(&mut escaped);
        if !bare && c != '%' {
            input.push('\\');
        }
        match c {
            '\\' => escaped = true,
            '%' if bare => input.push('\n'),
            c => input.push(c),
        }
    }
    if escaped {
        input.push('\\');
    }
    if !input.ends_with('\n') {
        input.push('\n');
    }
    Some(input)
}

/// One text for a shell that runs the command with this standard input.
pub fn with_input(command: &str, input: &str) -> String {
    let mut mark = "END".to_owned();
    while input.lines().any(|line| line == mark) {
        mark.push('_');
    }
    // The command may end with a comment, so the brace has a line of its own.
    format!("{{ {command}\n}} <<'{mark}'\n{input}{mark}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bare_sign_ends_the_command_and_an_escaped_one_is_itself() {
        let split = |text| {
            let (command, input) = split(text);
            (command, input.unwrap_or_default())
        };
        let is = |command: &str, input: &str| (command.to_owned(), input.to_owned());
        assert_eq!(split("date"), is("date", ""));
        assert_eq!(split(r"date +\%Y-\%m"), is("date +%Y-%m", ""));
        assert_eq!(split("cat%hello"), is("cat", "hello\n"));
        assert_eq!(split("mail -s x root%one%%two\\%%"), is("mail -s x root", "one\n\ntwo%\n"));
        assert_eq!(split("cat%"), is("cat", ""));
        assert_eq!(split(r"echo a\\%b\c\"), is(r"echo a\\", "b\\c\\\n"));
        assert_eq!(split(r"cat%a\\b\\%c"), is("cat", "a\\\\b\\%c\n"));
        assert_eq!(split(r"printf 'a\nb'"), is(r"printf 'a\nb'", ""));
    }

    #[test]
    fn the_input_never_ends_itself() {
        assert_eq!(with_input("cat #x", "a\n"), "{ cat #x\n} <<'END'\na\nEND\n");
        assert_eq!(with_input("cat", "END\nEND_\n"), "{ cat\n} <<'END__'\nEND\nEND_\nEND__\n");
    }
}
