//! The server: the HTTP library on a private socket, the workers behind it, the gate before it.
//!
//! Threads, all started here and none later: `gate`, `http-0` and on, and the library's own, which carry
//! the name `http-lib`: one that accepts and one for each connection.

use super::gate::{Bounds, Gate, Parts, Shared};
use super::message::Service;
use super::route::Route;
use super::socket::{self, Door, Listener};
use super::upstream::{MayReopen, Upstream};
use super::worker::Worker;
use crate::model::limits::{GATE_STACK_BYTES, HTTP_STACK_BYTES};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long workers without a request may take to leave.
const LEAVE_TIME: Duration = Duration::from_millis(500);

/// What a server is made of.
pub struct ServerOptions {
    /// The TCP address, if there is to be one; port 0 picks a port.
    pub tcp: Option<SocketAddr>,
    /// The local socket the command line uses, below a directory that only its owner may enter.
    pub socket_path: PathBuf,
    /// Where the library's private socket stands for the moment in which it is made.
    pub upstream_path: PathBuf,
    /// Counts, sizes and times.
    pub bounds: Bounds,
    /// The one route table.
    pub routes: &'static [Route],
    /// The handlers.
    pub service: Arc<dyn Service>,
    /// Told `missing` or `malformed` when the gate answers 401; it must not block.
    pub on_rejected: Arc<dyn Fn(&'static str) + Send + Sync>,
    /// Whether there are PIDs to spare, asked at start and before a broken connection to the library is
    /// replaced. Descriptors are looked at here.
    pub may_reopen: MayReopen,
    /// Told what an operator should know; it must not block, and no message holds a secret.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// What the server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauges {
    /// Client connections open.
    pub connections: usize,
    /// Whole requests waiting for a worker.
    pub waiting: usize,
    /// Requests with the workers.
    pub in_flight: usize,
    /// Bytes in the gate's buffers.
    pub buffered_bytes: usize,
    /// How often the gate has woken since start.
    pub turns: u64,
}

/// A running server. Dropped without [`stop`](Self::stop), it stops without waiting for anybody.
pub struct Server {
    tcp: Option<SocketAddr>,
    shared: Arc<Shared>,
    waker: UnixStream,
    parts: Mutex<Option<(JoinHandle<()>, Library)>>,
}

impl Server {
    /// Starts everything. Nothing is left behind when it fails.
    pub fn start(options: ServerOptions) -> io::Result<Self> {
        let mut listeners = Vec::new();
        if let Some(address) = options.tcp {
            listeners.push(Listener::tcp(address)?);
            if !address.ip().is_loopback() {
                (options.warn)(&format!(
                    "the API listens on {address}, which other machines can reach, without encryption"
                ));
            }
        }
        let tcp = listeners.iter().find_map(Listener::tcp_address);
        listeners.push(Listener::unix(&options.socket_path)?);

        let library = Library::start(&options)?;
        let upstream = Upstream::open(library.door.clone(), options.bounds.workers, options.may_reopen)
            .map_err(|error| io::Error::new(error.kind(), format!("the HTTP library does not answer: {error}")))?;
        let (waker, far_waker) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        far_waker.set_nonblocking(true)?;
        let shared = Arc::new(Shared::default());
        let gate = Gate::new(Parts {
            bounds: options.bounds,
            routes: options.routes,
            listeners,
            upstream,
            waker: far_waker,
            shared: shared.clone(),
            on_rejected: options.on_rejected,
            warn: options.warn,
        });
        let gate = thread::Builder::new().name("gate".into()).stack_size(GATE_STACK_BYTES).spawn(|| gate.run())?;
        Ok(Self { tcp, shared, waker, parts: Mutex::new(Some((gate, library))) })
    }

    /// The TCP address it really has.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// What it is doing.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            connections: self.shared.connections.load(Ordering::Relaxed),
            waiting: self.shared.waiting.load(Ordering::Relaxed),
            in_flight: self.shared.in_flight.load(Ordering::Relaxed),
            buffered_bytes: self.shared.buffered_bytes.load(Ordering::Relaxed),
            turns: self.shared.turns.load(Ordering::Relaxed),
        }
    }

    /// Ends it: new requests are told 503 `server_draining`, accepted ones may take this long, then the
    /// sockets close and their files go. A worker that is still busy then is left behind; the library's own
    /// threads leave by themselves. A second call while the first waits shortens the wait.
    pub fn stop(&self, drain_ms: u64) {
        self.shared.drain.store(drain_ms.saturating_add(1), Ordering::Release);
        // A full pipe wakes as well as another byte.
        let _ = (&self.waker).write(&[0]);
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((gate, library)) = parts {
            let _ = gate.join();
            drop(library);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(0);
    }
}

