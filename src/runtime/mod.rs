//! The composition root: builds everything, starts the threads, runs the control loop in `main`,
//! and takes it all down in reverse. Nothing else knows how the parts hang together.

pub mod backup;
pub mod backup_file;
mod check;
mod config_file;
mod ears;
mod init;
pub mod look;
mod reload;
pub mod restore;
mod say;
mod stop;

pub use check::{Evidence, FIRST_STEP, Objection, Unserved};
pub use config_file::{ConfigFile, Unusable};
pub use init::{KeyringState, Report, init};

use crate::access::keyring::Keyring;
use crate::access::pepper::Pepper;
use crate::access::rejections::Rejections;
use crate::execution::board::Board;
use crate::execution::environment::{Surroundings, inheritable};
use crate::execution::linux::{self, Linux, LogFiles, StateFiles, Witness};
use crate::execution::{Engine, RecoveryError};
use crate::http::gate::Bounds;
use crate::http::routes::ROUTES;
use crate::http::server::{Server, ServerOptions};
use crate::http::service::{Api, Parts};
use crate::model::config::Config;
use crate::model::limits::{self, Limits};
use crate::model::settings::{InForce, Settings};
use crate::model::word::Exit;
use crate::process::adopted::Adopted;
use crate::process::launch::{Launcher, LauncherOptions};
use crate::process::log::LogStore;
use crate::process::published::Published;
use crate::process::reap::Children;
use crate::process::receipt::ReceiptStore;
use crate::process::signals::Signals;
use crate::process::timer::Timer;
use crate::process::wake::Wake;
use crate::process::{self, clock, launch, machine, room};
use crate::schedule::host_zone;
use crate::store::Store;
use crate::store::audit::RecordRejections;
use crate::store::open::Options;
use crate::store::state::StateDir;
use ears::{Ears, Heard};
use say::say;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

/// What `serve` is told.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// What flags and file come to.
    pub settings: Settings,
    /// The flags; they go on winning when the file is read again.
    pub flags: Config,
    /// The file.
    pub file: ConfigFile,
}

/// Serves until a signal ends it. Every refusal is a sentence on stderr and exit code 4.
pub fn serve(options: &ServeOptions) -> Exit {
    say::set_level(options.settings.log_level.value);
    match run(options) {
        Ok(()) => Exit::Done,
        Err(sentence) => {
            say("error", "serve_refused", sentence);
            Exit::Unavailable
        }
    }
}

fn run(options: &ServeOptions) -> Result<(), String> {
    let sentence = |error: &dyn fmt::Display| error.to_string();
    // A folder that is removed later must not be in anybody's way (report 34), and signals must be
    // blocked before there is a second thread.
    let settings = &options.settings;
    let mut state = StateDir::open(&settings.state.value).map_err(|e| sentence(&e))?;
    std::env::set_current_dir("/").map_err(|e| format!("cannot change to /: {e}"))?;
    let signals = Signals::block().map_err(|e| format!("cannot take signals: {e}"))?;
    machine::step_back_for_oom_killer();
    // Keys, tokens and secrets pass through this memory.
    process::keep_memory_private().map_err(|e| format!("cannot switch core dumps off: {e}"))?;
    let lock = state.lock("serve").map_err(|e| sentence(&e))?;
    state.put_logs(&settings.logs.value).map_err(|e| sentence(&e))?;
    let runtime_lock = state.put_runtime(&settings.runtime.value, "serve").map_err(|e| sentence(&e))?;
    // Some parts keep them for as long as the process lives; a reload tells those that may change.
    let limits: &'static Limits = Box::leak(Box::new(settings.limits()));
    let store_options = Options { limits, clock_ms: clock::wall_ms, vfs: None };
    let store = Store::start(&state, &lock, store_options).map_err(|e| sentence(&e))?;
    let outcome = serve_store(options, limits, &state, &store, &signals);
    // Storage closes last, whatever happened before.
    store.close();
    drop((lock, runtime_lock));
    outcome
}

