//! Schedules on every clock that a board can have, on a simulated host: runs are counted exactly. A jump
//! never replays what it went over, a step back repeats nothing, and a clock that cannot be believed
//! starts nothing.

// In the helpers below a panic is how a test fails.
#![allow(clippy::unwrap_used)]

mod world;

use qinglet::execution::Engine;
use qinglet::execution::host::Host;
use serde_json::json;
use world::Bench;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: i64 = 3_600_000;
const YEAR_MS: i64 = 365 * 24 * HOUR_MS;

/// What becomes of an occurrence that was missed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rule {
    Skip,
    FireOnce,
}

const RULES: [Rule; 2] = [Rule::Skip, Rule::FireOnce];

/// A bench at 08:01 with a trigger every ten minutes, beside whose runs others may start.
fn bench(rule: Rule) -> Bench {
    let bench = Bench::new();
    let misfire = if rule == Rule::Skip { "skip" } else { "fire_once" };
    let config = json!({"expression": "*/10 * * * *", "timezone": "UTC", "misfirePolicy": misfire, "overlap": "allow"});
    bench.trigger("ten", &json!({"schema": "qinglong/cron@v1", "config": config}));
    bench.world(|w| w.wall_ms += MINUTE_MS as i64);
    bench
}

/// An engine that has opened its door and computed what is due.
fn opened(bench: &Bench) -> Engine<impl Host + use<>> {
    let mut engine = bench.engine();
    engine.recover().unwrap();
    engine.open();
    bench.settle_schedules(&mut engine);
    engine
}

fn count(bench: &Bench) -> usize {
    bench.runs().len()
}

#[test]
fn in_an_hour_six_are_made_and_the_loop_wakes_for_the_next_only() {
    let bench = bench(Rule::Skip);
    let mut engine = opened(&bench);
    assert_eq!((count(&bench), bench.schedule("ten").skipped), (0, 0), "nothing of the past");
    let next_ms = engine.due_wall_ms().unwrap();
    assert_eq!(next_ms % (10 * MINUTE_MS as i64), 0);
    assert_eq!(next_ms - bench.world(|w| w.wall_ms), 9 * MINUTE_MS as i64);
    bench.live(&mut engine, 60 * MINUTE_MS);
    assert_eq!((count(&bench), bench.schedule("ten").skipped), (6, 0));
}

#[test]
fn a_jump_forward_makes_none_or_one_and_says_so_once() {
    for rule in RULES {
        for jump_ms in [HOUR_MS, 25 * HOUR_MS, 60 * YEAR_MS] {
            let bench = bench(rule);
            let mut engine = opened(&bench);
            bench.set_clock(&mut engine, jump_ms);
            let (made, skipped) = if rule == Rule::Skip { (0, 1) } else { (1, 0) };
            assert_eq!((count(&bench), bench.schedule("ten").skipped), (made, skipped), "{rule:?} {jump_ms}");
            let notices: Vec<_> = std::iter::from_fn(|| engine.take_notice()).collect();
            assert_eq!(notices.len(), skipped as usize, "{notices:?}");
            bench.live(&mut engine, 10 * MINUTE_MS);
            assert_eq!(count(&bench), made + 1, "and goes on from there");
        }
    }
}

#[test]
fn a_step_back_repeats_nothing() {
    for rule in RULES {
        // 08:21, one run at 08:10 and one at 08:20.
        let bench = bench(rule);
        let mut engine = opened(&bench);
        bench.live(&mut engine, 20 * MINUTE_MS);
        assert_eq!(count(&bench), 2);
        bench.set_clock(&mut engine, -2 * MINUTE_MS as i64);
        bench.live(&mut engine, 5 * MINUTE_MS);
        assert_eq!(count(&bench), 2, "08:20 came again and was not made again");
        bench.live(&mut engine, 7 * MINUTE_MS);
        assert_eq!(count(&bench), 3, "08:30");
        // Two hours back: it waits until the clock has caught up.
        bench.set_clock(&mut engine, -2 * HOUR_MS);
        bench.live(&mut engine, 115 * MINUTE_MS);
        assert_eq!(count(&bench), 3);
        bench.live(&mut engine, 20 * MINUTE_MS);
        assert_eq!(count(&bench), 4);
        assert_eq!(bench.schedule("ten").skipped, 0);
    }
}

#[test]
fn sixty_years_ahead_and_back_go_on_from_now_each_time() {
    for rule in RULES {
        let bench = bench(rule);
        let mut engine = opened(&bench);
        bench.live(&mut engine, 10 * MINUTE_MS);
        bench.set_clock(&mut engine, 60 * YEAR_MS);
        let made = if rule == Rule::Skip { 1 } else { 2 };
        assert_eq!(count(&bench), made);
        bench.live(&mut engine, 10 * MINUTE_MS);
        bench.set_clock(&mut engine, -60 * YEAR_MS);
        assert_eq!(count(&bench), made + 1);
        bench.live(&mut engine, 20 * MINUTE_MS);
        assert_eq!(count(&bench), made + 3, "and does not wait for sixty years");
    }
}

