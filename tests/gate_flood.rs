//! Clients that want too much: many at once, slow ones, endless ones. The server's threads and memory
//! stay what they were, and a proper request beside them is answered.

#![allow(clippy::unwrap_used, clippy::panic)] // all of it is test code, though not all in a test function

mod gate_support;

use gate_support::*;
use qinglet::http::gate::Bounds;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a flood may add to the process, which here also holds the clients' sockets.
const GROWTH_KIB: u64 = 2048;

/// Runs a flood and holds the server to its threads and its memory while `lives` is asked again and again.
fn flat(setup: &Setup, flood: impl FnOnce(&Setup)) {
    setup.lives();
    let (threads, resident) = (server_threads(), memory_kib("VmRSS"));
    flood(setup);
    setup.lives();
    let gauges = setup.server.gauges();
    assert!(gauges.connections <= 32, "{gauges:?}");
    assert!(gauges.buffered_bytes <= 1024 * 1024, "{gauges:?}");
    // The library lets go of a thread that was one too many; it never takes another.
    assert!(server_threads().len() <= threads.len(), "{:?} was {threads:?}", server_threads());
    let grown = memory_kib("VmHWM").saturating_sub(resident);
    assert!(grown < GROWTH_KIB, "grew by {grown} KiB");
}

/// Forgets the highest memory so far, so that the next reading is this test's own.
fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

#[test]
fn two_hundred_idle_connections() {
    let _alone = alone();
    forget_peak();
    let setup = start(bounds());
    flat(&setup, |setup| {
        let mut idle = Vec::new();
        for round in 0..200 {
            idle.push(setup.tcp());
            if round % 40 == 0 {
                setup.lives();
            }
        }
        setup.lives();
        until("all idle ones were taken or turned away", || setup.server.gauges().connections <= 32);
        drop(idle);
    });
}

#[test]
fn idle_connections_are_closed_when_their_time_is_over() {
    let _alone = alone();
    let setup = start(Bounds { head: Duration::from_millis(100), ..bounds() });
    let mut idle = setup.tcp();
    let mut half = setup.tcp();
    half.write_all(b"GET /api/health").unwrap();
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "closed without a word");
    assert_eq!(code(&read(half)), "request_timeout");
}

