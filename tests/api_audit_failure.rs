//! When the audit cannot be written, nothing is done. Alone in its process, because the fault is a
//! limit of the whole process: no file may grow.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "api/world.rs"]
#[allow(dead_code)]
mod world;

use qinglet::model::policy::Role;
use serde_json::json;
use world::{World, code, task, uuid};

/// Sets how far any file of this process may reach.
fn file_size(limit: libc::rlim_t) {
    // SAFETY: `setrlimit` reads one initialised struct; ignoring SIGXFSZ makes the write fail instead.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
}

#[test]
fn audit_failure_blocks_handler() {
    let world = World::new();
    let viewer = world.member("viewer", Role::Viewer);
    let seen = world.put_task("t", None, true);
    let (rows, log) = (world.audit().len(), "runs/x/attempts/y/log");
    let unbound = world.member("unbound", Role::Viewer);
    world.bind(&world.owner, &json!({"type": "user", "id": "unbound"}), None);
    file_size(0);
    let (status, body) = world.start(&viewer, "t", &uuid(), &seen);
    assert_eq!((status, &body["code"]), (503, &json!("audit_unavailable")), "a denial that is not written is no 403");
    let (status, body) = world.get(&unbound, log);
    assert_eq!((status, &body["code"]), (503, &json!("audit_unavailable")), "nor a masking 404");
    let (status, body) = world.start(&world.owner, "t", &uuid(), &seen);
    assert_eq!((status, &body["code"]), (503, &json!("task_start_unavailable")), "a start and its row are one");
    let update = task(Some(seen.0), false).to_string();
    let (status, body) = world.ask(&world.owner, "PUT", "tasks/t", &update);
    assert_eq!((status, &body["code"]), (503, &json!("task_definition_unavailable")));
    let (status, _) = world.bind(&world.owner, &json!({"type": "user", "id": "viewer"}), Some("admin"));
    assert_eq!(status, 503);
    file_size(libc::RLIM_INFINITY);
    assert_eq!(world.get(&world.owner, "runs").1["runs"], json!([]), "nothing was admitted");
    assert_eq!(world.get(&viewer, "tasks/t").1["task"]["revision"], 1);
    assert_eq!(world.audit().len(), rows + 3, "the member, the token and the revocation before it");
    let (status, body) = world.start(&viewer, "t", &uuid(), &seen);
    assert_eq!((status, code(&body).as_str()), (403, "forbidden"), "and it goes on as soon as it can");
    assert_eq!(world.start(&world.owner, "t", &uuid(), &seen).0, 202);
}