#[test]
fn a_daemon_that_starts_after_the_clock_was_put_back_computes_anew() {
    let bench = bench(Rule::Skip);
    bench.world(|w| w.wall_ms += 60 * YEAR_MS);
    let mut engine = opened(&bench);
    bench.live(&mut engine, 10 * MINUTE_MS);
    assert_eq!(count(&bench), 1);
    drop(engine);
    bench.world(|w| w.wall_ms -= 60 * YEAR_MS);
    let mut engine = opened(&bench);
    bench.live(&mut engine, 10 * MINUTE_MS);
    assert_eq!(count(&bench), 2);
}

#[test]
fn from_1970_nothing_is_made_until_the_clock_is_right_and_then_nothing_of_the_past() {
    for rule in RULES {
        let bench = bench(rule);
        let right = bench.world(|w| std::mem::replace(&mut w.wall_ms, 5_000));
        bench.world(|w| w.synchronised = false);
        let mut engine = opened(&bench);
        bench.live(&mut engine, 30 * MINUTE_MS);
        assert_eq!(count(&bench), 0);
        assert!(bench.board.clock_is_untrusted(), "and that is shown");
        assert_eq!(engine.due_wall_ms(), None);
        bench.world(|w| {
            w.wall_ms = right + 30 * MINUTE_MS as i64;
            w.synchronised = true;
        });
        engine.clock_was_set();
        bench.settle_schedules(&mut engine);
        assert!(!bench.board.clock_is_untrusted());
        bench.live(&mut engine, 10 * MINUTE_MS);
        assert_eq!((count(&bench), bench.schedule("ten").skipped), (1, 0));
    }
}

#[test]
fn after_a_day_without_power_a_board_without_a_clock_decides_once_when_it_is_right() {
    for rule in RULES {
        let bench = bench(rule);
        let mut engine = opened(&bench);
        bench.live(&mut engine, 10 * MINUTE_MS);
        assert_eq!(count(&bench), 1);
        drop(engine);
        let right = bench.world(|w| {
            w.boot += 1;
            w.boot_ms = 20_000;
            w.synchronised = false;
            std::mem::replace(&mut w.wall_ms, 20_000)
        });
        let mut engine = opened(&bench);
        bench.live(&mut engine, 2 * MINUTE_MS);
        assert_eq!(count(&bench), 1);
        bench.world(|w| {
            w.wall_ms = right + 24 * HOUR_MS;
            w.synchronised = true;
        });
        engine.clock_was_set();
        bench.settle_schedules(&mut engine);
        let (made, skipped) = if rule == Rule::Skip { (1, 1) } else { (2, 0) };
        assert_eq!((count(&bench), bench.schedule("ten").skipped), (made, skipped));
    }
}

#[test]
fn nobody_vouches_for_the_clock_and_ten_minutes_after_boot_it_is_taken_as_it_is() {
    let bench = bench(Rule::Skip);
    bench.world(|w| (w.synchronised, w.boot_ms) = (false, 5_000));
    let mut engine = opened(&bench);
    bench.live(&mut engine, 9 * MINUTE_MS);
    assert!(bench.board.clock_is_untrusted());
    bench.live(&mut engine, 15 * MINUTE_MS);
    assert!(!bench.board.clock_is_untrusted(), "looked at again without anybody saying so");
    assert_eq!(count(&bench), 1, "08:20; 08:10 was before, and is not made up for");
}

#[test]
fn the_setting_takes_the_clock_as_it_is() {
    let bench = bench(Rule::Skip);
    bench.world(|w| (w.synchronised, w.wall_ms, w.boot_ms) = (false, 61_000, 5_000));
    let mut engine = bench.engine();
    engine.trust_the_clock();
    engine.recover().unwrap();
    engine.open();
    bench.settle_schedules(&mut engine);
    bench.live(&mut engine, 10 * MINUTE_MS);
    assert_eq!(count(&bench), 1, "even in 1970");
}

#[test]
fn a_day_asleep_is_a_day_missed() {
    for rule in RULES {
        let bench = bench(rule);
        let mut engine = opened(&bench);
        // Suspend: boot time and the wall clock go on together, and the loop finds them there.
        bench.world(|w| {
            w.boot_ms += 24 * HOUR_MS as u64;
            w.wall_ms += 24 * HOUR_MS;
        });
        bench.settle_schedules(&mut engine);
        let (made, skipped) = if rule == Rule::Skip { (0, 1) } else { (1, 0) };
        assert_eq!((count(&bench), bench.schedule("ten").skipped), (made, skipped));
    }
}

#[test]
fn a_daemon_that_closes_decides_nothing_and_the_next_one_does() {
    let bench = bench(Rule::FireOnce);
    let mut engine = opened(&bench);
    engine.close();
    bench.live(&mut engine, 30 * MINUTE_MS);
    assert_eq!((count(&bench), engine.due_wall_ms()), (0, None));
    let mut engine = bench.engine();
    engine.recover().unwrap();
    bench.rest(&mut engine);
    assert_eq!(count(&bench), 0, "nothing before the door is open");
    engine.open();
    bench.settle_schedules(&mut engine);
    assert_eq!(count(&bench), 1);
}
