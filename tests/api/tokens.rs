//! Tokens and time: those that expire, and the day of the last use.

use super::world::{World, code, uuid};
use qinglet::model::limits::{DAY_MS, TOKEN_LIFE_MS_MAX};
use qinglet::model::policy::Role;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

fn alice() -> Value {
    json!({"type": "user", "id": "alice"})
}

/// The answer to a request for a token of alice's with this life.
fn make(world: &World, expires_in: &Value) -> (u16, Value) {
    let body = json!({"schema": "qinglong/credential@v1", "mutationId": uuid(), "subject": alice(),
        "expiresInMs": expires_in});
    world.ask(&world.owner, "POST", "access/tokens", &body.to_string())
}

fn id(token: &str) -> &str {
    token.split('_').nth(1).unwrap()
}

/// What the list says of a token.
fn listed(world: &World, token: &str) -> Value {
    let (_, page) = world.get(&world.owner, "access");
    let all = page["access"].as_array().unwrap().iter().flat_map(|entry| entry["credentials"].as_array().unwrap());
    all.clone().find(|credential| credential["credentialId"] == id(token)).unwrap().clone()
}

/// A world in which alice has a token that has been over since yesterday.
fn over() -> (World, String) {
    let world = World::new();
    world.bind(&world.owner, &alice(), Some("viewer"));
    let (status, made) = make(&world, &json!(DAY_MS));
    assert_eq!(status, 201, "{made}");
    let token = made["token"].as_str().unwrap().to_owned();
    let world = world.tampered(|db| {
        let sql = "UPDATE credentials SET expires_at_ms = changed_at_ms - 86400000 WHERE expires_at_ms IS NOT NULL";
        assert_eq!(db.execute(sql, []).unwrap(), 1);
    });
    (world, token)
}

#[test]
fn a_token_that_expires_says_when() {
    let world = World::new();
    world.bind(&world.owner, &alice(), Some("viewer"));
    let (status, made) = make(&world, &json!(90 * DAY_MS));
    let credential = &made["credential"];
    assert_eq!((status, &credential["state"]), (201, &json!("active")));
    let life = credential["expiresAtMs"].as_i64().unwrap() - credential["changedAtMs"].as_i64().unwrap();
    assert_eq!(life, 90 * DAY_MS);
    assert_eq!(make(&world, &Value::Null).1["credential"]["expiresAtMs"], Value::Null);
    for bad in [json!(0), json!(999), json!(-1), json!(TOKEN_LIFE_MS_MAX + 1), json!("90d")] {
        let (status, answer) = make(&world, &bad);
        assert_eq!((status, code(&answer).as_str()), (400, "invalid_access_request"), "{bad}");
        assert!(answer["message"].as_str().unwrap().starts_with("expiresInMs must be"), "{answer}");
    }
}

#[test]
fn a_token_is_over_only_by_a_clock_that_may_decide_by_age() {
    let (world, token) = over();
    assert_eq!(world.get(&token, "tasks").0, 200, "a board that boots in 1970 locks nobody out");
    assert_eq!(listed(&world, &token)["state"], "active");
    world.side.board.show_age(true);
    assert_eq!(world.get(&token, "tasks").0, 401);
    assert_eq!(
        (&listed(&world, &token)["state"], &listed(&world, &token)["active"]),
        (&json!("expired"), &json!(false))
    );
    world.side.board.show_age(false);
    assert_eq!(world.get(&token, "tasks").0, 200, "nobody has stored its end yet");
    world.store.call(qinglet::store::access::ExpireCredentials { now_ms: i64::MAX, limit: 8 }).unwrap();
    assert_eq!(world.get(&token, "tasks").0, 401, "once it was seen, whatever the clock says");
    assert_eq!(listed(&world, &token)["state"], "expired");
    let (_, body) = world.get(&world.owner, "audit?limit=1");
    let row = &body["audit"][0];
    assert_eq!((&row["operation"], &row["subject"]["id"]), (&json!("credential.expire"), &json!("clock")));
    assert_eq!(row["target"], format!("user:alice {}", id(&token)));
}

