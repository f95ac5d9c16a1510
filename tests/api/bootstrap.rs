//! The first owner, and what a crash leaves.

use super::world::{Scratch, options};
use qinglet::access::authenticate::Authenticator;
use qinglet::access::bootstrap::{OwnerState, STEPS, init_owner, init_owner_at, reissue_owner, reissue_owner_at};
use qinglet::access::pepper::{Pepper, PepperError};
use qinglet::model::limits::EDGE;
use qinglet::model::name::Name;
use qinglet::model::policy::Subject;
use qinglet::store::Store;
use qinglet::store::access::{BootstrapOwner, ListAccess};
use qinglet::store::open;
use qinglet::store::state::{StateDir, StateLock};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

struct House {
    _scratch: Scratch,
    state: StateDir,
    _lock: StateLock,
    store: Store,
}

impl House {
    fn new() -> Self {
        let scratch = Scratch::new();
        let state = StateDir::create(&scratch.path().join("state")).unwrap();
        let lock = state.lock("init").unwrap();
        open::init(&state, &lock, &options(&EDGE)).unwrap();
        let store = Store::start(&state, &lock, options(&EDGE)).unwrap();
        Self { _scratch: scratch, state, _lock: lock, store }
    }

    fn token(&self) -> String {
        fs::read_to_string(self.state.owner_token_path()).unwrap().trim_end().to_owned()
    }

    fn works(&self, token: &str) -> bool {
        let pepper = Pepper::load(&self.state.pepper_path()).unwrap();
        let proof = Authenticator::new(self.store.clone(), pepper, Box::new(|| None)).authenticate(token);
        proof.is_ok_and(|proof| proof.subject.to_string() == "user:owner")
    }

    fn credentials(&self) -> Vec<bool> {
        let (entries, _) = self.store.call(ListAccess { project: Name::default_project(), after: None }).unwrap();
        assert!(entries.len() <= 1, "one owner at most");
        entries.into_iter().flat_map(|(_, credentials)| credentials).map(|(credential, _)| credential.active).collect()
    }

    fn leftovers(&self) -> Vec<String> {
        let names = fs::read_dir(self.state.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".new")).collect()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.store.close();
    }
}

/// Runs until this step and dies there: nothing after it happens, what was open is closed.
fn dies_at<T>(step: &'static str, run: impl FnOnce(&dyn Fn(&'static str)) -> T) {
    let hook = |at: &'static str| {
        if at == step {
            std::panic::panic_any(step);
        }
    };
    let died = catch_unwind(AssertUnwindSafe(|| run(&hook)));
    assert!(died.is_err(), "{step} was passed");
}

#[test]
fn bootstrap_makes_one_owner_once() {
    let house = House::new();
    assert_eq!(init_owner(&house.state, &house.store).unwrap(), OwnerState::Made);
    let token = house.token();
    assert!(house.works(&token));
    for path in [house.state.owner_token_path(), house.state.pepper_path()] {
        let facts = fs::symlink_metadata(&path).unwrap();
        assert!(facts.is_file());
        assert_eq!(facts.mode() & 0o7777, 0o600, "{}", path.display());
    }
    assert_eq!(fs::metadata(house.state.pepper_path()).unwrap().len(), 32);
    let pepper = fs::read(house.state.pepper_path()).unwrap();
    for _ in 0..2 {
        let again = init_owner(&house.state, &house.store).unwrap();
        assert_eq!(again, OwnerState::Existing { token_file: true });
    }
    assert_eq!((house.token(), fs::read(house.state.pepper_path()).unwrap()), (token, pepper), "nothing was replaced");
    assert_eq!(house.credentials(), [true]);
    assert_eq!(house.leftovers(), [""; 0]);
}

