//! A receipt file's text: there is one text for one receipt, and what it says fits together.

use qinglet::model::limits::{RECEIPT_BYTES_MAX, TIME_MS_MAX};
use qinglet::process::receipt::{pack, unpack};

pub fn run(data: &[u8]) {
    match unpack(data) {
        Err(why) => assert!(!why.is_empty()),
        Ok(receipt) => {
            assert!(data.len() <= RECEIPT_BYTES_MAX);
            assert_eq!(pack(&receipt), data);
            assert!((0..=255).contains(&receipt.exit_code));
            assert!(receipt.sequence >= 1 && receipt.started_at_ms <= receipt.finished_at_ms);
            assert!(receipt.finished_at_ms <= TIME_MS_MAX);
            assert!(receipt.signal.is_none() || receipt.start_error.is_none());
            let token: String = receipt.token.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(!format!("{receipt:?}").contains(&token), "the token is not shown");
        }
    }
}
