//! Matching a request line against the one static route table. What is not in the table does not
//! exist; authentication and permission stand in the same row as the path, so that no path can be
//! reached around them (report 40).

use crate::model::limits;
use crate::model::name::Name;
use crate::model::policy::Permission;
use crate::model::word::{self, Word};

/// A method we know. Any other is not in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Read.
    Get,
    /// Do.
    Post,
    /// Store.
    Put,
    /// Remove.
    Delete,
}

impl Method {
    /// Reads the request line's word; methods are case-sensitive (RFC 9110 section 9.1).
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }
}

/// Who may use a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// Anybody, without a credential. Only health and capabilities.
    Public,
    /// A subject whose role holds this permission in the path's first parameter, the project.
    Holds(Permission),
}

/// One row of the table.
#[derive(PartialEq, Eq, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path; a segment in braces is a parameter.
    pub template: &'static str,
    /// The operation's name, unique in the table; it stands in the audit.
    pub operation: &'static str,
    /// Who may use it.
    pub guard: Guard,
    /// The query names it knows.
    pub query: &'static [&'static str],
    /// The longest body it takes; 0 = it must have none.
    pub body_bytes_max: usize,
}

/// A head that matched.
#[derive(PartialEq, Eq, Debug)]
pub struct Match {
    /// The row.
    pub route: &'static Route,
    /// The path's parameters in order.
    pub params: Vec<String>,
    /// The query's parts.
    pub query: Vec<(&'static str, String)>,
}

/// Finds the row for a method and a request target. The path must be canonical: no `%`, no empty
/// segment, no trailing slash, no backslash; parameters are names. The query's parts must be known,
/// given once and not empty, and need no escaping.
pub fn find(table: &'static [Route], method: &str, target: &str) -> Result<Match, Word> {
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut path_exists = false;
    for route in table {
        let Some(params) = fit(route.template, path) else { continue };
        path_exists = true;
        if Method::parse(method) == Some(route.method) {
            let query = query.map_or(Ok(Vec::new()), |query| parts(route, query))?;
            return Ok(Match { route, params, query });
        }
    }
    Err(if path_exists { word::METHOD_NOT_ALLOWED } else { word::ROUTE_NOT_FOUND })
}

fn fit(template: &str, path: &str) -> Option<Vec<String>> {
    let mut params = Vec::new();
    let mut given = path.split('/');
    for wanted in template.split('/') {
        let segment = given.next()?;
        if wanted.starts_with('{') {
            params.push(Name::parse(segment)?.as_str().to_owned());
        } else if wanted != segment {
            return None;
        }
    }
    given.next().is_none().then_some(params)
}

fn parts(route: &Route, query: &str) -> Result<Vec<(&'static str, String)>, Word> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-' | b':');
    let mut parts: Vec<(&'static str, String)> = Vec::new();
    for part in query.split('&') {
        let (name, value) = part.split_once('=').ok_or(word::INVALID_QUERY)?;
        let known = route.query.iter().find(|known| **known == name).ok_or(word::INVALID_QUERY)?;
        let twice = parts.iter().any(|(seen, _)| seen == known);
        if twice || value.is_empty() || value.len() > limits::QUERY_VALUE_BYTES_MAX || !value.bytes().all(plain) {
            return Err(word::INVALID_QUERY);
        }
        parts.push((known, value.to_owned()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: [Route; 2] = [
        Route {
            method: Method::Get,
            template: "/api/v3/projects/{project}/tasks/{task}",
            operation: "task.get",
            guard: Guard::Holds(Permission::TaskRead),
            query: &["limit", "after"],
            body_bytes_max: 0,
        },
        Route {
            method: Method::Post,
            template: "/api/v3/projects/{project}/tasks/{task}/runs",
            operation: "task.start",
            guard: Guard::Holds(Permission::RunStart),
            query: &[],
            body_bytes_max: 512,
        },
    ];

    #[test]
    fn route_reject_before_auth() {
        let found = find(&TABLE, "GET", "/api/v3/projects/default/tasks/a?limit=3").unwrap();
        assert_eq!((found.route.operation, found.params[1].as_str()), ("task.get", "a"));
        for (method, target, want) in [
            ("GET", "/aPi/v3/projects/default/tasks/a", word::ROUTE_NOT_FOUND),
            ("GET", "/api//v3/projects/default/tasks/a", word::ROUTE_NOT_FOUND),
            ("GET", "//api/v3/projects/default/tasks/a", word::ROUTE_NOT_FOUND),
            ("GET", "/api/v3/projects/default/tasks/a/", word::ROUTE_NOT_FOUND),
            ("GET", "/api/v3/projects/default/tasks/%2e", word::ROUTE_NOT_FOUND),
            ("GET", "/api/v3/projects/default/tasks/..", word::ROUTE_NOT_FOUND),
            ("GET", "/api/v3/projects/default\\tasks/a", word::ROUTE_NOT_FOUND),
            ("GET", "*", word::ROUTE_NOT_FOUND),
            ("GET", "", word::ROUTE_NOT_FOUND),
            ("get", "/api/v3/projects/default/tasks/a", word::METHOD_NOT_ALLOWED),
            ("PUT", "/api/v3/projects/default/tasks/a/runs", word::METHOD_NOT_ALLOWED),
            ("GET", "/api/v3/projects/default/tasks/a?", word::INVALID_QUERY),
            ("GET", "/api/v3/projects/default/tasks/a?limit=", word::INVALID_QUERY),
            ("GET", "/api/v3/projects/default/tasks/a?limit=1&limit=2", word::INVALID_QUERY),
            ("GET", "/api/v3/projects/default/tasks/a?api_key=x", word::INVALID_QUERY),
            ("GET", "/api/v3/projects/default/tasks/a?after=%41", word::INVALID_QUERY),
        ] {
            assert_eq!(find(&TABLE, method, target), Err(want), "{method} {target}");
        }
    }
}
