//! Copying output to the log: exactly up to the cap, then read and counted, so that the task is never
//! blocked and never gets SIGPIPE, whatever happens to the log (design D11).

use super::redact::Redactor;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

/// One read; memory stays at this, however much comes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Reads in one turn, so that signals are looked at under any flood.
const CHUNKS_PER_TURN: usize = 16;

/// The output pipe and its log.
pub(super) struct Output {
    pipe: PipeReader,
    /// Where output goes; nowhere once the run is over.
    log: Option<File>,
    /// What must not get into it.
    redactor: Option<Redactor>,
    chunk: Box<[u8]>,
    /// The cap as ordered.
    pub(super) bytes_max: u64,
    /// What the log may still take.
    room: u64,
    /// Bytes that were read and not written.
    pub(super) dropped: u64,
    /// Whether output came that the cap did not let in.
    pub(super) is_capped: bool,
    /// False once writing the log has failed: nothing more is written, so that it holds no gap.
    pub(super) is_complete: bool,
    /// Whether every writer is gone.
    pub(super) has_ended: bool,
}

impl Output {
    /// Copies from `pipe`, which does not block, to `log`, which may hold something already.
    pub(super) fn new(pipe: PipeReader, log: File, bytes_max: u64, redactor: Option<Redactor>) -> io::Result<Self> {
        let room = bytes_max.saturating_sub(log.metadata()?.len());
        let chunk = vec![0; CHUNK_BYTES].into_boxed_slice();
        Ok(Self {
            pipe,
            log: Some(log),
            redactor,
            chunk,
            bytes_max,
            room,
            dropped: 0,
            is_capped: false,
            is_complete: true,
            has_ended: false,
        })
    }

    /// Copies what is there, at most [`CHUNKS_PER_TURN`] chunks.
    pub(super) fn pump(&mut self) {
        for _ in 0..CHUNKS_PER_TURN {
            if self.has_ended {
                return;
            }
            match self.pipe.read(&mut self.chunk) {
                Ok(0) => self.has_ended = true,
                Ok(got) => self.copy(got),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // A pipe has no other errors; one that cannot be read must not be polled for ever.
                Err(_) => self.has_ended = true,
            }
        }
    }

    /// Lets go of the log, so that its space comes back when it is removed: what still comes is read and
    /// thrown away.
    pub(super) fn discard(&mut self) {
        self.log = None;
        self.room = 0;
    }

    /// Writes what was held back: no more output counts.
    pub(super) fn finish(&mut self) {
        if let Some(mut redactor) = self.redactor.take() {
            redactor.finish(|bytes| self.keep(bytes));
        }
    }

    fn copy(&mut self, got: usize) {
        let chunk = std::mem::take(&mut self.chunk);
        let bytes = chunk.get(..got).unwrap_or_default();
        // What cannot get into the log any more needs no looking at.
        if self.room == 0 || !self.is_complete {
            self.finish();
        }
        match self.redactor.take() {
            Some(mut redactor) => {
                redactor.push(bytes, |bytes| self.keep(bytes));
                self.redactor = Some(redactor);
            }
            None => self.keep(bytes),
        }
        self.chunk = chunk;
    }

    fn keep(&mut self, bytes: &[u8]) {
        let allowed = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        let mut rest = bytes.get(..allowed).unwrap_or_default();
        while let Some(log) = self.log.as_mut().filter(|_| self.is_complete && !rest.is_empty()) {
            match log.write(rest) {
                Ok(wrote) if wrote > 0 => {
                    rest = rest.get(wrote..).unwrap_or_default();
                    self.room -= wrote as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.is_complete = false,
            }
        }
        // A log that stopped early for another reason did not reach its cap.
        self.is_capped |= self.is_complete && allowed < bytes.len();
        self.dropped += (bytes.len() - allowed + rest.len()) as u64;
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(cap: u64, log: File) -> (Output, io::PipeWriter) {
        let (read, write) = io::pipe().unwrap();
        crate::process::fd::set_nonblocking(read.as_fd()).unwrap();
        (Output::new(read, log, cap, None).unwrap(), write)
    }

    fn log(name: &str) -> (std::path::PathBuf, File) {
        let path = crate::process::scratch::folder(name).join("log");
        let file = File::options().append(true).create(true).open(&path).unwrap();
        (path, file)
    }

    #[test]
    fn a_cap_and_a_redactor_lose_no_count() {
        let (path, file) = log("output-redact");
        let (read, mut write) = io::pipe().unwrap();
        crate::process::fd::set_nonblocking(read.as_fd()).unwrap();
        let redactor = Redactor::new([(&b"hunter2"[..], &b"n"[..])]);
        let mut output = Output::new(read, file, 10, redactor).unwrap();
        for piece in ["pw=hun", "ter2", "hunt", "er"] {
            write.write_all(piece.as_bytes()).unwrap();
            output.pump();
        }
        drop(write);
        output.pump();
        output.finish();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "pw=[secret");
        assert_eq!((output.dropped, output.is_capped), (" n]".len() as u64 + 6, true));
    }

    #[test]
    fn the_cap_is_exact_and_the_rest_is_counted() {
        for (cap, sent, dropped) in [(10, 10, 0), (10, 11, 1), (0, 5, 5), (10, 1000, 990)] {
            let (path, file) = log("output-cap");
            let (mut output, mut write) = output(cap, file);
            write.write_all(&vec![b'x'; sent]).unwrap();
            output.pump();
            assert!(!output.has_ended);
            drop(write);
            output.pump();
            assert!(output.has_ended && output.is_complete);
            assert_eq!((output.dropped, output.is_capped), (dropped, dropped > 0), "{cap} {sent}");
            assert_eq!(std::fs::metadata(path).unwrap().len(), cap.min(sent as u64));
        }
    }

    #[test]
    fn what_the_log_holds_already_counts() {
        let (path, mut file) = log("output-again");
        file.write_all(b"12345678").unwrap();
        let (mut output, mut write) = output(10, file);
        write.write_all(b"abcdef").unwrap();
        output.pump();
        assert_eq!((output.dropped, std::fs::read(path).unwrap()), (4, b"12345678ab".to_vec()));
    }

    #[test]
    fn a_log_that_cannot_be_written_drops_and_counts() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (mut output, mut write) = output(1000, full);
        write.write_all(b"abc").unwrap();
        output.pump();
        write.write_all(b"de").unwrap();
        output.pump();
        assert_eq!((output.dropped, output.is_complete, output.is_capped), (5, false, false));
        write.write_all(&[b'x'; 2000]).unwrap();
        output.pump();
        assert_eq!((output.dropped, output.is_capped), (2005, false));
    }
}
