//! The acceptance points of the control plane by their names (spec/control section 11, groups 1 to 8), so
//! that each can be found: a test has its name, or ARCHITECTURE.md says why none has.

// A test's own helpers fail by panicking too.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::Path;

/// Points that a test of the same name shows.
const SHOWN: &[&str] = &[
    // 1: roles
    "policy_matrix_archived_unbound_agent",
    "binding_append_replay_conflict_two_writers",
    // 2: authentication
    "auth_order_and_indistinguishable_rejects",
    "auth_exact_pepper_key_no_fallback",
    "confirm_after_revoke_fails_closed",
    // 3: the first owner
    "bootstrap_single_winner_two_connections",
    "bootstrap_closed_after_any_binding",
    "bootstrap_rollback_on_audit_failure",
    "bootstrap_token_never_persisted",
    // 4: audit
    "audit_failure_blocks_handler",
    "audit_has_no_subject_when_rejected",
    // 5: tasks
    "command_v1_vectors",
    "task_digest_vectors",
    "execution_digest_vectors",
    "publish_all_or_nothing",
    "replay_does_not_repair_missing_revision",
    "disabled_publishes_nothing",
    // 6: triggers
    "cron_canonical_macro_rejected_timezone_required",
    "trigger_enabled_needs_current_head",
    "stale_trigger_can_be_disabled",
    "misfire_skip_and_fire_once",
    "cron_same_occurrence_one_run",
    "scan_then_task_change_no_run",
    // 7: secrets
    "secret_cas_one_winner",
    "secret_replay_semantic",
    "secret_row_has_no_plaintext",
    "weak_auth_never_reads_keyring",
    "keyring_mode_symlink_size",
    // 8: HTTP
    "route_reject_before_auth",
    "body_read_only_after_audit",
    "cancel_body_513_rejected",
    "overload_before_auth_edge_4",
    "graceful_drain",
    "max_page_response_under_64KiB",
    "cross_project_equals_missing",
];

/// Points that are not kept as they are, each with the tests that stand in their place.
const INSTEAD: &[(&str, &[&str])] = &[
    ("delivery_crash_windows", &["bootstrap_crash_windows", "reissue_crash_windows"]),
    ("secret_gcm_vectors_and_aad_tamper", &["secret_vectors_and_aad_tamper"]),
];

fn texts(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_acceptance_point_has_a_test_of_its_name_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    for folder in ["src", "tests"] {
        texts(&root.join(folder), &mut code);
    }
    let is_a_test = |name: &str| {
        let found = code.split(&format!("    fn {name}()")).nth(1).is_some();
        found || code.contains(&format!("\nfn {name}()"))
    };
    for name in SHOWN {
        assert!(is_a_test(name), "no test is called {name}");
    }
    let document = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    for (name, instead) in INSTEAD {
        assert!(!is_a_test(name), "{name} is there");
        let row = document.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md does not say why there is no {name}"));
        for other in *instead {
            assert!(is_a_test(other), "no test is called {other}");
            assert!(row.contains(&format!("`{other}`")), "{row}");
        }
    }
}
