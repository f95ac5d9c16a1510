//! Who is believed.

use super::world::{World, bent, code, start, uuid};
use qinglet::access::authenticate::{Authenticator, NotProven};
use qinglet::access::pepper::Pepper;
use qinglet::access::token::Token;
use qinglet::model::name::Name;
use qinglet::model::policy::Role;
use qinglet::store::audit::{ListAudit, RecordRejections};
use serde_json::json;

trait Secret {
    fn rsplit_at_secret(&self) -> String;
}

impl Secret for str {
    fn rsplit_at_secret(&self) -> String {
        self[self.len() - 43..].to_owned()
    }
}

#[test]
fn auth_order_and_indistinguishable_rejects() {
    let world = World::new();
    let (viewer, gone) = (world.member("viewer", Role::Viewer), world.member("gone", Role::Viewer));
    world.revoke(&gone);
    let over = world.member("over", Role::Viewer);
    let world = world.tampered(|db| {
        let sql = "UPDATE credentials SET expires_at_ms = changed_at_ms + 1 WHERE subject_id = 'over'";
        assert_eq!(db.execute(sql, []).unwrap(), 1);
    });
    world.side.board.show_age(true);
    let unknown = Token::make().unwrap().reveal().expose().to_owned();
    let want = world.answer("", "GET", "tasks", "");
    assert_eq!(want.status, 401);
    for (cause, token, work) in [
        ("a malformed token", "nonsense".to_owned(), 0),
        ("an unknown id", unknown, 1),
        ("a wrong secret", bent(&viewer), 1),
        ("a revoked credential with a wrong secret", bent(&gone), 1),
        ("a revoked credential", gone, 1),
        ("an expired credential with a wrong secret", bent(&over), 1),
        ("an expired credential", over, 1),
    ] {
        let before = world.api.authenticator().work();
        let got = world.answer(&token, "GET", "tasks", "");
        let after = world.api.authenticator().work();
        assert_eq!(got, want, "{cause}: the same bytes");
        assert_eq!((after.0 - before.0, after.1 - before.1), (work, work), "{cause}: the same work");
    }
    let counted = [("bearer_missing", 1), ("bearer_malformed", 1), ("credential_rejected", 6)];
    assert_eq!(world.rejections.take(), counted, "nor is it told apart in the audit");
    let before = world.api.authenticator().work();
    assert_eq!(world.get(&viewer, "tasks").0, 200);
    let after = world.api.authenticator().work();
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1), "and no more for one that works");
}

/// One pepper, and no other is tried.
#[test]
fn auth_exact_pepper_key_no_fallback() {
    let world = World::new();
    let authenticator = |pepper| Authenticator::new(world.store.clone(), pepper, Box::new(|| None));
    let own = authenticator(Pepper::load(&world.state.pepper_path()).unwrap());
    assert!(own.authenticate(&world.owner).is_ok());
    let elsewhere = World::new();
    let other = authenticator(Pepper::load(&elsewhere.state.pepper_path()).unwrap());
    assert_eq!(other.authenticate(&world.owner), Err(NotProven::Rejected("credential_rejected")));
    assert_eq!(other.work(), (1, 1), "after one look");
}

#[test]
fn a_bad_body_or_a_missing_task_says_nothing_to_a_stranger() {
    let world = World::new();
    let seen = world.put_task("t", None, true);
    let want = world.answer("", "POST", "tasks/t/runs", &start(&uuid(), &seen).to_string());
    for (task, body) in [("t", "{"), ("missing", "{}"), ("t", "")] {
        assert_eq!(world.answer("ql3c_x", "POST", &format!("tasks/{task}/runs"), body), want);
    }
    assert_eq!(want.status, 401);
}

#[test]
fn a_query_is_refused_before_anybody_is_asked_for() {
    let world = World::new();
    for target in ["tasks?limit=0", "runs?after_created_at_ms=1", "audit?after=x"] {
        let (status, body) = world.get("", target);
        assert_eq!((status, code(&body).as_str()), (400, "invalid_query"), "{target}");
    }
    assert_eq!(world.rejections.take(), []);
}

#[test]
fn a_token_works_in_the_header_only_and_only_whole() {
    let world = World::new();
    for token in [
        &world.owner[1..],
        &world.owner[..world.owner.len() - 1],
        &format!("{} ", world.owner),
        &world.owner.to_uppercase(),
    ] {
        assert_eq!(world.get(token, "tasks").0, 401);
    }
}

#[test]
fn ten_thousand_bad_tokens_are_two_rows_a_minute_and_one_answer() {
    let world = World::new();
    let before = world.audit().len();
    let token = bent(&world.owner);
    let want = world.answer(&token, "GET", "tasks", "");
    // The control loop's part, at a clock of our own: ten thousand in one minute.
    for i in 0..10_000 {
        if i > 0 {
            assert_eq!(world.answer(&token, "GET", "tasks", ""), want);
        }
        if let Some(counts) = world.rejections.due(i * 6) {
            world.store.call(RecordRejections { counts }).unwrap();
        }
    }
    let rows = world.store.call(ListAudit { project: Name::default_project(), after: None, limit: 64 }).unwrap().0;
    let rows: Vec<_> = rows.into_iter().filter(|row| row.outcome == "authentication_rejected").collect();
    assert_eq!(world.audit().len() - before, rows.len());
    assert!(rows.len() <= 2, "{rows:?}");
    let counted: i64 = rows.iter().map(|row| row.count).sum();
    let left: u64 = world.rejections.take().iter().map(|(_, count)| count).sum();
    assert_eq!(counted + left as i64, 10_000);
}

#[test]
fn audit_has_no_subject_when_rejected() {
    let world = World::new();
    world.answer(&bent(&world.owner), "GET", "tasks", "");
    let counts = world.rejections.due(0).unwrap();
    assert_eq!(counts, [("credential_rejected", 1)]);
    world.store.call(RecordRejections { counts }).unwrap();
    let (status, body) = world.get(&world.owner, "audit?limit=1");
    let row = &body["audit"][0];
    assert_eq!((status, &row["outcome"]), (200, &json!("authentication_rejected")));
    assert_eq!((&row["subject"], &row["credentialId"]), (&json!(null), &json!(null)));
    assert_eq!((&row["reason"], &row["count"]), (&json!("credential_rejected"), &json!(1)));
}

#[test]
fn a_store_that_does_not_answer_is_503_not_401() {
    let world = World::new();
    world.store.close();
    let (status, body) = world.get(&world.owner, "tasks");
    assert_eq!((status, code(&body).as_str()), (503, "server_draining"));
}

#[test]
fn no_answer_and_no_record_holds_a_secret() {
    let world = World::new();
    let viewer = world.member("viewer", Role::Viewer);
    let secret = viewer.rsplit_at_secret();
    for path in ["access", "audit", "status"] {
        let (status, body) = world.get(&world.owner, path);
        assert_eq!(status, 200);
        assert!(!body.to_string().contains(&secret), "{path}");
    }
    world.store.close();
    for entry in std::fs::read_dir(world.state.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", path.display());
        }
    }
}
