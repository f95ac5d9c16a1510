//! Commands and environments from the command line and over HTTP to the user's program: byte for
//! byte up to their bounds, and one more is refused with the field's name.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use qinglet::model::limits::{ARG_BYTES_MAX, ARGS_MAX, COMMAND_BYTES_MAX, ENV_ENTRIES_MAX, ENV_VALUE_BYTES_MAX};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use support::Bench;

/// A program that writes one of its own files in /proc, `cmdline` or `environ`: parts that each end
/// with a NUL, untouched by any shell.
fn dumper(bench: &Bench, file: &str) -> String {
    let path = bench.root().join(file);
    fs::write(&path, format!("#!/bin/sh\ncat /proc/$$/{file}\nexit $?\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs a task that writes parts ended by NUL.
fn parts(bench: &Bench, task: &str) -> Vec<String> {
    let (run, code) = bench.run_wait(task);
    assert_eq!(code, 0, "{run}");
    let text = String::from_utf8(bench.log(run["id"].as_str().unwrap())).unwrap();
    text.strip_suffix('\0').unwrap().split('\0').map(str::to_owned).collect()
}

fn hard_words() -> Vec<String> {
    [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "'\"'\"'",
        "\\",
        "\\\\n",
        "\n",
        "line\nline\n",
        "\t\r",
        "$HOME `id` $(id) ${x} ; & | * ?",
        "-n",
        "--",
        "--json",
        "é漢\u{1f600}",
        "\x7f\x01",
        "=",
        "%s%n",
        "",
    ]
    .map(String::from)
    .to_vec()
}

/// What a PUT of this configuration as a new task is answered.
fn put(bench: &Bench, task: &str, config: &Value) -> support::http::Reply {
    let body = json!({"schema": "qinglong/task-definition@v1", "mutationId": "018f5e7a-9b1c-7def-8123-000000000001",
        "expectedRevision": null, "name": task, "kind": "command", "labels": {}, "enabled": true,
        "spec": {"schema": "qinglong/command@v1", "config": config}});
    bench.http("PUT", &format!("/tasks/{task}"), Some(&body))
}

#[test]
fn s03_14_1_arguments_arrive_byte_for_byte_as_many_as_there_may_be() {
    let bench = Bench::serving();
    let program = dumper(&bench, "cmdline");
    let mut words = hard_words();
    words.resize_with(ARGS_MAX - 1, String::new);
    words.push("x".repeat(16 * 1024));
    let mut line = vec!["task", "add", "words", "--", &program];
    line.extend(words.iter().map(String::as_str));
    bench.ok(&line);
    let arrived = parts(&bench, "words");
    assert_eq!(arrived[..2], ["/bin/sh", &program], "the interpreter's own line");
    assert!(arrived[2..] == words[..], "{:?}", arrived[2..].iter().zip(&words).find(|(a, b)| a != b));

    // The same, not through a command line of ours.
    let argv = json!({"command": {"kind": "argv", "file": program, "args": words}});
    assert_eq!(put(&bench, "over-http", &argv).status, 201);
    assert_eq!(parts(&bench, "over-http"), arrived);
}

#[test]
fn s03_14_1_a_shell_text_arrives_byte_for_byte() {
    let bench = Bench::serving();
    let text = "printf '%s\\0' \"$0\" 'a  b' \"q'\\\"q\" \"l\nl\" \"\" '\\' \"$((2+3))\" | cat; : 'é";
    bench.shell("text", &format!("{text}'"));
    assert_eq!(parts(&bench, "text"), ["/bin/sh", "a  b", "q'\"q", "l\nl", "", "\\", "5"]);
}

#[test]
fn s03_14_1_environment_values_arrive_byte_for_byte_up_to_16_kib() {
    let bench = Bench::serving();
    let program = dumper(&bench, "environ");
    let mut values = hard_words();
    values.push("v\"\\\n".repeat(ENV_VALUE_BYTES_MAX / 4));
    assert_eq!(values.last().unwrap().len(), 16 * 1024);
    let entries: Vec<String> = values.iter().enumerate().map(|(n, value)| format!("V{n}={value}")).collect();
    let mut line = vec!["task", "add", "values"];
    line.extend(entries.iter().flat_map(|entry| ["--env", entry]));
    line.extend(["--", &program]);
    bench.ok(&line);
    let arrived = parts(&bench, "values");
    let mut own: Vec<&String> = arrived.iter().filter(|entry| entry.starts_with('V')).collect();
    own.sort_by_key(|entry| entry[1..].split('=').next().unwrap().parse::<usize>().unwrap());
    assert!(own == entries.iter().collect::<Vec<_>>());

    // What else is there is ours, and nothing of the daemon's own environment is.
    let other = arrived.iter().filter(|entry| !entry.starts_with('V'));
    let mut names: Vec<&str> = other.map(|entry| entry.split('=').next().unwrap()).collect();
    names.sort_unstable();
    let fixed = [
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "QINGLET_ATTEMPT",
        "QINGLET_RUN_ID",
        "QINGLET_TASK_ID",
        "SHELL",
        "TZ",
        "USER",
    ];
    assert_eq!(names, fixed);
    let set = |name: &str| arrived.iter().find_map(|entry| entry.strip_prefix(&format!("{name}="))).unwrap();
    assert_eq!(set("PATH"), "/usr/sbin:/usr/bin:/sbin:/bin");
    assert_eq!((set("QINGLET_TASK_ID"), set("QINGLET_ATTEMPT")), ("values", "1"));
}

#[test]
fn s03_14_1_as_many_arguments_and_variables_as_there_may_be_fit_one_task() {
    let bench = Bench::serving();
    let program = dumper(&bench, "environ");
    let names: Vec<String> = (0..ENV_ENTRIES_MAX).map(|n| format!("V{n:03}=")).collect();
    let mut line = vec!["task", "add", "many"];
    line.extend(names.iter().flat_map(|name| ["--env", name]));
    line.extend(["--", &program]);
    line.extend([""; ARGS_MAX]);
    bench.ok(&line);
    let arrived = parts(&bench, "many");
    assert!(arrived.iter().filter(|entry| entry.starts_with('V')).eq(&names));
}

/// A configuration that is one too much is refused with the field's name and its bound, by the
/// command line without asking and by the daemon without storing.
#[track_caller]
fn refused(config: &Value, says: &[&str]) {
    let bench = Bench::serving();
    let reply = put(&bench, "much", config);
    assert_eq!((reply.status, reply.code()), (400, "invalid_task_definition"), "{reply:?}");
    let file = bench.root().join("task.json");
    let spec = json!({"schema": "qinglong/command@v1", "config": config});
    fs::write(&file, json!({"taskId": "much", "name": "much", "spec": spec}).to_string()).unwrap();
    let output = bench.cli(&["task", "apply", file.to_str().unwrap()]);
    assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{output:?}");
    for part in says {
        assert!(reply.body["message"].as_str().unwrap().contains(part), "{part:?} is not in {reply:?}");
        assert!(output.stderr.contains(part), "{part:?} is not in {output:?}");
    }
    for text in [reply.body.to_string(), output.stderr] {
        assert!(!text.contains("SECRET") && !text.contains("xxx"), "a value is repeated: {text}");
    }
    assert!(bench.ok(&["task", "list"]).starts_with("no tasks yet"));
}

/// An argument vector of so many bytes, each part with its NUL, in parts that are not too long.
fn argv_of(bytes: usize) -> Value {
    let file = "/bin/true";
    let mut left = bytes - file.len() - 1;
    let mut args = Vec::new();
    while left > 0 {
        let part = left.min(10_000);
        args.push("x".repeat(part - 1));
        left -= part;
    }
    json!({"command": {"kind": "argv", "file": file, "args": args}})
}

#[test]
fn one_argument_more_is_refused_by_name() {
    let argv = json!({"command": {"kind": "argv", "file": "/bin/true", "args": vec![""; ARGS_MAX + 1]}});
    refused(&argv, &["command.args", "256 is the most"]);
}

#[test]
fn one_byte_of_command_more_is_refused_by_name() {
    refused(&argv_of(COMMAND_BYTES_MAX + 1), &["command: takes 65537 bytes", "65536 is the most"]);
}

#[test]
fn one_byte_of_an_environment_value_more_is_refused_by_name_and_not_repeated() {
    let value = "SECRET".repeat(ENV_VALUE_BYTES_MAX / 6 + 1)[..=ENV_VALUE_BYTES_MAX].to_owned();
    let entry = json!({"name": "BIG", "kind": "public", "value": value});
    let config = json!({"command": {"kind": "shell", "command": "true"}, "environment": [entry]});
    refused(&config, &["environment[0].value", "BIG", "16384 is the most"]);
}

#[test]
fn one_byte_of_an_argument_or_of_a_shell_text_more_is_refused_by_name() {
    let long = "x".repeat(ARG_BYTES_MAX + 1);
    refused(
        &json!({"command": {"kind": "argv", "file": "/bin/true", "args": ["", long]}}),
        &["command.args[1]", "16384 is the most"],
    );
    refused(&json!({"command": {"kind": "shell", "command": long}}), &["command.command", "16384 is the most"]);
}

#[test]
fn one_environment_entry_more_is_refused_by_name() {
    let entry = |n: usize| json!({"name": format!("N{n}"), "kind": "public", "value": ""});
    let entries: Vec<Value> = (0..=ENV_ENTRIES_MAX).map(entry).collect();
    let config = json!({"command": {"kind": "shell", "command": "true"}, "environment": entries});
    refused(&config, &["environment", "256 is the most"]);
}

#[test]
fn the_command_line_refuses_one_argument_more_as_it_is_typed() {
    let mut line = vec!["task", "add", "much", "--", "/bin/true"];
    line.extend([""; ARGS_MAX + 1]);
    let output = Bench::new().cli(&line);
    assert_eq!(output.code, 2);
    assert_eq!(output.stderr, "qinglet: command.args: has 257 entries; 256 is the most\n");
}
