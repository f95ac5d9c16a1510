//! Replacing secrets' values in output, also where one is split across reads (design D16). It helps
//! against accidents; a task that wants to show a secret can always show it in another form.
//!
//! Each value is looked for by its own Knuth-Morris-Pratt automaton, so that the work for a byte is
//! bounded whatever is printed. What may still become a value is held back, nothing else.

use crate::model::limits::REDACT_BYTES_MIN;
use zeroize::Zeroizing;

/// Output is looked at in pieces of this size, which bounds what is noted in between.
const BLOCK_BYTES: usize = 4096;

/// One value to look for.
struct Pattern {
    value: Zeroizing<Vec<u8>>,
    /// At `n`: how long the longest proper suffix of the first `n` bytes is that the value begins with.
    border: Vec<u16>,
    /// How many of its bytes were seen last.
    seen: usize,
    label: Box<[u8]>,
}

/// Where a value stands in the output, counted from its beginning, and whose it is.
#[derive(Clone, Copy)]
struct Match {
    start: u64,
    end: u64,
    pattern: usize,
}

/// Looks for values and puts `[secret NAME]` in their places.
pub(super) struct Redactor {
    patterns: Vec<Pattern>,
    is_first: Box<[bool; 256]>,
    /// What is not passed on yet.
    held: Zeroizing<Vec<u8>>,
    /// Where in the output `held` begins.
    base: u64,
    matches: Vec<Match>,
}

impl Pattern {
    fn new(value: &[u8], name: &[u8]) -> Self {
        let mut border = vec![0_u16; value.len() + 1];
        let mut length = 0;
        for at in 1..value.len() {
            while length > 0 && value.get(at) != value.get(length) {
                length = border.get(length).copied().map_or(0, usize::from);
            }
            if value.get(at) == value.get(length) {
                length += 1;
            }
            if let Some(slot) = border.get_mut(at + 1) {
                *slot = u16::try_from(length).unwrap_or(0);
            }
        }
        let label = [&b"[secret "[..], name, b"]"].concat();
        Self { value: Zeroizing::new(value.to_vec()), border, seen: 0, label: label.into() }
    }

    fn border(&self, length: usize) -> usize {
        self.border.get(length).copied().map_or(0, usize::from)
    }

    /// Takes one more byte. `true`: the value has just ended here.
    fn take(&mut self, byte: u8) -> bool {
        while self.seen > 0 && self.value.get(self.seen) != Some(&byte) {
            self.seen = self.border(self.seen);
        }
        if self.value.get(self.seen) == Some(&byte) {
            self.seen += 1;
        }
        if self.seen < self.value.len() {
            return false;
        }
        self.seen = self.border(self.seen);
        true
    }
}

