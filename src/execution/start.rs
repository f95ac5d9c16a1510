//! The start protocol (S70, design D3): materialise, T2, launch up to the hold, T3, release.
//! The numbered steps are ARCHITECTURE.md's; each has a crash point.

use super::board::WaitReason;
use super::engine::{Door, Engine};
use super::finish::LOOK_MS;
use super::host::{EnvironmentOf, Hold, Host, Launch, LaunchFailure, Unfit};
use super::inbox::Message;
use super::place::{Failure, Phase, Place, ReceiptBy, Start, StopStep};
use super::token;
use crate::access::seal::Value;
use crate::model::command::Leftovers;
use crate::model::id::AttemptId;
use crate::model::limits::{KILL_WAIT_MS, WAIT_RECHECK_MS};
use crate::model::record::Deadline;
use crate::model::secret::SecretRef;
use crate::model::word::{EXECUTION_REVISION_UNAVAILABLE, EXECUTOR_START_FAILED};
use crate::store::StoreError;
use crate::store::start::{BeginStart, Candidate, FailStart, Step, TakeOwnership};

/// How often an answer of unknown outcome is asked for again before the start is given up.
pub(super) const AGAIN_MAX: u32 = 3;

/// The store word for a commit that may or may not have happened.
pub(super) const COMMIT_UNKNOWN: StoreError = StoreError::Unavailable("commit_unknown");

impl<H: Host> Engine<H> {
    /// Begins with a candidate: its secrets are read first, if it uses any. An error says what it has
    /// to wait for; nothing was stored then.
    pub(super) fn begin(&mut self, candidate: Candidate) -> Result<(), WaitReason> {
        let (run, attempt) = (candidate.run, candidate.attempt);
        let Some(command) = &candidate.command else {
            let summary = "the stored execution revision is missing or does not match its digest".to_owned();
            let why = Failure { code: EXECUTION_REVISION_UNAVAILABLE, summary };
            self.places.insert(attempt, Place::new(run, Phase::Failing { why }));
            self.post_failure(attempt);
            return Ok(());
        };
        if let Some(Unfit { code, summary }) = self.host.unfit(command) {
            let why = Failure { code, summary };
            self.places.insert(attempt, Place::new(run, Phase::Failing { why }));
            self.post_failure(attempt);
            return Ok(());
        }
        if command.secrets().is_empty() {
            return self.materialise(candidate, Vec::new());
        }
        let phase = Phase::Opening { candidate: Box::new(candidate), again: 0 };
        self.places.insert(attempt, Place::new(run, phase));
        self.read_secrets(attempt);
        Ok(())
    }

    /// Materialises a candidate in the order of spec/execution section 10 and posts T2. An error
    /// says what it has to wait for; nothing was stored then.
    pub(super) fn materialise(
        &mut self,
        candidate: Candidate,
        secrets: Vec<(SecretRef, Value)>,
    ) -> Result<(), WaitReason> {
        let (run, attempt) = (candidate.run, candidate.attempt);
        let mut place = Place::new(run, Phase::Launching);
        let Some(command) = &candidate.command else { return Ok(()) };
        let mut secret = [0; 32];
        if !self.host.random(&mut secret) {
            return Err(WaitReason::Memory);
        }
        let Some(log) = self.host.allocate_log(run, attempt, command.log_bytes) else {
            return Err(WaitReason::Disk);
        };
        self.host.crash_point("start.materialised");
        let now = self.host.now();
        let timeout_ms = command.timeout_ms.map(i64::unsigned_abs);
        let deadline = timeout_ms.zip(self.host.boot()).map(|(timeout_ms, boot)| Deadline {
            at_ms: now.wall_ms.saturating_add(timeout_ms as i64),
            boot,
            boot_ms: now.boot_ms.saturating_add(timeout_ms) as i64,
        });
        place.deadline_ms = timeout_ms.map(|ms| now.boot_ms.saturating_add(ms));
        place.grace_ms = command.grace_ms.unsigned_abs();
        if command.leftovers == Leftovers::Keep {
            place.receipt_by = ReceiptBy::Looks;
        }
        place.token_digest = Some(token::digest(&secret));
        place.phase = Phase::Intending {
            candidate: Box::new(candidate),
            start: Start { token: secret, log, deadline, secrets },
            again: 0,
        };
        self.places.insert(attempt, place);
        self.post_intent(attempt);
        Ok(())
    }

    /// Posts T2, the first time or again: it is idempotent on the token's digest.
    pub(super) fn post_intent(&mut self, attempt: AttemptId) {
        let resolved = self.take_resolved();
        let Some(place) = self.places.get(&attempt) else { return };
        let (Phase::Intending { start, .. }, Some(token_digest)) = (&place.phase, place.token_digest) else { return };
        let (log_artifact, deadline) = (start.log.artifact.clone(), start.deadline);
        self.post_step(attempt, BeginStart { run: place.run, attempt, token_digest, log_artifact, deadline, resolved });
    }

