//! The help texts, written from the command table.

use super::command::{Command, Flag, GLOBAL};
use super::failure::Failure;
use super::table::Table;
use std::fmt::Write as _;

/// The text for `qinglet help`, `qinglet help WORDS` and `qinglet WORDS --help`.
pub fn text(table: &'static [Command], words: &[String]) -> Result<String, Failure> {
    let asked = words.join(" ");
    if let Some(command) = table.iter().find(|command| command.words == asked) {
        return Ok(one(command));
    }
    let group = format!("{asked} ");
    let chosen = table.iter().filter(|command| asked.is_empty() || command.words.starts_with(&group));
    let chosen: Vec<&Command> = chosen.collect();
    if chosen.is_empty() {
        let near = super::nearest::nearest(&asked, table.iter().map(|command| command.words)).unwrap_or_default();
        return Err(Failure::usage(format!("there is no command `{}`; the nearest is `{near}`", asked.escape_debug())));
    }
    let mut text = String::new();
    if asked.is_empty() {
        text.push_str("qinglet: a small, durable task runtime\n\nUsage: qinglet [OPTIONS] COMMAND\n\nCommands:\n");
    } else {
        let _ = write!(text, "Usage: qinglet {asked} COMMAND\n\nCommands:\n");
    }
    let mut rows = Table::plain();
    for command in chosen.iter().filter(|command| command.body.is_some()) {
        rows.row(["  ".to_owned() + &shape(command), command.summary.to_owned()]);
    }
    text.push_str(&rows.to_string());
    let later: Vec<&str> = chosen.iter().filter(|command| command.body.is_none()).map(|c| c.words).collect();
    if !later.is_empty() {
        let _ = write!(text, "\nNot in this version: {}\n", later.join(", "));
    }
    if asked.is_empty() {
        text.push_str("\nOptions of every command:\n");
        options(&mut text, GLOBAL);
        text.push_str(EXITS);
    }
    Ok(text)
}

const EXITS: &str = "
Exit codes: 0 done; 1 the run did not succeed (--wait); 2 wrong usage or invalid input;
3 refused; 4 unavailable (no daemon, no store, no space).
`qinglet help COMMAND` explains one command.
";

fn one(command: &Command) -> String {
    let mut text = format!("{}\n\nUsage: qinglet {}\n", command.summary, shape(command));
    if command.body.is_none() {
        text.push_str("\nIt is not in this version.\n");
        return text;
    }
    if !command.more.is_empty() {
        let _ = write!(text, "\n{}\n", command.more);
    }
    if !command.flags.is_empty() {
        text.push_str("\nOptions:\n");
        options(&mut text, command.flags);
    }
    text.push_str("\nOptions of every command: --state DIR, --json, --token-file FILE, --help\n");
    text
}

/// The command with its arguments, as one would type it.
fn shape(command: &Command) -> String {
    let mut shape = command.words.to_owned();
    for arg in command.args {
        let _ = write!(shape, " {arg}");
    }
    if let Some(rest) = command.rest {
        let _ = write!(shape, " {rest}");
    }
    shape
}

fn options(text: &mut String, flags: &[Flag]) {
    let mut rows = Table::plain();
    for flag in flags {
        let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
        let value = flag.value.map(|value| format!(" {value}")).unwrap_or_default();
        rows.row([format!("  {short}--{}{value}", flag.long), flag.help.to_owned()]);
    }
    text.push_str(&rows.to_string());
}
