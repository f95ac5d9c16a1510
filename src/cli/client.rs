//! A small blocking HTTP client for the daemon's own socket: one request a connection, every wait
//! and every answer bounded.

use super::context::state_option;
use super::failure::Failure;
use super::reply::{self, Reply};
use super::token;
use crate::http::socket::connect;
use crate::model::limits;
use crate::model::name::DEFAULT_PROJECT;
use crate::store::folders::runtime_of;
use serde_json::Value;
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The daemon that serves one state folder.
pub struct Client {
    state: PathBuf,
    socket: PathBuf,
    token: PathBuf,
    reached: Cell<bool>,
}

/// Why there was no answer.
enum Trouble {
    /// Nothing was sent: nobody listens, or not for us.
    Unreached(io::Error),
    /// Something may have been sent; whether it was done is not known.
    Broken(io::Error),
    /// The request could not be made.
    Own(Failure),
}

/// A pause that grows from one look to the next.
pub struct Pause(Duration);

impl Pause {
    /// Starts short.
    pub const fn new() -> Self {
        Self(Duration::from_millis(limits::CLI_POLL_MS_MIN))
    }

    /// Waits, and will wait longer the next time.
    pub fn wait(&mut self) {
        std::thread::sleep(self.0);
        self.0 = (self.0 * 3 / 2).min(Duration::from_millis(limits::CLI_POLL_MS_MAX));
    }
}

/// Whether the other side closed before it had taken everything.
fn is_cut(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

impl Client {
    /// A client of the daemon that serves `state`.
    pub fn new(state: &Path, token_file: Option<&Path>) -> Self {
        Self {
            state: state.to_owned(),
            socket: runtime_of(state).join("api.sock"),
            token: token::place(token_file, state),
            reached: Cell::new(false),
        }
    }

    /// Whether somebody listens there. Trouble other than that nobody does counts as somebody, so that
    /// the next request tells of it.
    pub fn is_served(&self) -> bool {
        match connect(&self.socket) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
        }
    }

    /// Reads `path` below the project. `what` says in the error what could not be done.
    pub fn get(&self, path: &str, what: &str) -> Result<Value, Failure> {
        self.send("GET", path, None)?.done(what)
    }

    /// Sends one request and takes whatever the daemon answers. A read that is cut off while it is being sent, as
    /// happens to the newest of too many clients, is sent a few times more.
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Reply, Failure> {
        let mut pause = Pause::new();
        let mut tries = if method == "GET" { limits::CLI_CUT_READS_MAX } else { 1 };
        loop {
            tries -= 1;
            match self.exchange(method, path, body) {
                Err(Trouble::Broken(error)) if tries > 0 && is_cut(&error) => pause.wait(),
                result => return result.map_err(|trouble| self.explain(trouble)),
            }
        }
    }

    /// The same, outlasting a daemon that restarts or is overloaded; one that was never reached is
    /// reported at once. Only for requests that may be said twice: reads, and mutations that carry
    /// their id.
    pub fn send_patiently(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Reply, Failure> {
        let until = Instant::now() + Duration::from_millis(limits::CLI_PATIENCE_MS);
        let mut pause = Pause::new();
        loop {
            let result = self.exchange(method, path, body);
            let passing = match &result {
                Ok(reply) => reply.is_passing(),
                Err(Trouble::Unreached(error)) => self.reached.get() && error.kind() != ErrorKind::PermissionDenied,
                Err(Trouble::Broken(_)) => true,
                Err(Trouble::Own(_)) => false,
            };
            if !passing || Instant::now() >= until {
                return result.map_err(|trouble| self.explain(trouble));
            }
            pause.wait();
        }
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Reply, Trouble> {
        let until = Instant::now() + Duration::from_millis(limits::CLI_ANSWER_MS_MAX);
        let mut stream = connect(&self.socket).map_err(Trouble::Unreached)?;
        self.reached.set(true);
        // After connecting, so that a missing daemon is named before a missing token.
        let token = token::read(&self.token).map_err(Trouble::Own)?;
        let prefix =
            if path.starts_with("/api/") { String::new() } else { format!("/api/v3/projects/{DEFAULT_PROJECT}") };
        let mut request = format!(
            "{method} {prefix}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {}\r\n",
            token.expose()
        );
        if let Some(body) = body {
            let body = body.to_string();
            let _ = write!(request, "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        } else {
            request.push_str("\r\n");
        }
        let sent = stream.set_write_timeout(Some(left(until))).and_then(|()| stream.write_all(request.as_bytes()));
        let mut bytes = request.into_bytes();
        bytes.fill(0);
        std::hint::black_box(&bytes);
        // A refusal may arrive before the whole request is taken; then it counts, not the broken pipe.
        let answer = receive(&mut stream, until);
        match (sent, answer) {
            (_, Ok(reply)) => Ok(reply),
            (Err(error), Err(_)) | (Ok(()), Err(error)) => Err(Trouble::Broken(error)),
        }
    }

    fn explain(&self, trouble: Trouble) -> Failure {
        let socket = self.socket.display();
        let state = self.state.display();
        let option = state_option(&self.state);
        let message = match trouble {
            Trouble::Own(failure) => return failure,
            Trouble::Unreached(error) if error.kind() == ErrorKind::PermissionDenied => {
                format!("may not reach the daemon at {socket}: permission denied; use the account that owns {state}")
            }
            Trouble::Unreached(error) if error.kind() == ErrorKind::NotFound && !self.state.exists() => {
                format!("there is no state at {state}; make one with `qinglet {option}init`")
            }
            Trouble::Unreached(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                format!("no daemon answers at {socket}; start it with `qinglet {option}serve`")
            }
            Trouble::Unreached(error) => format!("cannot reach the daemon at {socket}: {error}"),
            Trouble::Broken(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let seconds = limits::CLI_ANSWER_MS_MAX / 1000;
                format!("the daemon at {socket} did not answer within {seconds} s; see what it wrote to its own log")
            }
            Trouble::Broken(error) => format!("the daemon at {socket} broke the connection off: {error}"),
        };
        Failure::unavailable(message)
    }
}

/// What is left until then; never zero, which would mean for ever.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn receive(stream: &mut UnixStream, until: Instant) -> io::Result<Reply> {
    let mut bytes = Vec::new();
    let mut block = [0; 8192];
    loop {
        if let Some(reply) = reply::parse(&bytes)? {
            return Ok(reply);
        }
        if bytes.len() > limits::RESPONSE_BYTES_MAX + limits::HEAD_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "its answer is too long"));
        }
        if Instant::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left(until)))?;
        match stream.read(&mut block) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "its answer is cut short")),
            Ok(count) => bytes.extend_from_slice(&block[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
