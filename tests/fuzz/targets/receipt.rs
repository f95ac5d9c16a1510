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
            let shown = format!("{receipt:?}");
            let token = format!("{:?}", receipt.token);
            let text = std::str::from_utf8(data).expect("a receipt is text");
            let hex = text.split_once("\"token\":\"").and_then(|(_, rest)| rest.get(..64)).expect("its token");
            assert!(!shown.contains(hex) && !shown.contains(&token), "the token is not shown");
        }
    }
}
