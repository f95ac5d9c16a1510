//! Answers requests: from a matched head to a handler, in the one fixed order
//! (spec/control section 6): query, bearer, policy, durable audit of a denial, body, handler.

use super::admit::{self, Admitted};
use super::message::{Answer, Request, Service};
use super::route::{Guard, Method};
use super::{
    access, audit, backups, cancel, check, evidence, logs, query, retry, runs, secrets, starts, system, tasks, triggers,
};
use crate::access::authenticate::{AgeClock, Authenticator};
use crate::access::pepper::Pepper;
use crate::access::rejections::Rejections;
use crate::execution::board::Board;
use crate::execution::evidence::Look;
use crate::execution::files::Files;
use crate::execution::logs::LogRead;
use crate::model::capability::Capabilities;
use crate::model::id::{AttemptId, Uuid};
use crate::model::limits::{Limits, Profile, RESPONSE_BYTES_MAX};
use crate::model::settings::InForce;
use crate::model::word;
use crate::store::Store;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// What the API is made of.
pub struct Parts {
    /// The store.
    pub store: Store,
    /// What tokens are digested under.
    pub pepper: Pepper,
    /// Which profile's numbers these are.
    pub profile: Profile,
    /// The numbers as they were at the start; those that may change meanwhile are in `settings`.
    pub limits: &'static Limits,
    /// What the machine can do for a task.
    pub capabilities: Arc<Capabilities>,
    /// The settings in force.
    pub settings: Arc<InForce>,
    /// What the engine shows of itself.
    pub board: Arc<Board>,
    /// Where the keys of secrets are.
    pub keyring: PathBuf,
    /// Reads logs.
    pub logs: Arc<dyn LogRead>,
    /// Looks at what is known of an Attempt outside the store.
    pub look: Arc<dyn Look>,
    /// Looks at the state's files.
    pub files: Arc<dyn Files>,
    /// The wall clock, in epoch milliseconds.
    pub clock_ms: fn() -> i64,
    /// Counts rejected authentications; the control loop writes them.
    pub rejections: Arc<Rejections>,
    /// Wakes the dispatcher after something it must see. Must not block.
    pub poke: Arc<dyn Fn() + Send + Sync>,
    /// The same after a trigger has changed.
    pub poke_triggers: Arc<dyn Fn() + Send + Sync>,
    /// This boot, if it can be told.
    pub boot: Arc<dyn Fn() -> Option<Uuid> + Send + Sync>,
    /// Tells the engine that an Attempt was settled by hand. Must not block.
    pub settled: Arc<dyn Fn(AttemptId) + Send + Sync>,
}

/// The API: authentication, policy and the handlers over one store.
pub struct Api {
    pub(super) store: Store,
    pub(super) authenticator: Authenticator,
    pub(super) profile: Profile,
    pub(super) limits: &'static Limits,
    pub(super) capabilities: Arc<Capabilities>,
    pub(super) settings: Arc<InForce>,
    pub(super) board: Arc<Board>,
    /// Taken by whoever seals: no key may go between a sealing and its commit.
    pub(super) keyring: Mutex<PathBuf>,
    pub(super) logs: Arc<dyn LogRead>,
    pub(super) look: Arc<dyn Look>,
    pub(super) files: Arc<dyn Files>,
    pub(super) backup: backups::Shelf,
    pub(super) rejections: Arc<Rejections>,
    pub(super) poke: Arc<dyn Fn() + Send + Sync>,
    pub(super) poke_triggers: Arc<dyn Fn() + Send + Sync>,
    pub(super) boot: Arc<dyn Fn() -> Option<Uuid> + Send + Sync>,
    pub(super) settled: Arc<dyn Fn(AttemptId) + Send + Sync>,
    pub(super) since: Instant,
    pub(super) listen: OnceLock<SocketAddr>,
    pub(super) reads: AtomicU64,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api(..)")
    }
}

/// What answers one operation.
enum Handler {
    /// Without a credential.
    Public(fn(&Api) -> Answer),
    /// For somebody whose role holds the route's permission.
    Guarded(fn(&Api, &Request, &Admitted) -> Result<Answer, Answer>),
}

