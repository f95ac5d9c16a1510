//! `check` of a whole state, in short steps that are done one after another, by a daemon or without one: the
//! store's shape and pages, digests, keys of secrets, files against rows. Only looks.

use super::files::{Files, LogListing};
use super::logs::{LogRead, LogReadError};
use crate::access::keyring::{Keyring, KeyringError};
use crate::access::seal;
use crate::model::id::RunId;
use crate::model::limits::{CHECK_FINDINGS_MAX, CHECK_LOGS_PAGE, CHECK_SERVED_BYTES_MAX, CHECK_STEP_MS, REKEY_PAGE};
use crate::store::inspect::{
    CheckRevisions, CheckShape, CheckTable, CheckTriggers, FindUnexpected, ListNamedLogs, ListUnnamedLogs, LookAtLog,
};
use crate::store::secrets::{ListOldSeals, ListUsedKeys};
use crate::store::{Store, StoreError, copy};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is wrong.
    Ok,
    /// Something is lost, foreign, or was not looked at; everything goes on.
    Warn,
    /// Something stored cannot be relied on.
    Fail,
}

impl Level {
    /// The word that is shown.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What.
    pub message: String,
    /// What to do about it.
    pub todo: &'static str,
}

/// What one step has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which check it belongs to.
    pub check: &'static str,
    /// How many of its things were looked at.
    pub seen: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The step to do next; `None`: that was all.
    pub next: Option<String>,
}

/// The first step.
pub const FIRST: &str = "shape";

/// What is looked at.
pub struct Inspector<'a> {
    /// The store.
    pub store: &'a Store,
    /// Its logs.
    pub logs: &'a dyn LogRead,
    /// Its files.
    pub files: &'a dyn Files,
    /// Where the keys of secrets are.
    pub keyring: &'a Path,
    /// Others want the store meanwhile.
    pub is_served: bool,
}

const RESTORE: &str = "keep a copy of the state folder, then `qinglet restore` a backup";
const AGAIN: &str = "run it again; see the kernel's log when it stays";
const FOREIGN: &str = "move it away; nothing of qinglet needs it";

