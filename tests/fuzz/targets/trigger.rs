//! A trigger's `{schema, config}`: one stored text with one digest for what is accepted.

use super::task::name;
use qinglet::model::digest::Digest;
use qinglet::model::json;
use qinglet::model::limits::{CRON_BYTES_MAX, ZONE_BYTES_MAX};
use qinglet::model::task::TaskRef;
use qinglet::model::trigger::{OUTCOMES, Trigger, When};

pub fn run(data: &[u8]) {
    let Ok(spec) = json::parse(data) else { return };
    let pin = TaskRef { revision: 3, digest: Digest::of("d", b"x") };
    let trigger = match Trigger::check(name("a"), pin, &spec, true) {
        Ok(trigger) => trigger,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let canonical = trigger.to_spec();
    let again = Trigger::check(name("a"), pin, &canonical, true).expect("its own spec is accepted");
    assert_eq!((&again, again.to_spec()), (&trigger, canonical));
    let (project, id) = (name("default"), name("t"));
    let stored = trigger.canonical(&project, &id, 5);
    let read = Trigger::from_canonical(&stored, &project, &id, 5).expect("what is stored reads back");
    assert_eq!(read, trigger);
    assert_eq!(Trigger::digest(&read.canonical(&project, &id, 5)), Trigger::digest(&stored));
    assert_eq!(Trigger::from_canonical(&stored, &project, &id, 6), None, "only as its own revision");
    match &trigger.when {
        When::Cron { expression, zone, .. } => {
            assert!(expression.len() <= CRON_BYTES_MAX && zone.len() <= ZONE_BYTES_MAX);
        }
        When::Boot => {}
        When::RunFinished { outcomes, .. } => {
            let places: Vec<_> = outcomes.iter().map(|one| OUTCOMES.iter().position(|known| known == one)).collect();
            assert!(!places.is_empty() && places.is_sorted_by(|one, next| one < next));
        }
    }
}
