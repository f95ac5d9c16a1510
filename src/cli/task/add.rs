//! `task add`: makes a new task from the command line.

use super::super::args::Given;
use super::super::command::{Command, Flag};
use super::super::context::{Context, print, print_json};
use super::super::failure::Failure;
use super::super::time::parse_duration;
use super::{confine, put};
use crate::model::name::{NAME_RULE, Name};
use crate::model::secret::SecretRef;
use crate::model::word::Exit;
use crate::model::{command, limits};
use serde_json::{Value, json};

/// The command.
pub const COMMAND: Command = Command {
    words: "task add",
    args: &["ID"],
    rest: Some("(--shell TEXT | -- FILE ARG...)"),
    flags: &[
        Flag::value("shell", "TEXT", "run TEXT with /bin/sh, instead of a program after --"),
        Flag::value("name", "TEXT", "what people call it; the id when not given"),
        Flag::value("cwd", "DIR", "where it starts; / when not given"),
        Flag::value("env", "NAME=VALUE", "set an environment variable; may be given again").many(),
        Flag::value("grace", "TIME", "from asking it to end to forcing it, like 5s or 2m; 5s when not given"),
        Flag::value("timeout", "TIME", "after so long it is ended, like 90s, 10m or 2h; never when not given"),
        Flag::switch("disabled", "store it switched off"),
        Flag::value("retry", "N", "try again up to N times when it failed or timed out; 0 when not given"),
        Flag::value("retry-delay", "TIME", "before the first retry, then twice as long each time; 1s when not given"),
        Flag::value("run-as", "USER[:GROUP]", "run it as this user, with the user's further groups"),
        Flag::value("leftovers", "kill|keep", "what becomes of processes it leaves behind; kill when not given"),
        Flag::value("secret-env", "NAME=SECRET", "set a variable to a secret's value; may be given again").many(),
        Flag::switch("no-redact", "let secrets' values stand in the log when it prints them"),
        Flag::value("memory", "SIZE", "hold it below so much memory, like 16MiB or 1G, swap included"),
        Flag::value("pids", "N", "hold it below so many processes and threads"),
        Flag::value("cpu", "PERCENT", "hold it below a share of the processor; 100 is one core"),
        Flag::value("require", "WORD", "do not start it where this is missing; `status` shows the words").many(),
        Flag::value("nice", "N", "its nice value, -20 to 19"),
        Flag::value("oom-score-adj", "N", "how readily it is killed when memory runs out, -1000 to 1000"),
        Flag::switch("inherit-env", "give it the daemon's own environment too"),
    ],
    summary: "add a task",
    more: "The program is an absolute path and gets its arguments byte for byte; only --shell text is\n\
           read by a shell:\n\n  qinglet task add hello -- /bin/echo 'hello world'\n  \
           qinglet task add backup --shell 'tar c /etc | gzip > /mnt/etc.tar.gz' --env LEVEL=9",
    body: Some(add),
};

