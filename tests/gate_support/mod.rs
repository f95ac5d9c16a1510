//! A server with a service that can be held, and clients that send bytes as they are told.
#![allow(dead_code)] // each test binary uses a part
#![allow(clippy::unwrap_used, clippy::panic)] // all of it is test code, though not all in a test function

use qinglet::http::gate::Bounds;
use qinglet::http::message::{Answer, Request, Service};
use qinglet::http::route::{Guard, Method, Route};
use qinglet::http::server::{Server, ServerOptions};
use qinglet::model::limits::EDGE;
use qinglet::model::policy::Permission;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub const TOKEN: &str = "ql3c_owner_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
pub const TASKS: &str = "/api/v3/projects/default/tasks";

pub static TABLE: [Route; 7] = [
    row(Method::Get, "/api/health", "health", Guard::Public, &[], 0),
    row(Method::Get, "/api/v3/projects/{project}/tasks", "list", Guard::Holds(Permission::TaskRead), &["limit"], 0),
    row(Method::Get, "/api/v3/projects/{project}/hold", "hold", Guard::Holds(Permission::TaskRead), &[], 0),
    row(Method::Get, "/api/v3/projects/{project}/big", "big", Guard::Holds(Permission::TaskRead), &[], 0),
    row(Method::Get, "/api/v3/projects/{project}/panic", "panic", Guard::Holds(Permission::TaskRead), &[], 0),
    row(
        Method::Put,
        "/api/v3/projects/{project}/tasks/{task}",
        "put",
        Guard::Holds(Permission::TaskUpdate),
        &[],
        112 * 1024,
    ),
    row(
        Method::Post,
        "/api/v3/projects/{project}/tasks/{task}/runs",
        "start",
        Guard::Holds(Permission::RunStart),
        &[],
        512,
    ),
];

const fn row(
    method: Method,
    template: &'static str,
    operation: &'static str,
    guard: Guard,
    query: &'static [&'static str],
    body_bytes_max: usize,
) -> Route {
    Route { method, template, operation, guard, query, body_bytes_max }
}

/// The longest answer there may be.
pub const BIG: usize = 64 * 1024;

#[derive(Default)]
pub struct Fake {
    pub calls: AtomicUsize,
    pub inside: AtomicUsize,
    pub inside_most: AtomicUsize,
    /// The last parameter of each request, in the order in which they were handled.
    pub order: Mutex<Vec<String>>,
    held: Mutex<bool>,
    freed: Condvar,
    pub rejected: Mutex<Vec<&'static str>>,
    pub warned: Mutex<Vec<String>>,
}

impl Fake {
    pub fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    pub fn free(&self) {
        *self.held.lock().unwrap() = false;
        self.freed.notify_all();
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Service for Fake {
    fn answer(&self, request: &Request) -> Answer {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.order.lock().unwrap().extend(request.params.last().cloned());
        match request.route.operation {
            "hold" => {
                let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
                self.inside_most.fetch_max(inside, Ordering::SeqCst);
                let mut held = self.held.lock().unwrap();
                while *held {
                    held = self.freed.wait(held).unwrap();
                }
                drop(held);
                self.inside.fetch_sub(1, Ordering::SeqCst);
            }
            "big" => return Answer { status: 200, body: vec![b'x'; BIG], retry_after: None },
            "panic" => panic!("a handler that panics, on purpose"),
            _ => {}
        }
        let body = serde_json::json!({
            "operation": request.route.operation,
            "params": request.params,
            "query": request.query("limit"),
            "bearer": request.bearer.as_ref().map(|bearer| bearer.expose() == TOKEN),
            "bodyBytes": request.body.len(),
            "bodySum": request.body.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
        });
        Answer::json(200, &body)
    }
}

pub struct Setup {
    pub server: Server,
    pub fake: Arc<Fake>,
    pub folder: PathBuf,
}

/// One at a time: these tests count the threads and the memory of their process.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn bounds() -> Bounds {
    Bounds::of(&EDGE)
}

pub fn start(bounds: Bounds) -> Setup {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    let folder = std::env::temp_dir().join(format!("qinglet-gate-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let fake = Arc::new(Fake::default());
    let (rejected, warned) = (fake.clone(), fake.clone());
    let server = Server::start(ServerOptions {
        tcp: Some("127.0.0.1:0".parse().unwrap()),
        socket_path: folder.join("api.sock"),
        upstream_path: folder.join("upstream.sock"),
        bounds,
        routes: &TABLE,
        service: fake.clone(),
        on_rejected: Arc::new(move |why| rejected.rejected.lock().unwrap().push(why)),
        may_reopen: Arc::new(|| true),
        warn: Arc::new(move |what| warned.warned.lock().unwrap().push(what.to_owned())),
    })
    .unwrap();
    // A thread gives itself its name a moment after it was started.
    until("every thread has its name", || {
        let named = |name: &String| name == "gate" || (name.starts_with("http-") && name != "http-lib");
        threads().iter().filter(|name| named(name)).count() > bounds.workers
    });
    Setup { server, fake, folder }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.fake.free();
        self.server.stop(0);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Setup {
    pub fn tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.tcp_address().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    pub fn unix(&self) -> UnixStream {
        let stream = qinglet::http::socket::connect(&self.folder.join("api.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes and reads the answer to its end.
    pub fn ask(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.tcp();
        stream.write_all(bytes.as_ref()).unwrap();
        read(stream)
    }

    /// A proper request is answered.
    pub fn lives(&self) {
        assert_eq!(status(&self.ask(get("/api/health"))), 200);
        let answer = self.ask(get(&format!("{TASKS}?limit=3")));
        assert!(answer.contains(r#""operation":"list""#), "{answer}");
    }
}

pub fn read(mut stream: impl Read) -> String {
    let mut answer = Vec::new();
    // A reset after the answer does not undo the answer.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

pub fn send(method: &str, target: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

pub fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

pub fn code(answer: &str) -> String {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let value: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    value["code"].as_str().unwrap_or(body).to_owned()
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let name = |path: PathBuf| std::fs::read_to_string(path.join("comm")).ok();
    let mut names: Vec<String> = tasks.filter_map(|task| name(task.path())).map(|n| n.trim().to_owned()).collect();
    names.sort();
    names
}

/// The threads the server is made of.
pub fn server_threads() -> Vec<String> {
    threads().into_iter().filter(|name| name == "gate" || name.starts_with("http-")).collect()
}

pub fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
