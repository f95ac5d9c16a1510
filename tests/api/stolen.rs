//! What a stolen token can do over the API, and what it cannot: a viewer's, an operator's and an admin's, each
//! tried. The sentences are those of the README. What a task can do that an operator adds is in
//! `tests/stolen.rs`.

use super::walk::{guarded, mutations, prepare, secret, strong_enough};
use super::world::{World, code, start, task, uuid};
use qinglet::http::route::{Guard, Method};
use qinglet::model::policy::{Permission, Role};
use serde_json::{Value, json};

fn denied(world: &World, token: &str, method: &str, target: &str, body: &Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, said) = world.ask(token, method, target, &body);
    assert_eq!((status, code(&said).as_str()), (403, "forbidden"), "{method} {target}: {said}");
}

fn user(id: &str) -> Value {
    json!({"type": "user", "id": id})
}

fn grant(id: &str, role: Option<&str>) -> Value {
    json!({"schema": "qinglong/role-binding@v1", "mutationId": uuid(), "subject": user(id), "role": role})
}

fn new_token(id: &str) -> Value {
    json!({"schema": "qinglong/credential@v1", "mutationId": uuid(), "subject": user(id)})
}

/// A task whose environment names a secret.
fn using(name: &str) -> Value {
    let mut body = task(None, true);
    let secret = qinglet::model::secret::SecretRef {
        project: qinglet::model::name::Name::default_project(),
        name: qinglet::model::name::Name::parse(name).unwrap(),
        version: None,
    };
    body["spec"]["config"]["environment"] = json!([{"name": "PW", "kind": "secret", "secretRef": secret.to_string()}]);
    body
}

/// A world with a task and a secret, and the token of somebody with this role.
fn scene(role: Role) -> (World, String, (i64, String)) {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    assert_eq!(world.ask(&world.owner, "PUT", "secrets", &secret("db", 0, "value-of-it").to_string()).0, 201);
    let token = world.member("victim", role);
    (world, token, seen)
}

/// Whoever is robbed says so to an owner, and the token is worth nothing from then on.
fn is_over_when_revoked(world: &World, token: &str) {
    world.revoke(token);
    assert_eq!(world.get(token, "tasks").0, 401);
    assert_eq!(world.get(token, "runs").0, 401);
}

#[test]
fn a_stolen_viewers_token_looks_and_changes_nothing() {
    let (world, thief, seen) = scene(Role::Viewer);
    for path in ["status", "tasks", "tasks/t", "triggers", "runs"] {
        assert_eq!(world.get(&thief, path).0, 200, "it sees {path}");
    }
    let shown = world.get(&thief, "tasks/t").1.to_string();
    assert!(!shown.contains("hunter2") && !shown.contains("\"command\":{"), "but not what a task runs: {shown}");
    for route in mutations() {
        let ask = prepare(&world, route.operation);
        let (status, said) = ask.by(&world, &thief);
        assert_eq!((status, code(&said).as_str()), (403, "forbidden"), "{}", route.operation);
    }
    for path in ["secrets", "secrets/db", "access", "audit"] {
        denied(&world, &thief, "GET", path, &Value::Null);
    }
    assert_eq!(world.start(&thief, "t", &uuid(), &seen).0, 403);
    assert_eq!(world.get(&world.owner, "runs?task=t").1["runs"], json!([]));
    is_over_when_revoked(&world, &thief);
}

