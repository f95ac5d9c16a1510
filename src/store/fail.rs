//! Why an operation failed, as one word for the caller.

use rusqlite::ErrorCode;

/// What stops an operation. Its savepoint is rolled back and the word is answered.
pub enum Fail {
    /// `SQLite` said no. Boxed: every `?` on the way would move what it says, 64 bytes of it.
    Sqlite(Box<rusqlite::Error>),
    /// A stored record is not what it must be, or something else the word names.
    Word(&'static str),
}

impl From<rusqlite::Error> for Fail {
    #[cold]
    #[inline(never)]
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(Box::new(error))
    }
}

impl Fail {
    /// The machine word that goes into `StoreError::Unavailable`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sqlite(error) => word(error),
            Self::Word(word) => word,
        }
    }
}

/// The machine word of an error of `SQLite`.
pub fn word(error: &rusqlite::Error) -> &'static str {
    use rusqlite::Error as E;
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "storage_full",
        Some(ErrorCode::SystemIoFailure) => "storage_io",
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => "storage_unavailable",
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => "store_corrupt",
        Some(ErrorCode::OutOfMemory) => "out_of_memory",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "store_busy",
        Some(ErrorCode::ConstraintViolation) => "store_conflict",
        Some(_) => "store_error",
        None => match error {
            E::FromSqlConversionFailure(..)
            | E::IntegralValueOutOfRange(..)
            | E::InvalidColumnType(..)
            | E::Utf8Error(..) => "record_damaged",
            _ => "store_error",
        },
    }
}