impl Redactor {
    /// A redactor for these values and names. `None`: there is none that is long enough to be looked
    /// for. The longest comes first, so that its name stands where two begin alike.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Option<Self> {
        let values =
            values.into_iter().filter(|(value, _)| (REDACT_BYTES_MIN..=usize::from(u16::MAX)).contains(&value.len()));
        let mut values: Vec<(&[u8], &[u8])> = values.collect();
        values.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        values.dedup_by(|one, other| one.0 == other.0);
        if values.is_empty() {
            return None;
        }
        let mut is_first = Box::new([false; 256]);
        for first in values.iter().filter_map(|(value, _)| value.first()) {
            is_first[usize::from(*first)] = true;
        }
        let patterns: Vec<Pattern> = values.into_iter().map(|(value, name)| Pattern::new(value, name)).collect();
        let longest = patterns.first().map_or(0, |pattern| pattern.value.len());
        // Never grown, so that no copy of a value is left behind.
        let held = Zeroizing::new(Vec::with_capacity(longest + 2 * BLOCK_BYTES));
        Some(Self { patterns, is_first, held, base: 0, matches: Vec::new() })
    }

    /// Takes output and passes on what cannot become a value any more.
    pub(super) fn push(&mut self, output: &[u8], mut pass: impl FnMut(&[u8])) {
        for block in output.chunks(BLOCK_BYTES) {
            self.look(block);
            let open = self.patterns.iter().map(|pattern| pattern.seen).max().unwrap_or(0);
            self.pass_on(self.held.len() - open.min(self.held.len()), &mut pass);
        }
    }

    /// Passes on the rest: nothing more comes.
    pub(super) fn finish(&mut self, mut pass: impl FnMut(&[u8])) {
        self.patterns.iter_mut().for_each(|pattern| pattern.seen = 0);
        self.pass_on(self.held.len(), &mut pass);
    }

    fn look(&mut self, block: &[u8]) {
        let mut at = self.base + self.held.len() as u64;
        self.held.extend_from_slice(block);
        let mut rest = block;
        while let Some((&byte, after)) = rest.split_first() {
            if self.patterns.iter().all(|pattern| pattern.seen == 0) {
                let quiet = rest.iter().take_while(|byte| !self.is_first[usize::from(**byte)]).count();
                if quiet > 0 {
                    at += quiet as u64;
                    rest = rest.get(quiet..).unwrap_or_default();
                    continue;
                }
            }
            at += 1;
            rest = after;
            for (index, pattern) in self.patterns.iter_mut().enumerate() {
                if pattern.take(byte) {
                    let start = at - pattern.value.len() as u64;
                    // Occurrences of one value that overlap are one place.
                    match self.matches.iter_mut().rev().find(|last| last.pattern == index) {
                        Some(last) if start < last.end => last.end = at,
                        _ => self.matches.push(Match { start, end: at, pattern: index }),
                    }
                }
            }
        }
    }

    /// Passes on the first `length` bytes of what is held, names in the places of values. A value that
    /// begins in them goes whole.
    fn pass_on(&mut self, length: usize, pass: &mut impl FnMut(&[u8])) {
        let limit = self.base + length as u64;
        self.matches.sort_by_key(|found| (found.start, std::cmp::Reverse(found.end)));
        let due = self.matches.iter().take_while(|found| found.start < limit).count();
        let mut cursor = self.base;
        for found in self.matches.drain(..due) {
            if found.end <= cursor {
                continue;
            }
            let plain = (cursor - self.base) as usize..(found.start.max(cursor) - self.base) as usize;
            pass(self.held.get(plain).unwrap_or_default());
            pass(self.patterns.get(found.pattern).map_or(&b"[secret]"[..], |pattern| &pattern.label));
            cursor = found.end;
        }
        if cursor < limit {
            pass(self.held.get((cursor - self.base) as usize..length).unwrap_or_default());
            cursor = limit;
        }
        let gone = ((cursor - self.base) as usize).min(self.held.len());
        self.held.drain(..gone);
        self.base = cursor;
    }
}

