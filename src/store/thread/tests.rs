use super::*;
use crate::model::limits::EDGE;
use crate::store::runs::CountRuns;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

struct Scratch {
    path: PathBuf,
    store: Store,
    _lock: StateLock,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.store.close();
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn scratch() -> Scratch {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name = format!("qinglet-thread-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().canonicalize().unwrap().join(name);
    let state = StateDir::create(&path).unwrap();
    let lock = state.lock("test").unwrap();
    let options = Options { limits: &EDGE, clock_ms: || 1_800_000_000_000, vfs: None };
    open::init(&state, &lock, &options).unwrap();
    let store = Store::start(&state, &lock, options).unwrap();
    Scratch { path, store, _lock: lock }
}

/// Writes a project, and then does whatever else it is told.
struct Write(&'static str, fn(&mut Tx<'_>) -> Result<(), Fail>);

impl Operation for Write {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        tx.conn.execute("INSERT INTO projects VALUES (?1, 'active', 1, 0, 0)", [self.0])?;
        (self.1)(tx)
    }
}

/// Which projects there are beside the first.
struct Names;

impl Operation for Names {
    type Out = Vec<String>;

    fn perform(self, tx: &mut Tx<'_>) -> Result<Self::Out, Fail> {
        let mut query = tx.conn.prepare_cached("SELECT id FROM projects WHERE id <> 'default'")?;
        let names = query.query_map([], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }
}

/// Holds the thread, so that what is queued meanwhile becomes one batch.
fn hold(store: &Store) -> Arc<Barrier> {
    let barrier = Arc::new(Barrier::new(2));
    let held = Arc::clone(&barrier);
    let (begun, wait) = mpsc::channel();
    store.post(CountRuns, move |_| {
        begun.send(()).unwrap();
        held.wait();
    });
    wait.recv().unwrap();
    barrier
}

type Answers = mpsc::Receiver<(usize, Result<(), StoreError>)>;

fn post_all(store: &Store, writes: Vec<Write>) -> Answers {
    let (send, receive) = mpsc::channel();
    for (at, write) in writes.into_iter().enumerate() {
        let send = send.clone();
        store.post(write, move |answer| send.send((at, answer)).unwrap());
    }
    receive
}

#[allow(clippy::unnecessary_wraps)] // it has the shape of those that fail
fn fine(_: &mut Tx<'_>) -> Result<(), Fail> {
    Ok(())
}

#[test]
fn a_failing_request_is_rolled_back_alone() {
    let scratch = scratch();
    let store = &scratch.store;
    let barrier = hold(store);
    let answers = post_all(
        store,
        vec![
            Write("a", fine),
            Write("b", |_| Err(Fail::Word("no_luck"))),
            Write("c", |tx| {
                Ok(tx.conn.execute("INSERT INTO projects VALUES ('c', 'active', 1, 0, 0)", []).map(drop)?)
            }),
            Write("d", |_| panic!("on purpose")),
            Write("e", fine),
        ],
    );
    barrier.wait();
    let answers: Vec<_> = answers.iter().collect();
    let word = |word| Err(StoreError::Unavailable(word));
    let want = [Ok(()), word("no_luck"), word("store_conflict"), word("operation_panicked"), Ok(())];
    assert_eq!(answers, want.into_iter().enumerate().collect::<Vec<_>>());
    assert_eq!(store.call(Names), Ok(vec!["a".into(), "e".into()]));
}

#[test]
fn when_the_whole_transaction_is_gone_everybody_is_told_and_nothing_more_of_it_runs() {
    static LATER: AtomicU64 = AtomicU64::new(0);
    let scratch = scratch();
    let store = &scratch.store;
    let barrier = hold(store);
    let answers = post_all(
        store,
        vec![
            Write("a", fine),
            // As SQLite does it by itself on a full disk; here it even says that all went well.
            Write("b", |tx| Ok(tx.conn.execute_batch("ROLLBACK")?)),
            Write("c", |_| {
                LATER.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }),
        ],
    );
    barrier.wait();
    let answers: Vec<_> = answers.iter().map(|(_, answer)| answer).collect();
    assert_eq!(answers, [Err(StoreError::Unavailable("transaction_lost")); 3]);
    assert_eq!(LATER.load(Ordering::Relaxed), 0);
    assert_eq!(store.call(Names), Ok(Vec::new()));
    assert_eq!(store.call(Write("d", fine)), Ok(()), "and it goes on");
}

#[test]
fn the_queue_is_bounded_and_a_request_can_be_taken_out_of_it() {
    let scratch = scratch();
    let store = &scratch.store;
    let barrier = hold(store);
    let (send, receive) = mpsc::channel();
    let (told, refused) = mpsc::channel();
    for _ in 0..limits::STORE_QUEUE {
        let send = send.clone();
        store.post(CountRuns, move |answer| send.send(answer).unwrap());
    }
    assert_eq!(store.call(Names), Err(StoreError::Busy));
    store.post(Names, move |answer| told.send((answer, std::thread::current().id())).unwrap());
    assert_eq!(refused.try_recv(), Ok((Err(StoreError::Busy), std::thread::current().id())), "told at once, here");
    let newest = store.inner.queue.lock().tickets;
    assert!(store.inner.queue.withdraw(newest), "as when its caller waited too long");
    assert!(!store.inner.queue.withdraw(newest));
    assert_eq!(receive.try_recv(), Ok(Err(UNKNOWN)), "whoever else hears of it is not told a lie");
    store.post(CountRuns, move |answer| send.send(answer).unwrap());
    barrier.wait();
    assert_eq!(receive.iter().flatten().count(), limits::STORE_QUEUE);
}

#[test]
fn closing_finishes_what_was_accepted_refuses_the_rest_and_may_be_asked_from_anywhere() {
    let scratch = scratch();
    let store = &scratch.store;
    let barrier = hold(store);
    let answers = post_all(store, vec![Write("a", fine), Write("b", fine)]);
    let other = store.clone();
    let (send, receive) = mpsc::channel();
    store.post(Names, move |answer| {
        other.close();
        send.send((answer, other.call(Names))).unwrap();
    });
    barrier.wait();
    store.close();
    store.close();
    assert!(answers.iter().all(|(_, answer)| answer == Ok(())));
    let (before, after) = receive.recv().unwrap();
    assert_eq!(before.map(|names| names.len()), Ok(2));
    assert_eq!(after, Err(StoreError::Closed));
    assert_eq!(store.call(Names), Err(StoreError::Closed));
}

#[test]
fn a_thread_that_dies_leaves_nobody_waiting() {
    let scratch = scratch();
    let store = &scratch.store;
    let barrier = hold(store);
    store.post(Names, |_| panic!("a reply that breaks its promise"));
    let answers = post_all(store, vec![Write("a", fine)]);
    let (send, receive) = mpsc::channel();
    for _ in 0..limits::STORE_BATCH * 2 {
        let send = send.clone();
        store.post(Names, move |answer| send.send(answer).unwrap());
    }
    drop(send);
    barrier.wait();
    let first: Vec<_> = answers.iter().map(|(_, answer)| answer).collect();
    assert_eq!(first, [Err(UNKNOWN)], "committed, but the thread died before it could say so");
    let rest: Vec<_> = receive.iter().collect();
    assert_eq!(rest.len(), limits::STORE_BATCH * 2);
    assert!(rest.iter().all(|answer| matches!(answer, Err(StoreError::Closed | StoreError::Unavailable(_)))));
    assert_eq!(store.call(Names), Err(StoreError::Closed));
}
