//! Secrets over the API: what a version is for, what the same again means, and what is never touched.

use super::walk::{picture, secret};
use super::world::{World, bent, code, uuid};
use qinglet::access::keyring::Keyring;
use qinglet::access::seal;
use qinglet::model::name::Name;
use qinglet::model::policy::Role;
use qinglet::store::secrets::FindEnvelopes;
use serde_json::{Value, json};
use std::fs;
use std::sync::{Arc, Barrier};

fn refusal((status, body): (u16, Value)) -> (u16, String) {
    (status, code(&body))
}

fn fence(reason: &str) -> (u16, String) {
    (409, format!("secret_fence_rejected/{reason}"))
}

fn put(world: &World, body: &Value) -> (u16, Value) {
    world.ask(&world.owner, "PUT", "secrets", &body.to_string())
}

fn delete(world: &World, name: &str, mutation: &str, version: i64) -> (u16, Value) {
    let body = json!({"schema": "qinglong/secret-deletion@v1", "mutationId": mutation,
        "expectedCurrentVersion": version});
    world.ask(&world.owner, "DELETE", &format!("secrets/{name}"), &body.to_string())
}

fn rekey(world: &World, mutation: &str) -> (u16, Value) {
    let body = json!({"schema": "qinglong/keyring-rotation@v1", "mutationId": mutation});
    world.ask(&world.owner, "POST", "keyring/rotation", &body.to_string())
}

/// The value of the current version, opened as a start opens it.
fn value(world: &World, name: &str) -> Option<String> {
    let wanted = vec![(Name::parse(name).unwrap(), None)];
    let found = world.store.call(FindEnvelopes { project: Name::default_project(), wanted }).unwrap().remove(0)?;
    let ring = Keyring::load(&world.state.keyring_path()).unwrap();
    let opened = seal::open(&ring, &found).unwrap_or_else(|_| panic!("{name} does not open"));
    Some(String::from_utf8(opened.expose().to_vec()).unwrap())
}

#[test]
fn it_is_made_shown_listed_changed_and_deleted_and_its_value_never_comes_back() {
    let world = World::new();
    let (status, made) = put(&world, &secret("db", 0, "first-value"));
    assert_eq!((status, &made["status"]), (201, &json!("created")));
    let head = &made["secret"];
    let keys: Vec<&String> = head.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["name", "ref", "updatedAtMs", "version"]);
    assert_eq!((&head["name"], &head["version"]), (&json!("db"), &json!(1)));
    assert_eq!(world.get(&world.owner, "secrets/db"), (200, json!({"secret": head})));
    let (status, changed) = put(&world, &secret("db", 1, "second-value"));
    assert_eq!((status, &changed["status"], &changed["secret"]["version"]), (200, &json!("updated"), &json!(2)));
    assert_ne!(changed["secret"]["ref"], head["ref"], "a version has its own reference");
    for name in ["a", "b"] {
        assert_eq!(put(&world, &secret(name, 0, "x")).0, 201);
    }
    let (_, page) = world.get(&world.owner, "secrets?limit=2");
    let names: Vec<_> = page["secrets"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!((names, &page["hasMore"], &page["next"]), (vec!["a", "b"], &json!(true), &json!({"name": "b"})));
    let (_, page) = world.get(&world.owner, "secrets?limit=2&after_name=b");
    assert_eq!((&page["secrets"][0], &page["hasMore"]), (&changed["secret"], &json!(false)));
    assert_eq!(value(&world, "db").as_deref(), Some("second-value"));

    let mutation = uuid();
    assert_eq!(delete(&world, "db", &mutation, 2), (200, json!({"status": "deleted", "name": "db"})));
    assert_eq!(delete(&world, "db", &mutation, 2), (200, json!({"status": "existing", "name": "db"})));
    assert_eq!(refusal(delete(&world, "db", &uuid(), 2)), (404, "secret_not_found".into()));
    assert_eq!(refusal(world.get(&world.owner, "secrets/db")), (404, "secret_not_found".into()));
    assert_eq!(value(&world, "db"), None);
    let (status, again) = put(&world, &secret("db", 0, "third-value"));
    assert_eq!((status, &again["secret"]["version"]), (201, &json!(3)), "a version is never used for something else");
    let allowed: Vec<_> =
        world.audit().into_iter().filter(|row| row.1 == "allowed" && row.0.starts_with("secret.")).collect();
    assert_eq!(allowed.len(), 6, "each change has its row, and what was the same again has none");
}

