//! The composition root: builds everything, starts the threads, stops them in reverse.

use crate::model::limits::Profile;
use crate::model::word::Exit;
use std::net::SocketAddr;
use std::path::PathBuf;

/// How to serve.
#[derive(Debug)]
pub struct ServeOptions {
    /// The state folder.
    pub state: PathBuf,
    /// A TCP address to serve the API on besides the socket.
    pub listen: Option<SocketAddr>,
    /// The sizes and counts.
    pub profile: Profile,
    /// Whether there is an API at all.
    pub api: bool,
}

/// Serves until it is told to stop.
pub fn serve(_: ServeOptions) -> Exit {
    Exit::Unavailable
}
