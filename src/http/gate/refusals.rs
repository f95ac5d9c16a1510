//! What the gate itself says to a client, each a fixed sentence.

use crate::http::head::Refusal;
use crate::model::word;

/// The daemon is stopping.
pub const DRAINING: Refusal = Refusal::new(word::SERVER_DRAINING, "the daemon is stopping; ask again when it is back");
/// The client stopped sending.
pub const CUT_OFF: Refusal = Refusal::new(word::INVALID_REQUEST, "the request ended before it was whole");
/// The head or the body took too long.
pub const TOO_SLOW: Refusal = Refusal::new(word::REQUEST_TIMEOUT, "the request did not arrive in time");
/// It waited its time for a worker.
pub const BUSY: Refusal = Refusal::new(word::SERVER_OVERLOADED, "all workers are busy; ask again");
/// The buffers are full of what cannot be thrown away.
pub const NO_ROOM: Refusal = Refusal::new(word::SERVER_OVERLOADED, "no buffer is free for this request; ask again");
/// A worker has it and does not answer.
pub const LATE: Refusal = Refusal::new(
    word::SERVER_OVERLOADED,
    "no answer came in time; whether it was done is not known, so read before asking again",
);
/// A worker had it and the connection broke.
pub const LOST: Refusal = Refusal::new(
    word::SERVER_OVERLOADED,
    "the answer was lost; whether it was done is not known, so read before asking again",
);
/// Head and body together are too long.
pub const TOO_LONG: Refusal = Refusal::new(word::BODY_TOO_LARGE, "the request is longer than 128 KiB");
