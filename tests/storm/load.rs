//! Clients under way while the daemon is killed: an answer is a promise, no answer is none.

use super::plan::Act;
use super::support::http::{self, Reply, request};
use super::tasks::{Kind, Pin};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// What makes a new Run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A task is started.
    Start(Kind),
    /// An ended Run is tried again.
    Again(String),
}

/// A start that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What was asked for.
    pub what: What,
    /// The mutation.
    pub mutation: String,
}

/// What clients know.
#[derive(Default)]
pub struct Known {
    /// Runs whose start was answered, in order, each with its mutation.
    pub started: Vec<(String, String)>,
    /// Runs whose cancellation was answered.
    pub cancelled: Vec<String>,
    /// Starts without an answer.
    pub unanswered: Vec<Asked>,
    /// Answers that must not be.
    pub wrong: Vec<String>,
}

/// A client of one state.
pub struct Client<'a> {
    /// The state.
    pub state: &'a Path,
    /// The owner's token.
    pub token: &'a str,
    /// The tasks.
    pub pins: &'a [Pin],
}

impl Client<'_> {
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Reply> {
        let bytes = http::raw(self.state, &request(self.token, method, path, body)).ok()?;
        // 503 says that nothing is promised; 0 is a connection that was closed.
        Some(Reply::of(&bytes)).filter(|reply| reply.status != 0 && reply.status != 503)
    }

    /// Asks for a Run, the first time or again.
    pub fn start(&self, asked: &Asked, known: &mut Known) {
        let (path, mut body) = match &asked.what {
            What::Start(kind) => {
                let pin = self.pins.iter().find(|pin| pin.kind == *kind).expect("a task of each kind");
                let body = json!({"schema": "qinglong/task-start@v1", "expectedRevision": pin.revision,
                    "expectedContentDigest": pin.digest});
                (format!("/tasks/{}/runs", kind.task()), body)
            }
            What::Again(run) => (format!("/runs/{run}/retry"), json!({"schema": "qinglong/run-retry@v1"})),
        };
        body["mutationId"] = asked.mutation.as_str().into();
        let Some(reply) = self.ask("POST", &path, Some(&body)) else {
            return known.unanswered.push(asked.clone());
        };
        match (reply.status, reply.body["runId"].as_str(), &asked.what) {
            (200 | 202, Some(run), _) => known.started.push((run.to_owned(), asked.mutation.clone())),
            // Not ended, or lost; or too many of them within a minute.
            (409 | 429, _, What::Again(_)) => {}
            _ => known.wrong.push(format!("the start {asked:?} was answered {reply:?}")),
        }
    }

    fn cancel(&self, run: &str, mutation: &str, known: &mut Known) {
        let body = json!({"schema": "qinglong/run-cancellation@v1", "mutationId": mutation});
        let Some(reply) = self.ask("POST", &format!("/runs/{run}/cancellation"), Some(&body)) else { return };
        match reply.status {
            200 | 202 => known.cancelled.push(run.to_owned()),
            _ => known.wrong.push(format!("the cancellation of {run} was answered {reply:?}")),
        }
    }

    /// Does what a plan says, whatever becomes of the daemon meanwhile; `is_over` ends it. Clients of
    /// the command line are not its business.
    pub fn act(&self, acts: &[(u64, Act)], known: &mut Known, is_over: impl Fn() -> bool) {
        for asked in std::mem::take(&mut known.unanswered) {
            self.start(&asked, known);
        }
        for (pause_ms, act) in acts {
            std::thread::sleep(Duration::from_millis(*pause_ms));
            if is_over() {
                return;
            }
            let nth = |back: &usize| known.started.iter().rev().nth(*back).map(|(run, _)| run.clone());
            match act {
                Act::Start { kind, mutation } => {
                    self.start(&Asked { what: What::Start(*kind), mutation: mutation.clone() }, known);
                }
                Act::Again { back, mutation } => {
                    if let Some(run) = nth(back) {
                        self.start(&Asked { what: What::Again(run), mutation: mutation.clone() }, known);
                    }
                }
                Act::Cancel { back, mutation } => {
                    if let Some(run) = nth(back) {
                        self.cancel(&run, mutation, known);
                    }
                }
                Act::Read { back } => {
                    let wrong = [Some("/runs".into()), nth(back).map(|run| format!("/runs/{run}/events"))]
                        .into_iter()
                        .flatten()
                        .filter_map(|path: String| self.ask("GET", &path, None))
                        .filter(|reply| reply.status != 200);
                    let wrong: Vec<String> = wrong.map(|reply| format!("a read was answered {reply:?}")).collect();
                    known.wrong.extend(wrong);
                }
                Act::Client { .. } => {}
            }
        }
    }
}
