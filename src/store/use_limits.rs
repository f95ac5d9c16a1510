//! Numbers that change while the daemon runs. What the connection was opened with stays.

use super::fail::Fail;
use super::thread::Operation;
use super::tx::Tx;
use crate::model::limits::Limits;

/// From the next operation on these numbers count.
#[derive(Clone, Copy, Debug)]
pub struct UseLimits(pub Limits);

impl Operation for UseLimits {
    type Out = ();

    fn perform(self, tx: &mut Tx<'_>) -> Result<(), Fail> {
        *tx.limits = self.0;
        Ok(())
    }
}
