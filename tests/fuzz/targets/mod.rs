//! What is fuzzed: every reader of bytes that come from outside, or from a file that may be damaged. Each
//! says more than "it does not panic". Used twice: by the fuzzer (`make fuzz`), and by
//! `tests/fuzz_corpus.rs`, which runs every kept input through the same functions without one.

mod body;
mod config;
mod cron;
mod crontab;
mod gate;
mod handle;
mod head;
mod json;
mod keyring;
mod orders;
mod passwd;
mod receipt;
mod redact;
mod secretref;
mod stat;
mod task;
mod token;
mod trigger;
mod zone;
mod zonefile;

/// One function that takes any bytes.
pub struct Target {
    /// Its name, and its folder below `tests/fuzz/corpus`.
    pub name: &'static str,
    /// The longest input worth trying: a little more than the reader itself takes.
    pub bytes_max: usize,
    /// Panics when something is wrong.
    pub run: fn(&[u8]),
}

macro_rules! target {
    ($name:ident, $bytes_max:expr) => {
        Target { name: stringify!($name), bytes_max: $bytes_max, run: $name::run }
    };
}

/// Every target.
pub const TARGETS: &[Target] = &[
    target!(head, 9000),
    target!(gate, 9000),
    target!(body, 4096),
    target!(json, 4096),
    target!(config, 1024),
    target!(receipt, 1024),
    target!(handle, 160),
    target!(stat, 1024),
    target!(cron, 384),
    target!(zone, 96),
    target!(zonefile, 2048),
    target!(task, 4096),
    target!(trigger, 1024),
    target!(crontab, 2048),
    target!(token, 128),
    target!(orders, 1024),
    target!(passwd, 512),
    target!(keyring, 1024),
    target!(secretref, 512),
    target!(redact, 1024),
];
