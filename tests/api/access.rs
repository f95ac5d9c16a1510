//! Roles and tokens over the API.

use super::world::{World, code, uuid};
use qinglet::model::policy::Role;
use serde_json::{Value, json};

fn user(id: &str) -> Value {
    json!({"type": "user", "id": id})
}

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

fn fence(reason: &str) -> (u16, String) {
    (409, format!("access_fence_rejected/{reason}"))
}

#[test]
fn binding_append_replay_conflict() {
    let world = World::new();
    let mutation = uuid();
    let body = |role: Value| {
        json!({"schema": "qinglong/role-binding@v1", "mutationId": mutation, "subject": user("alice"), "role": role})
            .to_string()
    };
    let (status, first) = world.ask(&world.owner, "PUT", "access", &body(json!("viewer")));
    assert_eq!((status, &first["status"]), (200, &json!("updated")));
    assert_eq!(first["binding"]["subject"], user("alice"));
    assert_eq!((&first["binding"]["role"], &first["binding"]["version"]), (&json!("viewer"), &json!(1)));
    let (status, again) = world.ask(&world.owner, "PUT", "access", &body(json!("viewer")));
    assert_eq!((status, &again["status"], &again["binding"]), (200, &json!("existing"), &first["binding"]));
    assert_eq!(refusal(world.ask(&world.owner, "PUT", "access", &body(json!("admin")))), fence("mutation_conflict"));
    let (_, revoked) = world.bind(&world.owner, &user("alice"), None);
    assert_eq!((&revoked["binding"]["role"], &revoked["binding"]["version"]), (&json!(null), &json!(2)));
    assert_eq!(refusal(world.bind(&world.owner, &user("nobody"), None)), (404, "access_not_found".into()));
}

#[test]
fn only_an_owner_makes_or_unmakes_owners() {
    let world = World::new();
    let admin = world.member("admin", Role::Admin);
    assert_eq!(world.bind(&admin, &user("bob"), Some("viewer")).0, 200);
    let denied = |answer: (u16, Value)| {
        assert_eq!(refusal(answer), (403, "forbidden".into()));
        let rows = world.audit();
        assert_eq!((rows[0].1.as_str(), rows[0].2.as_str()), ("refused", "forbidden"), "{rows:?}");
        assert_eq!(rows[1].1, "allowed", "one denial, one row");
        // Something else in between, so that the next denial is told from this one.
        world.bind(&world.owner, &user("bob"), Some("viewer"));
    };
    denied(world.bind(&admin, &user("bob"), Some("owner")));
    denied(world.bind(&admin, &user("owner"), Some("viewer")));
    denied(world.bind(&admin, &user("owner"), None));
    let make = json!({"schema": "qinglong/credential@v1", "mutationId": uuid(), "subject": user("owner")}).to_string();
    denied(world.ask(&admin, "POST", "access/tokens", &make));
    let owners = world.owner.split('_').nth(1).unwrap();
    let revoke = json!({"schema": "qinglong/credential-revocation@v1", "mutationId": uuid()}).to_string();
    denied(world.ask(&admin, "POST", &format!("access/tokens/{owners}/revocation"), &revoke));
    assert_eq!(refusal(world.bind(&world.owner, &user("owner"), Some("viewer"))), fence("last_owner"));
    assert_eq!(refusal(world.bind(&world.owner, &user("owner"), None)), fence("last_owner"));
    assert_eq!(world.bind(&world.owner, &user("bob"), Some("owner")).0, 200);
    assert_eq!(world.bind(&world.owner, &user("owner"), Some("viewer")).0, 200, "there is another owner now");
    assert_eq!(world.get(&world.owner, "audit").0, 403);
}

#[test]
fn a_token_is_shown_once_and_never_again() {
    let world = World::new();
    world.bind(&world.owner, &user("alice"), Some("viewer"));
    let mutation = uuid();
    let body =
        json!({"schema": "qinglong/credential@v1", "mutationId": mutation, "subject": user("alice")}).to_string();
    let (status, made) = world.ask(&world.owner, "POST", "access/tokens", &body);
    assert_eq!((status, &made["status"]), (201, &json!("created")));
    let token = made["token"].as_str().unwrap();
    assert_eq!(world.get(token, "tasks").0, 200);
    let (status, again) = world.ask(&world.owner, "POST", "access/tokens", &body);
    assert_eq!((status, &again["status"]), (200, &json!("existing")));
    assert_eq!((again.get("token"), &again["credential"]), (None, &made["credential"]));
    let other = body.replace("alice", "owner");
    assert_eq!(refusal(world.ask(&world.owner, "POST", "access/tokens", &other)), fence("mutation_conflict"));
    let stranger = json!({"schema": "qinglong/credential@v1", "mutationId": uuid(), "subject": user("stranger")});
    let answer = world.ask(&world.owner, "POST", "access/tokens", &stranger.to_string());
    assert_eq!(refusal(answer), (404, "access_not_found".into()));
}

