//! One line of a crontab taken apart as crontab(5) describes it.

/// What a line is. The texts are the line's own.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Blank, or a comment.
    Nothing,
    /// `NAME = value`, with the quotes around the value taken off.
    Setting(&'a str, &'a str),
    /// A setting whose value has a quote at one end only, or in its middle.
    Unquoted(&'a str),
    /// A short form like `@daily`, and what follows it.
    Short(&'a str, &'a str),
    /// Five fields, and what follows them.
    Fields([&'a str; 5], &'a str),
    /// None of these, and why.
    Wrong(String),
}

/// Takes a line without its end apart.
pub fn read(text: &str) -> Line<'_> {
    let text = text.trim_matches(BLANKS);
    if text.is_empty() || text.starts_with('#') {
        return Line::Nothing;
    }
    if let Some(setting) = setting(text) {
        return setting;
    }
    let (first, mut rest) = word(text);
    if first.starts_with('@') {
        return match rest {
            "" => Line::Wrong(format!("there is no command after {}", first.escape_debug())),
            _ => Line::Short(first, rest),
        };
    }
    let mut fields = [first, "", "", "", ""];
    for field in &mut fields[1..] {
        (*field, rest) = word(rest);
    }
    if rest.is_empty() {
        let count = text.split(BLANKS).filter(|word| !word.is_empty()).count();
        let words = if count == 1 { "word" } else { "words" };
        return Line::Wrong(format!("it has {count} {words}; there must be five fields of time and a command"));
    }
    Line::Fields(fields, rest)
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The first word, and what follows it without the blanks between.
pub fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(BLANKS).unwrap_or((text, ""));
    (word, rest.trim_start_matches(BLANKS))
}

/// A name without blanks before the first `=`; a line of five fields has blanks there.
fn setting(text: &str) -> Option<Line<'_>> {
    let (name, value) = text.split_once('=')?;
    let name = name.trim_end_matches(BLANKS);
    let name = unquoted(name).unwrap_or(name);
    if name.is_empty() || name.contains(BLANKS) {
        return None;
    }
    let value = value.trim_start_matches(BLANKS);
    if !value.starts_with(['"', '\'']) {
        return Some(Line::Setting(name, value));
    }
    Some(match unquoted(value) {
        Some(value) => Line::Setting(name, value),
        None => Line::Unquoted(name),
    })
}

/// The text between two quotes of a kind that has no such quote in it.
fn unquoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let inner = text[1..].strip_suffix(quote)?;
    (!inner.contains(quote)).then_some(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blanks_are_nothing() {
        for text in ["", " \t ", "# * * * * * x", "  \t# x", "#PATH=/bin"] {
            assert_eq!(read(text), Line::Nothing, "{text:?}");
        }
    }

    #[test]
    fn settings_are_taken_with_and_without_quotes() {
        for (text, name, value) in [
            ("PATH=/bin", "PATH", "/bin"),
            ("PATH = /bin:/usr/bin  ", "PATH", "/bin:/usr/bin"),
            ("A=\" b c \"", "A", " b c "),
            ("A='it is'", "A", "it is"),
            ("\"A\"=1", "A", "1"),
            ("MAILTO=", "MAILTO", ""),
            ("MAILTO=\"\"", "MAILTO", ""),
            ("A=b=c d", "A", "b=c d"),
            ("A=it's", "A", "it's"),
        ] {
            assert_eq!(read(text), Line::Setting(name, value), "{text:?}");
        }
        for text in ["A=\"b", "A=\"b\" c", "A='", "A=\"a\"b\""] {
            assert_eq!(read(text), Line::Unquoted("A"), "{text:?}");
        }
    }

    #[test]
    fn five_fields_or_a_short_form_come_before_the_command() {
        assert_eq!(read(" 0\t3  * * 1-5\techo  a=b \t"), Line::Fields(["0", "3", "*", "*", "1-5"], "echo  a=b"));
        assert_eq!(read("*/5 * * * * A=1 env"), Line::Fields(["*/5", "*", "*", "*", "*"], "A=1 env"));
        assert_eq!(read("@reboot  A=1 env"), Line::Short("@reboot", "A=1 env"));
        for (text, words) in
            [("@daily", "no command"), ("* * * * *", "it has 5 words"), ("x", "it has 1 word;"), ("0 3 * *", "4 words")]
        {
            let Line::Wrong(why) = read(text) else { panic!("{text}") };
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
