//! `check`: runs that nobody can decide, what speaks for and against one, and settling it. Asks the
//! daemon, or looks for itself when none runs. Without a run the whole state is looked through too.

mod state;

use super::args::Given;
use super::cell::{cell, time};
use super::client::Client;
use super::command::{Command, Flag, LOGS};
use super::context::{Context, note, print, print_json};
use super::failure::Failure;
use super::table::{Table, printable};
use super::{mutation, show};
use crate::http::evidence::{SCHEMA, shape};
use crate::model::id::RunId;
use crate::model::word::Exit;
use crate::runtime::{Evidence, Objection, Unserved};
use crate::store::resolve::Resolved;
use serde_json::{Value, json};

/// The command.
pub const COMMAND: Command = Command {
    words: "check",
    args: &["[RUN]"],
    rest: None,
    flags: &[Flag::value("resolve", "lost", "call the run lost, so that its place is free"), LOGS],
    summary: "look the state through, and show the runs that nobody can decide, or what is known of one",
    more: "Without RUN it lists the runs of which nobody can say whether they run or how they ended, then looks\n\
           the state through and changes nothing: the database's pages and references, the digests of tasks\n\
           and triggers, the keys of secrets, logs and receipts against what is stored. A line each, ok, warn or\n\
           fail; exit 1 when something fails (role admin). With RUN it shows what the store, the receipt and the process say. --resolve lost settles such a run:\n\
           be sure that it does not run any more. It is refused for a run that is provably alive. Works\n\
           with no daemon running too.",
    body: check,
};

fn check(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let run = given.optional_arg(0).map(show::run_id).transpose()?;
    let resolve = match given.text("resolve")? {
        None => false,
        Some("lost") => true,
        Some(other) => {
            let message = format!("--resolve {}: a run can only be settled as lost", other.escape_debug());
            return Err(Failure::usage(message));
        }
    };
    let client = context.client();
    match (run, resolve) {
        (None, true) => Err(Failure::usage("--resolve needs RUN; `qinglet check` shows those in question")),
        (None, false) if client.is_served() => {
            list(context, &client)?;
            state::served(context, &client)
        }
        (None, false) => {
            let unserved = Unserved::look(&context.state, &context.logs(given)?).map_err(Failure::unavailable)?;
            list_unserved(context, &unserved)?;
            state::unserved(context, &unserved)
        }
        (Some(run), false) => {
            let evidence = if client.is_served() {
                client.get(&format!("/runs/{run}/evidence"), &format!("check run {run}"))?["evidence"].take()
            } else {
                shape(&found(&unserved(context)?, run)?)
            };
            if context.json {
                print_json(&json!({"evidence": evidence}))?;
            } else {
                print(&text(context, &evidence))?;
            }
            Ok(Exit::Done)
        }
        (Some(run), true) => {
            let answer = if client.is_served() { ask(&client, run)? } else { settle(context, run)? };
            if context.json {
                print_json(&answer)?;
            } else if answer["status"] == "resolved" {
                print("the run is lost now\n")?;
            } else {
                print("it was settled before\n")?;
            }
            Ok(Exit::Done)
        }
    }
}

fn list(context: &Context, client: &Client) -> Result<(), Failure> {
    let status = client.get("/status", "list the undecided runs")?;
    let undecided = &status["status"]["undecided"];
    let runs = undecided["runs"].as_array().map_or(&[][..], Vec::as_slice);
    let rows = runs.iter().map(|run| (run["runId"].clone(), run["reason"].clone(), run["sinceMs"].clone()));
    let rows: Vec<_> = rows.collect();
    if context.json {
        runs.iter().try_for_each(print_json)?;
    } else {
        print(&listed(context, &rows, undecided["count"].as_u64().unwrap_or(0)))?;
    }
    Ok(())
}

fn list_unserved(context: &Context, unserved: &Unserved) -> Result<(), Failure> {
    let all = match unserved.under_way() {
        Ok(all) => all,
        // What follows says what is wrong with the store.
        Err(why) => {
            note(&format!("qinglet: {why}"));
            return Ok(());
        }
    };
    let count = all.len();
    let undecided: Vec<Value> = all.iter().filter(|evidence| evidence.is_undecided()).map(shape).collect();
    if context.json {
        return undecided.iter().try_for_each(|evidence| print_json(&json!({"evidence": evidence})));
    }
    let rows: Vec<_> = undecided.iter().map(|run| (run["runId"].clone(), "unclear".into(), Value::Null)).collect();
    print(&listed(context, &rows, rows.len() as u64))?;
    if count > rows.len() {
        let settles = "no daemon runs; the next `qinglet serve` takes them up";
        print(&format!("{} more under way; {settles}\n", count - rows.len()))?;
    }
    Ok(())
}

fn listed(context: &Context, rows: &[(Value, Value, Value)], count: u64) -> String {
    if rows.is_empty() {
        return "no undecided runs\n".into();
    }
    let mut table = Table::headed(["RUN ID", "WHY", "SINCE"]);
    for (run, reason, since) in rows {
        table.row([cell(run), cell(reason), time(since)]);
    }
    let more = count.saturating_sub(rows.len() as u64);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    format!("{table}{more}\nWhat speaks for and against one: qinglet {}check RUN\n", context.state_option())
}

fn unserved(context: &Context) -> Result<Unserved, Failure> {
    Unserved::open(&context.state).map_err(Failure::unavailable)
}

fn found(unserved: &Unserved, run: RunId) -> Result<Evidence, Failure> {
    let found = unserved.evidence(run).map_err(Failure::unavailable)?;
    found.ok_or_else(|| Failure::refused(format!("cannot check run {run}: there is no such run (run_not_found)")))
}

