//! A file of zone data, and what is due in the zone it describes.

use qinglet::schedule::cron::Cron;
use qinglet::schedule::next::fires;
use qinglet::schedule::zone::Zone;

pub fn run(data: &[u8]) {
    let Some(zone) = Zone::of_file(data) else { return };
    super::zone::walk(&zone);
    for expression in ["30 2 * * *", "*/7 * * * *", "0 0 29 2 *"] {
        let cron = Cron::parse(expression).expect("a sound expression");
        for from in [-1, 1_700_000_000_000, 7_000_000_000_000] {
            let due = fires(&cron, &zone, from, 6);
            assert!(due.iter().all(|at| *at > from && at % 1000 == 0));
            assert!(due.is_sorted_by(|one, next| one < next), "{expression}: {due:?}");
        }
    }
}
