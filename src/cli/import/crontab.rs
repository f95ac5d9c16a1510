//! `import crontab`: takes the lines of a crontab as tasks with triggers.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, note};
use super::super::failure::Failure;
use super::super::time::now_ms;
use super::expression::Reading;
use super::plan::{self, Becomes, Rules};
use super::report::{self, Row};
use super::{account, source, store};
use crate::model::word::Exit;
use crate::schedule::host_zone;

/// The command.
pub const COMMAND: Command = Command {
    words: "import crontab",
    args: &["FILE|-"],
    rest: None,
    flags: &[
        Flag::switch("system", "a user stands before each command, as in /etc/crontab and /etc/cron.d"),
        Flag::value("user", "USER", "whose crontab it is; with --system, whose lines are wanted"),
        Flag::switch("busybox", "read fields and % as busybox crond does, not as crontab(5) says"),
        Flag::switch("dry-run", "only show what would be done; needs no daemon"),
    ],
    summary: "take the lines of a crontab as tasks with triggers",
    more: "  qinglet import crontab /etc/crontabs/root --busybox --dry-run\n  \
           qinglet import crontab /etc/cron.d/certbot --system\n  crontab -l | qinglet import crontab -\n\n\
           Each line becomes a task and a trigger with an id of its own, so that importing a file again changes\n\
           nothing. Lines that are gone from it are named, not deleted. Exit code 3: some lines were not taken.\n\
           Take cron's own copy away afterwards, else both run them.",
    body: import,
};

fn import(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let file = given.arg(0);
    let bytes = source::read(file)?;
    let (account, host, label) = (account::of(&context.state), host_zone::read(), source::label(file));
    let rules = Rules {
        reading: if given.has("busybox") { Reading::Busybox } else { Reading::Vixie },
        system: given.has("system"),
        user: given.text("user")?,
        account: &account,
        zone: &host.zone,
        source: &label,
        now_ms: now_ms(),
    };
    let entries = plan::of(&bytes, &rules);
    let jobs = || {
        entries.iter().filter_map(|entry| match &entry.becomes {
            Becomes::Job(job) => Some(&job.id),
            _ => None,
        })
    };
    if given.has("dry-run") {
        let rows: Vec<Row<'_>> = entries.iter().map(Row::planned).collect();
        report::show(context, &rows, &[])?;
        note("nothing was stored: --dry-run");
        return Ok(exit(&rows));
    }
    let client = context.client();
    // Before anything is stored, so that a missing daemon is a missing daemon and no half of a job.
    let gone = store::gone(&client, &label, &jobs().collect())?;
    let mut rows = Vec::with_capacity(entries.len());
    for entry in &entries {
        let row = match &entry.becomes {
            Becomes::Job(job) => match store::put(&client, job) {
                Ok(done) => Row::stored(entry, done),
                Err(failure) if failure.exit == Exit::Unavailable => {
                    // What is stored so far is told; the same import goes on from there.
                    report::show(context, &rows, &[])?;
                    return Err(failure);
                }
                Err(failure) => Row::failed(entry, failure.message),
            },
            _ => Row::planned(entry),
        };
        rows.push(row);
    }
    report::show(context, &rows, &gone)?;
    Ok(exit(&rows))
}

fn exit(rows: &[Row<'_>]) -> Exit {
    if rows.iter().any(Row::is_refused) { Exit::Refused } else { Exit::Done }
}
