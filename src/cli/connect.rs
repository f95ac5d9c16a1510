//! Connecting to the daemon's socket, however long its path is.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A path longer than this does not fit `sun_path` with its NUL (unix(7)).
const SUN_PATH_MAX: usize = 107;

/// Connects to a socket. A path that is too long for the kernel's address is reached through its
/// folder's descriptor in /proc.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    if socket.as_os_str().as_bytes().len() <= SUN_PATH_MAX {
        return UnixStream::connect(socket);
    }
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    UnixStream::connect(Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_socket_below_a_very_long_path_is_reached() {
        let root = std::env::temp_dir().join(format!("qinglet-connect-{}", std::process::id()));
        let folder = root.join("d".repeat(100)).join("e".repeat(100));
        std::fs::create_dir_all(&folder).unwrap();
        let handle = File::open(&folder).unwrap();
        let near = format!("/proc/self/fd/{}/api.sock", handle.as_raw_fd());
        let listener = UnixListener::bind(near).unwrap();
        let mut client = connect(&folder.join("api.sock")).unwrap();
        client.write_all(b"x").unwrap();
        let mut byte = [0];
        listener.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        std::fs::remove_dir_all(root).unwrap();
    }
}
