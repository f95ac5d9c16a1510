//! A request's head, read strictly and judged alone: what cannot be answered by a handler is refused
//! here, before a byte of the body is read.
//!
//! Choices where RFC 9112 leaves one. Lines end with CRLF and nothing else; nothing stands before the
//! request line; no folded lines, no control characters, ASCII only. HTTP/1.0 and 1.1 are taken, and every answer closes.
//! The target is in origin form: an absolute one (`GET http://...`) names no route and is 404. `Host`
//! may be missing, because nothing is chosen by it, but not doubled. Forwarded headers are not read.
//!
//! The order of refusals is that of spec/control section 6: framing (400, 431), route (404, 405), query
//! (400), a body where none may be (400), bearer (401), and only then the body's size and type (411, 413, 400).

use super::route::{self, Guard, Method, Route};
use crate::model::limits::HEAD_BYTES_MAX;
use crate::model::word::{self, Word};

/// A refusal from the head alone.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Refusal {
    /// The machine word.
    pub word: Word,
    /// A sentence for people; empty where every cause must look the same.
    pub message: &'static str,
    /// The methods the path has, for an `Allow` header; only with 405.
    pub allow: Option<String>,
    /// Why a 401 was given; counted, never shown.
    pub rejected: Option<&'static str>,
}

impl Refusal {
    /// A refusal with a sentence.
    pub const fn new(word: Word, message: &'static str) -> Self {
        Self { word, message, allow: None, rejected: None }
    }

    fn unauthenticated(why: &'static str) -> Self {
        Self { rejected: Some(why), ..Self::new(word::AUTHENTICATION_REQUIRED, "") }
    }
}

/// Where a head ends, so far.
#[derive(Debug, PartialEq, Eq)]
pub enum Scan {
    /// Not yet.
    More,
    /// After this many bytes.
    Whole(usize),
    /// It will never be a head.
    Refused(Refusal),
}

/// Looks for the end of a head in bytes of which the first `seen` were looked at before.
pub fn scan(bytes: &[u8], seen: usize) -> Scan {
    for (at, byte) in bytes.iter().enumerate().skip(seen) {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let good = match byte {
            b'\n' => before == Some(b'\r'),
            b'\t' | b'\r' | b' '..=b'~' => before != Some(b'\r'),
            _ => false,
        };
        if !good {
            return Scan::Refused(Refusal::new(
                word::INVALID_REQUEST,
                "the head has a bare line end or a byte that is not printable ASCII",
            ));
        }
        if *byte == b'\n' && bytes[..=at].ends_with(b"\r\n\r\n") {
            return if at < HEAD_BYTES_MAX { Scan::Whole(at + 1) } else { Scan::Refused(TOO_LONG) };
        }
    }
    if bytes.len() >= HEAD_BYTES_MAX { Scan::Refused(TOO_LONG) } else { Scan::More }
}

const TOO_LONG: Refusal = Refusal::new(word::HEAD_TOO_LARGE, "request line and headers are longer than 8 KiB");

/// A head that may go on to a handler.
#[derive(Debug)]
pub struct Admitted<'a> {
    /// The row it matched.
    pub route: &'static Route,
    /// The method's word.
    pub method: &'a str,
    /// The target as it was sent.
    pub target: &'a str,
    /// The bearer's token; `None` on a public route, where a credential is not looked at.
    pub bearer: Option<&'a str>,
    /// The body's length in bytes.
    pub content_length: usize,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

impl Admitted<'_> {
    /// The head as it goes on to a worker: nothing of it but what was understood here.
    pub fn forward(&self) -> String {
        let credential = self.bearer.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        format!(
            "{} {} HTTP/1.1\r\n{credential}Content-Length: {}\r\n\r\n",
            self.method, self.target, self.content_length
        )
    }
}

/// The method's word of a head, for a refused request; empty when there is none.
pub fn method_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == b' ').next().unwrap_or_default()
}

#[derive(Default)]
struct Fields<'a> {
    content_length: Option<&'a str>,
    content_type: Option<&'a str>,
    transfer_encoding: Option<&'a str>,
    authorization: Option<&'a str>,
    authorizations: usize,
    expect: Option<&'a str>,
    host: Option<&'a str>,
}