fn add(context: &Context, given: &Given) -> Result<Exit, Failure> {
    let id = super::task_id(given.arg(0))?;
    let program = match (given.text("shell")?, given.rest.as_deref()) {
        (Some(text), None) => json!({"kind": "shell", "command": text}),
        (None, Some([file, args @ ..])) => json!({"kind": "argv", "file": file, "args": args}),
        (Some(_), Some(_)) => return Err(Failure::usage("give either --shell TEXT or a program after --, not both")),
        (None, _) => return Err(Failure::usage("say what to run: --shell TEXT, or -- FILE ARG...")),
    };
    let mut config = json!({"command": program, "environment": environment(&given.texts("env")?)?});
    let secrets = secrets(&given.texts("secret-env")?)?;
    if let Some(environment) = config["environment"].as_array_mut() {
        environment.extend(secrets);
    }
    if given.has("no-redact") {
        config["redact"] = false.into();
    }
    if let Some(folder) = given.text("cwd")? {
        config["workingDirectory"] = folder.into();
    }
    if let Some(grace) = given.text("grace")? {
        config["terminationGraceMs"] = duration("grace", grace, 0, limits::GRACE_MS_MAX)?.into();
    }
    if let Some(timeout) = given.text("timeout")? {
        config["timeoutMs"] = duration("timeout", timeout, 1, limits::TIMEOUT_MS_MAX)?.into();
    }
    if let Some(retry) = retry(given)? {
        config["retry"] = retry;
    }
    match given.text("leftovers")? {
        None => {}
        Some(word) if command::Leftovers::parse(word).is_some() => config["leftovers"] = word.into(),
        Some(_) => return Err(Failure::usage("--leftovers must be kill or keep")),
    }
    confine::put(given, &mut config)?;
    let definition = put::check(&json!({
        "name": given.text("name")?.unwrap_or(id.as_str()),
        "spec": {"schema": command::SCHEMA, "config": config},
        "enabled": !given.has("disabled"),
    }))?;
    let reply = put::send(&context.client(), &id, None, &definition)?;
    if reply.reason() == "definition_changed" {
        return Err(Failure::refused(format!(
            "there is a task \"{id}\" already; change it with `qinglet task apply`, or delete it first"
        )));
    }
    let answer = reply.done(&format!("add task \"{id}\""))?;
    if context.json {
        print_json(&answer)?;
    } else if definition.enabled {
        print(&format!("added task {id}; run it with `qinglet {}run {id} --wait`\n", context.state_option()))?;
    } else {
        print(&format!("added task {id}, switched off\n"))?;
    }
    Ok(Exit::Done)
}

fn environment(pairs: &[&str]) -> Result<Vec<Value>, Failure> {
    let entry = |pair: &&str| {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            // The text is not repeated: what was meant as a value may be a secret.
            Failure::usage("--env needs NAME=VALUE; there is no `=` in what was given")
        })?;
        Ok(json!({"name": name, "kind": "public", "value": value}))
    };
    pairs.iter().map(entry).collect()
}

fn secrets(pairs: &[&str]) -> Result<Vec<Value>, Failure> {
    let entry = |pair: &&str| {
        let (name, secret) = pair.split_once('=').unwrap_or((pair, ""));
        let secret = Name::parse(secret).ok_or_else(|| {
            // Not repeated: somebody may have given the value instead of the name.
            Failure::usage(format!("--secret-env needs NAME=SECRET, with a secret's name: {NAME_RULE}"))
        })?;
        let secret = SecretRef { project: Name::default_project(), name: secret, version: None };
        Ok(json!({"name": name, "kind": "secret", "secretRef": secret.to_string()}))
    };
    pairs.iter().map(entry).collect()
}

fn retry(given: &Given) -> Result<Option<Value>, Failure> {
    let delay = given.text("retry-delay")?;
    let Some(text) = given.text("retry")? else {
        return match delay {
            Some(_) => Err(Failure::usage("--retry-delay needs --retry N")),
            None => Ok(None),
        };
    };
    let most = limits::ATTEMPTS_MAX - 1;
    let again = text.parse().ok().filter(|again| (0..=most).contains(again)).ok_or_else(|| {
        Failure::usage(format!("--retry must be a whole number from 0 to {most}: how often to try again"))
    })?;
    let mut retry = json!({"maxAttempts": again + 1});
    if let Some(delay) = delay {
        retry["delayMs"] = duration("retry-delay", delay, 0, limits::RETRY_DELAY_MS_MAX)?.into();
    }
    Ok(Some(retry))
}

fn duration(option: &str, text: &str, least_ms: i64, most_ms: i64) -> Result<i64, Failure> {
    parse_duration(text).filter(|ms| (least_ms..=most_ms).contains(ms)).ok_or_else(|| {
        let most = most_ms / 1000;
        Failure::usage(format!("--{option} must be a time like 500ms, 5s or 2m, from {least_ms}ms to {most}s"))
    })
}
