//! A crontab, line by line. The first byte: 1 = as busybox reads it, 2 = with users, 3 = both.

use super::task::name;
use qinglet::cli::planned;
use qinglet::model::digest::Digest;
use qinglet::model::limits::CRONTAB_JOBS_MAX;
use qinglet::model::task::{Definition, TaskRef};
use qinglet::model::trigger::{Trigger, When};
use qinglet::schedule::cron::Cron;
use qinglet::schedule::zone::Zone;

pub fn run(data: &[u8]) {
    let Some((how, file)) = data.split_first() else { return };
    let lines = planned(file, how & 1 != 0, how & 2 != 0);
    assert!(lines.iter().filter(|line| line.job.is_some()).count() <= CRONTAB_JOBS_MAX);
    assert!(lines.is_sorted_by(|one, next| one.number < next.number));
    let count = file.split(|byte| *byte == b'\n').count();
    assert!(lines.iter().all(|line| (1..=count).contains(&line.number)));
    let (project, pin) = (name("default"), TaskRef { revision: 1, digest: Digest::of("d", b"x") });
    for line in &lines {
        let Some((id, definition, spec)) = &line.job else { continue };
        let stored = definition.canonical(&project, id, 1);
        // Two labels are added after the check, so this is also that they fit.
        let read = Definition::from_canonical(&stored, &project, id, 1);
        assert!(read.as_ref() == Some(definition), "what is stored reads back");
        let trigger = Trigger::check(id.clone(), pin, spec, true).expect("a trigger that is taken");
        assert_eq!(&trigger.to_spec(), spec, "as the store keeps it");
        if let When::Cron { expression, zone, .. } = &trigger.when {
            assert!(Cron::parse(expression).is_ok() && Zone::parse(zone).is_ok());
        }
    }
}
