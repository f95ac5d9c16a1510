//! What the transport does with one request: the ones it serves and the ones it refuses.

mod gate_support;

use gate_support::*;
use qinglet::http::gate::Bounds;
use qinglet::model::limits::STANDALONE;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn serves_tcp_and_the_local_socket_with_constant_threads() {
    let _alone = alone();
    until("the library's threads of earlier tests have left", || server_threads().is_empty());
    let setup = start(bounds());
    let before = server_threads();
    let own = before.iter().filter(|name| *name == "http-lib").count();
    assert_eq!((before.len(), own), (1 + 4 + 5, 5), "{before:?}");
    for _ in 0..50 {
        setup.lives();
    }
    let mut unix = setup.unix();
    unix.write_all(get(TASKS).as_bytes()).unwrap();
    let answer = read(unix);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{answer}");
    assert!(answer.contains("Cache-Control: no-store\r\nConnection: close\r\n"), "{answer}");
    assert!(answer.contains(r#""bearer":true"#), "{answer}");
    assert_eq!(server_threads(), before);
    let files: Vec<_> = std::fs::read_dir(&setup.folder).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["api.sock"], "the private socket has no name");
}

#[test]
fn standalone_has_eight_workers_that_are_all_reached() {
    let _alone = alone();
    until("the library's threads of earlier tests have left", || server_threads().is_empty());
    let setup = start(Bounds::of(&STANDALONE));
    let before = server_threads();
    assert_eq!(before.len(), 1 + 8 + 9, "{before:?}");
    setup.fake.hold();
    let held: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = setup.tcp();
            stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
            stream
        })
        .collect();
    until("all are inside", || setup.fake.inside.load(Ordering::SeqCst) == 8);
    setup.fake.free();
    for stream in held {
        assert_eq!(status(&read(stream)), 200);
    }
    assert_eq!(server_threads(), before);
}

