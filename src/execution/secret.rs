//! Opening the secrets of a start, before anything of it is stored: one that cannot be opened ends
//! it (spec/control section 5). There is never an empty value in a secret's place.

use super::engine::Engine;
use super::host::{Host, NotOpened};
use super::inbox::Message;
use super::place::{Failure, Phase};
use super::start::AGAIN_MAX;
use crate::access::seal::Value;
use crate::model::command::EnvValue;
use crate::model::id::AttemptId;
use crate::model::limits::RESOLVED_ENV_BYTES_MAX;
use crate::model::name::Name;
use crate::model::secret::{Envelope, SecretRef};
use crate::model::word::SECRET_NOT_OPENED;
use crate::store::StoreError;
use crate::store::secrets::FindEnvelopes;
use crate::store::start::Candidate;

impl<H: Host> Engine<H> {
    /// Asks the store for the envelopes of a start's secrets, all at once.
    pub(super) fn read_secrets(&self, attempt: AttemptId) {
        let Some(Phase::Opening { candidate, .. }) = self.places.get(&attempt).map(|place| &place.phase) else {
            return;
        };
        let wanted = wanted(candidate).into_iter().map(|secret| (secret.name, secret.version)).collect();
        let (inbox, project) = (self.inbox.clone(), candidate.project.clone());
        self.store.post(FindEnvelopes { project, wanted }, move |answer| {
            inbox.send(Message::SecretsRead(attempt, answer));
        });
    }

    /// The store's answer: the start goes on with the values, or ends.
    pub(super) fn secrets_read(&mut self, attempt: AttemptId, answer: Result<Vec<Option<Envelope>>, StoreError>) {
        let Some(place) = self.places.get_mut(&attempt) else { return };
        let Phase::Opening { candidate, again } = &mut place.phase else { return };
        if place.asked {
            // Asked to end meanwhile: with no place it is ended as what never started.
            self.cancels.wanted = true;
            return self.leave(attempt);
        }
        let Ok(found) = answer else {
            self.places.remove(&attempt);
            return self.recheck();
        };
        let wanted = wanted(candidate);
        let opened = match whole(candidate, &wanted, found) {
            Err(summary) => Err(summary),
            Ok(envelopes) => match self.host.open_secrets(&envelopes) {
                // Sealed anew between the look at the store and the look at the keyring: look again.
                Err(NotOpened::UnknownKey(_)) if *again < AGAIN_MAX => {
                    *again += 1;
                    return self.read_secrets(attempt);
                }
                Err(trouble) => Err(said(trouble)),
                Ok(values) => fitting(candidate, wanted.into_iter().zip(values).collect()),
            },
        };
        match opened {
            Ok(secrets) => {
                let Phase::Opening { candidate, .. } = std::mem::replace(&mut place.phase, Phase::Launching) else {
                    return;
                };
                self.places.remove(&attempt);
                if let Err(reason) = self.materialise(*candidate, secrets) {
                    self.wait_for(reason);
                }
            }
            Err(summary) => {
                place.phase = Phase::Failing { why: Failure { code: SECRET_NOT_OPENED, summary } };
                self.post_failure(attempt);
            }
        }
    }
}

fn wanted(candidate: &Candidate) -> Vec<SecretRef> {
    candidate.command.iter().flat_map(|command| command.secrets().into_iter().cloned()).collect()
}

/// Every envelope, or which one is missing.
fn whole(candidate: &Candidate, wanted: &[SecretRef], found: Vec<Option<Envelope>>) -> Result<Vec<Envelope>, String> {
    let mut envelopes = Vec::with_capacity(found.len());
    for (secret, envelope) in wanted.iter().zip(found) {
        let name = &secret.name;
        match envelope {
            _ if secret.project != candidate.project => {
                return Err(format!("the secret {name} is of another project; only those of its own can be used"));
            }
            Some(envelope) => envelopes.push(envelope),
            None => {
                let version = secret.version.map(|version| format!(", version {version},")).unwrap_or_default();
                return Err(format!(
                    "the secret {name}{version} is not there; set it with `qinglet secret set {name}`"
                ));
            }
        }
    }
    Ok(envelopes)
}

/// The values, when the environment that they make is not too large for a launch.
fn fitting(candidate: &Candidate, opened: Vec<(SecretRef, Value)>) -> Result<Vec<(SecretRef, Value)>, String> {
    let environment = candidate.command.iter().flat_map(|command| &command.environment);
    let bytes: usize = environment
        .map(|(name, value)| match value {
            EnvValue::Public(value) => name.len() + value.len() + 2,
            EnvValue::Secret(secret) => {
                let value = opened.iter().find(|(known, _)| known == secret);
                name.len() + value.map_or(0, |(_, value)| value.expose().len()) + 2
            }
        })
        .sum();
    if bytes <= RESOLVED_ENV_BYTES_MAX {
        return Ok(opened);
    }
    Err(format!("the environment with its secrets takes {bytes} bytes; {RESOLVED_ENV_BYTES_MAX} is the most"))
}

fn said(trouble: NotOpened) -> String {
    let set_anew = |name: &Name| format!("set it anew with `qinglet secret set {name}`");
    match trouble {
        NotOpened::Keyring(why) => format!("no secret can be opened: {why}"),
        NotOpened::UnknownKey(name) => {
            format!(
                "the keyring has no key for the secret {name}; restore the keyring from a backup, or {}",
                set_anew(&name)
            )
        }
        NotOpened::Damaged(name) => format!("the stored secret {name} is damaged; {}", set_anew(&name)),
    }
}
