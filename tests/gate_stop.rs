//! The end of serving, and starting again.

mod gate_support;

use gate_support::*;
use qinglet::http::gate::Bounds;
use qinglet::http::server::{Server, ServerOptions};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn graceful_drain() {
    let _alone = alone();
    let setup = start(Bounds { wait: Duration::from_secs(20), ..bounds() });
    setup.fake.hold();
    let held: Vec<_> = (0..6)
        .map(|_| {
            let mut stream = setup.tcp();
            stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut half = setup.tcp();
    half.write_all(b"GET /api/health HTTP/1.1\r\n").unwrap();
    until("four work and two wait", || setup.server.gauges().in_flight == 4 && setup.server.gauges().waiting == 2);
    until("the half one is there", || setup.server.gauges().connections == 7);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| setup.server.stop(20_000));
        assert_eq!(code(&read(half)), "server_draining");
        let late = setup.ask(get("/api/health"));
        assert_eq!((status(&late), code(&late).as_str()), (503, "server_draining"));
        assert!(!stopping.is_finished());
        setup.fake.free();
        for stream in held {
            assert_eq!(status(&read(stream)), 200);
        }
        stopping.join().unwrap();
    });
    assert!(TcpStream::connect(setup.server.tcp_address().unwrap()).is_err());
    assert_eq!(std::fs::read_dir(&setup.folder).unwrap().count(), 0, "no socket is left");
    until("all threads have left", || server_threads().is_empty());
}

#[test]
fn stop_does_not_wait_for_a_handler_for_ever() {
    let _alone = alone();
    let setup = start(bounds());
    setup.fake.hold();
    let mut stream = setup.tcp();
    stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
    until("it is inside", || setup.fake.inside.load(Ordering::SeqCst) == 1);
    let begun = Instant::now();
    setup.server.stop(100);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(code(&read(stream)), "server_draining");
    setup.server.stop(100);
}

#[test]
fn a_second_stop_shortens_the_first() {
    let _alone = alone();
    let setup = start(bounds());
    setup.fake.hold();
    let mut stream = setup.tcp();
    stream.write_all(get("/api/v3/projects/default/hold").as_bytes()).unwrap();
    until("it is inside", || setup.fake.inside.load(Ordering::SeqCst) == 1);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| setup.server.stop(600_000));
        until("new ones are refused", || code(&setup.ask(get("/api/health"))) == "server_draining");
        setup.server.stop(0);
        first.join().unwrap();
    });
}

#[test]
fn an_idle_server_stops_at_once_and_starts_again_on_the_same_paths() {
    let _alone = alone();
    let setup = start(bounds());
    let idle = setup.tcp();
    let begun = Instant::now();
    setup.server.stop(20_000);
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(idle);
    let options = |tcp: Option<&str>| ServerOptions {
        tcp: tcp.map(|address| address.parse().unwrap()),
        socket_path: setup.folder.join("api.sock"),
        upstream_path: setup.folder.join("upstream.sock"),
        bounds: bounds(),
        routes: &TABLE,
        service: setup.fake.clone(),
        on_rejected: Arc::new(|_| {}),
        may_reopen: Arc::new(|| true),
        warn: {
            let fake = setup.fake.clone();
            Arc::new(move |what| fake.warned.lock().unwrap().push(what.to_owned()))
        },
    };
    // What a killed daemon leaves behind.
    drop(std::os::unix::net::UnixListener::bind(setup.folder.join("api.sock")).unwrap());
    let again = Server::start(options(None)).unwrap();
    assert_eq!(again.tcp_address(), None);
    let mut stream = setup.unix();
    stream.write_all(get(TASKS).as_bytes()).unwrap();
    assert_eq!(status(&read(stream)), 200);
    let refused = Server::start(options(None)).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("somebody already answers on"), "{refused}");
    drop(again);
    let warned = || setup.fake.warned.lock().unwrap().len();
    assert_eq!(warned(), 0);
    drop(Server::start(options(Some("0.0.0.0:0"))).unwrap());
    assert_eq!(warned(), 1, "another address than loopback is said");
    let poor = Server::start(ServerOptions { may_reopen: Arc::new(|| false), ..options(None) });
    let why = poor.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(why.contains("too few PIDs"), "{why}");
    assert_eq!(std::fs::read_dir(&setup.folder).unwrap().count(), 0, "a failed start leaves nothing");
}