#[test]
fn a_stolen_operators_token_runs_what_it_likes_and_leaves_traces() {
    let (world, thief, seen) = scene(Role::Operator);
    // It can run any program, and give a secret to it: that is what it is for.
    assert_eq!(world.start(&thief, "t", &uuid(), &seen).0, 202);
    assert_eq!(world.ask(&thief, "PUT", "tasks/mine", &using("db").to_string()).0, 201);
    let (_, shown) = world.get(&thief, "tasks/mine");
    assert!(!shown.to_string().contains("value-of-it"), "the value itself is told to a run only");
    let mine = (1, shown["task"]["contentDigest"].as_str().unwrap().to_owned());
    assert_eq!(world.ask(&thief, "POST", "tasks/mine/runs", &start(&uuid(), &mine).to_string()).0, 202);
    let rows = world.get(&world.owner, "audit?limit=3").1["audit"].clone();
    let id = thief.split('_').nth(1).unwrap();
    for row in rows.as_array().unwrap() {
        assert_eq!((&row["outcome"], &row["credentialId"]), (&json!("allowed"), &json!(id)), "each has its row: {row}");
    }
    // It cannot delete, cannot touch secrets or roles, and cannot see what is written about it.
    for route in guarded() {
        let Guard::Holds(permission) = route.guard else { continue };
        if [Permission::TaskDelete, Permission::SecretManage, Permission::PolicyManage].contains(&permission) {
            let (status, _) = prepare(&world, route.operation).by(&world, &thief);
            assert_eq!(status, 403, "{}", route.operation);
        }
    }
    denied(&world, &thief, "PUT", "access", &grant("friend", Some("operator")));
    denied(&world, &thief, "PUT", "access", &grant("victim", Some("owner")));
    denied(&world, &thief, "POST", "access/tokens", &new_token("victim"));
    is_over_when_revoked(&world, &thief);
    assert_eq!(world.get(&world.owner, "tasks/mine").0, 200, "what it left there has to be looked for");
}

#[test]
fn a_stolen_admins_token_takes_everything_but_the_owner() {
    let (world, thief, _) = scene(Role::Admin);
    let owners = world.owner.split('_').nth(1).unwrap().to_owned();
    for route in guarded() {
        let ask = prepare(&world, route.operation);
        let status = ask.by(&world, &thief).0;
        if strong_enough(route) == Role::Owner {
            assert_eq!(status, 403, "a copy of everything is not: {}", route.operation);
        } else {
            assert_eq!(status, ask.done, "{} is an admin's", route.operation);
        }
    }
    // No value of a secret, and no token that there is already, comes back.
    for route in guarded().filter(|route| route.method == Method::Get) {
        let said = prepare(&world, route.operation).by(&world, &thief).1.to_string();
        assert!(!said.contains("value-of-it"), "{}", route.operation);
        assert!(!said.contains(&world.owner[world.owner.len() - 43..]), "{}", route.operation);
    }
    // It stays by giving itself other tokens and friends...
    let made = world.ask(&thief, "POST", "access/tokens", &new_token("victim").to_string());
    let second = made.1["token"].as_str().unwrap().to_owned();
    assert_eq!(world.bind(&thief, &user("friend"), Some("admin")).0, 200);
    let friend = world.ask(&thief, "POST", "access/tokens", &new_token("friend").to_string()).1["token"].clone();
    let friend = friend.as_str().unwrap();
    // ...and never becomes an owner, nor keeps one out.
    denied(&world, &thief, "PUT", "access", &grant("victim", Some("owner")));
    denied(&world, &thief, "PUT", "access", &grant("owner", Some("viewer")));
    denied(&world, &thief, "PUT", "access", &grant("owner", None));
    denied(&world, &thief, "POST", "access/tokens", &new_token("owner"));
    let revocation = json!({"schema": "qinglong/credential-revocation@v1", "mutationId": uuid()});
    denied(&world, &thief, "POST", &format!("access/tokens/{owners}/revocation"), &revocation);
    // The owner ends it: the role, and with it every token of it, and what it made is in the audit.
    let rows = world.get(&world.owner, "audit?limit=64").1["audit"].clone();
    let id = thief.split('_').nth(1).unwrap();
    let by_thief: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["credentialId"] == id && row["outcome"] == "allowed")
        .filter_map(|row| row["target"].as_str())
        .collect();
    for made in [format!("user:victim {}", second.split('_').nth(1).unwrap()), "user:friend".to_owned()] {
        assert!(by_thief.iter().any(|target| target.starts_with(&made)), "{made}: {by_thief:?}");
    }
    for who in ["victim", "friend"] {
        assert_eq!(world.bind(&world.owner, &user(who), None).0, 200);
    }
    for token in [thief.as_str(), &second, friend] {
        assert_eq!(world.get(token, "tasks").0, 403, "without the role no token of it is worth anything");
    }
    assert_eq!(world.get(&world.owner, "tasks").0, 200);
}
