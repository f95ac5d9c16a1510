//! The plan of a crontab, for tests that feed any bytes in. Debug builds only.

use super::account::Account;
use super::expression::Reading;
use super::plan::{self, Becomes, Rules};
use crate::model::name::Name;
use crate::model::task::Definition;
use serde_json::Value;

/// One line that means something.
pub struct Planned {
    /// From 1.
    pub number: usize,
    /// Its text as it is shown.
    pub text: String,
    /// Whether it is a setting that was taken.
    pub is_setting: bool,
    /// The id, the task and the trigger it becomes.
    pub job: Option<(Name, Definition, Value)>,
}

/// Plans a crontab of root's on a host in Greenwich.
pub fn planned(bytes: &[u8], busybox: bool, system: bool) -> Vec<Planned> {
    let account = Account { name: "root".into(), home: "/root".into() };
    let rules = Rules {
        reading: if busybox { Reading::Busybox } else { Reading::Vixie },
        system,
        user: None,
        account: &account,
        zone: "UTC",
        source: "/etc/crontab",
        now_ms: 1_700_000_000_000,
    };
    let entries = plan::of(bytes, &rules).into_iter().map(|entry| Planned {
        number: entry.line,
        text: entry.text,
        is_setting: matches!(entry.becomes, Becomes::Setting),
        job: match entry.becomes {
            Becomes::Job(job) => Some((job.id, job.definition, job.trigger)),
            _ => None,
        },
    });
    entries.collect()
}
