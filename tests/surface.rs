//! The daemon's outside, TCP and socket alike: whatever is not exactly right gets its documented
//! word, writes nothing and harms nobody.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use support::http::{Reply, raw_tcp, request};
use support::{BOUND, Bench, Output, copy_program, is_root, skip, tree};

const TASKS: &str = "/api/v3/projects/default/tasks";
const MUTATION: &str = "018f5e7a-9b1c-7def-8123-456789abcdef";
/// What a flood of clients may add to the daemon.
const GROWTH_KIB: u64 = 2048;

/// The rows of every table. Rejected authentications are due to be written, so they do not count.
fn rows(bench: &Bench) -> BTreeMap<String, i64> {
    let db = bench.db();
    let mut query = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let names: Vec<String> = query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(names.len() > 5, "{names:?}");
    let count = |name: String| {
        let but = if name == "audit" { "WHERE outcome <> 'authentication_rejected'" } else { "" };
        let rows = db.query_row(&format!("SELECT count(*) FROM {name} {but}"), [], |row| row.get(0)).unwrap();
        (name, rows)
    };
    names.into_iter().map(count).collect()
}

/// A proper start of the task, to be spoiled.
fn start_body(bench: &Bench) -> Value {
    let task = bench.json(&["task", "show", "t"])["task"].take();
    json!({"schema": "qinglong/task-start@v1", "mutationId": MUTATION, "expectedRevision": task["revision"],
        "expectedContentDigest": task["contentDigest"]})
}