/// Judges a whole head, the empty line included.
pub fn judge<'a>(table: &'static [Route], bytes: &'a [u8]) -> Result<Admitted<'a>, Refusal> {
    let invalid = |message| Refusal::new(word::INVALID_REQUEST, message);
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("the head is not ASCII"))?;
    let text = text.strip_suffix("\r\n\r\n").ok_or(invalid("the head has no end"))?;
    let mut lines = text.split("\r\n");
    let (method, target, newer) = request_line(lines.next().unwrap_or_default())?;
    let fields = fields(lines)?;
    if fields.transfer_encoding.is_some() && fields.content_length.is_some() {
        return Err(invalid("Transfer-Encoding and Content-Length together"));
    }
    let content_length = fields.content_length.map(length).transpose()?;
    let expects_continue = match fields.expect {
        None => false,
        Some(what) if what.eq_ignore_ascii_case("100-continue") => newer,
        Some(_) => return Err(invalid("an Expect other than 100-continue")),
    };

    let route = match route::find(table, method, target) {
        Ok(found) => found.route,
        Err(word) if word == word::METHOD_NOT_ALLOWED => {
            let allow = Some(allowed(table, target));
            return Err(Refusal { allow, ..Refusal::new(word, "the path has other methods; see the Allow header") });
        }
        Err(word) if word == word::ROUTE_NOT_FOUND => return Err(Refusal::new(word, "no such path")),
        Err(word) => {
            return Err(Refusal::new(word, "the query has a part that is unknown, repeated, empty or escaped"));
        }
    };
    if route.body_bytes_max == 0 && (fields.transfer_encoding.is_some() || content_length.is_some_and(|n| n > 0)) {
        return Err(invalid("this route takes no body"));
    }
    let bearer = match route.guard {
        Guard::Public => None,
        Guard::Holds(_) => Some(bearer(&fields)?),
    };
    let content_length = content_length.unwrap_or(0);
    if route.body_bytes_max > 0 {
        body_declared(&fields, content_length, route.body_bytes_max)?;
    }
    Ok(Admitted { route, method, target, bearer, content_length, expects_continue })
}

fn request_line(line: &str) -> Result<(&str, &str, bool), Refusal> {
    let invalid = Refusal::new(word::INVALID_REQUEST, "the request line is not `METHOD target HTTP/1.1`");
    let mut parts = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(invalid);
    };
    let newer = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ => return Err(invalid),
    };
    let visible = target.bytes().all(|byte| byte.is_ascii_graphic());
    if method.is_empty() || !method.bytes().all(token_byte) || target.is_empty() || !visible {
        return Err(invalid);
    }
    Ok((method, target, newer))
}

fn fields<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Fields<'a>, Refusal> {
    let mut fields = Fields::default();
    for line in lines {
        let invalid = Refusal::new(word::INVALID_REQUEST, "a header line is not `name: value`");
        let Some((name, value)) = line.split_once(':') else { return Err(invalid) };
        if name.is_empty() || !name.bytes().all(token_byte) || value.contains('\r') {
            return Err(invalid);
        }
        let value = value.trim_matches([' ', '\t']);
        let known = [
            ("content-length", &mut fields.content_length),
            ("content-type", &mut fields.content_type),
            ("transfer-encoding", &mut fields.transfer_encoding),
            ("expect", &mut fields.expect),
            ("host", &mut fields.host),
        ];
        if name.eq_ignore_ascii_case("authorization") {
            fields.authorizations += 1;
            fields.authorization = Some(value);
        }
        for (wanted, place) in known {
            if name.eq_ignore_ascii_case(wanted) && place.replace(value).is_some() {
                return Err(Refusal::new(word::INVALID_REQUEST, "a header that may be given once is given twice"));
            }
        }
    }
    Ok(fields)
}