fn serve_store(
    options: &ServeOptions,
    limits: &'static Limits,
    state: &StateDir,
    store: &Store,
    signals: &Signals,
) -> Result<(), String> {
    let settings = &options.settings;
    let in_force = Arc::new(InForce::new(settings.clone()));
    let pepper = Pepper::load(&state.pepper_path()).map_err(|e| e.to_string())?;
    // Tasks that use no secret run without it; those that do are refused with the same words.
    if let Err(error) = Keyring::load(&state.keyring_path()) {
        say("warn", error.word(), error);
    }
    let zone = host_zone::read();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    // The state is the daemon's user's own, as opening it has checked.
    let place = std::fs::metadata(state.path()).map_err(|e| format!("cannot look at the state folder: {e}"))?;
    let uid = place.uid();
    let mut around = Surroundings::find(&passwd, uid, zone.zone);
    around.inherited = inheritable(std::env::vars_os());
    // Named after the state folder, so that a daemon knows its own groups again after a restart, and never
    // takes another's for them.
    let machine = machine::look(&format!("qinglet-{:x}-{:x}", place.dev(), place.ino()));
    let capabilities = Arc::new(machine.capabilities.clone());
    let bell = Arc::new(Wake::new().map_err(|e| format!("cannot make an eventfd: {e}"))?);
    let wake: Arc<dyn Fn() + Send + Sync> = {
        let bell = bell.clone();
        Arc::new(move || bell.ring())
    };
    let children = Arc::new(Children::new());
    let launcher = launch::own_exe()
        .and_then(|exe| Launcher::start(LauncherOptions::new(exe, children.clone())))
        .map_err(|e| format!("cannot start the launcher: {e}"))?;
    if launcher.leaves_shims_dumpable() {
        let sentence = "/proc is mounted with hidepid; so that tasks are known again after a restart, their supervisors stay \
                        readable for other processes of this user";
        say("warn", "proc_hidden", sentence);
    }
    let adopted = Arc::new(Adopted::new());
    let receipts = ReceiptStore::new(state.receipts_dir());
    let published = Arc::new(Published::new(receipts.clone()));
    let host = Linux {
        launcher,
        children,
        adopted: adopted.clone(),
        published: published.clone(),
        receipts,
        logs: LogStore::new(state.logs_dir()),
        logs_dir: state.logs_dir(),
        state_dir: state.path().to_owned(),
        keyring: state.keyring_path(),
        around,
        machine,
        limits: *limits,
    };
    let board = Arc::new(Board::default());
    let mut engine = Engine::new(host, store.clone(), limits, board.clone(), wake.clone());
    let timer = Timer::boottime().map_err(|e| format!("cannot make a timer: {e}"))?;
    let wall = Timer::wall().map_err(|e| format!("cannot make a timer: {e}"))?;
    let ears = Ears::new(signals, &bell, timer, wall, &adopted, &published);
    if settings.trust_clock.value {
        engine.trust_the_clock();
    }

    recover(&mut engine, &ears)?;
    if ears.stops() > 0 {
        // Told to stop before it served: nothing was accepted, nothing is now.
        engine.close();
        stop::end(&mut engine, &ears, in_force.get().on_stop.value);
        return Ok(());
    }

    let needed = limits::DESCRIPTORS_OWN + if settings.api.value { limits.connections as u64 } else { 0 };
    if let Some(most) = room::descriptors_max().filter(|most| *most < needed) {
        return Err(format!(
            "only {most} files may be open at once, and {needed} are needed; raise it with `ulimit -n 1024`"
        ));
    }
    let rejections = Arc::new(Rejections::new(wake));
    let server = if settings.api.value {
        let (inbox, triggers, settled) = (engine.inbox(), engine.inbox(), engine.inbox());
        let api = Api::new(Parts {
            store: store.clone(),
            pepper,
            profile: settings.profile.value,
            limits,
            capabilities,
            settings: in_force.clone(),
            board,
            keyring: state.keyring_path(),
            logs: Arc::new(LogFiles(LogStore::new(state.logs_dir()))),
            look: Arc::new(Witness(ReceiptStore::new(state.receipts_dir()))),
            files: Arc::new(StateFiles {
                state: state.clone(),
                logs: LogStore::new(state.logs_dir()),
                receipts: ReceiptStore::new(state.receipts_dir()),
            }),
            clock_ms: clock::wall_ms,
            rejections: rejections.clone(),
            poke: Arc::new(move || inbox.poke()),
            poke_triggers: Arc::new(move || triggers.poke_triggers()),
            boot: Arc::new(linux::boot),
            settled: Arc::new(move |attempt| settled.settled(attempt)),
        });
        let api = Arc::new(api);
        let folded = rejections.clone();
        let server = Server::start(ServerOptions {
            tcp: settings.listen.value,
            socket_path: state.run_dir().join("api.sock"),
            upstream_path: state.run_dir().join("upstream.sock"),
            bounds: Bounds::of(limits),
            routes: &ROUTES,
            service: api.clone(),
            on_rejected: Arc::new(move |reason| {
                folded.note(if reason == "missing" { "bearer_missing" } else { "bearer_malformed" });
            }),
            may_reopen: Arc::new(|| room::pids_free() >= limits::PIDS_FREE_MIN),
            warn: Arc::new(|sentence| say("warn", "http", sentence)),
        });
        let server = server.map_err(|e| format!("cannot serve HTTP: {e}"))?;
        if let Some(address) = server.tcp_address() {
            api.listening_on(address);
        }
        Some(server)
    } else {
        None
    };
    announce(settings, state, server.as_ref())?;

    control(&mut engine, &ears, store, &rejections, &|engine| reload::reload(options, &in_force, engine, store));

    // In reverse: nothing new is admitted, what was accepted is answered, half-done starts settle.
    engine.close();
    if let Some(server) = &server {
        server.stop(limits::HTTP_DRAIN_MS);
        let _ = std::fs::remove_file(state.run_dir().join("address"));
    }
    stop::end(&mut engine, &ears, in_force.get().on_stop.value);
    let counts = rejections.take();
    if !counts.is_empty() {
        let _ = store.call(RecordRejections { counts });
    }
    Ok(())
}

