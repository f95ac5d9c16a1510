//! Copies of the whole store, for an owner: asked for, read in pieces, let go. One at a time. Keys never go
//! this way: the command line takes them from the state folder, and a copy alone opens no secret.

use super::admit::Admitted;
use super::message::{Answer, Request};
use super::query;
use super::service::Api;
use super::wire::{Fields, refuse, unavailable};
use crate::model::id::MutationId;
use crate::model::limits::{BACKUP_IDLE_MS, BACKUP_PIECE_BYTES};
use crate::model::word;
use crate::store::StoreError;
use crate::store::backup::{BackupBegun, BeginBackup};
use crate::store::copy::{self, CopyState, Copying, Snapshot};
use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The schema of asking for a copy.
pub const SCHEMA: &str = "qinglong/backup@v1";
/// The schema of letting it go.
pub const DELETE_SCHEMA: &str = "qinglong/backup-deletion@v1";

/// Where the one copy is kept while somebody reads it.
#[derive(Default)]
pub(super) struct Shelf(Mutex<Option<Slot>>);

struct Slot {
    id: MutationId,
    copying: Copying,
    /// The digest of what was read so far, from the beginning on.
    hashed: u64,
    sha: Sha256,
    used: Instant,
}

impl Slot {
    /// Whether it was read to its end or has failed, so that whoever asked has had what there is.
    fn is_over(&self) -> bool {
        match self.copying.state() {
            CopyState::Copying { .. } => false,
            CopyState::Ready(snapshot) => self.hashed == snapshot.bytes(),
            CopyState::Failed(_) => true,
        }
    }
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Option<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a copy go that nobody has asked for in a while; whoever asks for anything pays for the look.
    pub(super) fn tidy(&self) {
        let mut slot = self.lock();
        if slot.as_ref().is_some_and(|slot| slot.used.elapsed() > Duration::from_millis(BACKUP_IDLE_MS)) {
            *slot = None;
        }
    }
}

/// `POST /api/v3/projects/{project}/backups`, `project.manage`. Body, exactly: `{schema:
/// "qinglong/backup@v1", mutationId}`.
///
/// `202 {status: "accepted" | "existing", backup: {id, status, ...}}` as `GET` shows it; the id is the
/// mutation's. A copy takes as much of the state's file system as the store has, until it is let go or nobody
/// has asked for it for a minute. 400 `invalid_backup_request`; 409 `backup_busy` while another is there,
/// `backup_fence_rejected`; 503 `backup_unavailable`.
pub(super) fn create(api: &Api, request: &Request, who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_BACKUP)?;
    fields.schema(SCHEMA)?;
    let id = fields.mutation()?;
    fields.end()?;
    let mut shelf = api.backup.lock();
    if let Some(slot) = shelf.as_mut() {
        if slot.id == id {
            slot.used = Instant::now();
            return Ok(Answer::json(202, &json!({"status": "existing", "backup": shape(slot)})));
        }
        if !slot.is_over() {
            let message = "another backup is being made; try again in a minute";
            return Err(Answer::refusal(word::BACKUP_BUSY, message));
        }
        *shelf = None;
    }
    let begun = api.store.call(BeginBackup { by: Some(who.authority.clone()) }).map_err(not_begun)?;
    let bytes = match begun {
        BackupBegun::Begun { bytes } => bytes,
        BackupBegun::Refused(reason) => {
            let message = "your role or credential changed meanwhile; try again";
            return Err(refuse(word::backup_fence(reason), message));
        }
    };
    if api.files.space_left().is_some_and(|left| left < bytes) {
        let message = format!(
            "a copy takes {bytes} bytes of the state's file system for a while, and then tasks would have to wait for \
             space; free some, or stop the daemon and make the backup without it"
        );
        return Err(Answer::refusal(word::BACKUP_UNAVAILABLE.because("storage_full"), &message));
    }
    let copying = api.store.copy(None).map_err(not_begun)?;
    let slot = Slot { id, copying, hashed: 0, sha: Sha256::new(), used: Instant::now() };
    let answer = Answer::json(202, &json!({"status": "accepted", "backup": shape(&slot)}));
    *shelf = Some(slot);
    Ok(answer)
}

/// `GET /api/v3/projects/{project}/backups/{backup}`, `project.manage`: `200 {backup: {id, status:
/// "copying" | "ready" | "failed", copiedBytes, totalBytes, reason?}}`. 404 `backup_not_found`.
pub(super) fn get(api: &Api, request: &Request, _who: &Admitted) -> Result<Answer, Answer> {
    let mut shelf = api.backup.lock();
    let slot = find(&mut shelf, request)?;
    Ok(Answer::json(200, &json!({"backup": shape(slot)})))
}