/// Output that comes in these pieces, as it is passed on, for tests that feed any bytes in. Names go with
/// the values.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub fn redacted<'a>(values: &[(&[u8], &[u8])], pieces: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut redactor = Redactor::new(values.iter().copied())?;
    let mut passed = Vec::new();
    pieces.for_each(|piece| redactor.push(piece, |bytes| passed.extend_from_slice(bytes)));
    redactor.finish(|bytes| passed.extend_from_slice(bytes));
    Some(passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redacted(values: &[(&str, &str)], pieces: &[&[u8]]) -> Vec<u8> {
        let values = values.iter().map(|(value, name)| (value.as_bytes(), name.as_bytes()));
        let mut redactor = Redactor::new(values).unwrap();
        let mut out = Vec::new();
        for piece in pieces {
            redactor.push(piece, |bytes| out.extend_from_slice(bytes));
        }
        redactor.finish(|bytes| out.extend_from_slice(bytes));
        out
    }

    fn text(values: &[(&str, &str)], pieces: &[&str]) -> String {
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        String::from_utf8(redacted(values, &pieces)).unwrap()
    }

    #[test]
    fn a_value_is_replaced_wherever_it_is_split() {
        let values = [("hunter2!", "db")];
        let whole = "user=x pass=hunter2! rest hunter2";
        for at in 0..whole.len() {
            let (one, two) = whole.split_at(at);
            assert_eq!(text(&values, &[one, two]), "user=x pass=[secret db] rest hunter2", "{at}");
        }
        let single: Vec<String> = whole.chars().map(String::from).collect();
        let single: Vec<&str> = single.iter().map(String::as_str).collect();
        assert_eq!(text(&values, &single), "user=x pass=[secret db] rest hunter2");
    }

    #[test]
    fn only_what_may_become_a_value_is_held_back() {
        let mut redactor = Redactor::new([(&b"abcabd"[..], &b"n"[..])]).unwrap();
        let mut pushed = |piece: &str| {
            let mut out = Vec::new();
            redactor.push(piece.as_bytes(), |bytes| out.extend_from_slice(bytes));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(pushed("xxab"), "xx");
        assert_eq!(pushed("cab"), "");
        assert_eq!(pushed("c"), "abc", "the last three may still begin it");
        assert_eq!(pushed("abd"), "[secret n]");
        assert_eq!(pushed("z"), "z");
    }

    #[test]
    fn the_longest_value_wins_and_no_part_of_an_overlap_shows() {
        let values = [("secret", "short"), ("secret-long", "long")];
        assert_eq!(text(&values, &["a secret-long b secret-lon c"]), "a [secret long] b [secret short]-lon c");
        let overlap = [("abcdef", "one"), ("defghi", "two")];
        assert_eq!(text(&overlap, &["xabcde", "fghiy"]), "x[secret one][secret two]y");
        assert_eq!(text(&[("abcabc", "n")], &["xabcabcabcy"]), "x[secret n]y", "overlapping itself");
        assert_eq!(text(&[("aaaaaa", "n")], &["aaaaaaaaaaaaab"]), "[secret n]b");
    }

    #[test]
    fn what_is_too_short_is_not_looked_for() {
        assert!(Redactor::new([(&b"12345"[..], &b"n"[..])]).is_none());
        assert!(Redactor::new(std::iter::empty()).is_none());
    }

    /// The plain way to say it: every place covered by any occurrence is gone, the rest stays.
    fn covered(values: &[Vec<u8>], output: &[u8]) -> Vec<u8> {
        let mut hidden = vec![false; output.len()];
        for value in values {
            for at in 0..(output.len() + 1).saturating_sub(value.len()) {
                if output[at..].starts_with(value) {
                    hidden[at..at + value.len()].fill(true);
                }
            }
        }
        output.iter().zip(hidden).filter(|(_, hidden)| !hidden).map(|(byte, _)| *byte).collect()
    }

    proptest! {
        #[test]
        fn what_shows_is_exactly_what_no_value_covers(
            values in proptest::collection::vec("[ab]{6,9}", 1..4),
            output in "[ab]{0,80}",
            cuts in proptest::collection::vec(0usize..80, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(output.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&output.as_bytes()[from..cut]);
                from = cut;
            }
            pieces.push(&output.as_bytes()[from..]);
            let named: Vec<(&str, &str)> = values.iter().map(|value| (value.as_str(), "N")).collect();
            let shown = redacted(&named, &pieces);
            let shown: Vec<u8> = String::from_utf8(shown).unwrap().replace("[secret N]", "").into_bytes();
            let values: Vec<Vec<u8>> = values.into_iter().map(String::into_bytes).collect();
            prop_assert_eq!(shown, covered(&values, output.as_bytes()));
        }
    }

    /// A value and an output made to be slow: the work stays in proportion to what is printed.
    #[test]
    fn no_output_makes_it_slow() {
        let value = format!("{}b", "a".repeat(16_383));
        let output = vec![b'a'; 2 << 20];
        let values: Vec<(String, String)> = (0..4).map(|n| (format!("{n}{value}"), n.to_string())).collect();
        let named: Vec<(&str, &str)> = values.iter().map(|(value, name)| (&value[1..], name.as_str())).collect();
        assert_eq!(redacted(&named, &[&output]).len(), output.len());
    }
}
