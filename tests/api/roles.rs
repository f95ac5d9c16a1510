//! Every route for every role.

use super::world::{World, code, uuid};
use qinglet::http::route::{Guard, Method, Route};
use qinglet::http::routes::ROUTES;
use qinglet::model::policy::Role;
use serde_json::json;

fn target(route: &Route) -> String {
    let id = "018f5e7a-9b1c-7def-8123-456789abcdef";
    let path = route.template.replace("{project}", "default").replace("{run}", id).replace("{attempt}", id);
    path.replace("{task}", "nothing")
        .replace("{credential}", "nothing")
        .replace("{trigger}", "nothing")
        .replace("{secret}", "nothing")
}

fn method(route: &Route) -> &'static str {
    match route.method {
        Method::Get => "GET",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
    }
}

/// Who may use what: spec/control section 1, written out.
#[rustfmt::skip]
const MAY: [(&str, [bool; 4]); 28] = [
    //                    owner  admin  operator viewer
    ("project.status",    [true, true,  true,    true]),
    ("task.list",         [true, true,  true,    true]),
    ("task.get",          [true, true,  true,    true]),
    ("task.put",          [true, true,  true,    false]),
    ("task.delete",       [true, true,  false,   false]),
    ("task.start",        [true, true,  true,    false]),
    ("run.list",          [true, true,  true,    true]),
    ("run.get",           [true, true,  true,    true]),
    ("run.events.list",   [true, true,  true,    true]),
    ("run.cancel",        [true, true,  true,    false]),
    ("trigger.list",      [true, true,  true,    true]),
    ("trigger.get",       [true, true,  true,    true]),
    ("trigger.put",       [true, true,  true,    false]),
    ("trigger.delete",    [true, true,  false,   false]),
    ("secret.list",       [true, true,  false,   false]),
    ("secret.get",        [true, true,  false,   false]),
    ("secret.put",        [true, true,  false,   false]),
    ("secret.delete",     [true, true,  false,   false]),
    ("secret.rekey",      [true, true,  false,   false]),
    ("run.retry",         [true, true,  true,    false]),
    ("run.log.read",      [true, true,  true,    true]),
    ("run.evidence",      [true, true,  true,    true]),
    ("run.resolve",       [true, true,  false,   false]),
    ("access.list",       [true, true,  false,   false]),
    ("access.bind",       [true, true,  false,   false]),
    ("credential.create", [true, true,  false,   false]),
    ("credential.revoke", [true, true,  false,   false]),
    ("audit.list",        [true, true,  false,   false]),
];

/// A body that is not JSON proves who was admitted: 400 comes after the decision, 403 before.
#[test]
fn role_matrix_for_every_route() {
    let world = World::new();
    let members: Vec<_> = Role::ALL.iter().map(|role| (*role, world.member(role.word(), *role))).collect();
    let mut decided = 0;
    for route in &ROUTES {
        if route.guard == Guard::Public {
            continue;
        }
        let may = MAY.iter().find(|(operation, _)| *operation == route.operation);
        let may = may.unwrap_or_else(|| panic!("{} is not in the table", route.operation)).1;
        for ((role, token), may) in members.iter().zip(may) {
            let before = world.audit();
            let sent = if route.body_bytes_max > 0 { "not json" } else { "" };
            let (status, body) = world.ask(token, method(route), &target(route), sent);
            let after = world.audit();
            let case = format!("{} as {}: {status} {body}", route.operation, role.word());
            if may {
                assert!(matches!(status, 200 | 400 | 404), "{case}");
                assert_eq!(status == 400, route.body_bytes_max > 0, "{case}");
                assert_eq!(before.len(), after.len(), "an allowed read or a bad body writes nothing: {case}");
            } else {
                let want = (403, "forbidden".to_owned());
                assert_eq!((status, code(&body)), want, "{case}");
                assert_eq!(after.len(), before.len() + 1, "{case}");
                let row = (route.operation.into(), "denied".into(), "permission_missing".into());
                assert_eq!(after[0], row, "{case}");
            }
            decided += 1;
        }
    }
    assert_eq!(decided, MAY.len() * 4);
}