/// `GET /api/v3/projects/{project}/backups/{backup}/content?offset`, `project.manage`: `200 {content: base64,
/// start, endExclusive, totalBytes, sha256?}`: the database file from `offset` on, at most 45 KiB. `sha256`,
/// of the whole, comes with its last piece when all before it were read in order. 404 `backup_not_found`; 409
/// `backup_busy` before it is ready; 503 `backup_unavailable`.
pub(super) fn read(api: &Api, request: &Request, _who: &Admitted) -> Result<Answer, Answer> {
    let offset = query::number(request, "offset").unwrap_or(0) as u64;
    let mut shelf = api.backup.lock();
    let slot = find(&mut shelf, request)?;
    let snapshot = ready(slot)?;
    let bytes = snapshot.read(offset, BACKUP_PIECE_BYTES).map_err(|_| {
        let message = "the copy could not be read back; the kernel's log may say why";
        Answer::refusal(word::BACKUP_UNAVAILABLE.because("storage_io"), message)
    })?;
    let end = offset + bytes.len() as u64;
    if offset == slot.hashed {
        slot.sha.update(&bytes);
        slot.hashed = end;
    }
    let mut body = json!({
        "content": Base64::encode_string(&bytes), "start": offset, "endExclusive": end, "totalBytes": snapshot.bytes(),
    });
    if end == snapshot.bytes() && slot.hashed == end {
        body["sha256"] = hex(&slot.sha.clone().finalize()).into();
    }
    Ok(Answer::json(200, &body))
}

/// `DELETE /api/v3/projects/{project}/backups/{backup}`, `project.manage`. Body, exactly: `{schema:
/// "qinglong/backup-deletion@v1"}`. `200 {status: "deleted"}`: it is let go, and so is its space. 400
/// `invalid_backup_request`; 404 `backup_not_found`.
pub(super) fn delete(api: &Api, request: &Request, _who: &Admitted) -> Result<Answer, Answer> {
    let mut fields = Fields::read(&request.body, word::INVALID_BACKUP)?;
    fields.schema(DELETE_SCHEMA)?;
    fields.end()?;
    let mut shelf = api.backup.lock();
    find(&mut shelf, request)?;
    *shelf = None;
    Ok(Answer::json(200, &json!({"status": "deleted"})))
}

fn find<'a>(shelf: &'a mut Option<Slot>, request: &Request) -> Result<&'a mut Slot, Answer> {
    let id = request.params.get(1).and_then(|text| MutationId::parse(text));
    let slot = shelf.as_mut().filter(|slot| Some(slot.id) == id).ok_or_else(|| {
        let message = "there is no such copy, or nobody asked for it for too long; make the backup again";
        Answer::refusal(word::BACKUP_NOT_FOUND, message)
    })?;
    slot.used = Instant::now();
    Ok(slot)
}

fn ready(slot: &Slot) -> Result<Snapshot, Answer> {
    match slot.copying.state() {
        CopyState::Ready(snapshot) => Ok(snapshot),
        CopyState::Copying { .. } => Err(Answer::refusal(word::BACKUP_BUSY, "the copy is not ready; look again")),
        CopyState::Failed(why) => {
            Err(Answer::refusal(word::BACKUP_UNAVAILABLE.because(why), "the state could not be copied"))
        }
    }
}

fn shape(slot: &Slot) -> Value {
    let (status, copied, total, reason) = match slot.copying.state() {
        CopyState::Copying { done, total } => ("copying", done, total, None),
        CopyState::Ready(snapshot) => ("ready", snapshot.bytes(), snapshot.bytes(), None),
        CopyState::Failed(why) => ("failed", 0, 0, Some(why)),
    };
    let id = slot.id.to_string();
    let mut shown = json!({"id": id, "status": status, "copiedBytes": copied, "totalBytes": total});
    if let Some(reason) = reason {
        shown["reason"] = reason.into();
    }
    shown
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn not_begun(error: StoreError) -> Answer {
    match error {
        StoreError::Unavailable(_) => {
            let message = format!("the backup was not begun: the store says {}", copy::word(error));
            Answer::refusal(word::BACKUP_UNAVAILABLE.because(copy::word(error)), &message)
        }
        other => unavailable(word::BACKUP_UNAVAILABLE, other, "the backup was not begun"),
    }
}