#[test]
fn secret_cas_one_winner() {
    let world = Arc::new(World::new());
    assert_eq!(put(&world, &secret("db", 0, "value-0")).0, 201);
    let stale = [secret("db", 0, "x"), secret("db", 2, "x"), secret("new", 1, "x")];
    for body in &stale {
        let before = picture(&world);
        assert_eq!(refusal(put(&world, body)), fence("version_changed"), "{body}");
        assert_eq!(picture(&world), before);
    }
    for version in [1, 2, 3] {
        let barrier = Arc::new(Barrier::new(4));
        let racers: Vec<_> = (0..4)
            .map(|n| {
                let (world, barrier) = (Arc::clone(&world), Arc::clone(&barrier));
                let body = secret("db", version, &format!("value-{version}-{n}"));
                std::thread::spawn(move || {
                    barrier.wait();
                    (n, put(&world, &body))
                })
            })
            .collect();
        let told: Vec<_> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        let (won, lost): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, answer)| answer.0 == 200);
        assert_eq!(won.len(), 1, "{won:?}");
        for (_, answer) in lost {
            assert_eq!(refusal(answer), fence("version_changed"));
        }
        assert_eq!(value(&world, "db").unwrap(), format!("value-{version}-{}", won[0].0), "the winner's is stored");
    }
    assert_eq!(refusal(delete(&world, "db", &uuid(), 3)), fence("version_changed"));
    assert_eq!(delete(&world, "db", &uuid(), 4).0, 200);
}

/// No two sealings are alike, so what is the same again is told by the opened values.
#[test]
fn secret_replay_semantic() {
    let world = World::new();
    let first = secret("db", 0, "first-value");
    let made = put(&world, &first).1["secret"].clone();
    let before = picture(&world);
    assert_eq!(put(&world, &first), (200, json!({"status": "existing", "secret": made})));
    let with = |field: &str, value: &str| {
        let mut body = first.clone();
        body[field] = json!(value);
        body
    };
    for other in [with("plaintext", "first-valuE"), with("plaintext", "first"), with("name", "other")] {
        assert_eq!(refusal(put(&world, &other)), fence("mutation_conflict"), "{other}");
    }
    let mutation = first["mutationId"].as_str().unwrap();
    assert_eq!(refusal(delete(&world, "db", mutation, 1)), fence("mutation_conflict"), "a deletion is something else");
    assert_eq!(picture(&world), before);
    assert_eq!(world.audit().iter().filter(|row| row.0 == "secret.put").count(), 1, "a replay is no second change");
    // Still the same when the secret has gone on, and when it is sealed under another key.
    assert_eq!(put(&world, &secret("db", 1, "second-value")).0, 200);
    assert_eq!(rekey(&world, &uuid()).1["status"], "rekeyed");
    assert_eq!(put(&world, &first), (200, json!({"status": "existing", "secret": made})));
    assert_eq!(value(&world, "db").as_deref(), Some("second-value"));
    // Who may not any more learns nothing by a replay.
    let admin = world.member("adam", Role::Admin);
    let own = secret("adams", 0, "value-of-adam");
    assert_eq!(world.ask(&admin, "PUT", "secrets", &own.to_string()).0, 201);
    world.bind(&world.owner, &json!({"type": "user", "id": "adam"}), Some("operator"));
    assert_eq!(refusal(world.ask(&admin, "PUT", "secrets", &own.to_string())), (403, "forbidden".into()));
}