/// The folder's lock keeps a second daemon out; of two that ask one store, one makes the owner.
#[test]
fn bootstrap_single_winner_two_connections() {
    let house = House::new();
    assert!(house.state.lock("second").is_err(), "one at a time has the state");
    let barrier = Barrier::new(4);
    let made: Vec<bool> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4)
            .map(|n| {
                let (store, barrier) = (&house.store, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let subject = Subject::parse(&format!("owner-{n}")).unwrap();
                    let credential_id = format!("id-{n}").into();
                    store.call(BootstrapOwner { subject, credential_id, secret_digest: [n; 32] }).unwrap()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
    assert_eq!(house.credentials(), [true]);
}

#[test]
fn bootstrap_token_never_persisted() {
    let house = House::new();
    init_owner(&house.state, &house.store).unwrap();
    let first = house.token();
    reissue_owner(&house.state, &house.store).unwrap();
    let second = house.token();
    house.store.close();
    for path in fs::read_dir(house.state.path()).unwrap().map(|entry| entry.unwrap().path()) {
        if !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for (token, may) in [(&first, false), (&second, path == house.state.owner_token_path())] {
            let secret = &token.as_bytes()[token.len() - 43..];
            let found = bytes.windows(secret.len()).any(|window| window == secret);
            assert_eq!(found, may, "{}", path.display());
        }
    }
}

#[test]
fn bootstrap_crash_windows() {
    for step in STEPS {
        let house = House::new();
        dies_at(step, |hook| init_owner_at(&house.state, &house.store, hook));
        let found = init_owner(&house.state, &house.store).unwrap();
        let want = match step {
            "bootstrap.commit" => OwnerState::Finished,
            "bootstrap.publish" => OwnerState::Existing { token_file: true },
            _ => OwnerState::Made,
        };
        assert_eq!(found, want, "{step}");
        assert!(house.works(&house.token()), "{step}");
        assert_eq!(house.credentials(), [true], "{step}: never twice");
        assert_eq!(house.leftovers(), [""; 0], "{step}");
    }
}

#[test]
fn a_torn_token_is_made_anew_and_a_stray_one_removed() {
    let house = House::new();
    dies_at("bootstrap.token", |hook| init_owner_at(&house.state, &house.store, hook));
    let temporary = house.state.path().join("owner.token.new");
    let whole = fs::read(&temporary).unwrap();
    fs::write(&temporary, &whole[..20]).unwrap();
    assert_eq!(init_owner(&house.state, &house.store).unwrap(), OwnerState::Made);
    assert!(house.works(&house.token()));
    fs::write(&temporary, &whole).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600)).unwrap();
    let found = init_owner(&house.state, &house.store).unwrap();
    assert_eq!(found, OwnerState::Existing { token_file: true });
    assert_eq!(house.leftovers(), [""; 0], "a token that was never committed never becomes the owner's");
    assert!(house.works(&house.token()));
}

#[test]
fn reissue_ends_every_older_token() {
    let house = House::new();
    init_owner(&house.state, &house.store).unwrap();
    let old = house.token();
    reissue_owner(&house.state, &house.store).unwrap();
    let new = house.token();
    assert!(house.works(&new) && !house.works(&old));
    let mut credentials = house.credentials();
    credentials.sort_unstable();
    assert_eq!(credentials, [false, true]);
    fs::remove_file(house.state.owner_token_path()).unwrap();
    let found = init_owner(&house.state, &house.store).unwrap();
    assert_eq!(found, OwnerState::Existing { token_file: false }, "a lost token is not made again by init");
    reissue_owner(&house.state, &house.store).unwrap();
    assert!(house.works(&house.token()));
}

#[test]
fn reissue_crash_windows() {
    for step in STEPS {
        let house = House::new();
        init_owner(&house.state, &house.store).unwrap();
        let old = house.token();
        dies_at(step, |hook| reissue_owner_at(&house.state, &house.store, hook));
        let committed = matches!(step, "bootstrap.commit" | "bootstrap.publish");
        assert_eq!(house.works(&old), !committed, "{step}");
        init_owner(&house.state, &house.store).unwrap();
        assert!(house.works(&house.token()), "{step}: the next init leaves a token that works");
        assert_eq!(house.token() == old, !committed, "{step}");
        assert_eq!(house.leftovers(), [""; 0], "{step}");
    }
}

#[test]
fn a_lost_pepper_is_not_replaced_behind_anybodys_back() {
    let house = House::new();
    init_owner(&house.state, &house.store).unwrap();
    fs::remove_file(house.state.pepper_path()).unwrap();
    let refused = init_owner(&house.state, &house.store).unwrap_err().to_string();
    assert!(refused.contains("`pepper` is missing") && refused.contains("--reissue-owner"), "{refused}");
    assert!(!house.state.pepper_path().exists());
    reissue_owner(&house.state, &house.store).unwrap();
    assert!(house.works(&house.token()));
}

#[test]
fn keyring_mode_symlink_size() {
    let house = House::new();
    init_owner(&house.state, &house.store).unwrap();
    let path = house.state.pepper_path();
    let good = fs::read(&path).unwrap();
    let why = || match Pepper::load(&path) {
        Err(PepperError::Unsafe(what)) => what,
        other => panic!("{other:?}"),
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(why(), "must have mode 0600");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, &good[..31]).unwrap();
    assert_eq!(why(), "is not 32 bytes long");
    fs::write(&path, [&good[..], b"\n"].concat()).unwrap();
    assert_eq!(why(), "is longer than it can be");
    fs::write(&path, &good).unwrap();
    let second = house.state.path().join("second");
    fs::hard_link(&path, &second).unwrap();
    assert_eq!(why(), "has a second name");
    fs::remove_file(&path).unwrap();
    symlink(&second, &path).unwrap();
    assert_eq!(why(), "is a symbolic link");
    assert!(init_owner(&house.state, &house.store).is_err());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(why(), "is not a regular file");
    fs::remove_dir(&path).unwrap();
    fs::rename(&second, &path).unwrap();
    assert!(house.works(&house.token()));
}
