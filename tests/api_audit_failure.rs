//! When the audit cannot be written, nothing is done. Alone in its process, because the fault is a
//! limit of the whole process: no file may grow. That a mutation and its row are one transaction, whichever
//! of its writes fails, is in `tests/store_faults.rs`.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "api/walk.rs"]
#[allow(dead_code)]
mod walk;
#[path = "api/world.rs"]
#[allow(dead_code)]
mod world;

use qinglet::http::route::Route;
use qinglet::model::policy::Role;
use serde_json::{Value, json};
use walk::{guarded, mutations, picture, prepare, rows, strong_enough};
use world::{World, code};

/// Sets how far any file of this process may reach.
fn file_size(limit: libc::rlim_t) {
    // SAFETY: `setrlimit` reads one initialised struct; ignoring SIGXFSZ makes the write fail instead.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

/// Asks while no file may grow, and sees that it is 503 and that nothing has changed, the audit neither.
fn nothing(world: &World, route: &Route, asked: impl FnOnce() -> (u16, Value)) -> String {
    // The engine may be told to look: of a commit that failed nobody knows whether it is stored.
    let stored = || picture(world).into_iter().filter(|line| !line.starts_with("pokes ")).collect::<Vec<_>>();
    let before = (stored(), rows(world, |table| table == "audit"));
    file_size(0);
    let (status, body) = asked();
    file_size(libc::RLIM_INFINITY);
    assert_eq!(status, 503, "{}: {body}", route.operation);
    assert!(before == (stored(), rows(world, |table| table == "audit")), "{} changed it", route.operation);
    body["code"].as_str().unwrap().to_owned()
}

#[test]
fn audit_failure_blocks_handler() {
    let world = World::new();
    let viewer = world.member("viewer", Role::Viewer);
    let unbound = world.member("unbound", Role::Viewer);
    world.bind(&world.owner, &json!({"type": "user", "id": "unbound"}), None);
    for route in guarded() {
        let ask = prepare(&world, route.operation);
        let said = nothing(&world, route, || ask.by(&world, &unbound));
        assert_eq!(said, "audit_unavailable", "a denial that is not written is no denial: {}", route.operation);
    }
    for route in mutations() {
        let ask = prepare(&world, route.operation);
        let said = nothing(&world, route, || ask.by(&world, &viewer));
        assert_eq!(said, "audit_unavailable", "{}", route.operation);
        let said = nothing(&world, route, || ask.by(&world, &world.owner));
        assert!(said.ends_with("_unavailable") && said != "audit_unavailable", "{}: {said}", route.operation);
        // What was admitted before goes no further either: neither the change nor its refusal can be written.
        let token = world.member("adam", strong_enough(route));
        let request = ask.request(&token);
        let admitted = world.api.admit(&request).unwrap();
        world.revoke(&token);
        nothing(&world, route, || {
            let no = world.api.handle(&request, admitted.as_ref()).unwrap_err();
            (no.status, serde_json::from_slice(&no.body).unwrap())
        });
        let (status, body) = ask.by(&world, &viewer);
        assert_eq!((status, code(&body).as_str()), (403, "forbidden"), "and it goes on as soon as it can");
        assert_eq!(ask.by(&world, &world.owner).0, ask.done, "{}", route.operation);
    }
    file_size(0);
    let (status, _) = world.get(&viewer, "tasks");
    file_size(libc::RLIM_INFINITY);
    assert_eq!(status, 200, "a read that is allowed needs no row");
}
