//! The command line as a client: what it asks, how it takes refusals, what it outlasts. Against a
//! scripted daemon, because a real one cannot be made to answer these things on demand.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod support;

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};
use std::io::Read;
use std::process::Stdio;
use support::peer::{Asked, Peer};
use support::{Bench, tree, until};

const RUN: &str = "018f5e7a-9b1c-7def-8123-456789abcdef";
const ATTEMPT: &str = "018f5e7a-9b1c-7def-8123-456789abcde0";

fn task(revision: i64) -> Value {
    json!({"task": {"taskId": "a", "revision": revision, "contentDigest": format!("{revision:064x}"), "name": "a",
        "enabled": true, "kind": "command", "labels": {}, "description": null,
        "spec": {"schema": "qinglong/command@v1", "config": {"command": {"kind": "shell", "command": "x"}}}}})
}

fn started() -> Value {
    json!({"status": "accepted", "runId": RUN, "attemptId": ATTEMPT, "taskId": "a", "queuedAtMs": 1})
}

fn run(status: &str, exit: Option<i64>) -> Value {
    json!({"run": {"id": RUN, "taskId": "a", "status": status, "startedAtMs": 1,
        "latestAttempt": {"id": ATTEMPT, "number": 1, "exitCode": exit, "signal": null}}})
}

fn log(all: &[u8], offset: usize, most: usize) -> Value {
    let end = all.len().min(offset + most);
    json!({"status": "available", "content": Base64::encode_string(&all[offset..end]), "start": offset,
        "endExclusive": end, "totalBytes": all.len(), "truncated": false, "droppedBytes": 0, "active": true})
}

