//! Five thousand triggers: the look for what is due reads what is due and the one after it, and the loop
//! sleeps until that.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests are tests

mod store_support;

use qinglet::model::trigger::Trigger;
use qinglet::store::fire::{Due, Fire, Fired, ListDue};
use qinglet::store::triggers::{PutTrigger, TriggerPut};
use serde_json::json;
use std::time::{Duration, Instant};
use store_support::*;

const MANY: i64 = 5_000;

/// What is due at second 4, asked for two hundred times.
fn look(bench: &Bench) -> (Duration, (Vec<Due>, Option<i64>)) {
    let begun = Instant::now();
    let mut page = (Vec::new(), None);
    for _ in 0..200 {
        page = bench.call(ListDue { now_ms: 4_000, limit: 4 });
    }
    (begun.elapsed(), page)
}

#[test]
fn a_look_for_what_is_due_costs_the_same_with_five_thousand() {
    let mut bench = Bench::fast();
    let pin = bench.task("t");
    let spec = json!({"schema": "qinglong/cron@v1", "config": {"expression": "0 3 * * *", "timezone": "UTC"}});
    for number in 0..10 {
        let trigger = Trigger::check(name("t"), pin, &spec, true).unwrap_or_else(|e| panic!("{e}"));
        let id = name(&format!("n{number}"));
        let put = PutTrigger {
            authority: authority(),
            id,
            mutation: mutation(),
            expected_revision: None,
            trigger,
            boot: None,
        };
        assert!(matches!(bench.call(put), TriggerPut::Created(_)));
        // Each is due at a time of its own.
        let due = bench.call(ListDue { now_ms: 0, limit: 1 }).0.remove(0);
        let at_ms = (number + 1) * 1_000;
        let moved = Fire { due, scheduled_for_ms: None, skip: None, next_fire_at_ms: Some(at_ms), computed_at_ms: 1 };
        assert_eq!(bench.call(moved), Fired::Moved);
    }
    let few = look(&bench);
    // Copies that are due later: what is not due is not read.
    let count = format!("WITH RECURSIVE n(i) AS (SELECT 11 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})");
    bench
        .tamper(&format!(
            "{count} INSERT INTO triggers SELECT project, 'm' || i, revision, deleted, kind, enabled, task, watched, digest,
                definition, created_at_ms, updated_at_ms FROM triggers, n WHERE id = 'n0';
            {count} INSERT INTO trigger_schedules SELECT project, 'm' || i, version, i * 1000, 1, NULL, NULL, NULL, 0,
                NULL, NULL FROM trigger_schedules, n WHERE trigger_id = 'n0';"
        ))
        .unwrap();
    let many = look(&bench);
    for (_, (page, next_ms)) in [&few, &many] {
        assert_eq!((page.len(), *next_ms), (4, Some(5_000)));
    }
    let (few_ms, many_ms) = (few.0.as_secs_f64() * 1e3, many.0.as_secs_f64() * 1e3);
    // Far from what walking them would cost, and no timed test: both were measured here.
    assert!(many_ms < few_ms * 5.0 + 50.0, "10 triggers: {few_ms} ms, {MANY}: {many_ms} ms");
    assert_eq!(bench.call(ListDue { now_ms: 999, limit: 4 }), (vec![], Some(1_000)), "nothing due: when the next is");
}
