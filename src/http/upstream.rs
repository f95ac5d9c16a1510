//! The connections to the HTTP library: a fixed number, opened at boot and kept, each with one
//! request at a time. The library makes a thread for each connection it is given, and panics when it cannot; so no
//! request ever opens one, and a broken one is replaced only with descriptors and PIDs to spare.

use super::poll::Watched;
use super::reply::{self, Worked};
use super::socket::Door;
use crate::model::limits::{REOPEN_MS, UPSTREAM_HEAD_BYTES_MAX};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Asked whether there are PIDs to spare before a broken connection is opened again.
pub type MayReopen = Arc<dyn Fn() -> bool + Send + Sync>;
/// Asked for so many bytes for an answer.
pub type Room<'a> = &'a mut dyn FnMut(usize) -> bool;

/// A request no handler knows; its answer proves that the library serves the connection.
const PROBE: &[u8] = b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n";
/// How long the proof may take at boot.
const PROBE_TIME: Duration = Duration::from_secs(5);
/// Descriptors a connection takes: our end, the library's, and the copy it makes.
const DESCRIPTORS: usize = 3;

/// The connections.
pub struct Upstream {
    channels: Vec<Channel>,
    door: Arc<Door>,
    may_reopen: MayReopen,
}

enum Channel {
    Closed { retry: Instant },
    Idle(UnixStream),
    Busy(UnixStream, Box<Exchange>),
}

struct Exchange {
    /// The client's place; none for a probe, and for an answer nobody waits for any more.
    place: Option<usize>,
    request: Vec<u8>,
    sent: usize,
    head: Vec<u8>,
    /// Bytes of the body still to come, once the head is known.
    missing: Option<usize>,
    answer: Vec<u8>,
    /// The answer did not fit; the client is told so.
    no_room: bool,
    deadline: Option<Instant>,
}

/// What a turn brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer, ready for the client in this place.
    Answered(usize, Vec<u8>),
    /// The client in this place gets no answer from a worker.
    Lost(usize, Why),
    /// A connection broke; nobody waited on it.
    Broken,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Why {
    /// The connection broke.
    Broken,
    /// The worker takes too long. Its answer is thrown away when it comes; until then the connection
    /// takes nothing else, so that no more is asked of the workers than they can do.
    Late,
    /// There is no room for the answer.
    NoRoom,
}

/// How far an exchange has come.
enum Progress {
    Pending,
    Whole,
    Broken,
}

impl Exchange {
    fn new(place: Option<usize>, request: Vec<u8>, deadline: Option<Instant>) -> Self {
        let (head, answer) = (Vec::new(), Vec::new());
        Self { place, request, sent: 0, head, missing: None, answer, no_room: false, deadline }
    }

    fn bytes(&self) -> usize {
        self.request.capacity() + self.head.capacity() + self.answer.capacity()
    }

    /// From now on the answer is for nobody.
    fn forget(&mut self) -> Option<usize> {
        self.answer = Vec::new();
        self.deadline = None;
        self.place.take()
    }

    /// Writes and reads what the connection has ready.
    fn turn(&mut self, stream: &mut UnixStream, chunk: &mut [u8], room: Room<'_>) -> Progress {
        while self.sent < self.request.len() {
            match stream.write(&self.request[self.sent..]) {
                Ok(count) if count > 0 => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                _ => return Progress::Broken,
            }
        }
        if self.sent == self.request.len() {
            (self.request, self.sent) = (Vec::new(), 0);
        }
        loop {
            match stream.read(chunk) {
                Ok(count) if count > 0 => match self.feed(&chunk[..count], room) {
                    Progress::Pending => {}
                    ended => return ended,
                },
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Pending,
                _ => return Progress::Broken,
            }
        }
    }

