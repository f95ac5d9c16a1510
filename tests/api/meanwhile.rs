//! What changes between admission and the transaction: every mutation is refused, and nothing of it is
//! done.

use super::walk::{mutations, picture, prepare, strong_enough};
use super::world::{World, code};
use serde_json::{Value, json};

/// Admits somebody to every mutation, takes away what it was admitted by, and goes on with it.
fn meanwhile(take: impl Fn(&World, &str)) {
    let world = World::new();
    for route in mutations() {
        let ask = prepare(&world, route.operation);
        let token = world.member("adam", strong_enough(route));
        let request = ask.request(&token);
        let admitted = world.api.admit(&request).unwrap_or_else(|_| panic!("{} is admitted", route.operation));
        take(&world, &token);
        let (before, rows) = (picture(&world), world.audit().len());
        let no = world.api.handle(&request, admitted.as_ref()).err();
        let no = no.unwrap_or_else(|| panic!("{} was done", route.operation));
        let body: Value = serde_json::from_slice(&no.body).unwrap();
        let case = format!("{}: {} {body}", route.operation, no.status);
        assert_eq!((no.status, &body["reason"]), (409, &json!("authorization_changed")), "{case}");
        assert!(code(&body).contains("_fence_rejected/"), "{case}");
        assert_eq!(picture(&world), before, "it changed something: {case}");
        let audit = world.audit();
        assert_eq!(audit.len(), rows + 1, "{case}");
        assert_eq!((audit[0].1.as_str(), audit[0].2.as_str()), ("refused", "authorization_changed"), "{case}");
    }
}

#[test]
fn a_role_revoked_between_admission_and_transaction_stops_every_mutation() {
    meanwhile(|world, _| assert_eq!(world.bind(&world.owner, &json!({"type": "user", "id": "adam"}), None).0, 200));
}

#[test]
fn a_role_that_is_given_again_is_not_the_role_that_was_admitted() {
    meanwhile(|world, _| {
        for role in [None, Some("admin")] {
            assert_eq!(world.bind(&world.owner, &json!({"type": "user", "id": "adam"}), role).0, 200);
        }
    });
}

#[test]
fn a_token_revoked_between_admission_and_handler_stops_every_mutation() {
    meanwhile(World::revoke);
}
