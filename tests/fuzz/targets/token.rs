//! A bearer's token: one text for one token, and its secret is not shown.

use qinglet::access::token::{Token, is_credential_id};
use qinglet::http::head;
use qinglet::http::routes::ROUTES;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let request = format!("GET /api/v3/projects/default/tasks HTTP/1.1\r\nAuthorization: Bearer {text}\r\n\r\n");
    let admitted = match head::scan(request.as_bytes(), 0) {
        head::Scan::Whole(end) if end == request.len() => head::judge(&ROUTES, request.as_bytes()).ok(),
        _ => None,
    };
    let Some(token) = Token::parse(text) else { return };
    assert_eq!(token.reveal().expose(), text);
    assert!(is_credential_id(token.credential_id()));
    assert_eq!(format!("{token:?}"), format!("Token({}, ..)", token.credential_id()));
    assert_eq!(admitted.and_then(|head| head.bearer), Some(text), "the gate lets every token through to be checked");
}