#[test]
fn somebody_without_a_role_gets_nothing_and_learns_nothing() {
    let world = World::new();
    let nobody = world.member("nobody", Role::Viewer);
    world.bind(&world.owner, &json!({"type": "user", "id": "nobody"}), None);
    for route in ROUTES.iter().filter(|route| route.guard != Guard::Public) {
        let (status, body) = world.ask(&nobody, method(route), &target(route), "not json");
        let want = if route.operation == "run.log.read" { (404, "artifact_not_found") } else { (403, "forbidden") };
        assert_eq!((status, code(&body).as_str()), want, "{}", route.operation);
        assert_eq!(world.audit()[0].2, "subject_unbound", "{}", route.operation);
    }
}

#[test]
fn deny_masked_404() {
    let world = World::new();
    let viewer = world.member("viewer", Role::Viewer);
    let id = "018f5e7a-9b1c-7def-8123-456789abcdef";
    let log = format!("runs/{id}/attempts/{id}/log");
    let missing = world.answer(&viewer, "GET", &log, "");
    world.bind(&world.owner, &json!({"type": "user", "id": "viewer"}), None);
    let denied = world.answer(&viewer, "GET", &log, "");
    assert_eq!(missing, denied, "who may not read a log does not learn whether there is one");
}

#[test]
fn cross_project_equals_missing() {
    let world = World::new();
    let viewer = world.member("viewer", Role::Viewer);
    for path in ["tasks", "runs", "tasks/a", "audit"] {
        let (status, body) = world.get(&viewer, &format!("/api/v3/projects/elsewhere/{path}"));
        assert_eq!((status, code(&body).as_str()), (403, "forbidden"), "{path}");
    }
    let (status, body) = world.get(&world.owner, "/api/v3/projects/elsewhere/tasks");
    assert_eq!((status, code(&body).as_str()), (403, "forbidden"), "the owner of another project");
}

#[test]
fn an_agent_reads_and_does_nothing() {
    let world = World::new();
    let subject = json!({"type": "agent", "id": "helper"});
    assert_eq!(world.bind(&world.owner, &subject, Some("operator")).0, 200);
    let agent = world.token(&subject);
    let seen = world.put_task("t", None, true);
    assert_eq!(world.get(&agent, "tasks/t").0, 200);
    assert_eq!(world.get(&agent, "tasks/t").1["task"].get("spec"), None, "it may not update, so it sees no spec");
    assert_eq!(world.start(&agent, "t", &uuid(), &seen).0, 403);
    assert_eq!(world.audit()[0].2, "agent_action_requires_approval");
}

#[test]
fn allowed_reads_write_nothing() {
    let world = World::new();
    let viewer = world.member("viewer", Role::Viewer);
    let (before, counted) = (world.audit().len(), world.api.allowed_reads());
    for path in ["tasks", "runs", "status"] {
        for _ in 0..20 {
            assert_eq!(world.get(&viewer, path).0, 200);
        }
    }
    assert_eq!(world.audit().len(), before);
    assert_eq!(world.api.allowed_reads(), counted + 60, "they are counted in memory");
}

#[test]
fn public_routes_need_nobody_and_name_nobody() {
    let world = World::new();
    world.put_task("a-secret-name", None, true);
    let (status, health) = world.get("", "/api/health");
    assert_eq!((status, &health["status"]), (200, &json!("ok")));
    assert_eq!(health["runs"], json!({"queued": 0, "retryWait": 0, "active": 0, "lost": 0}));
    let (status, capabilities) = world.get("", "/api/v3/capabilities");
    assert_eq!((status, &capabilities["profile"]), (200, &json!("edge")));
    assert_eq!(capabilities["budgets"]["mutationBodyBytes"], 512);
    for body in [health, capabilities] {
        assert!(!body.to_string().contains("secret-name"));
    }
    world.store.close();
    assert_eq!(world.get("", "/api/health").0, 503, "health tells the truth about the store");
}