fn offset(asked: &Asked) -> usize {
    asked.line.split("offset=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap()
}

fn changed() -> (u16, Value) {
    (409, json!({"code": "task_start_fence_rejected", "reason": "definition_changed"}))
}

#[test]
fn a_start_names_what_was_seen_and_reads_a_changed_definition_again_once() {
    let bench = Bench::new();
    let peer = Peer::new(&bench, |asked, before| {
        Some(if asked.line.starts_with("GET") {
            (200, task(1 + before as i64))
        } else if before == 1 {
            changed()
        } else {
            (202, started())
        })
    });
    assert_eq!(bench.ok(&["run", "a"]), RUN);
    let asked = peer.asked();
    let lines: Vec<&str> = asked.iter().map(|asked| asked.line.as_str()).collect();
    assert_eq!(lines, ["GET /tasks/a", "POST /tasks/a/runs", "GET /tasks/a", "POST /tasks/a/runs"]);
    let (first, second) = (&asked[1].body, &asked[3].body);
    assert_eq!((&first["expectedRevision"], &second["expectedRevision"]), (&json!(1), &json!(3)));
    assert_eq!(second["expectedContentDigest"], format!("{:064x}", 3));
    assert_ne!(first["mutationId"], second["mutationId"]);
    assert_eq!(first.as_object().unwrap().len(), 4);
    assert!(first.to_string().len() <= 512);
    assert!(asked[0].head.contains("\r\nAuthorization: Bearer ql3c_test_secret"));
}

#[test]
fn a_definition_that_changes_all_the_time_is_a_refusal() {
    let bench = Bench::new();
    let peer =
        Peer::new(&bench, |asked, _| Some(if asked.line.starts_with("GET") { (200, task(1)) } else { changed() }));
    let output = bench.cli(&["run", "a", "--wait"]);
    assert_eq!((output.code, output.stdout.as_str()), (3, ""));
    assert_eq!(peer.asked().len(), 4);
}

#[test]
fn waiting_outlasts_broken_connections_and_refusals_that_pass() {
    let bench = Bench::new();
    let peer = Peer::new(&bench, |asked, before| match (asked.line.as_str(), before) {
        ("GET /tasks/a", _) => Some((200, task(1))),
        // Taken, and the answer lost: the same mutation is said again.
        ("POST /tasks/a/runs", 1) => None,
        ("POST /tasks/a/runs", _) => Some((200, started())),
        (_, 3) => None,
        (_, 4) => Some((503, json!({"code": "server_overloaded"}))),
        (_, 5) => Some((503, json!({"code": "server_draining"}))),
        (_, 6) => Some((200, run("running", None))),
        _ => Some((200, run("succeeded", Some(0)))),
    });
    let output = bench.cli(&["run", "a", "--wait"]);
    assert_eq!((output.code, output.stdout.trim()), (0, RUN), "{output:?}");
    assert_eq!(output.stderr, format!("run {RUN} of a succeeded with exit code 0\n"));
    let asked = peer.asked();
    assert_eq!(asked[1].body["mutationId"], asked[2].body["mutationId"]);
}

#[test]
fn waiting_outlasts_a_daemon_that_is_away_for_a_moment() {
    let bench = Bench::new();
    let peer = Peer::new(&bench, |asked, _| {
        Some(match asked.line.split('?').next().unwrap() {
            "GET /tasks/a" => (200, task(1)),
            "POST /tasks/a/runs" => (202, started()),
            _ => (200, run("running", None)),
        })
    });
    let mut child = bench.spawn(&["run", "a", "--wait"], &bench.root().join("out"));
    until("the first look", || (peer.asked().len() >= 3).then_some(()));
    drop(peer);
    // It slept more than once since, so it has looked and found nobody.
    let before = tree::sleeps(child.id() as i32);
    until("it to look again", || {
        (tree::sleeps(child.id() as i32) > before + 3 || child.try_wait().unwrap().is_some()).then_some(())
    });
    assert!(child.try_wait().unwrap().is_none(), "it goes on while nobody listens");
    let _back = Peer::new(&bench, |_, _| Some((200, run("failed", Some(3)))));
    assert_eq!(until("its end", || child.try_wait().unwrap()).code(), Some(1));
    let text = std::fs::read_to_string(bench.root().join("out")).unwrap();
    assert_eq!(text, format!("{RUN}\nrun {RUN} of a failed with exit code 3\n"));
}

#[test]
fn a_lost_run_ends_the_wait_as_not_succeeded() {
    let bench = Bench::new();
    let _peer = Peer::new(&bench, |asked, _| {
        Some(match asked.line.as_str() {
            "GET /tasks/a" => (200, task(1)),
            "POST /tasks/a/runs" => (202, started()),
            _ => (200, run("lost", None)),
        })
    });
    let output = bench.cli(&["run", "a", "--wait"]);
    assert_eq!((output.code, output.stdout.trim()), (1, RUN));
    assert!(output.stderr.contains("is lost"), "{}", output.stderr);
}

#[test]
fn following_writes_every_byte_once_until_the_run_is_over_and_the_log_drained() {
    let bench = Bench::new();
    let all: Vec<u8> = (0..100_000_u32).map(|at| (at * 7 % 251) as u8).chain(*b"\0\xff\n no newline").collect();
    let whole = all.clone();
    let _peer = Peer::new(&bench, move |asked, before| {
        Some(match asked.line.split('?').next().unwrap() {
            "GET /tasks/a" => (200, task(1)),
            "POST /tasks/a/runs" => (202, started()),
            line if line.ends_with("/log") => match before {
                0..5 => (202, json!({"status": "pending"})),
                // Grows while it is read; the last part appears only when the run has ended.
                5..10 => (200, log(&whole[..50_000], offset(asked), 32_768)),
                _ => (200, log(&whole, offset(asked), 32_768)),
            },
            _ => (200, if before < 10 { run("running", None) } else { run("succeeded", Some(0)) }),
        })
    });
    let output = bench.cli(&["run", "a", "--follow"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.bytes == all, "{} of {} bytes", output.bytes.len(), all.len());
    assert_eq!(output.stderr, format!("{RUN}\nrun {RUN} of a succeeded with exit code 0\n"));
    assert!(bench.log(RUN) == all);
}

#[test]
fn a_reader_that_goes_away_ends_the_log_quietly() {
    let bench = Bench::new();
    let all = vec![b'x'; 1_000_000];
    let _peer = Peer::new(&bench, move |asked, _| {
        Some(if asked.line.contains("/log?") {
            (200, log(&all, offset(asked), 32_768))
        } else {
            (200, run("running", None))
        })
    });
    let mut command = bench.command(&["logs", RUN, "--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let status = until("its end", || child.try_wait().unwrap());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!((status.code(), text.as_str()), (Some(0), ""));
}

#[test]
fn names_from_outside_cannot_steer_the_terminal() {
    let bench = Bench::new();
    let _peer = Peer::new(&bench, |asked, _| {
        Some(if asked.line.starts_with("GET /tasks") {
            let item =
                json!({"taskId": "a", "name": "x\u{1b}[31m\ny", "enabled": true, "revision": 1, "updatedAtMs": 0});
            (200, json!({"tasks": [item], "hasMore": false}))
        } else {
            (404, json!({"code": "run_not_found", "message": "gone\u{1b}[2J\nreally"}))
        })
    });
    let text = bench.ok(&["task", "list"]);
    assert!(text.contains("x\\u{1b}[31m\\ny") && text.lines().count() == 2, "{text}");
    assert!(text.contains("1970-01-01T00:00:00Z"), "{text}");
    let output = bench.cli(&["show", RUN]);
    assert_eq!(output.code, 3);
    assert!(!output.stderr.contains('\u{1b}') && output.stderr.lines().count() == 1, "{output:?}");
}

#[test]
fn lists_are_read_page_by_page_and_printed_one_json_item_a_line() {
    let bench = Bench::new();
    let peer = Peer::new(&bench, |asked, _| {
        let id = |at: usize| format!("018f5e7a-9b1c-7def-8123-{at:012}");
        let items = |range: std::ops::Range<usize>| -> Value {
            range.map(|at| json!({"id": id(at), "createdAtMs": 1000 - at, "status": "queued"})).collect()
        };
        Some(match asked.line.split("limit=").nth(1).unwrap().split('&').next().unwrap() {
            // An answer may hold fewer than were asked for.
            "64" => (200, json!({"runs": items(0..40), "hasMore": true})),
            "60" => (200, json!({"runs": items(40..100), "hasMore": true})),
            other => panic!("{other}"),
        })
    });
    let lines = bench.json_lines(&["runs", "--limit", "100", "--status", "queued", "--task", "a"]);
    assert_eq!(lines.len(), 100);
    let second = &peer.asked()[1].line;
    assert_eq!(
        second,
        "GET /runs?limit=60&task=a&status=queued&after_created_at_ms=961&after_run_id=018f5e7a-9b1c-7def-8123-000000000039"
    );
}

#[test]
fn enabling_stores_the_definition_that_was_read_in_place_of_the_same_revision() {
    let bench = Bench::new();
    let peer = Peer::new(&bench, |asked, _| {
        let mut task = task(7);
        Some(if asked.line.starts_with("GET") {
            (200, task)
        } else {
            task["status"] = "updated".into();
            (200, task)
        })
    });
    assert_eq!(bench.ok(&["task", "enable", "a"]), "task a is already enabled");
    assert_eq!(bench.ok(&["task", "disable", "a"]), "task a is disabled");
    let asked = peer.asked();
    assert_eq!(asked.len(), 3);
    let body = &asked[2].body;
    assert_eq!(
        (&body["expectedRevision"], &body["enabled"], &body["repinTriggers"]),
        (&json!(7), &json!(false), &json!(true))
    );
    assert_eq!(body["spec"]["config"]["command"], json!({"kind": "shell", "command": "x", "shell": "/bin/sh"}));
}

#[test]
fn a_state_below_a_very_long_path_is_served() {
    let bench = Bench::new();
    let long = bench.root().join("d".repeat(120)).join("state");
    let inner = Bench::at(&long);
    let _peer = Peer::new(&inner, |_, _| Some((200, json!({"tasks": [], "hasMore": false}))));
    assert!(inner.ok(&["task", "list"]).starts_with("no tasks yet; add one with"));
}

#[test]
fn a_token_file_is_named_when_it_is_wrong_and_never_shown() {
    let bench = Bench::new();
    let _peer = Peer::new(&bench, |_, _| Some((200, json!({"tasks": [], "hasMore": false}))));
    let other = bench.root().join("token");
    let path = other.to_str().unwrap();
    let output = bench.cli(&["--token-file", path, "task", "list"]);
    assert_eq!(output.code, 3);
    assert!(output.stderr.contains(&format!("there is no token at {path}; name a token file")), "{}", output.stderr);
    std::fs::write(&other, "hunter2 hunter3").unwrap();
    let output = bench.cli(&["--token-file", path, "task", "list"]);
    assert_eq!(
        output.stderr.trim_end(),
        format!("qinglet: {path} does not hold a token; name a token file with --token-file or $QINGLET_TOKEN_FILE")
    );
    std::fs::write(&other, "ql3c_other\n").unwrap();
    bench.ok(&["--token-file", path, "task", "list"]);
}
