//! A request's head as the gate takes it: in pieces, within its bound, then judged against the route table.
//! The first byte says how long the pieces are.

use qinglet::access::token::Token;
use qinglet::http::head::{self, Refusal, Scan};
use qinglet::http::message::Answer;
use qinglet::http::reply;
use qinglet::http::route::Guard;
use qinglet::http::routes::ROUTES;
use qinglet::model::limits::{HEAD_BYTES_MAX, REQUEST_BYTES_MAX};
use qinglet::model::word;

pub fn run(data: &[u8]) {
    let Some((step, sent)) = data.split_first() else { return };
    let end = read(sent, HEAD_BYTES_MAX);
    assert_eq!(read(sent, usize::from(*step) % 97 + 1), end, "however it is cut");
    match end {
        Scan::More => {}
        Scan::Refused(refusal) => refused(&refusal, sent),
        Scan::Whole(end) => {
            assert!(end <= HEAD_BYTES_MAX && sent[..end].ends_with(b"\r\n\r\n"));
            assert_eq!(head::scan(&sent[..end - 1], 0), Scan::More, "not a byte too many");
            judged(&sent[..end]);
        }
    }
}

/// As `gate/intake.rs` does it: never more than the bound, each byte looked at once.
fn read(sent: &[u8], step: usize) -> Scan {
    let (mut seen, mut scanned) = (0, Scan::More);
    while scanned == Scan::More && seen < sent.len() {
        let held = sent.len().min(seen + step).min(HEAD_BYTES_MAX);
        scanned = head::scan(&sent[..held], seen);
        assert!(scanned != Scan::More || held > seen, "it waits for more than it can hold");
        seen = held;
    }
    scanned
}

fn judged(bytes: &[u8]) {
    let admitted = match head::judge(&ROUTES, bytes) {
        Ok(admitted) => admitted,
        Err(refusal) => return refused(&refusal, bytes),
    };
    assert!(admitted.content_length <= admitted.route.body_bytes_max);
    assert_eq!(admitted.bearer.is_some(), matches!(admitted.route.guard, Guard::Holds(_)));
    if let Some(bearer) = admitted.bearer {
        // The gate looks at the form alone; the last character's two spare bits are looked at later.
        let zero = format!("{}A", &bearer[..bearer.len() - 1]);
        assert!(Token::parse(&zero).is_some(), "{bearer:?} is no token's form");
    }
    let forward = admitted.forward();
    assert!(forward.len() + admitted.content_length <= REQUEST_BYTES_MAX);
    assert_eq!(head::scan(forward.as_bytes(), 0), Scan::Whole(forward.len()), "{forward:?}");
    // What goes on is understood again, and as the same.
    let typed = forward.replacen("\r\n", "\r\nContent-Type: application/json\r\n", 1);
    let again = head::judge(&ROUTES, typed.as_bytes()).expect("what was admitted is admitted");
    assert_eq!((again.forward(), again.content_length), (forward, admitted.content_length));
    assert!(std::ptr::eq(again.route, admitted.route));
}

fn refused(refusal: &Refusal, bytes: &[u8]) {
    assert!((400..500).contains(&refusal.word.status), "{refusal:?}");
    assert_eq!(refusal.allow.is_some(), refusal.word == word::METHOD_NOT_ALLOWED);
    assert_eq!(refusal.rejected.is_some(), refusal.word == word::AUTHENTICATION_REQUIRED);
    assert!(refusal.rejected.is_none() || refusal.message.is_empty(), "every 401 is the same");
    let head_only = head::method_of(bytes) == b"HEAD";
    let answer = Answer::refusal(refusal.word, refusal.message);
    let whole = reply::whole(&answer, refusal.allow.as_deref(), head_only);
    let text = String::from_utf8(whole).expect("an answer is text");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
    assert!(head.starts_with(&format!("HTTP/1.1 {}", refusal.word.status)));
    assert!(head.contains(&format!("Content-Length: {}", answer.body.len())));
    assert_eq!(body.as_bytes(), if head_only { &[][..] } else { &answer.body });
}