/// A token character (RFC 9110 section 5.6.2).
fn token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A length that does not fit is still a length: too large, not malformed.
fn length(text: &str) -> Result<usize, Refusal> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (text.len() > 1 && text.starts_with('0')) {
        return Err(Refusal::new(word::INVALID_REQUEST, "Content-Length is not a decimal number"));
    }
    Ok(text.parse().unwrap_or(usize::MAX))
}

fn body_declared(fields: &Fields, content_length: usize, bytes_max: usize) -> Result<(), Refusal> {
    if fields.content_length.is_none() {
        return Err(Refusal::new(word::LENGTH_REQUIRED, "send the body with a Content-Length, not chunked"));
    }
    if content_length > bytes_max {
        return Err(Refusal::new(word::BODY_TOO_LARGE, "the body is longer than this route takes"));
    }
    let json = fields.content_type.is_some_and(|given| {
        let (kind, parameter) = given.split_once(';').unwrap_or((given, "charset=utf-8"));
        kind.trim().eq_ignore_ascii_case("application/json")
            && matches!(parameter.trim().to_ascii_lowercase().as_str(), "charset=utf-8" | "charset=\"utf-8\"")
    });
    if content_length > 0 && !json {
        return Err(Refusal::new(word::INVALID_BODY, "send the body with `Content-Type: application/json`"));
    }
    Ok(())
}

/// The token of the one `Authorization: Bearer ql3c_<credential>_<secret>` header. Whether the
/// credential exists is not known here; what has not this form cannot.
fn bearer<'a>(fields: &Fields<'a>) -> Result<&'a str, Refusal> {
    let Some(value) = fields.authorization else { return Err(Refusal::unauthenticated("missing")) };
    let malformed = Refusal::unauthenticated("malformed");
    let Some((scheme, token)) = value.split_once(' ') else { return Err(malformed) };
    if fields.authorizations != 1 || !scheme.eq_ignore_ascii_case("bearer") || !token_form(token) {
        return Err(malformed);
    }
    Ok(token)
}

/// `ql3c_`, a credential id of 1 to 64 characters, `_`, and 43 characters of base64url.
fn token_form(token: &str) -> bool {
    const SECRET: usize = 43;
    let Some(rest) = token.strip_prefix("ql3c_") else { return false };
    let Some(at) = rest.len().checked_sub(SECRET + 1) else { return false };
    let (Some(id), Some(secret)) = (rest.get(..at), rest.get(at + 1..)) else { return false };
    let id_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let secret_byte = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    rest.as_bytes()[at] == b'_'
        && (1..=64).contains(&id.len())
        && id.as_bytes()[0].is_ascii_alphanumeric()
        && id.bytes().all(id_byte)
        && secret.bytes().all(secret_byte)
}