impl Inspector<'_> {
    /// Does one step. `None`: there is none of this name.
    pub fn step(&self, name: &str) -> Option<Step> {
        let (check, at) = name.split_once(':').unwrap_or((name, ""));
        let step = match check {
            "shape" => self.shape(),
            "pages" => self.pages(at.parse().ok()?),
            "tasks" => self.tasks(at.parse().ok()?),
            "triggers" => self.triggers(at.parse().ok()?),
            "secrets" => self.secrets(),
            "folder" => self.folder(),
            "logs" if at.is_empty() => self.named_logs(None),
            "logs" => {
                let (run, number) = at.split_once('.')?;
                self.named_logs(Some((RunId::parse(run)?, number.parse().ok()?)))
            }
            "files" => self.log_files(at.parse().ok().filter(|part| *part < 16)?),
            "receipts" => self.receipts(),
            _ => return None,
        };
        Some(step)
    }

    fn shape(&self) -> Step {
        let mut step = begin("shape", "pages:0");
        match self.store.call(CheckShape) {
            Ok(shape) => {
                step.seen = shape.schema as u64;
                step.fail(shape.wrong, RESTORE);
            }
            Err(e) => step.broken(e),
        }
        step
    }

    /// One table at once, so that whoever wants the store meanwhile gets it in between.
    fn pages(&self, at: usize) -> Step {
        let mut step = begin("pages", "tasks:0");
        let shape = match self.store.call(CheckShape) {
            Ok(shape) => shape,
            Err(e) => {
                step.broken(e);
                return step;
            }
        };
        if self.is_served && shape.bytes > CHECK_SERVED_BYTES_MAX {
            step.warn(
                format!("the store has {} bytes, too many to be read through while it is served", shape.bytes),
                "`qinglet backup FILE` reads all of it; or stop the daemon and run this again",
            );
            return step;
        }
        let begun = Instant::now();
        for (at, table) in shape.tables.iter().enumerate().skip(at) {
            if begun.elapsed() > Duration::from_millis(CHECK_STEP_MS) {
                step.next = Some(format!("pages:{at}"));
                break;
            }
            step.seen += 1;
            match self.store.call(CheckTable { table: table.clone() }) {
                Ok(wrong) => step.fail(wrong.into_iter().map(|line| format!("{table}: {line}")).collect(), RESTORE),
                Err(e) => step.broken(e),
            }
        }
        step
    }

    fn tasks(&self, after: i64) -> Step {
        let mut step = begin("tasks", "triggers:0");
        match self.store.call(CheckRevisions { after }) {
            Ok(page) => {
                step.seen = page.seen;
                step.fail(page.wrong, "define the task anew, or restore a backup");
                if let Some(next) = page.next {
                    step.next = Some(format!("tasks:{next}"));
                }
            }
            Err(e) => step.broken(e),
        }
        step
    }

    fn triggers(&self, after: i64) -> Step {
        let mut step = begin("triggers", "secrets");
        match self.store.call(CheckTriggers { after }) {
            Ok(page) => {
                step.seen = page.seen;
                step.fail(page.wrong, "set the trigger anew, or restore a backup");
                if let Some(next) = page.next {
                    step.next = Some(format!("triggers:{next}"));
                }
            }
            Err(e) => step.broken(e),
        }
        step
    }

    fn secrets(&self) -> Step {
        let mut step = begin("secrets", "folder");
        let list = ListOldSeals { active: String::new(), limit: REKEY_PAGE * 4 };
        let (used, some) = match (self.store.call(ListUsedKeys), self.store.call(list)) {
            (Ok(used), Ok((some, _))) => (used, some),
            (Err(e), _) | (_, Err(e)) => {
                step.broken(e);
                return step;
            }
        };
        let ring = match Keyring::load(self.keyring) {
            Ok(ring) => ring,
            Err(KeyringError::Missing) if used.is_empty() => {
                step.warn("there is no keyring".into(), "`qinglet init` makes one");
                return step;
            }
            Err(e) => {
                step.fail(vec![e.to_string()], "bring the keyring back");
                return step;
            }
        };
        let unknown = used.iter().filter(|id| !ring.has(id));
        let unknown = unknown.map(|id| format!("secrets are sealed under the key {id}, which the keyring has not"));
        step.fail(unknown.collect(), "bring the keyring of that time back, or set those secrets anew");
        step.seen = some.len() as u64;
        let closed = some.iter().filter(|sealed| ring.has(&sealed.key_id) && seal::open(&ring, sealed).is_err());
        let closed = closed.map(|sealed| format!("version {} of secret {} does not open", sealed.version, sealed.name));
        step.fail(closed.collect(), "set the secret anew, or delete it");
        step
    }

    fn folder(&self) -> Step {
        let mut step = begin("folder", "logs");
        match self.files.strangers() {
            Ok(strangers) => strangers.into_iter().for_each(|stranger| step.warn(stranger, FOREIGN)),
            Err(e) => step.unread("the state folder", &e),
        }
        step
    }

    fn named_logs(&self, after: Option<(RunId, i64)>) -> Step {
        let mut step = begin("logs", "files:0");
        let (page, more) = match self.store.call(ListNamedLogs { after }) {
            Ok(page) => page,
            Err(e) => {
                step.broken(e);
                return step;
            }
        };
        if let Some(last) = page.last().filter(|_| more) {
            step.next = Some(format!("logs:{}.{}", last.run, last.number));
        }
        for log in page.into_iter().filter(|log| !log.retired) {
            step.seen += 1;
            let what = match self.logs.read(&log.artifact, 0, 1) {
                Ok(_) => continue,
                Err(LogReadError::Missing) => "is missing",
                Err(LogReadError::Unsafe) => "is not the private file that was written",
                Err(LogReadError::Io) => "cannot be read",
            };
            // Retention removes the file before the row says so.
            match self.store.call(LookAtLog(log)) {
                Ok(None) => {}
                Ok(Some(log)) => step.warn(
                    format!("the log of run {}, attempt {}, {what}", log.run, log.number),
                    "nothing, if logs are kept in memory; else its output is lost. The run's outcome is not",
                ),
                Err(e) => step.broken(e),
            }
        }
        step
    }

    fn log_files(&self, part: u8) -> Step {
        let mut step = begin("files", "receipts");
        let mut listing = LogListing::default();
        for part in part..16 {
            if listing.artifacts.len() > CHECK_LOGS_PAGE {
                step.next = Some(format!("files:{part}"));
                break;
            }
            match self.files.logs(part) {
                Ok(more) => {
                    listing.artifacts.extend(more.artifacts);
                    listing.strangers.extend(more.strangers);
                    listing.cut |= more.cut;
                }
                // In memory, and nobody has served since the boot.
                Err(e) if e.kind() == io::ErrorKind::NotFound && !self.is_served => {}
                Err(e) => {
                    step.unread("the log folder", &e);
                    return step;
                }
            }
        }
        step.seen = listing.artifacts.len() as u64;
        for stranger in listing.strangers {
            step.warn(format!("{stranger} in the log folder is not a log"), FOREIGN);
        }
        if listing.cut {
            step.warn("there are too many files in the log folder to look at all".into(), AGAIN);
        }
        let mut left: BTreeSet<String> = listing.artifacts.into_iter().collect();
        // Read after the files: what is made meanwhile is in neither.
        match self.unnamed(&mut left) {
            Ok(()) => {
                for artifact in left {
                    step.warn(format!("the log {artifact} belongs to no run"), "remove it, if you have no use for it");
                }
            }
            Err(e) => step.broken(e),
        }
        step
    }

    /// Takes out of the set what a row names, or will name.
    fn unnamed(&self, left: &mut BTreeSet<String>) -> Result<(), StoreError> {
        let mut after = None;
        while !left.is_empty() {
            let (page, more) = self.store.call(ListNamedLogs { after })?;
            after = page.last().map(|log| (log.run, log.number));
            for log in page {
                left.remove(&log.artifact);
            }
            if !more {
                for (run, attempt) in self.store.call(ListUnnamedLogs)? {
                    left.remove(&self.files.artifact(run, attempt));
                }
                return Ok(());
            }
        }
        Ok(())
    }

    fn receipts(&self) -> Step {
        let mut step = Step { next: None, ..begin("receipts", "") };
        let listing = match self.files.receipts() {
            Ok(listing) => listing,
            Err(e) => {
                step.unread("the folder of receipts", &e);
                return step;
            }
        };
        step.seen = listing.attempts.len() as u64;
        for stranger in listing.strangers {
            step.warn(format!("{stranger} in the folder of receipts is not a receipt"), FOREIGN);
        }
        if listing.cut {
            step.warn("there are too many files in the folder of receipts to look at all".into(), AGAIN);
        }
        match self.store.call(FindUnexpected(listing.attempts)) {
            Ok(unexpected) => unexpected.into_iter().for_each(|attempt| {
                step.warn(format!("the receipt of attempt {attempt} belongs to no run"), FOREIGN);
            }),
            Err(e) => step.broken(e),
        }
        step
    }
}