    /// Takes the next bytes of the worker's answer.
    fn feed(&mut self, mut chunk: &[u8], room: Room<'_>) -> Progress {
        if self.missing.is_none() {
            let known = self.head.len();
            let fits = chunk.len().min(UPSTREAM_HEAD_BYTES_MAX - known);
            self.head.extend_from_slice(&chunk[..fits]);
            let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
                return if self.head.len() < UPSTREAM_HEAD_BYTES_MAX { Progress::Pending } else { Progress::Broken };
            };
            let Some(worked) = Worked::parse(&self.head[..end]) else { return Progress::Broken };
            chunk = &chunk[end - known..];
            self.head = Vec::new();
            self.missing = Some(worked.length);
            self.no_room = self.place.is_some() && !self.begin(&worked, room);
        }
        let missing = self.missing.unwrap_or(0);
        if chunk.len() > missing {
            return Progress::Broken;
        }
        if self.place.is_some() && !self.no_room {
            self.answer.extend_from_slice(chunk);
        }
        self.missing = Some(missing - chunk.len());
        if missing == chunk.len() { Progress::Whole } else { Progress::Pending }
    }

    fn begin(&mut self, worked: &Worked, room: Room<'_>) -> bool {
        let head = reply::head(worked.status, worked.length, worked.retry_after, None);
        let total = head.len() + worked.length;
        if !room(total) || self.answer.try_reserve_exact(total).is_err() {
            return false;
        }
        self.answer.extend_from_slice(head.as_bytes());
        true
    }
}

impl Upstream {
    /// Opens all connections, one after the other, each only when the one before is served: the
    /// library would otherwise count one waiting thread for several connections and leave some of
    /// them unserved for ever.
    pub fn open(door: Arc<Door>, count: usize, may_reopen: MayReopen) -> io::Result<Self> {
        let mut channels = Vec::with_capacity(count);
        for _ in 0..count {
            let stream = door.connect()?;
            prove(&stream)?;
            stream.set_nonblocking(true)?;
            channels.push(Channel::Idle(stream));
        }
        Ok(Self { channels, door, may_reopen })
    }

    /// A connection that could take a request.
    pub fn idle(&self) -> Option<usize> {
        self.channels.iter().position(|channel| matches!(channel, Channel::Idle(_)))
    }

    /// How many requests are with the workers.
    pub fn in_flight(&self) -> usize {
        self.channels.iter().filter(|channel| matches!(channel, Channel::Busy(..))).count()
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let bytes = |channel: &Channel| if let Channel::Busy(_, exchange) = channel { exchange.bytes() } else { 0 };
        self.channels.iter().map(bytes).sum()
    }

    /// What is to be watched, each with its connection's number.
    pub fn watched(&self) -> impl Iterator<Item = (usize, Watched)> {
        self.channels.iter().enumerate().filter_map(|(number, channel)| match channel {
            Channel::Closed { .. } => None,
            // Only the end can come from an idle one.
            Channel::Idle(stream) => Some((number, Watched::new(stream, true, false))),
            Channel::Busy(stream, exchange) => {
                Some((number, Watched::new(stream, true, exchange.sent < exchange.request.len())))
            }
        })
    }

    /// The next moment at which something is to be done.
    pub fn due(&self) -> Option<Instant> {
        let due = |channel: &Channel| match channel {
            Channel::Closed { retry } => Some(*retry),
            Channel::Idle(_) => None,
            Channel::Busy(_, exchange) => exchange.deadline,
        };
        self.channels.iter().filter_map(due).min()
    }

    /// Hands a whole request to an idle connection.
    pub fn send(&mut self, number: usize, place: usize, request: Vec<u8>, deadline: Instant) {
        if let Some(channel) = self.channels.get_mut(number) {
            let exchange = Box::new(Exchange::new(Some(place), request, Some(deadline)));
            *channel = match std::mem::replace(channel, Channel::Closed { retry: deadline }) {
                Channel::Idle(stream) => Channel::Busy(stream, exchange),
                other => other,
            };
        }
    }

    /// The client in this place is gone; what a worker answers is for nobody.
    pub fn forget(&mut self, place: usize) {
        for channel in &mut self.channels {
            if let Channel::Busy(_, exchange) = channel
                && exchange.place == Some(place)
            {
                exchange.forget();
            }
        }
    }

