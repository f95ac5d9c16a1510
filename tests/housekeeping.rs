//! The slow housekeeping over a simulated host and the real store: what goes, in which order, how much
//! a turn does, and what a wrong clock may not do.

mod world;

use qinglet::execution::Engine;
use qinglet::execution::board::WaitReason;
use qinglet::execution::host::Host;
use qinglet::model::id::RunId;
use qinglet::model::life::RunState;
use qinglet::model::limits::EDGE;
use world::Bench;

/// So many Runs, one after the other, each ended by its receipt.
fn ended<H: Host>(bench: &Bench, engine: &mut Engine<H>, count: usize) -> Vec<RunId> {
    (0..count)
        .map(|_| {
            let run = bench.start();
            engine.inbox().poke();
            bench.turns(engine, |w| w.alive.values().any(|process| process.released));
            bench.exit(0, None);
            bench.turns_until(engine, || bench.run(run).finished_at_ms.is_some());
            run
        })
        .collect()
}

/// Lets the next round of housekeeping come and go.
fn keep_house<H: Host>(bench: &Bench, engine: &mut Engine<H>) {
    // One may be under way that has not seen the newest end.
    come_to_rest(bench, engine);
    bench.world(|w| w.boot_ms += EDGE.housekeeping_ms);
    come_to_rest(bench, engine);
}

/// Turns until the engine wants none for a long time.
fn come_to_rest<H: Host>(bench: &Bench, engine: &mut Engine<H>) {
    for _ in 0..3_000 {
        // None: it awaits an answer.
        if engine.turn().is_some_and(|ms| ms >= EDGE.housekeeping_ms / 2) {
            return;
        }
        bench.breathe();
    }
    panic!("no rest");
}

#[test]
fn logs_beyond_their_share_go_oldest_first_a_few_a_turn() {
    let bench = Bench::new();
    bench.world(|w| (w.log_space, w.log_bytes) = (100_000, 1_000));
    let mut engine = bench.engine();
    let runs = ended(&bench, &mut engine, 15);
    keep_house(&bench, &mut engine);
    assert_eq!(bench.world(|w| w.logs.len()), 10, "a tenth");
    let has_log = |run: &RunId| bench.run(*run).attempt.unwrap().log_artifact.is_some();
    let kept: Vec<bool> = runs.iter().map(has_log).collect();
    assert_eq!(kept, [vec![false; 5], vec![true; 10]].concat(), "the oldest are gone, and the store says so");
    bench.world(|w| {
        w.log_space = 20_000;
        w.boot_ms += EDGE.housekeeping_ms;
    });
    for _ in 0..100 {
        let before = bench.world(|w| w.removals);
        engine.turn();
        let in_turn = bench.world(|w| w.removals) - before;
        assert!(in_turn <= EDGE.log_deletions, "{in_turn} in one turn");
        bench.breathe();
    }
    assert_eq!(bench.world(|w| w.logs.len()), 2);
    let removals = bench.world(|w| w.removals);
    assert_eq!(removals, 13, "each once");
    keep_house(&bench, &mut engine);
    assert_eq!(bench.world(|w| w.removals), removals, "an idle round removes nothing");
}

#[test]
fn a_new_daemon_counts_what_logs_there_are_and_finds_those_that_a_crash_removed() {
    let bench = Bench::new();
    bench.world(|w| (w.log_space, w.log_bytes) = (1_000_000, 1_000));
    let runs = ended(&bench, &mut bench.engine(), 4);
    let artifact = bench.run(runs[0]).attempt.unwrap().log_artifact.unwrap();
    bench.world(|w| {
        w.logs.remove(&artifact);
    });
    let mut engine = bench.engine();
    engine.recover().unwrap();
    engine.open();
    come_to_rest(&bench, &mut engine);
    let has_log = |at: usize| bench.run(runs[at]).attempt.unwrap().log_artifact.is_some();
    assert!(!has_log(0) && has_log(1), "though nothing is too old or too much");
    bench.world(|w| w.log_space = 20_000);
    keep_house(&bench, &mut engine);
    assert_eq!(bench.world(|w| w.logs.len()), 2);
    assert!(!has_log(1) && has_log(2) && has_log(3));
}