fn allowed(table: &'static [Route], target: &str) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let mut allowed = String::new();
    for (word, method) in
        [("GET", Method::Get), ("POST", Method::Post), ("PUT", Method::Put), ("DELETE", Method::Delete)]
    {
        if Method::parse(word) == Some(method) && route::find(table, word, path).is_ok() {
            if !allowed.is_empty() {
                allowed.push_str(", ");
            }
            allowed.push_str(word);
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::policy::Permission;

    static TABLE: [Route; 3] = [
        Route {
            method: Method::Get,
            template: "/api/health",
            operation: "health",
            guard: Guard::Public,
            query: &[],
            body_bytes_max: 0,
        },
        Route {
            method: Method::Get,
            template: "/api/v3/projects/{project}/tasks/{task}",
            operation: "task.get",
            guard: Guard::Holds(Permission::TaskRead),
            query: &["limit"],
            body_bytes_max: 0,
        },
        Route {
            method: Method::Put,
            template: "/api/v3/projects/{project}/tasks/{task}",
            operation: "task.put",
            guard: Guard::Holds(Permission::TaskUpdate),
            query: &[],
            body_bytes_max: 512,
        },
    ];
    const TASK: &str = "/api/v3/projects/default/tasks/a";
    const TOKEN: &str = "ql3c_own.er-1_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_-";

    fn ask(head: &str) -> Result<Admitted<'_>, Refusal> {
        match scan(head.as_bytes(), 0) {
            Scan::Whole(end) => {
                assert_eq!(end, head.len());
                judge(&TABLE, head.as_bytes())
            }
            Scan::More => panic!("no end: {head:?}"),
            Scan::Refused(refusal) => Err(refusal),
        }
    }

    fn word_of(head: &str) -> &'static str {
        ask(head).map_or_else(|refusal| refusal.word.code, |_| "ok")
    }

    #[test]
    fn head_keeps_only_what_was_understood() {
        let head = format!(
            "PUT {TASK} HTTP/1.1\r\nHost: a\r\nauthorization: bearer {TOKEN}\r\nX-Forwarded-For: b\r\nTE: trailers\r\n\
             Connection: keep-alive\r\nExpect: 100-Continue\r\nContent-Length:  7 \r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
        );
        let admitted = ask(&head).unwrap();
        assert!(admitted.expects_continue);
        assert_eq!((admitted.route.operation, admitted.content_length), ("task.put", 7));
        let forward = format!("PUT {TASK} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 7\r\n\r\n");
        assert_eq!(admitted.forward(), forward);
    }

    #[test]
    fn head_public_route_forwards_no_credential() {
        let head = "GET /api/health HTTP/1.0\r\nAuthorization: Basic eA==\r\nExpect: 100-continue\r\n\r\n";
        let admitted = ask(head).unwrap();
        assert!(!admitted.expects_continue, "an HTTP/1.0 client knows no 100");
        assert_eq!(admitted.forward(), "GET /api/health HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    }

    #[test]
    fn head_that_is_not_http_is_invalid() {
        let long_name = "x".repeat(9000);
        for bad in [
            "\r\nGET /api/health HTTP/1.1\r\n\r\n",
            "GET /api/health\r\n\r\n",
            "GET /api/health HTTP/1.2\r\n\r\n",
            "GET /api/health HTTP/2.0\r\n\r\n",
            "GET  /api/health HTTP/1.1\r\n\r\n",
            "GET /api/health HTTP/1.1 \r\n\r\n",
            "GET\t/api/health HTTP/1.1\r\n\r\n",
            "G(T /api/health HTTP/1.1\r\n\r\n",
            "GET /api/health HTTP/1.1\nHost: a\r\n\r\n",
            "GET /api/health HTTP/1.1\rHost: a\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
            "GET /api/health HTTP/1.1\r\n A: b\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nA : b\r\n\r\n",
            "GET /api/health HTTP/1.1\r\n: b\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nnothing\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nA: \u{0}\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nA: \u{7f}\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nA: ä\r\n\r\n",
            "GET /api/h\u{e4}alth HTTP/1.1\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nContent-Length: 0, 0\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nContent-Length: +0\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nContent-Length: 00\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nContent-Length:\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
            "GET /api/health HTTP/1.1\r\nExpect: 200-ok\r\n\r\n",
        ] {
            assert_eq!(word_of(bad), "invalid_request", "{bad:?}");
        }
        assert_eq!(word_of("GET /api/health HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "ok");
        assert_eq!(word_of(&format!("GET /{long_name} HTTP/1.1\r\n\r\n")), "request_head_too_large");
    }

    #[test]
    fn head_of_exactly_the_limit_passes_and_one_more_does_not() {
        let frame = "GET /api/health HTTP/1.1\r\nA: \r\n\r\n".len();
        let of = |bytes: usize| format!("GET /api/health HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(bytes - frame));
        assert_eq!(word_of(&of(HEAD_BYTES_MAX)), "ok");
        assert_eq!(word_of(&of(HEAD_BYTES_MAX + 1)), "request_head_too_large");
        assert_eq!(scan(&vec![b'a'; HEAD_BYTES_MAX - 1], 0), Scan::More);
        assert_eq!(scan(&vec![b'a'; HEAD_BYTES_MAX], 100), Scan::Refused(TOO_LONG));
    }

    #[test]
    fn head_scan_goes_on_where_it_stopped() {
        let head = b"GET /api/health HTTP/1.1\r\nA: b\r\n\r\nrest";
        for cut in 0..head.len() - 4 {
            assert_eq!(scan(&head[..cut], 0), Scan::More);
            assert_eq!(scan(head, cut), Scan::Whole(head.len() - 4), "{cut}");
        }
    }

    #[test]
    fn head_order_is_route_then_bearer_then_body() {
        let put = |rest: &str| format!("PUT {TASK} HTTP/1.1\r\n{rest}\r\n");
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        for (rest, want) in [
            (String::new(), "authentication_required"),
            ("Content-Length: 900\r\n".into(), "authentication_required"),
            (bearer.clone(), "length_required"),
            (format!("{bearer}Transfer-Encoding: chunked\r\n"), "length_required"),
            (format!("{bearer}Content-Length: 513\r\n"), "request_body_too_large"),
            (format!("{bearer}Content-Length: 99999999999999999999999\r\n"), "request_body_too_large"),
            (format!("{bearer}Content-Length: 5\r\n"), "invalid_request_body"),
            (format!("{bearer}Content-Length: 5\r\nContent-Type: text/plain\r\n"), "invalid_request_body"),
            (
                format!("{bearer}Content-Length: 5\r\nContent-Type: application/json; charset=x\r\n"),
                "invalid_request_body",
            ),
            (format!("{bearer}Content-Length: 512\r\nContent-Type: application/json\r\n"), "ok"),
            (format!("{bearer}Content-Length: 0\r\n"), "ok"),
        ] {
            assert_eq!(word_of(&put(&rest)), want, "{rest}");
        }
        assert_eq!(word_of("GET http://a/api/health HTTP/1.1\r\n\r\n"), "route_not_found");
        assert_eq!(word_of("OPTIONS * HTTP/1.1\r\n\r\n"), "route_not_found");
        assert_eq!(word_of(&format!("GET {TASK}?token={TOKEN} HTTP/1.1\r\n\r\n")), "invalid_query");
        let refusal = ask(&format!("PATCH {TASK} HTTP/1.1\r\n\r\n")).unwrap_err();
        assert_eq!((refusal.word.status, refusal.allow.as_deref()), (405, Some("GET, PUT")));
        assert_eq!(ask("HEAD /api/health HTTP/1.1\r\n\r\n").unwrap_err().allow.as_deref(), Some("GET"));
    }

    #[test]
    fn head_bearer_has_one_exact_form() {
        let get = |rest: &str| format!("GET {TASK} HTTP/1.1\r\n{rest}\r\n");
        let (left, secret) = TOKEN.split_at(TOKEN.len() - 44);
        for bad in [
            format!("Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}\r\n"),
            format!("Authorization: {TOKEN}\r\n"),
            format!("Authorization: Basic {TOKEN}\r\n"),
            format!("Authorization: Bearer  {TOKEN}\r\n"),
            format!("Authorization: Bearer {TOKEN} x\r\n"),
            format!("Authorization: Bearer {TOKEN}, Bearer {TOKEN}\r\n"),
            "Authorization: Bearer\r\n".into(),
            "Authorization:\r\n".into(),
            format!("Authorization: Bearer {}\r\n", &TOKEN[..TOKEN.len() - 1]),
            format!("Authorization: Bearer ql3c_{secret}\r\n"),
            format!("Authorization: Bearer ql3c_.a{secret}\r\n"),
            format!("Authorization: Bearer ql3c_{}{secret}\r\n", "a".repeat(65)),
            format!("Authorization: Bearer {left}/{secret}\r\n"),
            format!("Authorization: Bearer QL3C_a{secret}\r\n"),
            format!("Authorization: Bearer {}=\r\n", &TOKEN[..TOKEN.len() - 1]),
        ] {
            let refusal = ask(&get(&bad)).unwrap_err();
            assert_eq!(refusal, Refusal::unauthenticated("malformed"), "{bad}");
        }
        assert_eq!(ask(&get("")).unwrap_err(), Refusal::unauthenticated("missing"));
        for good in [TOKEN.to_owned(), format!("ql3c_{}{secret}", "a".repeat(64))] {
            assert_eq!(ask(&get(&format!("Authorization: Bearer {good}\r\n"))).unwrap().bearer, Some(&*good));
        }
    }
}
