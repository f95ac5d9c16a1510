//! The known word a mistyped one was probably meant to be.

/// The entry of `known` that takes the fewest changed, missing, added or swapped letters to reach
/// from `word`; `None` only for an empty list.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|candidate| distance(word, candidate))
}

/// Optimal string alignment distance.
fn distance(a: &str, b: &str) -> usize {
    // A mistyped word is short; what is longer resembles nothing.
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().collect();
    // Only two rows back are looked at, and these three serve for all.
    let (mut before, mut last, mut row) = (vec![0; b.len() + 1], vec![0; b.len() + 1], (0..=b.len()).collect());
    for i in 1..=a.len() {
        (before, last, row) = (last, row, before);
        row[0] = i;
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut cost = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cost = cost.min(before[j - 2] + 1);
            }
            row[j] = cost;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_its_neighbour() {
        let known = ["run", "runs", "show", "status", "task", "serve"];
        for (typed, meant) in [("rnu", "run"), ("shwo", "show"), ("stat", "status"), ("taks", "task"), ("", "run")] {
            assert_eq!(nearest(typed, known), Some(meant), "{typed:?}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
