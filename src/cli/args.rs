//! Reads the argument list into a command and what was given to it.

use super::command::{Command, Flag, GLOBAL};
use super::failure::Failure;
use super::nearest::nearest;
use lexopt::Arg;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What the argument list asks for.
pub enum Asked {
    /// Do a command.
    Do(&'static Command, Given),
    /// Explain: the words after `help`, or the command that had `--help`.
    Help(Vec<String>),
    /// Print the version.
    Version,
}

/// What was given to a command.
#[derive(Default, Debug)]
pub struct Given {
    options: Vec<(&'static str, OsString)>,
    args: Vec<String>,
    /// What stood after `--`, if that was there.
    pub rest: Option<Vec<String>>,
}

impl Given {
    /// Whether this option was given.
    pub fn has(&self, long: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == long)
    }

    /// This option's value; the last one when it was given more than once.
    pub fn path(&self, long: &str) -> Option<&OsStr> {
        self.options.iter().rev().find(|(name, _)| *name == long).map(|(_, value)| value.as_os_str())
    }

    /// This option's value as a folder, absolute.
    pub fn folder(&self, long: &str) -> Result<Option<PathBuf>, Failure> {
        let absolute = |path| std::path::absolute(path).map_err(|e| Failure::usage(format!("--{long}: {e}")));
        self.path(long).map(absolute).transpose()
    }

    /// This option's value as text.
    pub fn text(&self, long: &str) -> Result<Option<&str>, Failure> {
        self.path(long).map(|value| utf8(long, value)).transpose()
    }

    /// Every value of this option as text, in order.
    pub fn texts(&self, long: &str) -> Result<Vec<&str>, Failure> {
        let values = self.options.iter().filter(|(name, _)| *name == long);
        values.map(|(_, value)| utf8(long, value)).collect()
    }

    /// The argument in this place, which may be left out.
    pub fn optional_arg(&self, at: usize) -> Option<&str> {
        self.args.get(at).map(String::as_str)
    }

    /// The argument in this place. Parsing has made sure that the command's arguments are there.
    pub fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }
}

fn utf8<'a>(long: &str, value: &'a OsStr) -> Result<&'a str, Failure> {
    value.to_str().ok_or_else(|| Failure::usage(format!("the value of --{long} is not UTF-8 text")))
}

/// Reads an argument list without the program's own name.
pub fn read(table: &'static [Command], arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, Failure> {
    let mut parser = lexopt::Parser::from_args(arguments.into_iter().collect::<Vec<_>>());
    let mut words: Vec<String> = Vec::new();
    let mut given = Given::default();
    loop {
        // lexopt swallows `--`; what follows it must not be mixed with arguments.
        if parser.try_raw_args().and_then(|raw| raw.peek().map(|next| next == "--")) == Some(true) {
            let all = parser.raw_args().map_err(|e| Failure::usage(e.to_string()))?;
            let rest = all.skip(1).map(argument).collect::<Result<_, _>>()?;
            given.rest = Some(rest);
            break;
        }
        let Some(next) = parser.next().map_err(|e| Failure::usage(e.to_string()))? else { break };
        match next {
            Arg::Value(value) => {
                let value = argument(value)?;
                if find(table, &words).is_some() {
                    given.args.push(value);
                } else {
                    words.push(value);
                    check_words(table, &words)?;
                }
            }
            Arg::Short(short) => {
                let known = flags(table, &words).find(|flag| flag.short == Some(short));
                let Some(flag) = known else { return Err(unknown(table, &words, &format!("-{short}"))) };
                take(&mut parser, flag, &mut given)?;
            }
            Arg::Long(long) => {
                let long = long.to_owned();
                let known = flags(table, &words).find(|flag| flag.long == long);
                let Some(flag) = known else { return Err(unknown(table, &words, &format!("--{long}"))) };
                take(&mut parser, flag, &mut given)?;
            }
        }
    }
    let help = given.has("help");
    if given.has("version") {
        return Ok(Asked::Version);
    }
    if words.first().is_some_and(|word| word == "help") {
        return Ok(Asked::Help(words.split_off(1)));
    }
    if help || words.is_empty() && given.rest.is_none() {
        return if help { Ok(Asked::Help(words)) } else { Err(Failure::usage("no command given; see `qinglet help`")) };
    }
    let Some(command) = find(table, &words) else {
        let group = words.join(" ");
        let under: Vec<&str> = under(table, &words).collect();
        return Err(Failure::usage(format!(
            "`{group}` needs one of: {}; see `qinglet help {group}`",
            under.join(", ")
        )));
    };
    check_shape(command, &given)?;
    Ok(Asked::Do(command, given))
}

fn argument(value: OsString) -> Result<String, Failure> {
    value.into_string().map_err(|value| {
        Failure::usage(format!("the argument {} is not UTF-8 text", value.to_string_lossy().escape_debug()))
    })
}