#[test]
fn with_no_log_there_at_all_nothing_is_said_to_be_removed() {
    let bench = Bench::new();
    let runs = ended(&bench, &mut bench.engine(), 2);
    let logs = bench.world(|w| std::mem::take(&mut w.logs));
    let mut engine = bench.engine();
    keep_house(&bench, &mut engine);
    let has_log = |run: RunId| bench.run(run).attempt.unwrap().log_artifact.is_some();
    assert!(has_log(runs[0]) && has_log(runs[1]), "a disk that is not mounted yet");
    bench.world(|w| w.logs = logs);
    keep_house(&bench, &mut engine);
    assert!(has_log(runs[0]) && has_log(runs[1]));
    // A log folder in memory begins anew with each boot; the next log shows that it is in use.
    bench.world(|w| w.logs.clear());
    let mut engine = bench.engine();
    let next = ended(&bench, &mut engine, 1);
    keep_house(&bench, &mut engine);
    assert!(!has_log(runs[0]) && !has_log(runs[1]) && has_log(next[0]));
}

#[test]
fn a_run_that_waits_for_space_brings_a_round_and_neither_chases_the_other() {
    let bench = Bench::new();
    bench.world(|w| (w.log_space, w.log_bytes) = (100_000, 1_000));
    let mut engine = bench.engine();
    ended(&bench, &mut engine, 3);
    keep_house(&bench, &mut engine);
    let looks = bench.world(|w| {
        w.log_space = 10_000;
        w.room = Err(WaitReason::Disk);
        w.space_looks
    });
    bench.start();
    engine.inbox().poke();
    for _ in 0..400 {
        engine.turn();
        bench.breathe();
    }
    assert_eq!(bench.world(|w| w.logs.len()), 1, "at once, not with the next cadence");
    let rounds = bench.world(|w| w.space_looks) - looks;
    assert!((1..=4).contains(&rounds), "{rounds} rounds while no time passed");
}

#[test]
fn age_decides_on_a_trusted_clock_only() {
    const DAY_MS: i64 = 86_400_000;
    let bench = Bench::new();
    let mut engine = bench.engine();
    let runs = ended(&bench, &mut engine, 3);
    let kept = |bench: &Bench| bench.world(|w| w.logs.len());
    // Each case is looked at, and put right again.
    for step_ms in [50 * 365 * DAY_MS, -10 * 365 * DAY_MS, 26 * 3_600_000] {
        bench.world(|w| w.wall_ms += step_ms);
        keep_house(&bench, &mut engine);
        assert_eq!(kept(&bench), 3, "{step_ms}");
        bench.world(|w| w.wall_ms -= step_ms);
        keep_house(&bench, &mut engine);
        assert_eq!(kept(&bench), 3);
    }
    // Eight days, day by day, go by on both clocks.
    for day in 0..8 {
        assert_eq!(kept(&bench), 3, "day {day}");
        bench.world(|w| {
            w.wall_ms += DAY_MS;
            w.boot_ms += DAY_MS as u64;
        });
        keep_house(&bench, &mut engine);
    }
    assert_eq!(kept(&bench), 0, "a week was over");
    assert!(runs.iter().all(|run| bench.run(*run).attempt.unwrap().log_artifact.is_none()));
    let mut engine = bench.engine();
    bench.world(|w| (w.wall_ms, w.boot_ms) = (w.wall_ms + 90 * DAY_MS, w.boot_ms + 90 * DAY_MS as u64));
    keep_house(&bench, &mut engine);
    assert!(bench.is_there(runs[2]), "the newest stays");
    assert!(!bench.is_there(runs[0]) && !bench.is_there(runs[1]), "three months were over");
}

