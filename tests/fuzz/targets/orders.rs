//! What a shim reads from its pipe: header and body. What is read and packed again is the same.

use qinglet::model::limits::ORDERS_BYTES_MAX;
use qinglet::process::orders::repacked;

pub fn run(data: &[u8]) {
    let Some(again) = repacked(data) else { return };
    assert!(again.len() <= ORDERS_BYTES_MAX + 12);
    assert!(again == data, "the same orders in other bytes");
}