    /// T2's answer. Only a committed intent may call the launcher.
    pub(super) fn intended(&mut self, attempt: AttemptId, answer: Result<Step, StoreError>) {
        let again_due = Some(self.later(WAIT_RECHECK_MS));
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let Phase::Intending { candidate, start, again } = &mut place.phase else { return };
        match answer {
            Ok(Step::Done) => {}
            Err(error) if error == COMMIT_UNKNOWN && *again < AGAIN_MAX => {
                *again += 1;
                place.due_ms = again_due;
                return;
            }
            Err(error) if error == COMMIT_UNKNOWN => {
                let summary = "the store could not say whether the start was stored".to_owned();
                place.phase = Phase::Failing { why: Failure { code: EXECUTOR_START_FAILED, summary } };
                self.post_failure(attempt);
                return;
            }
            Ok(Step::Raced) => {
                // Asked to end, or taken back, since it was listed: no row will ever name its log.
                self.host.discard_log(place.run, attempt);
                self.cancels.wanted = true;
                return self.leave(attempt);
            }
            Err(_) => {
                self.places.remove(&attempt);
                return self.recheck();
            }
        }
        self.host.crash_point("start.intent");
        let Some(command) = &candidate.command else { return };
        let of = EnvironmentOf {
            run: candidate.run,
            attempt_number: candidate.attempt_number,
            task: &candidate.task,
            trigger: candidate.trigger.as_deref(),
            scheduled_for_ms: candidate.scheduled_for_ms,
            cause: candidate.cause.as_ref(),
            command,
            secrets: &start.secrets,
        };
        let named =
            command.environment.iter().filter_map(|(name, value)| Some((name.clone(), value.secret()?.name.clone())));

        let launch = Launch {
            run: candidate.run,
            attempt,
            token: start.token,
            log: start.log.clone(),
            argv: command.argv().into_iter().map(str::to_owned).collect(),
            environment: self.host.environment(&of),
            working_directory: command.working_directory.clone(),
            grace_ms: command.grace_ms,
            leftovers: command.leftovers,
            secrets: named.collect(),
            redact: command.redact,
            confinement: command.confinement.clone(),
        };
        let inbox = self.inbox.clone();
        place.phase = Phase::Launching;
        self.host.launch(launch, Box::new(move |outcome| inbox.send(Message::Launched(attempt, outcome))));
    }

    /// The launcher's answer: T4 when it failed, else T3.
    pub(super) fn launched(&mut self, attempt: AttemptId, outcome: Result<Box<dyn Hold>, LaunchFailure>) {
        let Some(place) = self.places.get_mut(&attempt) else { return };
        match outcome {
            Ok(hold) => {
                place.handle = Some((hold.handle(), hold.pid()));
                place.phase = Phase::Owning { hold, again: 0 };
                self.host.crash_point("start.held");
                self.post_ownership(attempt);
            }
            Err(LaunchFailure(summary)) => {
                place.phase = Phase::Failing { why: Failure { code: EXECUTOR_START_FAILED, summary } };
                self.post_failure(attempt);
            }
        }
    }

    /// Posts T3, the first time or again: it is idempotent on the token's digest.
    pub(super) fn post_ownership(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get(&attempt) else { return };
        let (Some((handle, pid)), Some(token_digest)) = (place.handle.clone(), place.token_digest) else { return };
        self.post_step(attempt, TakeOwnership { run: place.run, attempt, token_digest, handle, pid });
    }

    /// T3's answer. Only committed ownership may release user code; without it the exact process is
    /// stopped first and the Attempt is lost afterwards (S70 section 4).
    pub(super) fn owned(&mut self, attempt: AttemptId, answer: Result<Step, StoreError>) {
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let Phase::Owning { again, .. } = &mut place.phase else { return };
        // Asking once more is the re-read: a commit of unknown outcome shows as done, once.
        if answer == Err(COMMIT_UNKNOWN) && *again == 0 {
            *again += 1;
            return self.post_ownership(attempt);
        }
        if answer != Ok(Step::Done) {
            return self.compensate(attempt);
        }
        self.host.crash_point("start.owned");
        let stays = place.receipt_by != ReceiptBy::End;
        let receipt_by = if stays { self.listen(attempt) } else { ReceiptBy::End };
        let look_due = (receipt_by == ReceiptBy::Looks).then(|| self.later(LOOK_MS));
        let Some(place) = self.places.get_mut(&attempt) else { return };
        (place.receipt_by, place.due_ms) = (receipt_by, look_due);
        let exited = place.exited;
        let running = Phase::Running;
        let Phase::Owning { hold, .. } = std::mem::replace(&mut place.phase, running) else { return };
        let released = hold.release();
        self.host.crash_point("start.released");
        if exited || !released {
            self.look(attempt);
        } else if self.places.get(&attempt).is_some_and(|place| place.asked) {
            self.halt(attempt);
        }
    }

    /// T5: lets go of the hold, so that the shim ends by itself, and stops the exact process.
    fn compensate(&mut self, attempt: AttemptId) {
        let now = self.host.now();
        self.set(attempt, Phase::Stopping { next: StopStep::Term }, None);
        self.stop_step(attempt, StopStep::Term, now);
    }

    /// Posts T4, the first time or again.
    pub(super) fn post_failure(&mut self, attempt: AttemptId) {
        let Some(place) = self.places.get(&attempt) else { return };
        let Phase::Failing { why } = &place.phase else { return };
        let operation = FailStart { run: place.run, attempt, error_code: why.code, error_summary: why.summary.clone() };
        self.post_step(attempt, operation);
    }

    /// The answer to T4 or to a loss: done or overtaken, the place is free; else asked again later.
    pub(super) fn ended(&mut self, attempt: AttemptId, answer: Result<Step, StoreError>) {
        if answer.is_ok() {
            if self.door == Door::NotYetOpen {
                self.host.crash_point("recover.lost");
            }
            // The end may be followed by another Attempt; the answer does not say.
            self.retries.wanted = true;
            return self.leave(attempt);
        }
        let due = Some(self.later(WAIT_RECHECK_MS));
        if let Some(place) = self.places.get_mut(&attempt) {
            place.due_ms = due;
        }
    }

    /// How long a step of a stop is given.
    pub(super) const fn stop_wait_ms() -> u64 {
        KILL_WAIT_MS
    }
}