    /// Writes and reads what a connection has ready.
    pub fn turn(&mut self, number: usize, now: Instant, chunk: &mut [u8], room: Room<'_>) -> Option<Outcome> {
        let channel = self.channels.get_mut(number)?;
        let (progress, place) = match channel {
            Channel::Closed { .. } => return None,
            Channel::Idle(stream) => match stream.read(chunk) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return None,
                _ => (Progress::Broken, None),
            },
            Channel::Busy(stream, exchange) => (exchange.turn(stream, chunk, room), exchange.place),
        };
        // Not at once: one that breaks again and again must not keep the gate busy.
        let closed = Channel::Closed { retry: now + Duration::from_millis(REOPEN_MS) };
        let Channel::Busy(_, exchange) = channel else {
            *channel = closed;
            return Some(Outcome::Broken);
        };
        let lost = exchange.no_room.then(|| exchange.forget()).flatten().map(|place| Outcome::Lost(place, Why::NoRoom));
        match progress {
            Progress::Pending => lost,
            Progress::Whole => {
                let answer = std::mem::take(&mut exchange.answer);
                // What was not sent when the answer came would be taken for the next request.
                let clean = exchange.request.is_empty();
                if let Channel::Busy(stream, _) = std::mem::replace(channel, closed)
                    && clean
                {
                    *channel = Channel::Idle(stream);
                }
                lost.or_else(|| place.map(|place| Outcome::Answered(place, answer)))
            }
            Progress::Broken => {
                *channel = closed;
                Some(place.map_or(Outcome::Broken, |place| Outcome::Lost(place, Why::Broken)))
            }
        }
    }

    /// Gives up the answers that are late, and opens broken connections again.
    pub fn overdue(&mut self, now: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for channel in &mut self.channels {
            match channel {
                Channel::Busy(_, exchange) if exchange.deadline.is_some_and(|deadline| deadline <= now) => {
                    outcomes.extend(exchange.forget().map(|place| Outcome::Lost(place, Why::Late)));
                }
                Channel::Closed { retry } if *retry <= now => {
                    *channel = reopen(&self.door, &self.may_reopen)
                        .unwrap_or(Channel::Closed { retry: now + Duration::from_millis(REOPEN_MS) });
                }
                _ => {}
            }
        }
        outcomes
    }
}

fn reopen(door: &Door, may_reopen: &MayReopen) -> Option<Channel> {
    // Held together, so that there really are that many.
    let spare: Vec<_> = (0..=DESCRIPTORS).map_while(|_| File::open("/dev/null").ok()).collect();
    if spare.len() <= DESCRIPTORS || !may_reopen() {
        return None;
    }
    drop(spare);
    let stream = door.connect().ok()?;
    stream.set_nonblocking(true).ok()?;
    // It takes requests once the library has answered the probe on it.
    Some(Channel::Busy(stream, Box::new(Exchange::new(None, PROBE.to_vec(), None))))
}