fn find(table: &'static [Command], words: &[String]) -> Option<&'static Command> {
    let words = words.join(" ");
    table.iter().find(|command| command.words == words)
}

/// The words that may follow these.
fn under(table: &'static [Command], words: &[String]) -> impl Iterator<Item = &'static str> {
    let prefix = words.to_vec();
    let mut seen = Vec::new();
    table.iter().filter_map(move |command| {
        let mut parts = command.words.split(' ');
        if !prefix.iter().all(|word| parts.next() == Some(word.as_str())) {
            return None;
        }
        let next = parts.next().filter(|next| !seen.contains(next))?;
        seen.push(next);
        Some(next)
    })
}

fn check_words(table: &'static [Command], words: &[String]) -> Result<(), Failure> {
    let Some((last, before)) = words.split_last() else { return Ok(()) };
    let helps = words[0] == "help";
    if helps || find(table, words).is_some() || under(table, words).next().is_some() {
        return Ok(());
    }
    let known = under(table, before).chain(before.is_empty().then_some("help"));
    let typed = words.join(" ");
    let mut message = format!("there is no command `{}`", typed.escape_debug());
    if let Some(near) = nearest(last, known) {
        let mut meant = before.to_vec();
        meant.push(near.to_owned());
        message = format!("{message}; the nearest is `{}`, and `qinglet help` lists all", meant.join(" "));
    }
    Err(Failure::usage(message))
}

/// The options known after these words.
fn flags(table: &'static [Command], words: &[String]) -> impl Iterator<Item = &'static Flag> {
    find(table, words).map_or(&[][..], |command| command.flags).iter().chain(GLOBAL)
}

fn unknown(table: &'static [Command], words: &[String], typed: &str) -> Failure {
    // One letter resembles nothing.
    let long = typed.strip_prefix("--");
    let near = long.and_then(|long| nearest(long, flags(table, words).map(|flag| flag.long)));
    let near = near.map(|near| format!("; the nearest known one is --{near}")).unwrap_or_default();
    let place = if words.is_empty() { String::new() } else { format!("`{}` has ", words.join(" ")) };
    Failure::usage(format!("{place}no option {}{near}", typed.escape_debug()))
}

fn take(parser: &mut lexopt::Parser, flag: &'static Flag, given: &mut Given) -> Result<(), Failure> {
    if given.has(flag.long) && !flag.repeats && flag.value.is_some() {
        return Err(Failure::usage(format!("--{} is given twice", flag.long)));
    }
    let value = match flag.value {
        None => OsString::new(),
        Some(name) => {
            parser.value().map_err(|_| Failure::usage(format!("--{} needs a value: --{0} {name}", flag.long)))?
        }
    };
    given.options.push((flag.long, value));
    Ok(())
}

fn check_shape(command: &Command, given: &Given) -> Result<(), Failure> {
    let words = command.words;
    if let Some(missing) = command.args.get(given.args.len()).filter(|arg| !arg.starts_with('[')) {
        return Err(Failure::usage(format!("`{words}` needs {missing}; see `qinglet help {words}`")));
    }
    if let Some(extra) = given.args.get(command.args.len()) {
        let way_out = match command.rest {
            Some(_) => "put `--` before the program to run".to_owned(),
            None => format!("see `qinglet help {words}`"),
        };
        return Err(Failure::usage(format!("`{words}` does not take `{}`; {way_out}", extra.escape_debug())));
    }
    if given.rest.is_some() && command.rest.is_none() {
        return Err(Failure::usage(format!("`{words}` takes nothing after `--`")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::COMMANDS;
    use super::*;

    fn asked(line: &[&str]) -> Result<Asked, Failure> {
        read(COMMANDS, line.iter().map(OsString::from))
    }

    #[test]
    fn every_command_of_the_table_is_reached_by_its_words_or_refused_by_name() {
        for command in COMMANDS {
            let mut line: Vec<&str> = command.words.split(' ').collect();
            line.extend(command.args);
            let Ok(Asked::Do(found, _)) = asked(&line) else { panic!("{}", command.words) };
            assert_eq!(found.words, command.words);
        }
    }

    #[test]
    fn what_follows_two_dashes_is_left_alone() {
        let line = ["task", "add", "a", "--json", "--", "/bin/x", "--json", "--", ""];
        let Ok(Asked::Do(_, given)) = asked(&line) else { panic!() };
        assert!(given.has("json"));
        assert_eq!(given.arg(0), "a");
        assert_eq!(given.rest.unwrap(), ["/bin/x", "--json", "--", ""]);
    }

    #[test]
    fn global_options_stand_before_or_after_the_words() {
        for line in [&["--state", "/s", "runs", "--limit=3"][..], &["runs", "--limit", "3", "--state=/s"]] {
            let Ok(Asked::Do(_, given)) = asked(line) else { panic!() };
            assert_eq!(given.text("state").unwrap(), Some("/s"));
            assert_eq!(given.text("limit").unwrap(), Some("3"));
        }
    }
}
