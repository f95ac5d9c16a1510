//! The kernel's own small files, which say that they are empty: a buffer that grows from nothing would take
//! five or six reads for each.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// What most of them fit in.
const BYTES: usize = 4096;

/// The whole file as bytes.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(BYTES);
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The whole file as text.
pub(super) fn text(path: &Path) -> io::Result<String> {
    String::from_utf8(bytes(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}