#[test]
fn bodies_arrive_whole_however_they_come() {
    let _alone = alone();
    let setup = start(bounds());
    for size in [0, 1, 512, 1024, 1025, 16 * 1024, 112 * 1024] {
        let request = send("PUT", &format!("{TASKS}/a"), &"b".repeat(size));
        let answer = setup.ask(&request);
        assert!(answer.contains(&format!(r#""bodyBytes":{size},"bodySum":{}"#, size * 98)), "{size} {answer}");
        let mut slow = setup.tcp();
        slow.set_nodelay(true).unwrap();
        for piece in request.as_bytes().chunks(request.len() / 7 + 1) {
            slow.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(read(slow).contains(&format!(r#""bodyBytes":{size},"#)));
    }
}

#[test]
fn continue_is_said_by_the_gate_and_only_for_a_body_it_takes() {
    let _alone = alone();
    let setup = start(bounds());
    let head = |length: usize| {
        send("POST", &format!("{TASKS}/a/runs"), "")
            .replace("Length: 0", &format!("Length: {length}\r\nExpect: 100-continue"))
    };
    let mut stream = setup.tcp();
    stream.write_all(head(3).as_bytes()).unwrap();
    let mut told = [0; 25];
    stream.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    assert!(read(stream).contains(r#""bodyBytes":3,"#));
    assert_eq!(status(&setup.ask(head(513))), 413);
}

#[test]
fn wrong_requests_get_their_word_and_no_handler() {
    let _alone = alone();
    let setup = start(bounds());
    let runs = format!("{TASKS}/a/runs");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let with = |line: &str| get(TASKS).replace("Host: a", line);
    for (request, want) in [
        (get("/aPi/health"), (404, "route_not_found")),
        (get("//api/health"), (404, "route_not_found")),
        (get("/api//health"), (404, "route_not_found")),
        (get("/api/%2e/health"), (404, "route_not_found")),
        (get("/api/./health"), (404, "route_not_found")),
        (get("/api/x/../health"), (404, "route_not_found")),
        (get("/api/health/"), (404, "route_not_found")),
        (get("/api/health%20"), (404, "route_not_found")),
        (get("\\api\\health"), (404, "route_not_found")),
        (get("http://127.0.0.1/api/health"), (404, "route_not_found")),
        (get("/api/health#x"), (404, "route_not_found")),
        (get("*"), (404, "route_not_found")),
        (send("POST", TASKS, ""), (405, "method_not_allowed")),
        (get(TASKS).replace("GET", "OPTIONS"), (405, "method_not_allowed")),
        (get(TASKS).replace("GET", "get"), (405, "method_not_allowed")),
        (get(TASKS).replace("GET", "TRACE"), (405, "method_not_allowed")),
        (get("127.0.0.1:80").replace("GET", "CONNECT"), (404, "route_not_found")),
        (get(&format!("{TASKS}?token={TOKEN}")), (400, "invalid_query")),
        (get(&format!("{TASKS}?api_key=x")).replace(&bearer, "A: b"), (400, "invalid_query")),
        (get(&format!("{TASKS}?limit=1&limit=2")), (400, "invalid_query")),
        (get(&format!("{TASKS}?")), (400, "invalid_query")),
        (with(&bearer), (401, "authentication_required")),
        (get(TASKS).replace(&bearer, "A: b"), (401, "authentication_required")),
        (get(TASKS).replace("Bearer ", "Basic "), (401, "authentication_required")),
        (get(TASKS).replace("ql3c_", "ql4c_"), (401, "authentication_required")),
        (with("Content-Length: 1"), (400, "invalid_request")),
        (with("Content-Length: 0\r\nContent-Length: 0"), (400, "invalid_request")),
        (with("Transfer-Encoding: chunked"), (400, "invalid_request")),
        (with("Expect: x"), (400, "invalid_request")),
        (with(" folded"), (400, "invalid_request")),
        (with("A: \u{0}"), (400, "invalid_request")),
        (with("A: \u{e9}"), (400, "invalid_request")),
        (get(TASKS).replace("\r\n", "\n"), (400, "invalid_request")),
        ("\u{16}\u{3}\u{1} tls".into(), (400, "invalid_request")),
        (get(TASKS).replace("HTTP/1.1", "HTTP/3.0"), (400, "invalid_request")),
        (send("POST", &runs, &"x".repeat(513)), (413, "request_body_too_large")),
        (send("POST", &runs, "").replace("Content-Length: 0", "Transfer-Encoding: chunked"), (411, "length_required")),
        (send("POST", &runs, "").replace("Content-Length: 0\r\n", ""), (411, "length_required")),
        (send("POST", &runs, "{}").replace("Length: 2", "Length: 2\r\nContent-Length: 3"), (400, "invalid_request")),
        (
            send("POST", &runs, "{}").replace("Length: 2", "Length: 2\r\nTransfer-Encoding: chunked"),
            (400, "invalid_request"),
        ),
        (send("POST", &runs, "{}").replace("application/json", "text/plain"), (400, "invalid_request_body")),
        (with(&format!("A: {}", "b".repeat(8192))), (431, "request_head_too_large")),
    ] {
        let answer = setup.ask(&request);
        assert_eq!((status(&answer), code(&answer).as_str()), want, "{request:.300}");
        assert!(answer.contains("\r\nContent-Type: application/json\r\n"), "{answer}");
    }
    assert_eq!(setup.fake.calls(), 0);
    assert_eq!(*setup.fake.rejected.lock().unwrap(), ["malformed", "missing", "malformed", "malformed"]);
    let answer = setup.ask(get(TASKS).replace("GET", "HEAD"));
    assert!(answer.ends_with("\r\nAllow: GET\r\n\r\n"), "no body after a HEAD: {answer}");
    setup.lives();
}

#[test]
fn every_401_is_the_same_bytes() {
    let _alone = alone();
    let setup = start(bounds());
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let missing = setup.ask(get(TASKS).replace(&bearer, "A: b"));
    assert_eq!(setup.ask(get(TASKS).replace(&bearer, "Authorization: x")), missing);
    assert_eq!(setup.ask(get(&format!("{TASKS}?limit=1")).replace(TOKEN, "ql3c_x")), missing);
    let body = missing.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(body, r#"{"code":"authentication_required"}"#);
    assert!(missing.contains("\r\nWWW-Authenticate: Bearer\r\n"));
}

#[test]
fn body_read_only_after_audit() {
    let _alone = alone();
    let setup = start(bounds());
    let request =
        send("PUT", &format!("{TASKS}/a"), "").replace("Length: 0", "Length: 100000").replace("Bearer ", "Basic ");
    assert_eq!(status(&setup.ask(request)), 401);
}

#[test]
fn an_early_answer_is_not_lost_to_a_client_that_is_still_sending() {
    let _alone = alone();
    let setup = start(bounds());
    let runs = format!("{TASKS}/a/runs");
    for (request, want) in [
        (send("POST", &runs, &"x".repeat(200_000)), 413),
        (send("PUT", &runs, &"x".repeat(200_000)), 405),
        (format!("GET /api/health HTTP/1.1\r\nA: {}", "a".repeat(200_000)), 431),
    ] {
        // The answer is there after the head, with none or a little of the rest sent; then the rest comes.
        let head = request.find("\r\n\r\n").map_or(9000, |end| end + 4);
        for first in [head, head + 100] {
            let mut stream = setup.tcp();
            stream.write_all(&request.as_bytes()[..first]).unwrap();
            stream.peek(&mut [0]).unwrap();
            // Time to close, if it were to close; with less the test only sees less.
            std::thread::sleep(Duration::from_millis(10));
            for piece in request.as_bytes()[first..].chunks(50_000) {
                stream.write_all(piece).expect("the rest is still taken");
                std::thread::sleep(Duration::from_millis(5));
            }
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an end and not a reset");
            assert_eq!(status(&answer), want);
        }
    }
}

#[test]
fn waiting_requests_are_served_in_the_order_they_came() {
    let _alone = alone();
    let setup = start(Bounds { workers: 1, wait: Duration::from_secs(20), ..bounds() });
    setup.fake.hold();
    let mut clients = Vec::new();
    for (number, target) in ["hold", "tasks/a", "tasks/b", "tasks/c", "tasks/d"].iter().enumerate() {
        let method = if number == 0 { "GET" } else { "PUT" };
        let mut stream = setup.tcp();
        let request = send(method, &format!("/api/v3/projects/default/{target}"), "");
        stream.write_all(request.as_bytes()).unwrap();
        clients.push(stream);
        until("it waits", || setup.server.gauges().in_flight == 1 && setup.server.gauges().waiting == number);
    }
    setup.fake.free();
    for client in clients {
        assert_eq!(status(&read(client)), 200);
    }
    assert_eq!(*setup.fake.order.lock().unwrap(), ["default", "a", "b", "c", "d"]);
}

#[test]
fn a_second_request_on_the_connection_is_not_served() {
    let _alone = alone();
    let setup = start(bounds());
    let answer = setup.ask(format!("{}{}", get(TASKS), get(TASKS)));
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    let smuggled = format!("{}{}", send("PUT", &format!("{TASKS}/a"), "{}"), get(TASKS));
    assert!(setup.ask(smuggled).contains(r#""bodyBytes":2,"#));
    assert_eq!(setup.fake.calls(), 2);
}

#[test]
fn http_1_0_and_half_closed_clients_are_served() {
    let _alone = alone();
    let setup = start(bounds());
    assert_eq!(status(&setup.ask("GET /api/health HTTP/1.0\r\n\r\n")), 200);
    let mut stream = setup.tcp();
    stream.write_all(get(TASKS).as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(status(&read(stream)), 200);
    let mut cut = setup.tcp();
    cut.write_all(b"GET /api/health HT").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert_eq!(code(&read(cut)), "invalid_request");
}

#[test]
fn a_handler_that_panics_takes_nothing_with_it() {
    let _alone = alone();
    let setup = start(bounds());
    for _ in 0..9 {
        let answer = setup.ask(get("/api/v3/projects/default/panic"));
        assert_eq!((status(&answer), code(&answer).as_str()), (503, "server_overloaded"));
    }
    assert_eq!(setup.fake.warned.lock().unwrap().len(), 9);
    setup.lives();
}

#[test]
fn overload_before_auth_edge_4() {
    let _alone = alone();
    let setup = start(bounds_with_wait(Duration::from_millis(300)));
    setup.fake.hold();
    let ask = || {
        let mut stream = setup.tcp();
        stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
        stream
    };
    let held: Vec<_> = (0..4).map(|_| ask()).collect();
    until("four are inside", || setup.fake.inside.load(Ordering::SeqCst) == 4);
    // Beyond the workers, a wrong token is not even looked at: the answer is 503, not a handler's.
    let answer = read(ask());
    assert_eq!((status(&answer), code(&answer).as_str()), (503, "server_overloaded"));
    assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
    assert_eq!(setup.fake.calls(), 4);
    // The head alone is still answered.
    assert_eq!(status(&setup.ask(get("/nowhere"))), 404);
    let waiting = ask();
    until("one waits", || setup.server.gauges().waiting == 1);
    setup.fake.free();
    assert_eq!(status(&read(waiting)), 200);
    for stream in held {
        assert_eq!(status(&read(stream)), 200);
    }
    assert_eq!(setup.fake.inside_most.load(Ordering::SeqCst), 4);
    setup.lives();
}

fn bounds_with_wait(wait: Duration) -> Bounds {
    Bounds { wait, ..bounds() }
}