/// Waits until the library has answered on a fresh connection.
fn prove(mut stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PROBE_TIME))?;
    stream.write_all(PROBE)?;
    let mut exchange = Exchange::new(None, Vec::new(), None);
    let mut chunk = [0; 512];
    loop {
        let count = stream.read(&mut chunk)?;
        match exchange.feed(&chunk[..count], &mut |_| true) {
            _ if count == 0 => return Err(ErrorKind::UnexpectedEof.into()),
            Progress::Whole => return Ok(()),
            Progress::Pending => {}
            Progress::Broken => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::socket;
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread;

    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

    /// Stands for the library: answers the probe on every connection, and what else it is sent with the
    /// given text; with an empty one it closes.
    fn library(listener: UnixListener, answer: &'static str, opened: Arc<AtomicUsize>) {
        thread::spawn(move || {
            for stream in listener.incoming() {
                opened.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let mut request = [0; 4096];
                    while let Ok(count) = stream.read(&mut request) {
                        let probe = request[..count].starts_with(PROBE);
                        let text = if probe { "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}" } else { answer };
                        if count == 0 || text.is_empty() || stream.write_all(text.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }

    struct Bench {
        upstream: Upstream,
        opened: Arc<AtomicUsize>,
        spare: Arc<AtomicBool>,
    }

    fn bench(answer: &'static str, count: usize) -> Bench {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("qinglet-upstream-{}-{number}", std::process::id()));
        let (listener, file) = socket::bind(&path).unwrap();
        let door = Arc::new(Door::open(&path).unwrap());
        drop(file);
        let (opened, spare) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
        library(listener, answer, opened.clone());
        let asked = spare.clone();
        let upstream = Upstream::open(door, count, Arc::new(move || asked.load(Ordering::SeqCst))).unwrap();
        Bench { upstream, opened, spare }
    }

    /// Turns a connection until something comes of it, or it is idle.
    fn outcome(upstream: &mut Upstream, number: usize, room: bool) -> Option<Outcome> {
        let mut chunk = [0; 4096];
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            let outcome = upstream.turn(number, Instant::now(), &mut chunk, &mut |_| room);
            if outcome.is_some() || upstream.idle() == Some(number) {
                return outcome;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing came");
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn upstream_keeps_its_connections_and_reframes_answers() {
        let Bench { mut upstream, opened, .. } = bench(GOOD, 3);
        for place in 0..20 {
            let number = upstream.idle().unwrap();
            upstream.send(number, place, b"GET /a HTTP/1.1\r\n\r\n".to_vec(), later());
            assert_ne!(upstream.idle(), Some(number), "one request at a time");
            let Some(Outcome::Answered(to, answer)) = outcome(&mut upstream, number, true) else { panic!("no answer") };
            assert_eq!(to, place);
            let want = reply::head(200, 5, None, None) + "hello";
            assert_eq!(String::from_utf8(answer).unwrap(), want);
        }
        assert_eq!((opened.load(Ordering::SeqCst), upstream.bytes()), (3, 0));
    }

    #[test]
    fn upstream_takes_a_bad_answer_for_a_broken_connection() {
        for bad in [
            "",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nhello",
        ] {
            let Bench { mut upstream, .. } = bench(bad, 1);
            upstream.send(0, 7, b"GET /a HTTP/1.1\r\n\r\n".to_vec(), later());
            assert_eq!(outcome(&mut upstream, 0, true), Some(Outcome::Lost(7, Why::Broken)), "{bad}");
            assert_eq!(upstream.idle(), None);
        }
    }

    #[test]
    fn upstream_replaces_a_broken_connection_only_with_something_to_spare() {
        let Bench { mut upstream, opened, spare } = bench("", 1);
        spare.store(false, Ordering::SeqCst);
        upstream.send(0, 7, b"GET /a HTTP/1.1\r\n\r\n".to_vec(), later());
        assert_eq!(outcome(&mut upstream, 0, true), Some(Outcome::Lost(7, Why::Broken)));
        assert!(upstream.due().is_some_and(|due| due > Instant::now()), "not at once");
        upstream.overdue(later());
        assert_eq!((upstream.in_flight(), opened.load(Ordering::SeqCst)), (0, 1));
        spare.store(true, Ordering::SeqCst);
        upstream.overdue(later() + Duration::from_secs(60));
        assert_eq!(upstream.idle(), None, "not before the library has answered on it");
        assert_eq!(outcome(&mut upstream, 0, true), None);
        assert_eq!((upstream.idle(), opened.load(Ordering::SeqCst)), (Some(0), 2));
    }

    #[test]
    fn upstream_without_room_drops_the_answer_and_keeps_the_connection() {
        let Bench { mut upstream, opened, .. } = bench(GOOD, 1);
        upstream.send(0, 7, b"GET /a HTTP/1.1\r\n\r\n".to_vec(), later());
        assert_eq!(outcome(&mut upstream, 0, false), Some(Outcome::Lost(7, Why::NoRoom)));
        assert_eq!(outcome(&mut upstream, 0, true), None);
        assert_eq!((upstream.idle(), opened.load(Ordering::SeqCst)), (Some(0), 1));
    }

    #[test]
    fn upstream_gives_a_late_answer_to_nobody() {
        let Bench { mut upstream, .. } = bench(GOOD, 1);
        let due = Instant::now();
        upstream.send(0, 7, b"GET /a HTTP/1.1\r\n\r\n".to_vec(), due);
        assert_eq!(upstream.overdue(due), [Outcome::Lost(7, Why::Late)]);
        assert_eq!((upstream.due(), upstream.idle()), (None, None), "the worker still has it");
        assert_eq!(outcome(&mut upstream, 0, true), None);
        assert_eq!(upstream.idle(), Some(0));
    }
}
