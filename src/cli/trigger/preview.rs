//! `trigger preview`: when an expression will be due. Needs no daemon and no state.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::table::Table;
use super::super::time::now_ms;
use crate::model::limits::PREVIEW_MAX;
use crate::model::word::Exit;
use crate::schedule::civil::{DAY_SECONDS, clock_text, offset_text, parse_rfc3339, weekday};
use crate::schedule::cron::{Cron, expand};
use crate::schedule::host_zone;
use crate::schedule::next::fires;
use crate::schedule::zone::Source;
use crate::schedule::zone::Zone;
use serde_json::json;

/// The command.
pub const COMMAND: Command = Command {
    words: "trigger preview",
    args: &["EXPR"],
    rest: None,
    flags: &[
        Flag::value("zone", "ZONE", "a name (Europe/Prague) or a POSIX string (CST-8); the host's when not given"),
        Flag::value("from", "TIME", "what is due after this time, as 2026-12-01T03:00:00Z; now when not given"),
        Flag::value("count", "N", "how many times; 5 when not given"),
    ],
    summary: "show when a cron expression is due",
    more: "EXPR is five fields in quotes (minute, hour, day of month, month, day of week), six with leading\n\
           seconds, or a short form such as @hourly. When clocks change, an expression whose hour does\n\
           not begin with a star keeps its times of day, any other its pace.",
    body: preview,
};

const COUNT_DEFAULT: usize = 5;

fn preview(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let (zone, whence) = zone(given)?;
    let typed = given.arg(0);
    let cron = Cron::parse(expand(typed))
        .map_err(|e| Failure::usage(format!("the expression \"{}\" is refused {e}", typed.escape_debug())))?;
    let from_ms = match given.text("from")? {
        Some(text) => parse_rfc3339(text).ok_or_else(|| {
            let typed = text.escape_debug();
            Failure::usage(format!("--from \"{typed}\" is not a time; write it as 2026-12-01T03:00:00+01:00"))
        })?,
        None => now_ms(),
    };
    let due = fires(&cron, &zone, from_ms, count(given)?);
    if context.json {
        print_json(&json!({ "fires": due }))?;
        return Ok(Exit::Done);
    }
    print(&format!("{} in {}{whence}:\n{}", cron.text(), zone.name(), lines(&cron, &zone, &due)))?;
    if due.is_empty() {
        note("It is not due again before the year 2200.");
    }
    Ok(Exit::Done)
}

/// The zone, and how it came to be this one.
fn zone(given: &Given) -> Result<(Zone, String), Failure> {
    let (zone, mut whence) = if let Some(text) = given.text("zone")? {
        let zone = Zone::parse(text)
            .map_err(|e| Failure::usage(format!("the zone \"{}\" is refused {e}", text.escape_debug())))?;
        (zone, String::new())
    } else {
        let (zone, found) = host_zone::zone();
        (zone, format!(", the host's zone ({found})"))
    };
    if zone.source() == Source::BuiltIn && zone.name() != "UTC" {
        whence.push_str(", by the built-in rules of today");
    }
    Ok((zone, whence))
}

fn count(given: &Given) -> Result<usize, Failure> {
    let Some(text) = given.text("count")? else { return Ok(COUNT_DEFAULT) };
    let count = text.parse().ok().filter(|count| (1..=PREVIEW_MAX).contains(count));
    count.ok_or_else(|| {
        Failure::usage(format!("--count {}: a number from 1 to {PREVIEW_MAX} is needed", text.escape_debug()))
    })
}

fn lines(cron: &Cron, zone: &Zone, due: &[i64]) -> Table {
    const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    let mut rows = Table::plain();
    for at_ms in due {
        let at = at_ms.div_euclid(1000);
        let offset = zone.offset_at(at);
        let local = at + i64::from(offset);
        let day = WEEKDAYS[weekday(local.div_euclid(DAY_SECONDS)) as usize % 7];
        let when = format!("{day}  {}  {}", clock_text(local), offset_text(offset));
        if cron.matches(local) {
            rows.row([when]);
        } else {
            rows.row([when, "the clocks have skipped its time".to_owned()]);
        }
    }
    rows
}
