//! An SQLite VFS that fails: the system's own, whose n-th write or n-th sync is refused. One plan
//! for the whole process, so tests that use it take turns.

use rusqlite::ffi;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The name under which it is registered.
pub const NAME: &str = "faulty";

/// What is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A write (half of it happens first), a truncation or a deletion.
    Write,
    /// A sync.
    Sync,
}

/// When and how it fails.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub kind: Kind,
    /// Which one, from 1.
    pub at: u64,
    /// No space instead of an I/O error. Only of writes: the system's VFS never says so of the others.
    pub full: bool,
    /// And all writes and syncs after it, as if the disk were gone.
    pub sticky: bool,
}

static WRITES: AtomicU64 = AtomicU64::new(0);
static SYNCS: AtomicU64 = AtomicU64::new(0);
static FAIL_WRITE: AtomicU64 = AtomicU64::new(0);
static FAIL_SYNC: AtomicU64 = AtomicU64::new(0);
static FULL: AtomicBool = AtomicBool::new(false);
static STICKY: AtomicBool = AtomicBool::new(false);
static TRIPPED: AtomicBool = AtomicBool::new(false);
static READ_ONLY: AtomicBool = AtomicBool::new(false);
static REAL_VFS: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(std::ptr::null_mut());
static REAL_METHODS: AtomicPtr<ffi::sqlite3_io_methods> = AtomicPtr::new(std::ptr::null_mut());

/// Registers the VFS and keeps other tests of this process from planning faults.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static REGISTER: Once = Once::new();
    let guard = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    REGISTER.call_once(register);
    disarm();
    READ_ONLY.store(false, SeqCst);
    guard
}

/// Counts from zero again and fails by plan.
pub fn arm(plan: Plan) {
    disarm();
    FULL.store(plan.full, SeqCst);
    STICKY.store(plan.sticky, SeqCst);
    match plan.kind {
        Kind::Write => FAIL_WRITE.store(plan.at, SeqCst),
        Kind::Sync => FAIL_SYNC.store(plan.at, SeqCst),
    }
}

/// Counts from zero and fails no more. Says whether it had failed.
pub fn disarm() -> bool {
    FAIL_WRITE.store(0, SeqCst);
    FAIL_SYNC.store(0, SeqCst);
    WRITES.store(0, SeqCst);
    SYNCS.store(0, SeqCst);
    TRIPPED.swap(false, SeqCst)
}

/// Writes and syncs since the last `arm` or `disarm`.
pub fn counts() -> (u64, u64) {
    (WRITES.load(SeqCst), SYNCS.load(SeqCst))
}

/// Lets files be opened for reading only, as on a read-only file system.
pub fn read_only(on: bool) {
    READ_ONLY.store(on, SeqCst);
}

fn refused(kind: Kind) -> bool {
    let (count, at) = match kind {
        Kind::Write => (WRITES.fetch_add(1, SeqCst) + 1, FAIL_WRITE.load(SeqCst)),
        Kind::Sync => (SYNCS.fetch_add(1, SeqCst) + 1, FAIL_SYNC.load(SeqCst)),
    };
    let hit = at != 0 && count == at;
    if hit {
        TRIPPED.store(true, SeqCst);
    }
    hit || (STICKY.load(SeqCst) && TRIPPED.load(SeqCst))
}

fn real_methods() -> &'static ffi::sqlite3_io_methods {
    // SAFETY: set to one of SQLite's own static tables before any file of ours exists; they differ
    // in how they lock, not in how they write and sync.
    unsafe { &*REAL_METHODS.load(SeqCst) }
}

fn real_vfs() -> *mut ffi::sqlite3_vfs {
    REAL_VFS.load(SeqCst)
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, bytes: *const c_void, length: c_int, at: i64) -> c_int {
    let real = real_methods().xWrite.unwrap();
    if refused(Kind::Write) {
        // A torn write: the first half is there.
        // SAFETY: SQLite passed this file and these bytes for exactly this call.
        unsafe { real(file, bytes, length / 2, at) };
        return if FULL.load(SeqCst) { ffi::SQLITE_FULL } else { ffi::SQLITE_IOERR_WRITE };
    }
    // SAFETY: as above; the file was opened by the real VFS, whose method this is.
    unsafe { real(file, bytes, length, at) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    if refused(Kind::Write) {
        return ffi::SQLITE_IOERR_TRUNCATE;
    }
    // SAFETY: the file was opened by the real VFS, whose method this is.
    unsafe { real_methods().xTruncate.unwrap()(file, size) }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    if refused(Kind::Sync) {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // SAFETY: the file was opened by the real VFS, whose method this is.
    unsafe { real_methods().xSync.unwrap()(file, flags) }
}

unsafe extern "C" fn delete(_vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    if refused(Kind::Write) {
        return ffi::SQLITE_IOERR_DELETE;
    }
    // SAFETY: the real VFS is registered for the life of the process; the name is SQLite's.
    unsafe { (*real_vfs()).xDelete.unwrap()(real_vfs(), name, sync_folder) }
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let flags = match READ_ONLY.load(SeqCst) {
        true if flags & ffi::SQLITE_OPEN_CREATE != 0 => return ffi::SQLITE_CANTOPEN,
        true => flags & !ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_READONLY,
        false => flags,
    };
    // SAFETY: the space behind `file` is of the size that the real VFS asked for, which ours copied.
    let result = unsafe { (*real_vfs()).xOpen.unwrap()(real_vfs(), name, file, flags, out_flags) };
    // SAFETY: on return `file` is initialised; its methods are a static table of SQLite.
    unsafe {
        if result == ffi::SQLITE_OK && !(*file).pMethods.is_null() {
            (*file).pMethods = ours_for((*file).pMethods);
        }
    }
    result
}

/// Our table for one of the real VFS's: it has one for databases and one without locks for journals.
///
/// # Safety
/// `real` is a table of the real VFS, which lives for ever.
unsafe fn ours_for(real: *const ffi::sqlite3_io_methods) -> *const ffi::sqlite3_io_methods {
    static TABLES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, ours)) = tables.iter().find(|(known, _)| *known == real as usize) {
        return *ours as *const _;
    }
    REAL_METHODS.store(real.cast_mut(), SeqCst);
    // SAFETY: the caller's promise.
    let mut ours = unsafe { *real };
    // Version 1 has no shared memory: nothing here may want it.
    ours.iVersion = 1;
    ours.xWrite = Some(write);
    ours.xTruncate = Some(truncate);
    ours.xSync = Some(sync);
    let ours: *const ffi::sqlite3_io_methods = Box::leak(Box::new(ours));
    tables.push((real as usize, ours as usize));
    ours
}

fn register() {
    let name = std::ffi::CString::new(NAME).unwrap().into_raw();
    // SAFETY: the default VFS exists once SQLite is initialised, which finding it does; the copy and
    // its name are leaked, so they live as long as SQLite may look at them.
    unsafe {
        assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
        let real = ffi::sqlite3_vfs_find(std::ptr::null());
        REAL_VFS.store(real, SeqCst);
        let mut ours = *real;
        ours.pNext = std::ptr::null_mut();
        ours.zName = name;
        ours.xOpen = Some(open);
        ours.xDelete = Some(delete);
        assert_eq!(ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0), ffi::SQLITE_OK);
    }
}
