//! Every route for everybody: who may what, what the others are told, and that nothing changes for them.

use super::walk::{Ask, guarded, picture, prepare};
use super::world::{World, bent, code, uuid};
use qinglet::http::route::{Method, Route};
use qinglet::model::policy::Role;
use serde_json::json;

/// Who may use what: spec/control section 1, written out. The last column: still in an archived project.
#[rustfmt::skip]
const MAY: [(&str, [bool; 4], bool); 33] = [
    //                    owner  admin  operator viewer   archived
    ("project.status",    [true, true,  true,     true  ], true),
    ("task.list",         [true, true,  true,     true  ], true),
    ("task.get",          [true, true,  true,     true  ], true),
    ("task.put",          [true, true,  true,     false ], false),
    ("task.delete",       [true, true,  false,    false ], false),
    ("task.start",        [true, true,  true,     false ], false),
    ("run.list",          [true, true,  true,     true  ], true),
    ("run.get",           [true, true,  true,     true  ], true),
    ("run.events.list",   [true, true,  true,     true  ], true),
    ("run.cancel",        [true, true,  true,     false ], false),
    ("trigger.list",      [true, true,  true,     true  ], true),
    ("trigger.get",       [true, true,  true,     true  ], true),
    ("trigger.put",       [true, true,  true,     false ], false),
    ("trigger.delete",    [true, true,  false,    false ], false),
    ("secret.list",       [true, true,  false,    false ], false),
    ("secret.get",        [true, true,  false,    false ], false),
    ("secret.put",        [true, true,  false,    false ], false),
    ("secret.delete",     [true, true,  false,    false ], false),
    ("secret.rekey",      [true, true,  false,    false ], false),
    ("run.retry",         [true, true,  true,     false ], false),
    ("run.log.read",      [true, true,  true,     true  ], true),
    ("run.evidence",      [true, true,  true,     true  ], true),
    ("run.resolve",       [true, true,  false,    false ], false),
    ("access.list",       [true, true,  false,    false ], false),
    ("access.bind",       [true, true,  false,    false ], false),
    ("credential.create", [true, true,  false,    false ], false),
    ("credential.revoke", [true, true,  false,    false ], false),
    ("state.check",       [true, true,  false,    false ], false),
    ("backup.create",     [true, false, false,    false ], false),
    ("backup.get",        [true, false, false,    false ], false),
    ("backup.read",       [true, false, false,    false ], false),
    ("backup.delete",     [true, false, false,    false ], false),
    ("audit.list",        [true, true,  false,    false ], false),
];

fn row(route: &Route) -> &'static (&'static str, [bool; 4], bool) {
    let row = MAY.iter().find(|(operation, ..)| *operation == route.operation);
    row.unwrap_or_else(|| panic!("{} is not in the table", route.operation))
}

/// Those who are refused whatever the route is for, each with the token it sends and why the audit says it
/// is refused; nothing for whoever was not proven.
fn strangers(world: &World) -> Vec<(&'static str, String, Option<&'static str>)> {
    let unbound = world.member("unbound", Role::Admin);
    world.bind(&world.owner, &json!({"type": "user", "id": "unbound"}), None);
    vec![
        ("nobody", String::new(), None),
        ("a wrong secret", bent(&world.owner), None),
        ("somebody without a role", unbound, Some("subject_unbound")),
    ]
}

/// Asks, and sees that it is refused with the word for that, written down once, and that nothing changed.
fn refused(world: &World, route: &Route, ask: &Ask, who: &str, token: &str, reason: Option<&str>) {
    let (before, rows) = (picture(world), world.audit().len());
    let (status, body) = ask.by(world, token);
    let case = format!("{} by {who}: {status} {body}", route.operation);
    let want = match reason {
        None => (401, "authentication_required"),
        // Who may not read a log does not learn which there are.
        Some(_) if route.operation == "run.log.read" => (404, "artifact_not_found"),
        Some(_) => (403, "forbidden"),
    };
    assert_eq!((status, code(&body).as_str()), want, "{case}");
    assert_eq!(body.as_object().unwrap().keys().filter(|key| *key != "message").count(), 1, "no more: {case}");
    let audit = world.audit();
    assert_eq!(audit.len(), rows + usize::from(reason.is_some()), "{case}");
    if let Some(reason) = reason {
        assert_eq!(audit[0], (route.operation.into(), "denied".into(), reason.into()), "{case}");
    }
    assert_eq!(picture(world), before, "it changed something: {case}");
}