#[test]
fn a_revoked_token_works_for_nobody_from_the_answer_on() {
    let world = World::new();
    let token = world.member("alice", Role::Viewer);
    let credential = token.split('_').nth(1).unwrap();
    let target = format!("access/tokens/{credential}/revocation");
    let body = json!({"schema": "qinglong/credential-revocation@v1", "mutationId": uuid()}).to_string();
    let (status, gone) = world.ask(&world.owner, "POST", &target, &body);
    assert_eq!((status, &gone["status"], &gone["credential"]["active"]), (200, &json!("revoked"), &json!(false)));
    assert_eq!(world.get(&token, "tasks").0, 401);
    assert_eq!(world.ask(&world.owner, "POST", &target, &body).1["status"], "existing");
    let missing = world.ask(&world.owner, "POST", "access/tokens/nothing/revocation", &body.replace("0001", "fff1"));
    assert!(matches!(missing.0, 404 | 409), "{missing:?}");
    let fresh = json!({"schema": "qinglong/credential-revocation@v1", "mutationId": uuid()}).to_string();
    let missing = world.ask(&world.owner, "POST", "access/tokens/nothing/revocation", &fresh);
    assert_eq!(refusal(missing), (404, "access_not_found".into()));
}

#[test]
fn access_shapes_are_exact() {
    let world = World::new();
    let good =
        json!({"schema": "qinglong/role-binding@v1", "mutationId": uuid(), "subject": user("a"), "role": "viewer"});
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("role");
    for (body, field) in [
        (with("role", json!("boss")), "role"),
        (with("role", json!(1)), "role"),
        (without.to_string(), "role"),
        (with("subject", json!("user:a")), "subject"),
        (with("subject", json!({"type": "system", "id": "a"})), "subject.type"),
        (with("subject", json!({"type": "worker", "id": "a"})), "subject.type"),
        (with("subject", json!({"type": "user", "id": ""})), "subject.id"),
        (with("subject", json!({"type": "user", "id": "a", "x": 1})), "subject.x"),
        (with("expiresAtMs", json!(1)), "expiresAtMs"),
        (with("schema", json!("qinglong/credential@v1")), "schema"),
    ] {
        let (status, answer) = world.ask(&world.owner, "PUT", "access", &body);
        assert_eq!((status, code(&answer).as_str()), (400, "invalid_access_request"), "{body}");
        assert!(answer["message"].as_str().unwrap().starts_with(field), "{answer}");
    }
}

#[test]
fn the_list_pages_over_everybody_whatever_their_names() {
    let world = World::new();
    let mut all = vec!["owner".to_owned()];
    for i in 0..70 {
        let id = format!("an odd / name? ü&=% {i:03}");
        assert_eq!(world.bind(&world.owner, &user(&id), Some("viewer")).0, 200);
        all.push(id);
    }
    let token = world.token(&user(&all[1]));
    let (mut seen, mut target) = (Vec::new(), "access".to_owned());
    loop {
        let (status, page) = world.get(&world.owner, &target);
        assert_eq!(status, 200);
        seen.extend(page["access"].as_array().unwrap().clone());
        if page["hasMore"] == false {
            assert_eq!(page.get("next"), None);
            break;
        }
        target = format!("access?after_subject={}", page["next"]["afterSubject"].as_str().unwrap());
    }
    let mut ids: Vec<_> = seen.iter().map(|entry| entry["subject"]["id"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    all.sort();
    assert_eq!(ids, all);
    let entry = seen.iter().find(|entry| entry["subject"]["id"] == "an odd / name? ü&=% 000").unwrap();
    assert_eq!(entry["credentials"][0]["credentialId"], token.split('_').nth(1).unwrap());
    let keys: Vec<&String> = entry["credentials"][0].as_object().unwrap().keys().collect();
    let want = ["active", "changedAtMs", "credentialId", "expiresAtMs", "lastUsedDay", "state", "version"];
    assert_eq!(keys, want);
}

#[test]
fn the_audit_pages_newest_first() {
    let world = World::new();
    for i in 0..5 {
        world.bind(&world.owner, &user(&format!("u{i}")), Some("viewer"));
    }
    let (mut seen, mut target) = (Vec::new(), "audit?limit=2".to_owned());
    loop {
        let (_, page) = world.get(&world.owner, &target);
        let rows = page["audit"].as_array().unwrap();
        assert!(rows.len() <= 2);
        seen.extend(rows.clone());
        let Some(after) = page["next"]["after"].as_str() else { break };
        target = format!("audit?limit=2&after={after}");
    }
    assert_eq!(seen.len(), world.audit().len());
    let times: Vec<_> = seen.iter().map(|row| row["occurredAtMs"].as_i64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");
    assert_eq!(seen[0]["outcome"], "allowed");
    assert_eq!(seen[0]["subject"], user("owner"));
}