#[test]
fn a_lost_attempts_row_waits_for_a_late_receipt_which_is_cleared_away() {
    const HOUR_MS: i64 = 3_600_000;
    let bench = Bench::new();
    let mut engine = bench.engine();
    let run = bench.start();
    bench.turns(&mut engine, |w| w.released == 1);
    bench.vanish();
    bench.world(|w| w.boot_ms += 60_000);
    bench.turns_until(&mut engine, || {
        bench.world(|w| w.boot_ms += 100);
        bench.run(run).state == RunState::Lost
    });
    let pass = |hours: i64| {
        bench.world(|w| {
            w.wall_ms += hours * HOUR_MS;
            w.boot_ms += (hours * HOUR_MS) as u64;
        });
    };
    keep_house(&bench, &mut engine);
    pass(23);
    keep_house(&bench, &mut engine);
    assert_eq!(bench.journal().len(), 1, "one may still come");
    pass(1);
    keep_house(&bench, &mut engine);
    assert_eq!(bench.journal(), []);
    assert_eq!(bench.run(run).state, RunState::Lost);
    // Ended by somebody, it may be taken for done; but nobody knows whether its log is.
    bench.ask_to_end(run);
    engine.inbox().poke();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Cancelled);
    bench.pass(&mut engine, 10_000);
    bench.world(|w| w.log_space = 100);
    keep_house(&bench, &mut engine);
    assert_eq!(bench.world(|w| (w.logs.len(), w.removals)), (1, 0));
}

#[test]
fn lost_runs_are_closed_by_age_only_on_a_clock_that_can_be_trusted() {
    const DAY_MS: i64 = 86_400_000;
    let bench = Bench::new();
    let mut engine = bench.engine();
    let run = bench.start();
    bench.turns(&mut engine, |w| w.released == 1);
    bench.vanish();
    bench.turns_until(&mut engine, || {
        bench.world(|w| w.boot_ms += 100);
        bench.run(run).state == RunState::Lost
    });
    keep_house(&bench, &mut engine);
    assert_eq!(bench.run(run).state, RunState::Lost);
    bench.world(|w| w.wall_ms += 100 * DAY_MS);
    keep_house(&bench, &mut engine);
    assert_eq!(bench.run(run).state, RunState::Lost, "a clock that has jumped decides nothing");
    bench.world(|w| w.wall_ms -= 100 * DAY_MS);
    let mut engine = bench.engine();
    bench.world(|w| (w.wall_ms, w.boot_ms) = (w.wall_ms + 91 * DAY_MS, w.boot_ms + 91 * DAY_MS as u64));
    keep_house(&bench, &mut engine);
    let closed = bench.run(run);
    assert_eq!((closed.state, closed.error_code.as_deref()), (RunState::Failed, Some("RUN_LOST_RETRY_DISABLED")));
}

#[test]
fn of_many_lost_runs_the_newest_stay_lost_and_the_rest_is_closed_by_pages() {
    let mut bench = Bench::new();
    let run = bench.start();
    let first = bench.run(run).attempt.unwrap().id;
    // More than are kept, older than the real one by their ids, and cheaper than running each.
    bench.tamper(
        "UPDATE runs SET status = 'lost';
        UPDATE attempts SET status = 'lost', finished_at_ms = created_at_ms;
        CREATE TEMP TABLE n AS WITH RECURSIVE c (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c WHERE x < 275)
            SELECT x, CAST(x'0000000000007000800000000000' || CAST(char(x / 128 + 1, x % 128) AS BLOB) AS BLOB) AS id FROM c;
        INSERT INTO runs (id, project, task, task_revision, task_digest, status, version, event_sequence, priority,
                origin, trigger_type, created_at_ms, queued_at_ms)
            SELECT n.id, project, task, task_revision, task_digest, status, 2, 2, 0, origin, trigger_type,
                created_at_ms, queued_at_ms FROM runs, n;
        INSERT INTO attempts (run, number, id, status, callback_sequence, created_at_ms, finished_at_ms)
            SELECT n.id, 1, n.id, 'lost', 0, created_at_ms, created_at_ms FROM attempts, n",
    );
    let mut engine = bench.engine();
    keep_house(&bench, &mut engine);
    assert_eq!(bench.count(RunState::Lost), 256);
    assert_eq!(bench.count(RunState::Failed), 20);
    assert_eq!((bench.run(run).state, bench.run(run).attempt.unwrap().id), (RunState::Lost, first), "the newest");
}