/// The HTTP library and its workers, which leave when it is dropped.
struct Library {
    /// Always there until the end.
    server: Option<Arc<tiny_http::Server>>,
    door: Arc<Door>,
    stopping: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
    left: Receiver<()>,
}

impl Library {
    fn start(options: &ServerOptions) -> io::Result<Self> {
        if !(options.may_reopen)() {
            let what = "too few PIDs are free to start the API; stop something, raise the limit, or set api to \"off\"";
            return Err(io::Error::new(io::ErrorKind::WouldBlock, what));
        }
        let (listener, file) = socket::bind(&options.upstream_path)?;
        let door = Arc::new(Door::open(&options.upstream_path)?);
        // From here on the socket is reached through the open descriptor alone; nobody else can.
        drop(file);
        // The library does not name its threads, and a thread inherits the name of its maker.
        let made = thread::Builder::new().name("http-lib".into()).stack_size(HTTP_STACK_BYTES).spawn(move || {
            let before = threads();
            let server = tiny_http::Server::from_listener(listener, None);
            settle(&before);
            server
        })?;
        let server = match made.join() {
            Ok(Ok(server)) => Some(Arc::new(server)),
            Ok(Err(error)) => return Err(io::Error::other(format!("the HTTP library does not start: {error}"))),
            Err(_) => return Err(io::Error::other("the HTTP library does not start")),
        };
        let (leaving, left) = channel();
        let stopping = Arc::new(AtomicBool::new(false));
        let mut library = Self { server, door, stopping, workers: Vec::new(), left };
        for number in 0..options.bounds.workers {
            if let Some(server) = &library.server {
                let worker = spawn_worker(server, &library, number, options, leaving.clone())?;
                library.workers.push(worker);
            }
        }
        Ok(library)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(server) = &self.server {
            self.workers.iter().for_each(|_| server.unblock());
        }
        let until = Instant::now() + LEAVE_TIME;
        for _ in &self.workers {
            let _ = self.left.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
        for worker in self.workers.drain(..).filter(JoinHandle::is_finished) {
            let _ = worker.join();
        }
        if let Some(server) = self.server.take() {
            let_go(server, &self.door);
        }
    }
}

/// Lets go of the library. The last one to do so ends it: its accepting thread is asked to leave, and
/// notices at the next connection, which the library would make itself, by a path that is gone.
fn let_go(server: Arc<tiny_http::Server>, door: &Door) {
    if let Some(server) = Arc::into_inner(server) {
        drop(server);
        let _ = door.connect();
    }
}

fn spawn_worker(
    server: &Arc<tiny_http::Server>,
    library: &Library,
    number: usize,
    options: &ServerOptions,
    leaving: Sender<()>,
) -> io::Result<JoinHandle<()>> {
    let (server, door, stopping) = (server.clone(), library.door.clone(), library.stopping.clone());
    let (service, warn, routes) = (options.service.clone(), options.warn.clone(), options.routes);
    thread::Builder::new().name(format!("http-{number}")).stack_size(HTTP_STACK_BYTES).spawn(move || {
        let worker = Worker { library: &server, routes, service: &*service, stopping: &stopping, warn: &*warn };
        worker.run();
        let_go(server, &door);
        let _ = leaving.send(());
    })
}

/// Waits until the library's first threads stand ready. A connection that comes before makes it start
/// one more than it needs. Only a moment, and not an error: one too many is no danger.
fn settle(before: &[PathBuf]) {
    const THREADS: usize = 5;
    let rests =
        |task: &PathBuf| std::fs::read_to_string(task.join("stat")).is_ok_and(|stat| stat.contains("(http-lib) S"));
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        if threads().iter().filter(|task| !before.contains(task) && rests(task)).count() >= THREADS {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The threads of this process, by their place in /proc.
fn threads() -> Vec<PathBuf> {
    std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|task| task.path()).collect()
}
