//! `trigger preview`: when an expression comes due, without a daemon or a state.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, note, print, print_json};
use super::super::failure::Failure;
use super::super::table::Table;
use crate::model::limits::PREVIEW_MAX;
use crate::model::word::Exit;
use crate::schedule::cron::{self, Cron};
use crate::schedule::host_zone;
use crate::schedule::next::next_after;
use crate::schedule::zone::Zone;
use jiff::Timestamp;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// The command.
pub const COMMAND: Command = Command {
    words: "trigger preview",
    args: &["EXPR"],
    rest: None,
    flags: &[
        Flag::value("zone", "ZONE", "whose time: like Europe/Prague or CST-8; the host's when not given"),
        Flag::value("from", "RFC3339", "from then on, like 2026-03-29T00:00:00+01:00; now when not given"),
        Flag::value("count", "N", "so many; 5 when not given"),
    ],
    summary: "show when an expression comes due",
    more: "Needs no daemon. --json prints {\"fires\": [epoch milliseconds]}.",
    body: Some(preview),
};

const COUNT_DEFAULT: usize = 5;

fn preview(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let text = cron::expand(given.arg(0));
    let cron =
        Cron::parse(text).map_err(|e| Failure::usage(format!("the expression \"{}\" {e}", text.escape_debug())))?;
    let named = given.text("zone")?;
    let host = host_zone::read();
    let zone_text = named.unwrap_or(&host.zone);
    let zone = Zone::parse(zone_text).map_err(|e| Failure::usage(format!("--zone: {e}")))?;
    let from_ms = match given.text("from")? {
        None => now_ms(),
        Some(text) => text.parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|_| {
            Failure::usage("--from must be a time with its distance from UTC, like 2026-03-29T00:00:00+01:00")
        })?,
    };
    let count = match given.text("count")? {
        None => COUNT_DEFAULT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|count| (1..=PREVIEW_MAX).contains(count))
            .ok_or_else(|| Failure::usage(format!("--count must be a whole number from 1 to {PREVIEW_MAX}")))?,
    };
    let later = |at_ms: &i64| next_after(&cron, &zone, *at_ms);
    let fires: Vec<i64> = std::iter::successors(later(&from_ms), later).take(count).collect();
    if context.json {
        print_json(&json!({"fires": fires}))?;
        return Ok(Exit::Done);
    }
    if named.is_none() {
        note(&format!("zone {} (from {})", host.zone, host.source));
    }
    let mut table = Table::plain();
    for at_ms in fires {
        let Ok(at) = Timestamp::from_millisecond(at_ms) else { break };
        let (local, offset) = zone.local(at);
        let weekday = WEEKDAYS.get(usize::try_from(local.weekday().to_monday_zero_offset()).unwrap_or(0));
        let seconds = offset.seconds();
        let (sign, distance) = if seconds < 0 { ('-', -seconds) } else { ('+', seconds) };
        let shown = format!("{} {}{sign}{:02}:{:02}", local.date(), local.time(), distance / 3600, distance / 60 % 60);
        table.row([(*weekday.unwrap_or(&"")).to_owned(), shown]);
    }
    print(&table.to_string())?;
    Ok(Exit::Done)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    i64::try_from(since).unwrap_or(i64::MAX)
}

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