fn handler(operation: &str) -> Option<Handler> {
    use Handler::{Guarded, Public};
    Some(match operation {
        "system.health" => Public(system::health),
        "system.capabilities" => Public(system::capabilities),
        "project.status" => Guarded(system::status),
        "task.list" => Guarded(tasks::list),
        "task.get" => Guarded(tasks::get),
        "task.put" => Guarded(tasks::put),
        "task.delete" => Guarded(tasks::delete),
        "task.start" => Guarded(starts::start),
        "run.list" => Guarded(runs::list),
        "run.get" => Guarded(runs::get),
        "run.cancel" => Guarded(cancel::cancel),
        "run.retry" => Guarded(retry::retry),
        "trigger.list" => Guarded(triggers::list),
        "trigger.get" => Guarded(triggers::get),
        "trigger.put" => Guarded(triggers::put),
        "trigger.delete" => Guarded(triggers::delete),
        "run.evidence" => Guarded(evidence::get),
        "run.resolve" => Guarded(evidence::resolve),
        "run.events.list" => Guarded(runs::events),
        "run.log.read" => Guarded(logs::read),
        "secret.list" => Guarded(secrets::list),
        "secret.get" => Guarded(secrets::get),
        "secret.put" => Guarded(secrets::put),
        "secret.delete" => Guarded(secrets::delete),
        "secret.rekey" => Guarded(secrets::rekey),
        "access.list" => Guarded(access::list),
        "access.bind" => Guarded(access::bind),
        "credential.create" => Guarded(access::create_token),
        "credential.revoke" => Guarded(access::revoke_token),
        "state.check" => Guarded(check::step),
        "backup.create" => Guarded(backups::create),
        "backup.get" => Guarded(backups::get),
        "backup.read" => Guarded(backups::read),
        "backup.delete" => Guarded(backups::delete),
        "audit.list" => Guarded(audit::list),
        _ => return None,
    })
}

impl Api {
    /// The API over these parts.
    pub fn new(parts: Parts) -> Self {
        Self {
            authenticator: Authenticator::new(
                parts.store.clone(),
                parts.pepper,
                age_clock(&parts.board, parts.clock_ms),
            ),
            store: parts.store,
            profile: parts.profile,
            limits: parts.limits,
            capabilities: parts.capabilities,
            settings: parts.settings,
            board: parts.board,
            keyring: Mutex::new(parts.keyring),
            logs: parts.logs,
            look: parts.look,
            files: parts.files,
            backup: backups::Shelf::default(),
            rejections: parts.rejections,
            poke: parts.poke,
            poke_triggers: parts.poke_triggers,
            boot: parts.boot,
            settled: parts.settled,
            since: Instant::now(),
            listen: OnceLock::new(),
            reads: AtomicU64::new(0),
        }
    }

    /// Tells `status` which TCP address is served, once it is known. Without it there is none.
    pub fn listening_on(&self, address: SocketAddr) {
        let _ = self.listen.set(address);
    }

    /// How tokens are checked.
    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// Allowed reads since the start. They are counted here and nowhere else (design D13).
    pub fn allowed_reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// The first half: from a matched head to somebody who may. Refuses, with the denial durably
    /// audited, or counts the rejection. Nothing of the body is looked at. `None`: a public route.
    pub fn admit(&self, request: &Request) -> Result<Option<Admitted>, Answer> {
        self.backup.tidy();
        query::check(request, self.limits)?;
        match request.route.guard {
            Guard::Public => Ok(None),
            Guard::Holds(permission) => admit::admit(self, request, permission).map(Some),
        }
    }

    /// The second half: the body and the handler.
    pub fn handle(&self, request: &Request, admitted: Option<&Admitted>) -> Result<Answer, Answer> {
        if request.body.len() > request.route.body_bytes_max {
            let message =
                format!("the body is longer than the {} bytes this route takes", request.route.body_bytes_max);
            return Err(Answer::refusal(word::BODY_TOO_LARGE, &message));
        }
        match (handler(request.route.operation), admitted) {
            (Some(Handler::Public(handle)), _) => Ok(handle(self)),
            (Some(Handler::Guarded(handle)), Some(admitted)) => {
                if request.route.method == Method::Get {
                    self.reads.fetch_add(1, Ordering::Relaxed);
                }
                handle(self, request, admitted)
            }
            // A guarded handler never runs for nobody, whatever the table says.
            (Some(Handler::Guarded(_)), None) => Err(admit::unauthorized()),
            (None, _) => Err(Answer::refusal(word::ROUTE_NOT_FOUND, "")),
        }
    }
}

/// The wall clock, for what may end by it.
fn age_clock(board: &Arc<Board>, clock_ms: fn() -> i64) -> AgeClock {
    let board = Arc::clone(board);
    Box::new(move || board.age_decides().then(clock_ms).filter(|now_ms| *now_ms > 0))
}

impl Service for Api {
    fn answer(&self, request: &Request) -> Answer {
        let admitted = self.admit(request);
        let answer = admitted.and_then(|admitted| self.handle(request, admitted.as_ref())).unwrap_or_else(|no| no);
        if answer.body.len() > RESPONSE_BYTES_MAX {
            let message = format!("the answer would be longer than {RESPONSE_BYTES_MAX} bytes");
            return Answer::refusal(word::ANSWER_UNAVAILABLE, &message);
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::routes::ROUTES;

    #[test]
    fn every_route_has_its_kind_of_handler() {
        for route in &ROUTES {
            let public = matches!(handler(route.operation), Some(Handler::Public(_)));
            let guarded = matches!(handler(route.operation), Some(Handler::Guarded(_)));
            assert_eq!((public, guarded), (route.guard == Guard::Public, route.guard != Guard::Public), "{route:?}");
        }
    }
}
