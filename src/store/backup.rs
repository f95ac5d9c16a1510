//! What is written down when the store is copied for somebody, and when a copy takes its place.

use super::audit::{self, Entry};
use super::fail::Fail;
use super::fence;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::id::RunId;
use crate::model::name::Name;
use crate::model::policy::{Authority, Permission, Subject, SubjectKind};
use crate::model::word::FenceReason;
use rusqlite::params;

const BACKUP: &str = "backup.create";
const RESTORE: &str = "backup.restore";
const TARGET: &str = "state";

/// Writes the `allowed` audit row of a backup, before anything is copied.
pub struct BeginBackup {
    /// Who asks and on what basis; `None`: whoever owns the state folder, while no daemon runs.
    pub by: Option<Authority>,
}

/// Whether a backup may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupBegun {
    /// It may; the store has about so many bytes.
    Begun {
        /// The store's pages.
        bytes: u64,
    },
    /// A fence did not hold.
    Refused(FenceReason),
}

impl Operation for BeginBackup {
    type Out = BackupBegun;

    fn perform(self, tx: &mut Tx<'_>) -> Result<BackupBegun, Fail> {
        match &self.by {
            Some(by) if fence::held(tx, by, Permission::ProjectManage)?.is_none() => {
                return Ok(BackupBegun::Refused(audit::fenced(tx, by, BACKUP, TARGET)?));
            }
            Some(by) => audit::allowed(tx, by, BACKUP, TARGET)?,
            None => locally(tx, BACKUP)?,
        }
        let number = |pragma: &str| tx.conn.query_row(pragma, [], |row| row.get::<_, i64>(0));
        let bytes = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?);
        Ok(BackupBegun::Begun { bytes: bytes.max(0) as u64 })
    }
}

/// Makes a restored store one that stands alone: logs that its rows name and that are not there are removed ones.
pub struct FinishRestore {
    /// Whose logs are not there: Run and number. `None`: all of them stayed with the old state.
    pub gone: Option<Vec<(RunId, i64)>>,
}

impl Operation for FinishRestore {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        let now_ms = tx.now_ms();
        // Whose Attempt has not begun gets its log anew.
        let sql = "UPDATE attempts SET log_retired_at_ms = ?1, log_retired_bytes = 0
            WHERE log_artifact IS NOT NULL AND log_retired_at_ms IS NULL AND status <> 'claimed'";
        match self.gone {
            None => {
                tx.conn.execute(sql, params![now_ms])?;
            }
            Some(gone) => {
                let mut one = tx.conn.prepare(&format!("{sql} AND run = ?2 AND number = ?3"))?;
                for (run, number) in gone {
                    one.execute(params![now_ms, run, number])?;
                }
            }
        }
        locally(tx, RESTORE)
    }
}

fn locally(tx: &mut Tx<'_>, operation: &str) -> Result<(), Fail> {
    let subject = Subject { kind: SubjectKind::System, id: "local".into() };
    let entry = Entry {
        operation,
        outcome: "allowed",
        subject: Some(&subject),
        target: Some(TARGET),
        count: 1,
        ..Entry::default()
    };
    audit::write(tx, &Name::default_project(), &entry)
}
