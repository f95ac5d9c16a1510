//! The start protocol of a task that uses secrets, over a simulated host and the real store: they are
//! opened before anything is stored, all of them or none.

mod world;

use qinglet::execution::Engine;
use qinglet::execution::host::{Host, NotOpened};
use qinglet::model::life::{AttemptState, RunState};
use qinglet::model::name::Name;
use qinglet::model::secret::SecretRef;
use serde_json::{Value, json};
use world::Bench;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn uses(secrets: &[(&str, &str, &str)]) -> Value {
    let entries = secrets.iter().map(|(variable, project, secret)| {
        let secret = SecretRef { project: name(project), name: name(secret), version: None };
        json!({"name": variable, "kind": "secret", "secretRef": secret.to_string()})
    });
    json!({"environment": entries.collect::<Vec<_>>()})
}

fn until_free(engine: &mut Engine<impl Host>) {
    for _ in 0..1000 {
        engine.turn();
        if engine.active() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("a place is still held");
}

/// Starts one and says how it failed before anything of it was stored.
fn failure(bench: &Bench) -> String {
    let run = bench.start();
    let mut engine = bench.engine();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Failed);
    until_free(&mut engine);
    let attempt = bench.run(run).attempt.unwrap();
    assert_eq!(attempt.state, AttemptState::Failed);
    assert_eq!(attempt.end.error_code.as_deref(), Some("SECRET_UNAVAILABLE"));
    assert_eq!(bench.world(|w| (w.launches, w.logs_made)), (0, 0), "nothing was launched or made");
    assert_eq!(engine.active(), 0, "its place is free");
    attempt.end.error_summary.unwrap()
}

#[test]
fn a_start_goes_on_when_every_secret_is_open() {
    let bench = Bench::with(uses(&[("A", "default", "one"), ("B", "default", "two"), ("C", "default", "one")]));
    bench.set_secret("one", b"1");
    bench.set_secret("two", b"2");
    let run = bench.start();
    let mut engine = bench.engine();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Running);
    assert_eq!(bench.world(|w| w.secrets_at_launch.clone()), ["A", "B", "C"]);
    assert_eq!(bench.world(|w| w.openings), 1, "in one batch");
}

#[test]
fn a_missing_secret_ends_the_start_and_is_named() {
    let bench = Bench::with(uses(&[("A", "default", "one"), ("B", "default", "two")]));
    bench.set_secret("one", b"1");
    assert!(failure(&bench).contains("two"));
    assert_eq!(bench.world(|w| w.openings), 0, "no key is read for a start that cannot be");
}

#[test]
fn a_secret_of_another_project_is_refused_before_any_key_is_read() {
    let bench = Bench::with(uses(&[("A", "other", "one")]));
    bench.set_secret("one", b"1");
    assert!(failure(&bench).contains("another project"));
    assert_eq!(bench.world(|w| w.openings), 0);
}

#[test]
fn a_key_that_is_not_there_is_looked_for_again_and_then_given_up() {
    let bench = Bench::with(uses(&[("A", "default", "one")]));
    bench.set_secret("one", b"1");
    bench.world(|w| w.secrets_closed = vec![NotOpened::UnknownKey(name("one")); 3]);
    let run = bench.start();
    let mut engine = bench.engine();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Running);
    assert_eq!(bench.world(|w| w.openings), 4);
    let bench = {
        drop(engine);
        drop(bench);
        Bench::with(uses(&[("A", "default", "one")]))
    };
    bench.set_secret("one", b"1");
    bench.world(|w| w.secrets_closed = vec![NotOpened::UnknownKey(name("one")); 9]);
    assert!(failure(&bench).contains("no key for the secret one"));
    assert_eq!(bench.world(|w| w.openings), 4, "a bounded number of times");
}

#[test]
fn what_is_damaged_or_without_a_keyring_ends_the_start() {
    for (why, words) in [
        (NotOpened::Damaged(name("one")), "damaged"),
        (NotOpened::Keyring("the keyring is gone".into()), "the keyring is gone"),
    ] {
        let bench = Bench::with(uses(&[("A", "default", "one")]));
        bench.set_secret("one", b"1");
        bench.world(|w| w.secrets_closed = vec![why]);
        assert!(failure(&bench).contains(words));
    }
}

#[test]
fn an_environment_that_its_secrets_make_too_large_is_refused() {
    let variables: Vec<String> = (0..20).map(|n| format!("V{n}")).collect();
    let entries: Vec<(&str, &str, &str)> = variables.iter().map(|v| (v.as_str(), "default", "big")).collect();
    let bench = Bench::with(uses(&entries));
    bench.set_secret("big", &[b'x'; 16_000]);
    assert!(failure(&bench).contains("262144"));
}

#[test]
fn one_that_is_cancelled_while_its_secrets_are_read_never_starts() {
    let bench = Bench::with(uses(&[("A", "default", "one")]));
    bench.set_secret("one", b"1");
    let run = bench.start();
    let mut engine = bench.engine();
    engine.turn();
    bench.ask_to_end(run);
    engine.turn();
    engine.inbox().poke();
    bench.turns_until(&mut engine, || bench.run(run).state == RunState::Cancelled);
    bench.turns_until(&mut engine, || bench.world(|w| w.logs.is_empty()));
    assert_eq!(bench.world(|w| w.launches), 0);
}
