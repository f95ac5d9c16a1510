//! Bytes on a connection to the real gate, with the real HTTP library and its workers behind it. What has to
//! come back follows from the judgement of the head alone; behind it stands a service that tells what it was
//! given. The first byte says where the bytes are cut in three writes.

use qinglet::http::gate::Bounds;
use qinglet::http::head::{self, Scan};
use qinglet::http::message::{Answer, Bearer, Request, Service};
use qinglet::http::reply::{CONTINUE, Worked};
use qinglet::http::routes::ROUTES;
use qinglet::http::server::{Server, ServerOptions};
use qinglet::model::digest::Digest;
use qinglet::model::limits::{EDGE, HEAD_BYTES_MAX};
use serde_json::json;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub fn run(data: &[u8]) {
    let Some((cut, sent)) = data.split_first() else { return };
    let got = talk(sent, usize::from(*cut));
    let Some(want) = wanted(sent) else { return assert!(got.is_empty(), "an answer to nothing: {}", lossy(&got)) };
    let got = got.strip_prefix(CONTINUE).unwrap_or(&got);
    let end = got.windows(4).position(|end| end == b"\r\n\r\n").expect("an answer has a head") + 4;
    let (head, body) = got.split_at(end);
    let worked = Worked::parse(head).expect("a head of ours");
    assert_eq!(worked.status, want.0, "{}", lossy(got));
    if head::method_of(&sent[..sent.len().min(HEAD_BYTES_MAX)]) == b"HEAD" {
        return assert!(body.is_empty());
    }
    assert_eq!(body.len(), worked.length, "{}", lossy(got));
    if let Some(told) = want.1 {
        assert_eq!(lossy(body), told, "what went in has come to the service");
    }
}

/// The status and, for what goes on to the service, what that has to tell.
fn wanted(sent: &[u8]) -> Option<(u16, Option<String>)> {
    if sent.is_empty() {
        return None;
    }
    let end = match head::scan(&sent[..sent.len().min(HEAD_BYTES_MAX)], 0) {
        Scan::Whole(end) => end,
        Scan::Refused(refusal) => return Some((refusal.word.status, None)),
        Scan::More => return Some((400, None)),
    };
    let admitted = match head::judge(&ROUTES, &sent[..end]) {
        Ok(admitted) => admitted,
        Err(refusal) => return Some((refusal.word.status, None)),
    };
    let Some(body) = sent[end..].get(..admitted.content_length) else { return Some((400, None)) };
    Some((200, Some(told(admitted.route.operation, admitted.bearer.unwrap_or_default(), body))))
}

fn told(operation: &str, bearer: &str, body: &[u8]) -> String {
    json!({"operation": operation, "bearer": bearer, "body": Digest::of("body", body).to_string()}).to_string()
}

struct Teller;

impl Service for Teller {
    fn answer(&self, request: &Request) -> Answer {
        let bearer = request.bearer.as_ref().map(Bearer::expose).unwrap_or_default();
        let body = told(request.route.operation, bearer, &request.body).into_bytes();
        Answer { status: 200, body, retry_after: None }
    }
}

/// Sends everything in at most three writes, ends, and reads to the end.
fn talk(sent: &[u8], cut: usize) -> Vec<u8> {
    let mut stream = UnixStream::connect(door()).expect("the gate takes a connection");
    stream.set_read_timeout(Some(Duration::from_secs(4))).expect("a bounded wait");
    let one = cut.min(sent.len());
    let two = (cut * 5).clamp(one, one.max(sent.len())).min(sent.len());
    // A gate that has answered early takes no more; what counts is the answer.
    let _ = [&sent[..one], &sent[one..two], &sent[two..]].iter().try_for_each(|part| stream.write_all(part));
    let _ = stream.shutdown(Shutdown::Write);
    let mut got = Vec::new();
    match stream.read_to_end(&mut got) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "after {}", lossy(&got)),
    }
    got
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path to the server's socket. The folder it was made in is gone at once, and the server with the process.
fn door() -> &'static str {
    static SERVER: OnceLock<(Server, File, String)> = OnceLock::new();
    let (_, _, path) = SERVER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("qinglet-fuzz-gate-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let socket_path = folder.join("api.sock");
        let server = Server::start(ServerOptions {
            tcp: None,
            socket_path: socket_path.clone(),
            upstream_path: folder.join("upstream.sock"),
            bounds: Bounds::of(&EDGE),
            routes: &ROUTES,
            service: Arc::new(Teller),
            on_rejected: Arc::new(|_| {}),
            may_reopen: Arc::new(|| true),
            warn: Arc::new(|what| panic!("{what}")),
        });
        let server = server.expect("a server");
        let socket = File::options().read(true).custom_flags(libc::O_PATH).open(&socket_path).expect("its socket");
        fs::remove_dir_all(&folder).expect("the folder goes");
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        (server, socket, path)
    });
    path
}
