//! A scripted daemon on a bench's socket, for what a real one cannot be made to answer on demand.

use super::Bench;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    /// `GET /path?query`, the project's prefix taken off.
    pub line: String,
    /// The head's text.
    pub head: String,
    /// The JSON body; null when there was none.
    pub body: Value,
}

/// The scripted daemon. It answers until it is dropped.
pub struct Peer {
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
    address: String,
    _folder: File,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    /// Listens on the bench's socket. `answer` gets the request and how many came before it; `None`
    /// closes the connection without an answer.
    pub fn new(bench: &Bench, answer: impl Fn(&Asked, usize) -> Option<(u16, Value)> + Send + 'static) -> Self {
        let run = bench.state().join("run");
        fs::create_dir_all(&run).unwrap();
        fs::write(bench.state().join("owner.token"), "ql3c_test_secret\n").unwrap();
        let folder = File::open(&run).unwrap();
        let address = format!("/proc/self/fd/{}/api.sock", folder.as_raw_fd());
        let listener = UnixListener::bind(&address).unwrap();
        let (asked, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (seen, stopped) = (Arc::clone(&asked), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let Some(request) = read(&mut stream) else { continue };
                let before = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.clone());
                    seen.len() - 1
                };
                if let Some((status, body)) = answer(&request, before) {
                    let body = body.to_string();
                    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
                    let _ = stream.write_all((head + &body).as_bytes());
                }
            }
        });
        Self { asked, stop, address, _folder: folder, thread: Some(thread) }
    }

    /// What came so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = UnixStream::connect(&self.address);
        let joined = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_file(&self.address);
        assert!(std::thread::panicking() || joined.is_none_or(|joined| joined.is_ok()), "the peer panicked");
    }
}

fn read(stream: &mut UnixStream) -> Option<Asked> {
    stream.set_read_timeout(Some(super::BOUND)).unwrap();
    let mut bytes = Vec::new();
    let mut block = [0; 4096];
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or(Value::Null);
                let first = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
                let line = first.replace("/api/v3/projects/default", "");
                return Some(Asked { line, head, body });
            }
        }
        match stream.read(&mut block) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&block[..count]),
        }
    }
}
