//! The sockets: listeners, one accepted stream, and the client's way in.
//!
//! A Unix socket's address holds 107 bytes of path (unix(7)). A longer path is reached through an open
//! descriptor of its directory, as `/proc/self/fd/N/name`.

use super::poll;
use crate::execution::linux::open_path;
use crate::model::limits::SEND_BUFFER_BYTES;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// `sun_path` without its NUL.
const PATH_BYTES: usize = 107;

/// One client's connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over the local socket.
    Unix(UnixStream),
}

impl Stream {
    /// Says that no more bytes will be sent.
    pub fn end_writing(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Unix(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

/// A listening socket that does not block. A Unix one removes its file when dropped.
#[derive(Debug)]
pub enum Listener {
    /// On an address.
    Tcp(TcpListener),
    /// On a path.
    Unix(UnixListener, OwnedPath),
}

impl Listener {
    /// Listens on an address; port 0 picks one.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener =
            TcpListener::bind(address).map_err(|error| named(&error, "cannot listen on", &address.to_string()))?;
        listener.set_nonblocking(true)?;
        poll::bound_send_buffer(&listener, SEND_BUFFER_BYTES)?;
        Ok(Self::Tcp(listener))
    }

    /// Listens on a path, with mode 0600. A socket left behind there is replaced; one that answers,
    /// or a file that is no socket, is refused.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let (listener, owned) = bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self::Unix(listener, owned))
    }

    /// The TCP address it really has.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// Takes one connection, made not to block.
    pub fn accept(&self) -> io::Result<Stream> {
        let stream = match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Self::Unix(listener, _) => Stream::Unix(listener.accept()?.0),
        };
        match &stream {
            Stream::Tcp(stream) => stream.set_nonblocking(true)?,
            Stream::Unix(stream) => stream.set_nonblocking(true)?,
        }
        Ok(stream)
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(listener) => listener.as_raw_fd(),
            Self::Unix(listener, _) => listener.as_raw_fd(),
        }
    }
}

/// A socket's file, removed when dropped if it is still the same file.
#[derive(Debug)]
pub struct OwnedPath {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for OwnedPath {
    fn drop(&mut self) {
        let same = |now: &fs::Metadata| (now.dev(), now.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(|now| same(&now)) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a path with mode 0600, without a moment in which the path has another mode: the socket gets
/// its mode under a temporary name and is then renamed over what was there.
pub fn bind(path: &Path) -> io::Result<(UnixListener, OwnedPath)> {
    let shown = path.display().to_string();
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let what = format!("{shown} exists and is not a socket; move it away");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        Ok(_) if connect(path).is_ok() => {
            let what = format!("somebody already answers on {shown}; stop that process first");
            return Err(io::Error::new(io::ErrorKind::AddrInUse, what));
        }
        _ => {}
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    let _ = fs::remove_file(&fresh);
    let listener = short(&fresh, |address| UnixListener::bind(address))
        .map_err(|error| named(&error, "cannot make the socket", &shown))?;
    let placed = fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| fs::symlink_metadata(path));
    match placed {
        Ok(made) => Ok((listener, OwnedPath { path: path.to_owned(), identity: (made.dev(), made.ino()) })),
        Err(error) => {
            let _ = fs::remove_file(&fresh);
            Err(named(&error, "cannot make the socket", &shown))
        }
    }
}

/// Connects to a Unix socket by path, however long it is. The stream blocks.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    short(path, |address| UnixStream::connect(address))
}

/// A way to a Unix socket that needs no file: an open descriptor of the socket's inode, through
/// which it can be reached after its name is gone.
#[derive(Debug)]
pub struct Door(File);

impl Door {
    /// Opens the socket at a path.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(open_path(path, libc::O_NOFOLLOW)?))
    }

    /// Connects. The stream blocks.
    pub fn connect(&self) -> io::Result<UnixStream> {
        UnixStream::connect(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

fn short<T>(path: &Path, act: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= PATH_BYTES {
        return act(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let folder = open_path(folder, libc::O_DIRECTORY)?;
    let mut address = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    address.extend_from_slice(name.as_bytes());
    act(Path::new(OsStr::from_bytes(&address)))
}

fn named(error: &io::Error, what: &str, name: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("qinglet-socket-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn socket_is_private_replaces_a_stale_one_and_leaves_nothing() {
        let folder = folder("plain");
        let path = folder.join("api.sock");
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listener::unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Listener::unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        connect(&path).unwrap();
        drop(listener);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::write(&path, "mine").unwrap();
        assert_eq!(Listener::unix(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn socket_leaves_a_successors_file_alone() {
        let folder = folder("successor");
        let path = folder.join("api.sock");
        let first = Listener::unix(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Listener::unix(&path).unwrap();
        drop(first);
        connect(&path).unwrap();
        drop(second);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn socket_path_longer_than_an_address_works() {
        let folder = folder("long").join("x".repeat(120)).join("y".repeat(120));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("api.sock");
        let listener = Listener::unix(&path).unwrap();
        connect(&path).unwrap();
        listener.accept().unwrap();
        drop(listener);
        assert!(!path.exists());
        fs::remove_dir_all(folder.parent().unwrap().parent().unwrap()).unwrap();
    }

    #[test]
    fn door_leads_to_a_socket_without_a_name() {
        let folder = folder("door");
        let path = folder.join("upstream.sock");
        let (listener, owned) = bind(&path).unwrap();
        let door = Door::open(&path).unwrap();
        drop(owned);
        assert!(!path.exists());
        let mut client = door.connect().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
