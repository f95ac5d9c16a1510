//! Raw HTTP over the daemon's socket or TCP: bytes in, bytes out.

use super::{BOUND, Bench};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// One answer.
#[derive(Debug, PartialEq)]
pub struct Reply {
    /// The status; 0 when the connection was closed without an answer.
    pub status: u16,
    /// The head as text, status line included.
    pub head: String,
    /// The JSON body; null when there was none.
    pub body: Value,
}

impl Reply {
    /// Takes an answer apart.
    pub fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else { return Self { status: 0, head: String::new(), body: Value::Null } };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or(Value::Null);
        Self { status, head, body }
    }

    /// The refusal's machine word.
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

/// Connects to the socket of the daemon that serves `state`, however long its path is.
pub fn connect(state: &Path) -> io::Result<UnixStream> {
    let folder = File::open(state.join("run"))?;
    let stream = UnixStream::connect(format!("/proc/self/fd/{}/api.sock", folder.as_raw_fd()))?;
    stream.set_read_timeout(Some(BOUND))?;
    stream.set_write_timeout(Some(BOUND))?;
    Ok(stream)
}

/// Sends these bytes and reads everything that comes back.
pub fn raw(state: &Path, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connect(state)?;
    // The daemon may answer and close before it has taken everything.
    let _ = stream.write_all(request);
    all(&mut stream)
}

/// The same over TCP.
pub fn raw_tcp(bench: &Bench, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(bench.address())?;
    stream.set_read_timeout(Some(BOUND))?;
    stream.set_write_timeout(Some(BOUND))?;
    let _ = stream.write_all(request);
    all(&mut stream)
}

fn all(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        // A reset after the answer: what was left unread of the request.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset && !bytes.is_empty() => Ok(bytes),
        Err(error) => Err(error),
        Ok(_) => Ok(bytes),
    }
}

/// A GET without a token.
pub fn get(state: &Path, path: &str) -> io::Result<Reply> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    Ok(Reply::of(&raw(state, request.as_bytes())?))
}

impl Bench {
    /// One request with the owner's token; a path that does not begin with `/api/` is below the
    /// default project.
    pub fn http(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.http_as(&self.token(), method, path, body)
    }

    /// The same with another token.
    pub fn http_as(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> Reply {
        Reply::of(&raw(&self.state(), &request(token, method, path, body)).unwrap())
    }

    /// The bytes of an answer to these bytes.
    pub fn raw(&self, request: &[u8]) -> Vec<u8> {
        raw(&self.state(), request).unwrap()
    }
}

/// The bytes of a proper request.
pub fn request(token: &str, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
    let prefix = if path.starts_with("/api/") { "" } else { "/api/v3/projects/default" };
    let head = format!(
        "{method} {prefix}{path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
    );
    match body.map(Value::to_string) {
        None => format!("{head}\r\n").into_bytes(),
        Some(body) => {
            let length = body.len();
            format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        }
    }
}
