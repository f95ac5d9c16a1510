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
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
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
