//! Reading: from the first byte of a head to a whole request in the queue.

use super::Gate;
use super::refusals::{CUT_OFF, DRAINING, NO_ROOM, TOO_LONG};
use super::slot::Stage;
use crate::http::head::{self, Scan};
use crate::http::reply;
use crate::model::limits::{HEAD_BYTES_MAX, REQUEST_BYTES_MAX};
use std::io::{ErrorKind, Read, Write};
use std::time::Instant;

impl Gate {
    /// Reads once from a client.
    pub(super) fn read(&mut self, place: usize, now: Instant) {
        let mut chunk = std::mem::take(&mut self.chunk);
        if let Some(slot) = self.slots.get(place) {
            let wanted = match &slot.stage {
                Stage::Head { bytes, .. } => HEAD_BYTES_MAX - bytes.len(),
                Stage::Body { missing, .. } => *missing,
                _ => chunk.len(),
            };
            let wanted = wanted.min(chunk.len());
            match slot.stream.read(&mut chunk[..wanted]) {
                Ok(0) => self.ended(place, now),
                Ok(count) => self.take(place, &chunk[..count], now),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => self.slots.close(place),
            }
        }
        self.chunk = chunk;
    }

    /// The client will send nothing more.
    fn ended(&mut self, place: usize, now: Instant) {
        match self.slots.get(place).map(|slot| &slot.stage) {
            Some(Stage::Head { bytes, .. }) if !bytes.is_empty() => self.refuse(place, &CUT_OFF, now),
            Some(Stage::Body { .. }) => self.refuse(place, &CUT_OFF, now),
            _ => self.slots.close(place),
        }
    }

    fn take(&mut self, place: usize, chunk: &[u8], now: Instant) {
        let Some(slot) = self.slots.get(place) else { return };
        match &mut slot.stage {
            Stage::Head { .. } => self.take_head(place, chunk, now),
            Stage::Body { request, missing } => {
                request.extend_from_slice(chunk);
                *missing -= chunk.len();
                if *missing == 0 {
                    self.enqueue(place, now);
                }
            }
            Stage::Lingering { left } => match left.checked_sub(chunk.len()) {
                Some(rest) => *left = rest,
                None => self.slots.close(place),
            },
            Stage::Waiting { .. } | Stage::Answering | Stage::Delivering { .. } => {}
        }
    }

    fn take_head(&mut self, place: usize, chunk: &[u8], now: Instant) {
        let Some(Stage::Head { bytes, scanned }) = self.slots.get(place).map(|slot| &mut slot.stage) else { return };
        let (mut bytes, scanned) = (std::mem::take(bytes), std::mem::take(scanned));
        let needed = bytes.len() + chunk.len();
        if needed > bytes.capacity() {
            let capacity = needed.next_power_of_two().clamp(1024, HEAD_BYTES_MAX);
            if !self.slots.make_room(capacity, self.upstream.bytes() + bytes.capacity(), Some(place))
                || bytes.try_reserve_exact(capacity - bytes.len()).is_err()
            {
                return self.refuse(place, &NO_ROOM, now);
            }
        }
        bytes.extend_from_slice(chunk);
        match head::scan(&bytes, scanned) {
            Scan::More => {
                if let Some(slot) = self.slots.get(place) {
                    let scanned = bytes.len();
                    slot.stage = Stage::Head { bytes, scanned };
                }
            }
            Scan::Whole(end) => self.judge(place, &bytes[..end], &bytes[end..], now),
            Scan::Refused(refusal) => {
                self.note_method(place, &bytes);
                self.refuse(place, &refusal, now);
            }
        }
    }

    fn note_method(&mut self, place: usize, bytes: &[u8]) {
        if let Some(slot) = self.slots.get(place) {
            slot.head_only = head::method_of(bytes) == b"HEAD";
        }
    }

    /// A head is whole: refuses the request, or makes it ready to go on.
    fn judge(&mut self, place: usize, bytes: &[u8], rest: &[u8], now: Instant) {
        self.note_method(place, bytes);
        let admitted = match head::judge(self.routes, bytes) {
            _ if self.drain_until.is_some() => return self.refuse(place, &DRAINING, now),
            Ok(admitted) => admitted,
            Err(refusal) => return self.refuse(place, &refusal, now),
        };
        let forward = admitted.forward();
        let total = forward.len() + admitted.content_length;
        if total > REQUEST_BYTES_MAX {
            return self.refuse(place, &TOO_LONG, now);
        }
        let mut request = Vec::new();
        let others = self.upstream.bytes() + bytes.len() + rest.len();
        if !self.slots.make_room(total, others, Some(place)) || request.try_reserve_exact(total).is_err() {
            return self.refuse(place, &NO_ROOM, now);
        }
        let here = rest.len().min(admitted.content_length);
        request.extend_from_slice(forward.as_bytes());
        request.extend_from_slice(&rest[..here]);
        let missing = admitted.content_length - here;
        let Some(slot) = self.slots.get(place) else { return };
        slot.stage = Stage::Body { request, missing };
        slot.deadline = Some(slot.opened + self.bounds.request);
        if missing == 0 {
            self.enqueue(place, now);
        } else if admitted.expects_continue && here == 0 {
            // A fresh socket takes 25 bytes; a client that loses them waits and then sends all the same
            // (RFC 9110 section 10.1.1).
            let _ = slot.stream.write(reply::CONTINUE);
        }
    }

    fn enqueue(&mut self, place: usize, now: Instant) {
        let Some(slot) = self.slots.get(place) else { return };
        if let Stage::Body { request, .. } = &mut slot.stage {
            slot.stage = Stage::Waiting { request: std::mem::take(request) };
            slot.deadline = Some(now + self.bounds.wait);
            slot.whole = true;
            self.queue.push_back(place);
        }
    }
}
