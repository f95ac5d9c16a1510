//! How much room there is: PIDs, memory, space (design D17).
use std::io;
use std::path::Path;
/// s
pub struct Space {
    /// f
    pub free_bytes: u64,
    /// t
    pub total_bytes: u64,
    /// m
    pub is_tmpfs: bool,
}
/// x
pub fn pids_free() -> Option<u64> {
    None
}
/// x
pub fn memory_free() -> Option<u64> {
    None
}
/// x
pub fn space(_: &Path) -> io::Result<Space> {
    Ok(Space { free_bytes: 1 << 40, total_bytes: 1 << 41, is_tmpfs: false })
}