/// A proper request with this body as it stands.
fn with_body(token: &str, method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Every request that must be refused, with its status and word.
fn wrong_requests(token: &str, start: &Value) -> Vec<(String, u16, &'static str)> {
    let bearer = format!("Authorization: Bearer {token}");
    let runs = format!("{TASKS}/t/runs");
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: test\r\n{bearer}\r\n\r\n");
    let list = get(TASKS);
    let with = |line: &str| list.replace("Host: test", &format!("Host: test\r\n{line}"));
    let post = |body: &str| with_body(token, "POST", &runs, body);
    let text = start.to_string();
    let padded = |to: usize| format!("{text}{}", " ".repeat(to - text.len()));
    let mut all = Vec::new();
    for target in [
        "/aPi/health",
        "/API/health",
        "//api/health",
        "/api//health",
        "/api/%2e/health",
        "/api/%2e%2e/api/health",
        "/%61pi/health",
        "/api/./health",
        "/api/health/",
        "/api/health;x",
        "/api/v3/projects/default/tasks/",
        "/api/v3/projects/default/tasks/%74",
        "/api/v3/projects/default/tasks/t/runs/",
        "/api/v3/projects/default/../default/tasks",
        "http://test/api/health",
        "*",
    ] {
        all.push((get(target), 404, "route_not_found"));
    }
    for method in ["POST", "PATCH", "OPTIONS", "TRACE", "get"] {
        all.push((list.replacen("GET", method, 1), 405, "method_not_allowed"));
    }
    all.push((get(&runs), 405, "method_not_allowed"));
    let refusals: Vec<(String, u16, &str)> = vec![
        (list.replace(&format!("{bearer}\r\n"), ""), 401, "authentication_required"),
        (with(&bearer), 401, "authentication_required"),
        (with("Authorization: Basic eA=="), 401, "authentication_required"),
        (get(&format!("{TASKS}?token={token}")), 400, "invalid_query"),
        (get(&format!("{TASKS}?access_token={token}")).replace(&format!("{bearer}\r\n"), ""), 400, "invalid_query"),
        (get(&format!("{TASKS}?limit=1&limit=1")), 400, "invalid_query"),
        (get(&format!("{TASKS}?limit=0")), 400, "invalid_query"),
        (get(&format!("{TASKS}?limit=65")), 400, "invalid_query"),
        (with("Content-Length: 5"), 400, "invalid_request"),
        (with("Transfer-Encoding: chunked"), 400, "invalid_request"),
        (list.replace("HTTP/1.1", "HTTP/2.0"), 400, "invalid_request"),
        (list.replace("\r\n", "\n"), 400, "invalid_request"),
        ("\u{16}\u{3}\u{1}\u{2}\r\n\r\n".into(), 400, "invalid_request"),
        (with(&format!("X: {}", "y".repeat(8192))), 431, "request_head_too_large"),
        (post(&text).replace("Content-Length", "Content-Length: 1\r\nContent-Length"), 400, "invalid_request"),
        (post(&text).replace("Content-Length", "Transfer-Encoding: chunked\r\nContent-Length"), 400, "invalid_request"),
        (
            post("").replace("Content-Length: 0", "Transfer-Encoding: chunked") + "1\r\n{\r\n0\r\n\r\n",
            411,
            "length_required",
        ),
        (post("").replace("Content-Length: 0\r\n", ""), 411, "length_required"),
        (post(&padded(513)), 413, "request_body_too_large"),
        (with_body(token, "PUT", &format!("{TASKS}/u"), &" ".repeat(128 * 1024 + 1)), 413, "request_body_too_large"),
        (post("").replace("Length: 0", "Length: 99999999999999999999"), 413, "request_body_too_large"),
        (post("").replace("Length: 0", "Length: +5"), 400, "invalid_request"),
        (post(&text).replace("application/json", "text/plain"), 400, "invalid_request_body"),
        (post(""), 400, "invalid_request_body"),
        (post(&format!("{text}x")), 400, "invalid_request_body"),
        (post(&format!("{text}{text}")), 400, "invalid_request_body"),
        (post(&format!("\u{feff}{text}")), 400, "invalid_request_body"),
        (post(&text.replacen('{', "{\"expectedRevision\":1,", 1)), 400, "invalid_request_body"),
        (post(&text.replacen('{', "{\"\\u0073chema\":\"x\",", 1)), 400, "invalid_request_body"),
        (post(&text.replacen('{', "{\"priority\":1,", 1)), 400, "invalid_task_start_request"),
        (post(&text.replace("\"expectedRevision\":1", "\"expectedRevision\":1.0")), 400, "invalid_request_body"),
        (
            post(&text.replace("\"expectedRevision\":1", "\"expectedRevision\":\"1\"")),
            400,
            "invalid_task_start_request",
        ),
        (post(&text.replace(MUTATION, &MUTATION.to_uppercase())), 400, "invalid_task_start_request"),
        (post("[]"), 400, "invalid_task_start_request"),
        (post(&text).replace(&runs, &format!("{TASKS}/other/runs")), 404, "task_not_found"),
        (post(&text.replace("\"expectedRevision\":1", "\"expectedRevision\":2")), 409, "task_start_fence_rejected"),
        (post(&text).replace("default", "another"), 403, "forbidden"),
    ];
    all.extend(refusals);
    all
}

#[test]
fn wrong_requests_get_their_word_on_both_ways_in_and_write_nothing() {
    let mut bench = Bench::serving();
    bench.shell("t", "true");
    bench.run_wait("t");
    let (token, start) = (bench.token(), start_body(&bench));
    bench.stop();
    let before = rows(&bench);
    bench.serve(&["--listen", "127.0.0.1:0"]);
    let wrong = wrong_requests(&token, &start);
    for (request, status, word) in &wrong {
        let bytes = request.as_bytes();
        for answer in [bench.raw(bytes), raw_tcp(&bench, bytes).unwrap()] {
            let reply = Reply::of(&answer);
            assert_eq!((reply.status, reply.code()), (*status, *word), "{request:.400}\n{reply:?}");
            assert!(reply.head.contains("\r\nContent-Type: application/json"), "{reply:?}");
            let secret = &token[token.len() - 43..];
            assert!(!String::from_utf8_lossy(&answer).contains(secret), "the token comes back: {reply:?}");
        }
    }
    assert_eq!(bench.stop(), 0);
    let mut after = rows(&bench);
    // A denial is due: the two requests for a project that is another's.
    *after.get_mut("audit").unwrap() -= 2;
    assert_eq!(after, before);
    let log = fs::read_to_string(bench.daemon_log()).unwrap();
    assert!(log.lines().all(|line| line.starts_with("qinglet: info: ")), "{log}");
    // What was spoiled above is right when it is left alone, at its longest.
    bench.serve(&[]);
    let body = format!("{start}{}", " ".repeat(512 - start.to_string().len()));
    let right = with_body(&token, "POST", &format!("{TASKS}/t/runs"), &body);
    assert_eq!(Reply::of(&bench.raw(right.as_bytes())).status, 202);
}

#[test]
fn one_connection_is_one_request_and_an_old_client_is_served() {
    let mut bench = Bench::ready();
    bench.serve(&["--listen", "127.0.0.1:0"]);
    let token = bench.token();
    let put = json!({"schema": "x"}).to_string();
    let smuggled = with_body(&token, "PUT", &format!("{TASKS}/a"), &put);
    let list = format!("GET {TASKS} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n\r\n");
    for pair in [format!("{list}{smuggled}"), format!("{list}{list}{list}"), format!("{smuggled}{list}")] {
        for answer in [bench.raw(pair.as_bytes()), raw_tcp(&bench, pair.as_bytes()).unwrap()] {
            let text = String::from_utf8(answer).unwrap();
            assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{text}");
        }
    }
    let reads = || bench.http("GET", "/status", None).body["status"]["allowedReads"].as_u64().unwrap();
    let before = reads();
    bench.raw(format!("{list}{list}{list}").as_bytes());
    assert_eq!(reads() - before, 2, "the first of three, and this look itself");
    let old = list.replace("HTTP/1.1", "HTTP/1.0").replace("Host: test\r\n", "");
    for answer in [bench.raw(old.as_bytes()), raw_tcp(&bench, old.as_bytes()).unwrap()] {
        assert_eq!(Reply::of(&answer).status, 200);
    }
}

#[test]
fn a_stranger_cannot_use_the_socket_even_with_the_token_and_an_open_folder() {
    let test = "a_stranger_cannot_use_the_socket_even_with_the_token_and_an_open_folder";
    if !is_root() {
        return skip(test, "only root can become another user");
    }
    let bench = Bench::serving();
    let open = |path: &std::path::Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let (program, token) = (bench.root().join("qinglet"), bench.root().join("token"));
    copy_program(&program);
    fs::write(&token, bench.token()).unwrap();
    open(&program, 0o755);
    open(&token, 0o644);
    open(bench.root(), 0o755);
    let ask = |who: u32| {
        let mut command = Command::new(&program);
        command.arg("--state").arg(bench.state()).arg("--token-file").arg(&token).args(["task", "list"]);
        Output::of(command.stdin(Stdio::null()).current_dir("/").uid(who).gid(who))
    };
    let socket = bench.state().join("run/api.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ask(65534).code, 4);
    // The folder keeps strangers out, and the socket does so by itself.
    open(&bench.state(), 0o755);
    open(&bench.state().join("run"), 0o755);
    let output = ask(65534);
    assert_eq!((output.code, output.stdout.as_str()), (4, ""), "{output:?}");
    assert_eq!(ask(0).code, 0);
    open(&socket, 0o666);
    assert_eq!(ask(65534).code, 0, "it was the socket's mode that kept the stranger out");
}

#[test]
fn idle_and_slow_clients_cost_nothing_and_keep_nobody_out() {
    let mut bench = Bench::ready();
    bench.serve(&["--listen", "127.0.0.1:0"]);
    let (address, token, pid) = (bench.address(), bench.token(), bench.pid());
    let list = request(&token, "GET", "/tasks", None);
    let answered = || {
        assert_eq!(Reply::of(&raw_tcp(&bench, &list).unwrap()).status, 200);
        assert_eq!(Reply::of(&bench.raw(&list)).status, 200);
    };
    let connect = |first: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream.set_nonblocking(true).unwrap();
        // It may have been turned away already.
        let _ = stream.write(first);
        stream
    };
    // Everything that is made once and kept.
    for _ in 0..20 {
        answered();
    }
    let (threads, descriptors, resident) = (tree::threads(pid), tree::descriptors(pid), tree::resident_kib(pid));
    let flat = || {
        let now = (tree::threads(pid), tree::descriptors(pid));
        // The gate has 32 places; two more for what it is just taking and turning away.
        assert!(now.0 <= threads && now.1 <= descriptors + 34, "{now:?}, were {threads} and {descriptors}");
    };
    let body = with_body(&token, "PUT", &format!("{TASKS}/a"), "").replace("Length: 0", "Length: 100000");
    let mut clients: Vec<TcpStream> = (0..200).map(|_| connect(b"")).collect();
    answered();
    flat();
    clients.extend((0..200).map(|at| connect(if at % 2 == 0 { b"GET /api/he" } else { body.as_bytes() })));
    for _ in 0..10 {
        for slow in &mut clients[200..] {
            let _ = slow.write(b"a");
        }
        answered();
        flat();
    }
    let grown = tree::resident_kib(pid).saturating_sub(resident);
    assert!(grown < GROWTH_KIB, "grew by {grown} KiB");
    drop(clients);
    for _ in 0..20 {
        answered();
    }
    assert_eq!(bench.stop(), 0);
    let log = fs::read_to_string(bench.daemon_log()).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}
