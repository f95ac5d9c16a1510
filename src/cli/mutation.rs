//! Names for mutations, so that a request said twice is done once.

use super::failure::Failure;
use super::time::now_ms;
use crate::model::id::{IdSource, MutationId};

/// A fresh UUID (RFC 9562 version 7). The daemon takes any; one that rises with time is entered at the right
/// end of its index, where a random one has a page of the flash written for itself alone.
pub fn fresh() -> Result<MutationId, Failure> {
    let mut random = [0; 10];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::unavailable(format!("the system gives no random bytes: {error}")))?;
    Ok(at(now_ms(), random))
}

fn at(now_ms: i64, random: [u8; 10]) -> MutationId {
    // A source begins at 0 and takes random bytes for a later millisecond only, also on a clock that has none.
    MutationId(IdSource::default().next(now_ms.max(1), random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_rise_with_time_and_are_never_the_same() {
        let names: Vec<_> = (0..1000).map(|_| fresh().unwrap().0).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
        assert!(names.iter().all(crate::model::id::Uuid::is_v7), "{:?}", names[0]);
        assert!(names[0].as_bytes()[..6] <= names[999].as_bytes()[..6]);
        assert_ne!(at(0, [1; 10]).0, at(0, [2; 10]).0, "on a clock that stands before 1970");
    }
}
