//! Whether a program can be executed, found out before it must be: exec says one errno for five
//! different mistakes, and says it too late.

use crate::process::step::{LaunchFailure, LaunchStep};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Interpreters of interpreters, as many as the kernel follows (execve(2): four below the first).
const NESTED_MAX: usize = 5;
/// How much of a script the kernel looks at (`BINPRM_BUF_SIZE`, Linux 5.1; half of it before).
const HEAD_BYTES: usize = 256;
/// Program headers of a binary that are looked at; compilers make about a dozen.
const HEADERS_MAX: u64 = 64;

/// Checks the program and what interprets or loads it, as the calling process's user.
pub(super) fn check(program: &Path) -> Result<(), LaunchFailure> {
    check_file(program)?;
    let mut file = program.to_path_buf();
    for _ in 0..=NESTED_MAX {
        match interpreter_of(&file) {
            None => return Ok(()),
            Some(interpreter) => {
                check_file(&interpreter).map_err(as_interpreter)?;
                file = interpreter;
            }
        }
    }
    Err(LaunchFailure { step: LaunchStep::Interpreter, errno: libc::ELOOP })
}

/// The same mistake, one file further.
fn as_interpreter(failure: LaunchFailure) -> LaunchFailure {
    let step = match failure.step {
        LaunchStep::Program => LaunchStep::Interpreter,
        _ => LaunchStep::InterpreterMode,
    };
    LaunchFailure { step, ..failure }
}

fn check_file(path: &Path) -> Result<(), LaunchFailure> {
    let failed = |step, errno| Err(LaunchFailure { step, errno });
    let meta = std::fs::metadata(path).map_err(|e| LaunchFailure::of(LaunchStep::Program, &e))?;
    if !meta.is_file() {
        return failed(LaunchStep::ProgramKind, libc::EACCES);
    }
    let Err(error) = may_execute(path) else { return Ok(()) };
    match error.raw_os_error() {
        Some(libc::EACCES) if meta.mode() & 0o111 == 0 => failed(LaunchStep::ProgramMode, libc::ENOEXEC),
        Some(libc::EACCES) if is_noexec(path) => failed(LaunchStep::ProgramMount, libc::EACCES),
        errno => failed(LaunchStep::ProgramMode, errno.unwrap_or(libc::EACCES)),
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn may_execute(path: &Path) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: the path is NUL-terminated and outlives the call.
    let done = unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn is_noexec(path: &Path) -> bool {
    let Ok(path) = c_path(path) else { return false };
    let mut about = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is NUL-terminated, `about` is valid for the call to fill and all-zero is sound.
    unsafe {
        libc::statvfs(path.as_ptr(), about.as_mut_ptr()) == 0 && about.assume_init().f_flag & libc::ST_NOEXEC != 0
    }
}

/// What the kernel will look for to run this file; `None` when it needs nothing or cannot be read
/// (a binary may be executable and not readable).
fn interpreter_of(path: &Path) -> Option<PathBuf> {
    let file = File::open(path).ok()?;
    let mut head = [0; HEAD_BYTES];
    let mut filled = 0;
    while let Some(rest) = head.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    let head = head.get(..filled)?;
    let name = script_interpreter(head).map(<[u8]>::to_vec).or_else(|| loader(head, &file))?;
    Some(PathBuf::from(OsStr::from_bytes(&name)))
}

/// The file after `#!`, as the kernel reads it: up to a blank, a newline or a NUL. A carriage return
/// is part of the name, and then that file is missing.
fn script_interpreter(head: &[u8]) -> Option<&[u8]> {
    let line = head.strip_prefix(b"#!")?;
    let start = line.iter().position(|b| !matches!(b, b' ' | b'\t'))?;
    let name = line.get(start..)?;
    let end = name.iter().position(|b| matches!(b, b' ' | b'\t' | b'\n' | 0)).unwrap_or(name.len());
    name.get(..end).filter(|name| !name.is_empty())
}

/// The loader a dynamic binary asks for (its `PT_INTERP`, elf(5)): a program built for another libc
/// otherwise fails as if it did not exist itself. Only headers in this machine's byte order are read.
fn loader(head: &[u8], file: &File) -> Option<Vec<u8>> {
    const PT_INTERP: u64 = 3;
    let wide = match head.get(..6)? {
        [0x7f, b'E', b'L', b'F', 1, _] => false,
        [0x7f, b'E', b'L', b'F', 2, _] => true,
        _ => return None,
    };
    let native = if cfg!(target_endian = "little") { 1 } else { 2 };
    if head[5] != native {
        return None;
    }
    let (table, size, count) = if wide {
        (number(head, 32, 8)?, number(head, 54, 2)?, number(head, 56, 2)?)
    } else {
        (number(head, 28, 4)?, number(head, 42, 2)?, number(head, 44, 2)?)
    };
    for index in 0..count.min(HEADERS_MAX) {
        let mut header = [0; 56];
        let header = header.get_mut(..if wide { 56 } else { 32 })?;
        file.read_exact_at(header, table.checked_add(index * size)?).ok()?;
        if number(header, 0, 4)? != PT_INTERP {
            continue;
        }
        let (at, length) = if wide {
            (number(header, 8, 8)?, number(header, 32, 8)?)
        } else {
            (number(header, 4, 4)?, number(header, 16, 4)?)
        };
        let mut name = vec![0; usize::try_from(length).ok().filter(|length| (2..=4096).contains(length))?];
        file.read_exact_at(&mut name, at).ok()?;
        name.pop_if(|last| *last == 0);
        return Some(name);
    }
    None
}

fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at + width)?;
    let mut wide = [0; 8];
    if cfg!(target_endian = "little") {
        wide.get_mut(..width)?.copy_from_slice(field);
        Some(u64::from_le_bytes(wide))
    } else {
        wide.get_mut(8 - width..)?.copy_from_slice(field);
        Some(u64::from_be_bytes(wide))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_read_as_the_kernel_reads_it() {
        for (head, name) in [
            (&b"#!/bin/sh\n"[..], Some(&b"/bin/sh"[..])),
            (b"#! \t/bin/sh -e\n", Some(b"/bin/sh")),
            (b"#!/bin/sh", Some(b"/bin/sh")),
            (b"#!/bin/sh\r\n", Some(b"/bin/sh\r")),
            (b"#!\n", None),
            (b"#!", None),
            (b"echo\n", None),
            (b"", None),
        ] {
            assert_eq!(script_interpreter(head), name, "{head:?}");
        }
    }

    #[test]
    fn a_dynamic_binary_names_its_loader_and_a_text_does_not() {
        let own = interpreter_of(Path::new("/proc/self/exe"));
        if let Some(loader) = own {
            assert!(loader.is_absolute() && loader.exists(), "{loader:?}");
        }
        let root = crate::process::scratch::folder("program");
        std::fs::write(root.join("text"), "\x7fELF").unwrap();
        assert_eq!(interpreter_of(&root.join("text")), None);
        std::fs::write(root.join("cut"), b"\x7fELF\x02\x01").unwrap();
        assert_eq!(interpreter_of(&root.join("cut")), None);
    }
}
