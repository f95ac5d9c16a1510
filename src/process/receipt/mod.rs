//! The completion receipt: the only ordinary proof of how an Attempt ended (spec/execution section 4,
//! design D7). The shim writes it, the daemon reads it, deletes it after its commit, or puts it aside.

mod codec;
mod store;

pub(super) use codec::ROOM_BYTES;
pub use codec::{OutOfMemory, Receipt, pack, unpack};
pub use store::{ReceiptRead, ReceiptStore};
pub(super) use store::{file_name, temp_name};