/// Asks, and sees that it is done; a read changes and writes nothing, a mutation writes its row.
fn done(world: &World, route: &Route, ask: &Ask, who: &str, token: &str) {
    let (before, rows) = (picture(world), world.audit().len());
    let (status, body) = ask.by(world, token);
    let case = format!("{} by {who}: {status} {body}", route.operation);
    assert_eq!(status, ask.done, "{case}");
    let (after, audit, read) = (picture(world), world.audit(), route.method == Method::Get);
    // A copy of the state changes nothing in it; that one was made is written down.
    let copies = route.operation.starts_with("backup.");
    assert_eq!(after == before, read || copies, "{case}");
    let told = if copies { route.operation == "backup.create" } else { !read };
    assert_eq!(audit.len(), rows + usize::from(told), "{case}");
    if told {
        // A deletion and a change are one operation to the table and may be two words to the audit.
        assert_eq!(audit[0].1, "allowed", "{case}");
    }
}

#[test]
fn role_matrix_for_every_route() {
    let world = World::new();
    let members = Role::ALL.map(|role| (role, world.member(&format!("the-{}", role.word()), role)));
    let strangers = strangers(&world);
    let mut seen = 0;
    for route in guarded() {
        let (_, may, _) = row(route);
        let ask = prepare(&world, route.operation);
        for (who, token, reason) in &strangers {
            refused(&world, route, &ask, who, token, *reason);
        }
        for ((role, token), may) in members.iter().zip(may) {
            if *may {
                done(&world, route, &prepare(&world, route.operation), role.word(), token);
            } else {
                refused(&world, route, &ask, role.word(), token, Some("permission_missing"));
            }
            assert_eq!(route_holds(route, *role), *may, "{} as {}", route.operation, role.word());
        }
        // There is one copy of the state at a time, so the one that was refused is asked for anew.
        let ask = if route.operation.starts_with("backup.") { prepare(&world, route.operation) } else { ask };
        done(&world, route, &ask, "the owner, after all the refusals", &world.owner);
        seen += 1;
    }
    assert_eq!(seen, MAY.len(), "every row is of a route");
}

fn route_holds(route: &Route, role: Role) -> bool {
    let qinglet::http::route::Guard::Holds(permission) = route.guard else { panic!("{}", route.operation) };
    role.holds(permission)
}

#[test]
fn role_matrix_for_every_route_of_an_archived_project() {
    let world = World::new();
    let members = Role::ALL.map(|role| (role, world.member(&format!("the-{}", role.word()), role)));
    let strangers = strangers(&world);
    let asks: Vec<Ask> = guarded().map(|route| prepare(&world, route.operation)).collect();
    let world = world.tampered(|db| {
        assert_eq!(db.execute("UPDATE projects SET status = 'archived', version = version + 1", []).unwrap(), 1);
    });
    for (route, ask) in guarded().zip(&asks) {
        let (_, may, still) = row(route);
        for (who, token, reason) in &strangers {
            refused(&world, route, ask, who, token, *reason);
        }
        for ((role, token), may) in members.iter().zip(may) {
            match (may, still) {
                (true, true) => done(&world, route, ask, role.word(), token),
                (true, false) => refused(&world, route, ask, role.word(), token, Some("project_archived")),
                (false, _) => refused(&world, route, ask, role.word(), token, Some("permission_missing")),
            }
        }
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