/// Settles what an earlier daemon left, before anything new may come in.
fn recover(engine: &mut Engine<Linux>, ears: &Ears<'_>) -> Result<(), String> {
    let taken_up = engine.recover().map_err(|error: RecoveryError| error.to_string())?;
    let until_ms = clock::boottime_ms() + limits::RECOVERY_MS_MAX as i64;
    look_until(engine, ears, until_ms);
    engine.prove().map_err(|error: RecoveryError| error.to_string())?;
    look_until(engine, ears, until_ms);
    engine.open();
    if taken_up > 0 {
        let still = engine.active();
        say(
            "info",
            "recovered",
            format_args!(
                "{taken_up} runs were under way; {} are settled, {still} go on",
                taken_up - still.min(taken_up)
            ),
        );
    }
    Ok(())
}

/// Turns that only look, until nothing is being settled any more, at most until then.
fn look_until(engine: &mut Engine<Linux>, ears: &Ears<'_>, until_ms: i64) {
    loop {
        let next_ms = engine.turn();
        if !engine.recovering() || ears.stops() > 0 || clock::boottime_ms() >= until_ms {
            return;
        }
        ears.wait(Some(next_ms.map_or(until_ms, |ms| clock::boottime_ms() + ms as i64).min(until_ms)));
    }
}

/// The control loop: one poll, one turn, until a signal says stop.
fn control(
    engine: &mut Engine<Linux>,
    ears: &Ears<'_>,
    store: &Store,
    rejections: &Arc<Rejections>,
    reload: &dyn Fn(&mut Engine<Linux>),
) {
    loop {
        if ears.take_hung_up() {
            reload(engine);
        }
        let engine_due = engine.turn().map(|ms| clock::boottime_ms() + ms as i64);
        if let Some(counts) = rejections.due(clock::boottime_ms()) {
            let (kept, again) = (rejections.clone(), counts.clone());
            store.post(RecordRejections { counts }, move |answer| {
                if answer.is_err() {
                    kept.give_back(&again);
                }
            });
        }
        while let Some((word, sentence)) = engine.take_notice() {
            say("warn", word, sentence);
        }
        let until_ms = [engine_due, rejections.due_at_ms()].into_iter().flatten().min();
        if ears.wait_or(until_ms, engine.due_wall_ms()) == Heard::ClockSet {
            engine.clock_was_set();
        }
        if ears.stops() > 0 {
            // The file may say what becomes of running tasks, and the hangup may have come a moment before.
            if ears.take_hung_up() {
                reload(engine);
            }
            return;
        }
    }
}

/// Says where it serves, and writes the real address for scripts that asked for port 0.
fn announce(settings: &Settings, state: &StateDir, server: Option<&Server>) -> Result<(), String> {
    for (key, value, source) in settings.shown() {
        say("debug", "setting", format_args!("{key}={value} ({})", source.word()));
    }
    let profile = settings.profile.value.word();
    let Some(server) = server else {
        say("info", "serving", format_args!("profile {profile}, no API"));
        return Ok(());
    };
    let path = state.run_dir().join("address");
    let Some(address) = server.tcp_address() else {
        let _ = std::fs::remove_file(&path);
        say("info", "serving", format_args!("profile {profile}, local socket only"));
        return Ok(());
    };
    let temporary = state.run_dir().join("address.new");
    std::fs::write(&temporary, format!("{address}\n"))
        .and_then(|()| std::fs::rename(&temporary, &path))
        .map_err(|e| format!("cannot write the address file in the runtime folder: {e}"))?;
    say("info", "serving", format_args!("profile {profile}, http://{address}"));
    Ok(())
}
