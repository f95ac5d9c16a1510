//! The README's tables of who may do what, held to the code's.

use qinglet::http::route::{self, Guard};
use qinglet::http::routes::ROUTES;
use qinglet::model::policy::{Permission, Role};
use std::collections::BTreeSet;

/// The cells of the rows of the table that begins with this.
fn table(head: &str) -> Vec<Vec<&'static str>> {
    let text = include_str!("../../README.md");
    let from = text.split_once(head).unwrap_or_else(|| panic!("no table {head}")).1;
    let lines = from.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What stands in backquotes.
fn quoted(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn the_role_table_is_the_one_in_force() {
    let roles = ["viewer", "operator", "admin", "owner"].map(|word| Role::parse(word).unwrap());
    let mut seen = Vec::new();
    for row in table("| permission | lets | viewer | operator | admin | owner |") {
        for word in quoted(row[0]) {
            let permission = Permission::ALL.into_iter().find(|permission| permission.word() == word);
            let permission = permission.unwrap_or_else(|| panic!("there is no {word}"));
            for (role, said) in roles.iter().zip(&row[2..]) {
                assert_eq!(role.holds(permission), *said == "yes", "{word} as {}", role.word());
                assert!(["yes", "no"].contains(said), "{row:?}");
            }
            seen.push(word);
        }
    }
    let mut all = Permission::ALL.map(Permission::word);
    seen.sort_unstable();
    all.sort_unstable();
    assert_eq!(seen, all, "each once");
}

#[test]
fn the_request_table_has_every_route_and_its_weakest_role() {
    let mut seen = BTreeSet::new();
    for row in table("| request below `/api/v3/projects/default` | does | role |") {
        for request in quoted(row[0]) {
            let (method, path) = request.split_once(' ').unwrap();
            let (path, names) = path.split_once('?').unwrap_or((path, ""));
            let found = route::find(&ROUTES, method, &format!("/api/v3/projects/default{path}"));
            let route = found.unwrap_or_else(|e| panic!("{request}: {e:?}")).route;
            for name in names.split('&').filter(|name| !name.is_empty()) {
                assert!(route.query.contains(&name), "{request} does not know {name}");
            }
            let Guard::Holds(permission) = route.guard else { panic!("{request} is public") };
            let weakest = Role::ALL.into_iter().rev().find(|role| role.holds(permission)).unwrap();
            assert_eq!(weakest.word(), row[2], "{request}");
            assert!(seen.insert(route.operation), "{request} stands there twice");
        }
    }
    let guarded = ROUTES.iter().filter(|route| route.guard != Guard::Public);
    for route in guarded {
        assert!(seen.contains(route.operation), "{} is not in the table", route.template);
    }
}