fn begin(check: &'static str, next: &str) -> Step {
    Step { check, seen: 0, findings: Vec::new(), next: Some(next.to_owned()) }
}

impl Step {
    fn add(&mut self, finding: Finding) {
        if self.findings.len() < CHECK_FINDINGS_MAX {
            self.findings.push(finding);
        } else if let Some(last) = self.findings.last_mut() {
            "and more of that kind".clone_into(&mut last.message);
        }
    }

    fn warn(&mut self, message: String, todo: &'static str) {
        self.add(Finding { level: Level::Warn, message, todo });
    }

    fn fail(&mut self, messages: Vec<String>, todo: &'static str) {
        for message in messages {
            self.add(Finding { level: Level::Fail, message, todo });
        }
    }

    /// The store could not answer: whether it is damaged or only busy, it was not looked at.
    fn broken(&mut self, error: StoreError) {
        let word = copy::word(error);
        let damaged = ["store_corrupt", "record_damaged"].contains(&word);
        let (what, todo) = if damaged { ("is damaged", RESTORE) } else { ("could not be read", AGAIN) };
        self.fail(vec![format!("the store {what} ({word})")], todo);
    }

    fn unread(&mut self, what: &str, error: &io::Error) {
        self.fail(vec![format!("{what} cannot be read: {error}")], AGAIN);
    }
}