#[test]
fn two_hundred_slow_senders_are_cut_off_however_busy_they_look() {
    let _alone = alone();
    forget_peak();
    let times = Bounds { head: Duration::from_millis(400), request: Duration::from_millis(800), ..bounds() };
    let setup = start(times);
    flat(&setup, |setup| {
        // Half of them dribble a head, half a body; each sends a byte every few milliseconds.
        let body = send("PUT", &format!("{TASKS}/a"), "").replace("Length: 0", "Length: 1000");
        let mut slow: Vec<(TcpStream, Instant)> = Vec::new();
        for number in 0..200 {
            let mut stream = setup.tcp();
            stream.set_nonblocking(true).unwrap();
            let first = if number % 2 == 0 { "GET /api" } else { &body };
            let _ = stream.write(first.as_bytes());
            slow.push((stream, Instant::now()));
        }
        let mut turns = 0;
        while !slow.is_empty() {
            slow.retain_mut(|(stream, opened)| {
                let sent = stream.write(b"a");
                let ended = sent.is_err() || !matches!(stream.read(&mut [0; 512]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
                assert!(ended || opened.elapsed() < Duration::from_secs(10), "a slow one is still there");
                !ended
            });
            turns += 1;
            if turns % 20 == 0 {
                setup.lives();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[test]
fn slow_sender_that_alone_has_a_slot_is_told_408() {
    let _alone = alone();
    let setup = start(Bounds { head: Duration::from_millis(150), request: Duration::from_millis(300), ..bounds() });
    let mut stream = setup.tcp();
    let request = send("PUT", &format!("{TASKS}/a"), "").replace("Length: 0", "Length: 1000");
    stream.write_all(request.as_bytes()).unwrap();
    assert_eq!(code(&read(stream)), "request_timeout");
    assert_eq!(setup.fake.calls(), 0);
}

#[test]
fn header_line_of_64_mib() {
    let _alone = alone();
    forget_peak();
    let setup = start(bounds());
    flat(&setup, |setup| {
        let mut stream = setup.tcp();
        stream.write_all(b"GET /api/health HTTP/1.1\r\nA: ").unwrap();
        let piece = vec![b'a'; 64 * 1024];
        let mut sent = 0;
        while sent < 64 * 1024 * 1024 && stream.write_all(&piece).is_ok() {
            sent += piece.len();
        }
        assert!(sent < 8 * 1024 * 1024, "it was cut off, not read to its end");
        let answer = read(stream);
        assert!(answer.is_empty() || code(&answer) == "request_head_too_large", "{answer}");
    });
    // A polite one, that stops to listen, is told.
    let answer = setup.ask(format!("GET /api/health HTTP/1.1\r\nA: {}", "a".repeat(100_000)));
    assert_eq!((status(&answer), code(&answer).as_str()), (431, "request_head_too_large"));
}

#[test]
fn reset_before_accept() {
    let _alone = alone();
    forget_peak();
    let setup = start(bounds());
    flat(&setup, |setup| {
        for _ in 0..200 {
            let stream = setup.tcp();
            reset_on_close(&stream);
            drop(stream);
        }
        for _ in 0..50 {
            let mut stream = setup.tcp();
            let _ = stream.write(get("/api/health").as_bytes());
            reset_on_close(&stream);
        }
    });
}

/// Makes the close of a connection a reset (`SO_LINGER` with no time, socket(7)).
fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the option's value is a live `linger` of the size that is passed with it.
    let done = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), size)
    };
    assert_eq!(done, 0);
}

#[test]
fn large_bodies_share_one_budget() {
    let _alone = alone();
    forget_peak();
    let setup = start(bounds());
    flat(&setup, |setup| {
        // Each wants 112 KiB and gives all but one byte: 31 of them would be 3.4 MiB.
        let request = send("PUT", &format!("{TASKS}/a"), &"b".repeat(112 * 1024));
        let mut clients = Vec::new();
        for _ in 0..31 {
            let mut stream = setup.tcp();
            let _ = stream.write_all(&request.as_bytes()[..request.len() - 1]);
            clients.push(stream);
            let gauges = setup.server.gauges();
            assert!(gauges.buffered_bytes <= 1024 * 1024, "{gauges:?}");
        }
        let answer = setup.ask(&request);
        assert!(answer.contains(r#""bodyBytes":114688,"#), "{answer}");
        // The newest of them are still held, and finish.
        let mut last = clients.pop().unwrap();
        last.write_all(b"b").unwrap();
        assert!(read(last).contains(r#""bodyBytes":114688,"#));
    });
}

#[test]
fn slow_readers_of_answers_are_bounded() {
    let _alone = alone();
    forget_peak();
    let setup = start(Bounds { deliver: Duration::from_secs(2), ..bounds() });
    flat(&setup, |setup| {
        let (mut readers, mut buffered) = (Vec::new(), 0);
        for round in 0..60 {
            let before = setup.fake.calls();
            let mut stream = narrow(setup.server.tcp_address().unwrap());
            stream.write_all(get("/api/v3/projects/default/big").as_bytes()).unwrap();
            readers.push(stream);
            until("a worker has answered", || setup.fake.calls() > before);
            if round % 20 == 0 {
                setup.lives();
            }
            let gauges = setup.server.gauges();
            assert!(gauges.buffered_bytes <= 1024 * 1024, "{gauges:?}");
            buffered = buffered.max(gauges.buffered_bytes);
        }
        assert!(buffered > 512 * 1024, "the answers never stayed with the gate: {buffered}");
        setup.lives();
        until("all were answered or cut off", || setup.server.gauges().connections == 0);
    });
    let whole = setup.ask(get("/api/v3/projects/default/big"));
    assert_eq!(whole.split_once("\r\n\r\n").unwrap().1.len(), BIG);
}

/// A connection whose client takes only a few KiB before it reads.
fn narrow(address: SocketAddr) -> TcpStream {
    let SocketAddr::V4(address) = address else { panic!("not IPv4") };
    let bytes: libc::c_int = 2048;
    // SAFETY: plain integers go in, a fresh descriptor comes out, and nobody else owns it.
    let socket =
        unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)) };
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: both calls read a live value of the size that is passed with it.
    let done = unsafe {
        let fd = socket.as_raw_fd();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, (&raw const bytes).cast(), size_of_val(&bytes) as u32)
            | libc::connect(fd, (&raw const to).cast(), size_of_val(&to) as u32)
    };
    assert_eq!(done, 0);
    TcpStream::from(socket)
}

#[test]
fn clients_that_leave_free_what_they_had() {
    let _alone = alone();
    let setup = start(Bounds { wait: Duration::from_secs(60), ..bounds() });
    setup.fake.hold();
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = setup.unix();
        stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
        held.push(stream);
    }
    until("four wait", || setup.server.gauges().waiting == 4);
    drop(held);
    until("all places are free", || setup.server.gauges().connections == 0 && setup.server.gauges().waiting == 0);
    setup.fake.free();
    until("the workers are free", || setup.server.gauges().in_flight == 0);
    assert_eq!(setup.fake.calls(), 4, "one that left while waiting is not handled");
    setup.lives();
}

#[test]
fn a_late_answer_is_given_up_and_not_mixed_up() {
    let _alone = alone();
    let setup = start(Bounds { answer: Duration::from_millis(100), wait: Duration::from_secs(10), ..bounds() });
    setup.fake.hold();
    let answers: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = setup.tcp();
            stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
            stream
        })
        .collect();
    for stream in answers {
        let answer = read(stream);
        assert_eq!((status(&answer), code(&answer).as_str()), (503, "server_overloaded"));
    }
    // All workers are still inside: the next one waits for them, and gets its own answer.
    let mut next = setup.tcp();
    next.write_all(get(TASKS).as_bytes()).unwrap();
    until("it waits", || setup.server.gauges().waiting == 1);
    setup.fake.free();
    assert!(read(next).contains(r#""operation":"list""#));
    setup.lives();
}

#[test]
fn an_idle_gate_does_not_wake() {
    let _alone = alone();
    let setup = start(bounds());
    setup.lives();
    until("the clients are gone", || setup.server.gauges().connections == 0);
    let before = setup.server.gauges().turns;
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(setup.server.gauges().turns, before);
}

#[test]
fn a_full_gate_lets_others_wait_outside_and_does_not_spin() {
    let _alone = alone();
    let setup = start(Bounds { connections: 6, wait: Duration::from_secs(60), ..bounds() });
    setup.fake.hold();
    let ask = || {
        let mut stream = setup.tcp();
        stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
        stream
    };
    let mut clients: Vec<_> = (0..6).map(|_| ask()).collect();
    until("all places are taken", || setup.server.gauges().waiting == 2);
    clients.push(ask());
    std::thread::sleep(Duration::from_millis(50));
    let before = setup.server.gauges();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(setup.server.gauges(), before);
    setup.fake.free();
    for client in clients {
        assert_eq!(status(&read(client)), 200);
    }
}

#[test]
fn many_clients_at_once_are_all_answered() {
    let _alone = alone();
    let setup = start(Bounds { wait: Duration::from_secs(10), ..bounds() });
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for number in 0..50 {
                    let target = format!("{TASKS}/t{number}");
                    let body = "c".repeat(number * 100);
                    let answer = setup.ask(send("PUT", &target, &body));
                    let good = answer.contains(&format!(r#""bodyBytes":{},"#, body.len()))
                        && answer.contains(&format!(r#""t{number}""#));
                    failed.fetch_or(!good, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(!failed.load(Ordering::SeqCst));
    assert_eq!(setup.fake.calls(), 400);
}