#[test]
fn an_expired_token_is_rejected_like_any_other() {
    let (world, token) = over();
    world.side.board.show_age(true);
    let want = world.answer("", "GET", "tasks", "");
    let before = world.api.authenticator().work();
    assert_eq!(world.answer(&token, "GET", "tasks", ""), want, "the same bytes");
    let after = world.api.authenticator().work();
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1), "one digest, one comparison");
    assert_eq!(world.rejections.take(), [("bearer_missing", 1), ("credential_rejected", 1)]);
}

#[test]
fn a_token_that_ends_between_admission_and_the_transaction_changes_nothing() {
    let world = World::new();
    let admin = world.member("adam", Role::Admin);
    let body = json!({"schema": "qinglong/credential@v1", "mutationId": uuid(),
        "subject": {"type": "user", "id": "adam"}, "expiresInMs": 1_000});
    let token = world.ask(&admin, "POST", "access/tokens", &body.to_string()).1["token"].as_str().unwrap().to_owned();
    world.side.board.show_age(true);
    let grant =
        json!({"schema": "qinglong/role-binding@v1", "mutationId": uuid(), "subject": alice(), "role": "admin"});
    let request = World::request(&token, "PUT", "access", &grant.to_string());
    let admitted = world.api.admit(&request).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let answer = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, code(&body).as_str()), (409, "access_fence_rejected/authorization_changed"));
    assert_eq!(world.audit()[0].1, "refused");
    assert_eq!(world.get(&token, "tasks").0, 401);
}

#[test]
fn the_day_of_the_last_use_is_written_once_and_only_by_a_clock_that_is_believed() {
    let world = World::new();
    let token = world.member("alice", Role::Viewer);
    let used = || listed(&world, &token)["lastUsedDay"].clone();
    world.get(&token, "tasks");
    assert_eq!(used(), Value::Null, "in 1970 nobody knows which day it is");
    world.side.board.show_age(true);
    for _ in 0..5 {
        world.get(&token, "tasks");
    }
    let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 / 86_400;
    let text = used().as_str().unwrap().to_owned();
    assert_eq!(text.len(), 10);
    let near = [today - 1, today].map(|day| {
        let seconds = day * 86_400;
        qinglet::schedule::civil::clock_text(seconds).split(' ').next().unwrap().to_owned()
    });
    assert!(near.contains(&text), "{text} of {near:?}");
    // Written behind its back to yesterday: a second write on the same day would show.
    let world =
        { world.tampered(|db| assert!(db.execute("UPDATE credential_uses SET last_used_day = 1", []).unwrap() > 0)) };
    world.side.board.show_age(true);
    world.get(&token, "tasks");
    assert_ne!(listed(&world, &token)["lastUsedDay"], "1970-01-02", "a daemon that began anew writes it once");
    world.store.call(qinglet::store::access::NoteUse { credential_id: id(&token).into(), day: 1 }).unwrap();
    for _ in 0..5 {
        world.get(&token, "tasks");
    }
    assert_eq!(listed(&world, &token)["lastUsedDay"], "1970-01-02", "and not with every request");
}

#[test]
fn a_denied_or_rejected_request_is_no_use_of_somebody_elses_token() {
    let world = World::new();
    let token = world.member("alice", Role::Viewer);
    world.side.board.show_age(true);
    let wrong = format!("{}{}", &token[..token.len() - 2], if token.ends_with("AA") { "BA" } else { "AA" });
    assert_eq!(world.get(&wrong, "tasks").0, 401);
    assert_eq!(listed(&world, &token)["lastUsedDay"], Value::Null);
}

#[test]
fn the_token_of_an_audit_row_is_named_so_that_what_a_thief_made_can_be_found() {
    let world = World::new();
    let admin = world.member("adam", Role::Admin);
    let body =
        json!({"schema": "qinglong/credential@v1", "mutationId": uuid(), "subject": {"type": "user", "id": "adam"}});
    let (_, made) = world.ask(&admin, "POST", "access/tokens", &body.to_string());
    let (_, page) = world.get(&world.owner, "audit?limit=1");
    let row = &page["audit"][0];
    assert_eq!(row["credentialId"], id(&admin), "with which it was made");
    assert_eq!(row["target"], format!("user:adam {}", made["credential"]["credentialId"].as_str().unwrap()));
}