#[test]
fn secret_row_has_no_plaintext() {
    let world = World::new();
    let value = "canary-1c9b-in-no-row";
    assert_eq!(put(&world, &secret("db", 0, value)).0, 201);
    assert_eq!(put(&world, &secret("db", 1, value)).0, 200);
    assert_eq!(rekey(&world, &uuid()).0, 200);
    refusal(put(&world, &secret("db", 1, value)));
    assert!(!world.get(&world.owner, "audit").1.to_string().contains(value));
    world.store.close();
    for path in
        fs::read_dir(world.state.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
    {
        let bytes = fs::read(&path).unwrap();
        assert!(!bytes.windows(value.len()).any(|window| window == value.as_bytes()), "{}", path.display());
    }
}

/// The keyring is spoiled: whoever is refused by what stands before it never notices.
#[test]
fn weak_auth_never_reads_keyring() {
    let world = World::new();
    assert_eq!(put(&world, &secret("db", 0, "first-value")).0, 201);
    let admin = world.member("adam", Role::Admin);
    let operator = world.member("op", Role::Operator);
    let good = fs::read(world.state.keyring_path()).unwrap();
    fs::write(world.state.keyring_path(), "not a keyring").unwrap();
    let rotation = json!({"schema": "qinglong/keyring-rotation@v1", "mutationId": uuid()});
    let asks = [("PUT", "secrets", secret("db", 1, "second-value")), ("POST", "keyring/rotation", rotation)];
    for (method, target, body) in &asks {
        let by = |token: &str, body: &str| refusal(world.ask(token, method, target, body));
        let body = body.to_string();
        assert_eq!(by("", &body), (401, "authentication_required".into()));
        assert_eq!(by(&bent(&admin), &body), (401, "authentication_required".into()));
        assert_eq!(by(&operator, &body), (403, "forbidden".into()));
        assert_eq!(by(&admin, "{}"), (400, "invalid_secret".into()), "nor does a body that is not one");
        let request = World::request(&admin, method, target, &body);
        let admitted = world.api.admit(&request).unwrap();
        world.bind(&world.owner, &json!({"type": "user", "id": "adam"}), Some("admin"));
        let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
        let said: Value = serde_json::from_slice(&no.body).unwrap();
        // A rotation has to look whether its key is there before it asks the store for anything.
        if *method == "PUT" {
            assert_eq!((no.status, code(&said)), fence("authorization_changed"));
        }
        let (status, said) = world.ask(&admin, method, target, &body);
        assert_eq!((status, &said["code"]), (503, &json!("secret_unavailable")), "who may is told of it: {said}");
        assert!(!said.to_string().contains("not a keyring"), "{said}");
    }
    // A stale version is told without a key too.
    assert_eq!(refusal(put(&world, &secret("db", 9, "x"))), fence("version_changed"));
    fs::write(world.state.keyring_path(), good).unwrap();
    assert_eq!(value(&world, "db").as_deref(), Some("first-value"), "nothing was sealed, moved or lost");
    assert_eq!(put(&world, &secret("db", 1, "second-value")).0, 200);
}

#[test]
fn a_rotation_is_the_same_again_until_another_came() {
    let world = World::new();
    for n in 0..3 {
        assert_eq!(put(&world, &secret(&format!("s{n}"), 0, &format!("value-{n}"))).0, 201);
    }
    let first = uuid();
    let (status, done) = rekey(&world, &first);
    assert_eq!((status, &done), (200, &json!({"status": "rekeyed", "keyId": first, "moved": 3, "remaining": 0})));
    assert_eq!(rekey(&world, &first).1["moved"], 0, "the same again moves nothing");
    assert_eq!(world.audit().iter().filter(|row| row.0 == "secret.rekey").count(), 1);
    let admin = world.member("adam", Role::Admin);
    let body = json!({"schema": "qinglong/keyring-rotation@v1", "mutationId": first}).to_string();
    let request = World::request(&admin, "POST", "keyring/rotation", &body);
    let admitted = world.api.admit(&request).unwrap();
    world.revoke(&admin);
    let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
    assert_eq!(no.status, 409, "nor for whoever lost its token meanwhile");
    let second = uuid();
    assert_eq!(rekey(&world, &second).0, 200);
    let ring = Keyring::load(&world.state.keyring_path()).unwrap();
    assert_eq!(ring.ids().collect::<Vec<_>>(), [&second], "older keys go when nothing needs them");
    for n in 0..3 {
        assert_eq!(value(&world, &format!("s{n}")), Some(format!("value-{n}")));
    }
}

#[test]
fn shapes_are_exact_and_a_refusal_never_repeats_a_value() {
    let world = World::new();
    let good = secret("db", 0, "value-not-to-be-said");
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body
    };
    let without = |field: &str| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        body
    };
    for (body, field) in [
        (with("plaintext", json!("")), "plaintext"),
        (with("plaintext", json!("a\0b")), "plaintext"),
        (with("plaintext", json!(1)), "plaintext"),
        (with("name", json!("no name")), "name"),
        (with("expectedCurrentVersion", json!(-1)), "expectedCurrentVersion"),
        (with("expectedCurrentVersion", Value::Null), "expectedCurrentVersion"),
        (without("expectedCurrentVersion"), "expectedCurrentVersion"),
        (with("version", json!(1)), "version"),
        (with("schema", json!("qinglong/secret@v2")), "schema"),
    ] {
        let (status, said) = put(&world, &body);
        assert_eq!((status, code(&said).as_str()), (400, "invalid_secret"), "{body}");
        let message = said["message"].as_str().unwrap();
        assert!(message.starts_with(field) && !message.contains("not-to-be-said"), "{said}");
    }
    assert_eq!(world.get(&world.owner, "secrets").1["secrets"], json!([]));
}
