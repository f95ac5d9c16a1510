//! What the parts of a query may be. Each name means the same on every route, so one table checks
//! them all, before anybody is authenticated (spec/control section 6).

use super::message::{Answer, Request};
use crate::model::id::{EventId, RunId};
use crate::model::life::RunState;
use crate::model::limits::{Limits, PAGE_DEFAULT, PAGE_MAX, REVISION_MAX, TIME_MS_MAX};
use crate::model::name::Name;
use crate::model::policy::{Subject, SubjectKind};
use crate::model::word;
use crate::store::runs::RunCursor;
use base64ct::{Base64UrlUnpadded, Encoding};

/// Refuses a query that has a part which is not canonical, or half a cursor.
pub fn check(request: &Request, limits: &Limits) -> Result<(), Answer> {
    for (name, value) in &request.query {
        let rule = match *name {
            "limit" if decimal(value, 1, PAGE_MAX as i64).is_none() => "must be 1 to 64",
            "length" if decimal(value, 1, i64::from(limits.log_range_bytes)).is_none() => {
                "must be 1 to the profile's longest log range"
            }
            "attempt" if decimal(value, 1, REVISION_MAX).is_none() => "must be an attempt's number",
            "offset" | "after_sequence" | "after_created_at_ms" if decimal(value, 0, TIME_MS_MAX).is_none() => {
                "must be a whole number without sign or leading zeros"
            }
            "after_run_id" if RunId::parse(value).is_none() => "must be a run's id",
            "after" if EventId::parse(value).is_none() => "must be the last row's id",
            "after_name" if Name::parse(value).is_none() => "must be a secret's name",
            "after_trigger_id" if Name::parse(value).is_none() => "must be a trigger's id",
            "after_task_id" | "task" if Name::parse(value).is_none() => "must be a task's id",
            "status" if RunState::parse(value).is_none() => "must be a run's status",
            "after_subject" if subject(value).is_none() => "must be the page's `next`",
            _ => continue,
        };
        return Err(Answer::refusal(word::INVALID_QUERY, &format!("{name} {rule}")));
    }
    if request.query("after_created_at_ms").is_some() != request.query("after_run_id").is_some() {
        let words = "after_created_at_ms and after_run_id go together: both or neither";
        return Err(Answer::refusal(word::INVALID_QUERY, words));
    }
    Ok(())
}

/// How many items a page may have.
pub fn limit(request: &Request) -> usize {
    request.query("limit").and_then(|text| text.parse().ok()).unwrap_or(PAGE_DEFAULT)
}

/// A number that [`check`] let pass.
pub fn number(request: &Request, name: &str) -> Option<i64> {
    request.query(name).and_then(|text| text.parse().ok())
}

/// A task's id that [`check`] let pass.
pub fn task(request: &Request, name: &str) -> Option<Name> {
    request.query(name).and_then(Name::parse)
}

/// Where a page of Runs goes on.
pub fn run_cursor(request: &Request) -> Option<RunCursor> {
    let run = RunId::parse(request.query("after_run_id")?)?;
    Some(RunCursor { created_at_ms: number(request, "after_created_at_ms")?, run })
}

/// Where a page of subjects goes on: `kind:id` as base64url, because an id may hold characters
/// that a query may not.
pub fn subject_cursor(request: &Request) -> Option<Subject> {
    request.query("after_subject").and_then(subject)
}

/// The cursor's text for a subject.
pub fn subject_text(subject: &Subject) -> String {
    Base64UrlUnpadded::encode_string(subject.to_string().as_bytes())
}

fn subject(text: &str) -> Option<Subject> {
    let plain = String::from_utf8(Base64UrlUnpadded::decode_vec(text).ok()?).ok()?;
    let (kind, id) = plain.split_once(':')?;
    Subject::new(SubjectKind::parse(kind)?, id)
}

fn decimal(text: &str, min: i64, max: i64) -> Option<i64> {
    let canonical = text == "0" || (!text.starts_with('0') && text.bytes().all(|c| c.is_ascii_digit()));
    let value = text.parse().ok().filter(|_| canonical)?;
    (min..=max).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::route;
    use crate::http::routes::ROUTES;
    use crate::model::limits::EDGE;

    fn checked(target: &str) -> Result<Request, Answer> {
        let found = route::find(&ROUTES, "GET", &format!("/api/v3/projects/default/{target}")).unwrap();
        let request =
            Request { route: found.route, params: found.params, query: found.query, bearer: None, body: Vec::new() };
        check(&request, &EDGE).map(|()| request)
    }

    const RUN: &str = "018f5e7a-9b1c-7def-8123-456789abcdef";

    #[test]
    fn only_canonical_parts_pass() {
        let cursor = format!("runs?after_created_at_ms=0&after_run_id={RUN}&limit=64&task=a.b&status=timed_out");
        let request = checked(&cursor).unwrap();
        assert_eq!((limit(&request), run_cursor(&request).map(|c| c.created_at_ms)), (64, Some(0)));
        let log = format!("runs/{RUN}/attempts/{RUN}/log");
        assert!(checked(&format!("{log}?offset=9007199254740991&length=32768")).is_ok());
        for bad in [
            "runs?limit=0".to_owned(),
            "runs?limit=65".into(),
            "runs?limit=01".into(),
            "runs?limit=-1".into(),
            "runs?limit=99999999999999999999".into(),
            "runs?status=done".into(),
            "runs?task=-a".into(),
            "runs?after_created_at_ms=0".into(),
            format!("runs?after_run_id={RUN}"),
            format!("runs?after_created_at_ms=00&after_run_id={RUN}"),
            format!("runs?after_created_at_ms=9007199254740992&after_run_id={RUN}"),
            "runs?after_created_at_ms=0&after_run_id=x".into(),
            format!("runs/{RUN}?attempt=0"),
            format!("runs/{RUN}/events?after_sequence=-0"),
            format!("{log}?length=32769"),
            format!("{log}?length=0"),
            format!("{log}?offset=1.0"),
            "tasks?after_task_id=_".into(),
            "audit?after=1".into(),
            "access?after_subject=alice".into(),
        ] {
            assert_eq!(checked(&bad).err().map(|answer| answer.status), Some(400), "{bad}");
        }
    }

    #[test]
    fn the_longest_subject_fits_a_cursor() {
        let subject = Subject::new(SubjectKind::McpClient, &"ü".repeat(127)).unwrap();
        let request = checked(&format!("access?after_subject={}", subject_text(&subject))).unwrap();
        assert_eq!(subject_cursor(&request), Some(subject));
    }
}