fn ask(client: &Client, run: RunId) -> Result<Value, Failure> {
    let body = json!({"schema": SCHEMA, "mutationId": mutation::fresh()?.to_string(), "resolution": "lost"});
    let reply = client.send_patiently("POST", &format!("/runs/{run}/resolution"), Some(&body))?;
    reply.done(&format!("settle run {run}"))
}

fn settle(context: &Context, run: RunId) -> Result<Value, Failure> {
    let unserved = unserved(context)?;
    let evidence = found(&unserved, run)?;
    let refuse = |objection: Objection| {
        let (word, why) = (objection.word(), objection.sentence());
        Failure::refused(format!("cannot settle run {run}: {why} (run_not_resolvable: {word})"))
    };
    let answer = |status: &str| json!({"status": status, "runId": run.to_string()});
    match evidence.objection() {
        Some(Objection::Lost) => return Ok(answer("already_resolved")),
        Some(objection) => return Err(refuse(objection)),
        None => {}
    }
    match unserved.resolve(&evidence, mutation::fresh()?).map_err(Failure::unavailable)? {
        Resolved::Lost(_) => Ok(answer("resolved")),
        Resolved::Already => Ok(answer("already_resolved")),
        // Nobody else can write while the lock is ours.
        _ => Err(Failure::unavailable(format!("run {run} was not settled: the store has changed meanwhile"))),
    }
}

/// The evidence in aligned words.
fn text(context: &Context, evidence: &Value) -> String {
    let mut rows = Table::plain();
    let mut line = |key: &str, value: String| rows.row([key.to_owned(), printable(&value)]);
    line("run", cell(&evidence["runId"]));
    line("task", cell(&evidence["taskId"]));
    line("the store says", cell(&evidence["status"]));
    if let Some(code) = evidence["errorCode"].as_str() {
        line("error", code.to_owned());
    }
    if let Some(reason) = evidence["cancelReason"].as_str() {
        line("asked to end by", reason.to_owned());
    }
    let attempts = evidence["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    for attempt in attempts {
        line("attempt", format!("{}, {}", cell(&attempt["number"]), cell(&attempt["status"])));
        line("started", time(&attempt["startedAtMs"]));
        let aside = if attempt["quarantined"] == true { "; one that was not to be believed was put aside" } else { "" };
        line("receipt", receipt(&attempt["receipt"]).to_owned() + aside);
        line("process", process(&attempt["process"]).to_owned());
    }
    let undecided = &evidence["undecided"];
    match undecided["reason"].as_str() {
        Some(word) => line("undecided", format!("{word}: {}", reason(word))),
        None => line("undecided", "no".into()),
    }
    if undecided["sinceMs"].is_i64() {
        line("since", time(&undecided["sinceMs"]));
    }
    line("what will happen", next(&evidence["next"]).to_owned());
    line("what to type", way_out(context, evidence));
    rows.to_string()
}

fn receipt(word: &Value) -> &'static str {
    match word.as_str() {
        Some("found") => "there; it says how the attempt ended",
        Some("absent") => "none",
        Some("invalid") => "something is there that is no receipt of this attempt",
        _ => "it cannot be read",
    }
}

fn process(word: &Value) -> &'static str {
    match word.as_str() {
        Some("running") => "it lives and is the very same",
        Some("gone") => "it is gone",
        Some("invalid") => "its stored identity cannot be read, so nobody knows which it is",
        Some("none") => "there was none; nothing of the task ran",
        _ => "the system does not say whether it lives",
    }
}

fn reason(word: &str) -> &'static str {
    match word {
        "handle_invalid" => "the stored identity of its process is damaged",
        "process_unknown" => "the system does not say whether its process lives",
        "receipt_unreadable" => "its receipt cannot be read or put aside",
        "receipt_quarantined" => "its receipt was not to be believed, and the process does not say more",
        "attempts_ambiguous" => "it has not exactly one active attempt",
        "sweep_impossible" => "what its killed supervisor may have left cannot be looked for",
        "unkillable" => "it stays alive after KILL, as one does that waits for a disk or is frozen",
        _ => "this version does not know the word",
    }
}

fn next(word: &Value) -> &'static str {
    match word.as_str() {
        Some("watched") => "the daemon watches it and will know its end",
        Some("look_again") => "it keeps its place and is looked at again every few seconds",
        Some("kill_again") => "it keeps its place and is killed again, more and more rarely; its end will be known",
        Some("next_start") => "no daemon runs; the next `qinglet serve` looks at it",
        Some("starts") => "it starts when it is its turn",
        _ => "nothing, by itself",
    }
}

fn way_out(context: &Context, evidence: &Value) -> String {
    let (state, run) = (context.state_option(), cell(&evidence["runId"]));
    let resolve = || format!("qinglet {state}check {run} --resolve lost, once you are sure that it does not run");
    match (evidence["resolution"].as_str(), evidence["next"].as_str()) {
        (Some("allowed"), Some("next_start")) => format!("qinglet {state}serve, or {}", resolve()),
        (Some("allowed"), _) => resolve(),
        (Some("alive"), Some("kill_again")) => "nothing helps but what it waits for".into(),
        (Some("alive"), Some("next_start")) => format!("qinglet {state}serve, then qinglet {state}stop {run}"),
        (Some("alive"), _) => format!("qinglet {state}stop {run}, to end it"),
        (Some("end_known"), Some("next_start")) => format!("qinglet {state}serve"),
        (Some("lost" | "ended"), _) => format!("qinglet {state}show {run}"),
        _ => "nothing".into(),
    }
}
