//! A worker: takes requests from the HTTP library, rebuilds each against the route table, asks the
//! service, and responds. The gate has refused all this once already; here it is refused again, so that no way to a
//! handler exists but through the table.

use super::message::{Answer, Bearer, Request, Service};
use super::route::{self, Guard, Route};
use crate::model::limits::RESPONSE_BYTES_MAX;
use crate::model::word;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use tiny_http::{Header, Response, StatusCode};

/// What a worker works with.
pub struct Worker<'a> {
    /// The library.
    pub library: &'a tiny_http::Server,
    /// The route table.
    pub routes: &'static [Route],
    /// The handlers.
    pub service: &'a dyn Service,
    /// Set before the library is told to let workers go.
    pub stopping: &'a AtomicBool,
    /// Told what an operator should know.
    pub warn: &'a (dyn Fn(&str) + Send + Sync),
}

impl Worker<'_> {
    /// Answers requests until it is told to stop.
    pub fn run(&self) {
        while !self.stopping.load(Ordering::Acquire) {
            match self.library.recv() {
                Ok(mut request) => {
                    let answer = self.bounded(self.answer(&mut request));
                    // A gate that is gone needs no answer.
                    let _ = request.respond(response(&answer));
                }
                Err(_) if self.stopping.load(Ordering::Acquire) => {}
                // It says so once, and only when its accept has failed; what is connected goes on.
                Err(error) => (self.warn)(&format!("the HTTP library accepts no more: {error}")),
            }
        }
    }

    fn answer(&self, request: &mut tiny_http::Request) -> Answer {
        let rebuilt = match self.rebuild(request) {
            Ok(rebuilt) => rebuilt,
            Err(answer) => return answer,
        };
        // Release builds abort on a panic; there it must not happen at all.
        catch_unwind(AssertUnwindSafe(|| self.service.answer(&rebuilt))).unwrap_or_else(|_| {
            (self.warn)(&format!("a handler failed: {}", rebuilt.route.operation));
            Answer::refusal(word::SERVER_OVERLOADED, "this request could not be handled; the daemon's log has more")
        })
    }

    fn rebuild(&self, request: &mut tiny_http::Request) -> Result<Request, Answer> {
        let found = route::find(self.routes, request.method().as_str(), request.url())
            .map_err(|word| Answer::refusal(word, ""))?;
        let bearer = match found.route.guard {
            Guard::Public => None,
            Guard::Holds(_) => {
                let given = request.headers().iter().find(|header| header.field.equiv("Authorization"));
                let token = given.and_then(|header| header.value.as_str().strip_prefix("Bearer "));
                let token = token.ok_or_else(|| Answer::refusal(word::AUTHENTICATION_REQUIRED, ""))?;
                Some(Bearer::new(token.to_owned()))
            }
        };
        let length = request.body_length().unwrap_or(0);
        if length > found.route.body_bytes_max {
            return Err(Answer::refusal(word::BODY_TOO_LARGE, ""));
        }
        let mut body = Vec::with_capacity(length);
        match request.as_reader().take(length as u64).read_to_end(&mut body) {
            Ok(count) if count == length => {}
            _ => return Err(Answer::refusal(word::INVALID_REQUEST, "the request ended before it was whole")),
        }
        Ok(Request { route: found.route, params: found.params, query: found.query, bearer, body })
    }

    fn bounded(&self, answer: Answer) -> Answer {
        if answer.body.len() <= RESPONSE_BYTES_MAX {
            return answer;
        }
        (self.warn)("an answer was longer than 64 KiB and was not sent");
        Answer::refusal(word::SERVER_OVERLOADED, "the answer is longer than 64 KiB; ask for less")
    }
}

/// The library's form of an answer. The head a client sees is the gate's; here stands what the gate
/// needs, and a `Date` of our own: the library's panics when the clock is beyond the year 9999.
fn response(answer: &Answer) -> Response<&[u8]> {
    let header = |name: &str, value: &str| Header::from_bytes(name, value).ok();
    let retry_after = answer.retry_after.map(|seconds| seconds.to_string());
    let headers =
        [header("Date", "-"), header("Server", "-"), retry_after.and_then(|after| header("Retry-After", &after))];
    let headers = headers.into_iter().flatten().collect();
    Response::new(StatusCode(answer.status), headers, answer.body.as_slice(), Some(answer.body.len()), None)
        // A chunked answer has no length.
        .with_chunked_threshold(usize::MAX)
}
