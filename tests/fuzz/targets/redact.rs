//! Values, one a line; an empty line; the output of a task that knows them. The first byte says in what
//! pieces it comes. Against the plain meaning: no byte of any occurrence is passed on, and every other is.

use qinglet::model::limits::REDACT_BYTES_MIN;
use qinglet::process::shim::redacted;

/// Stands in every name and in no output, so that names can be taken out again.
const MARK: u8 = 1;

pub fn run(data: &[u8]) {
    let Some((step, rest)) = data.split_first() else { return };
    let Some(at) = rest.windows(2).position(|end| end == b"\n\n") else { return };
    let (values, output) = (&rest[..at], &rest[at + 2..]);
    if data.contains(&MARK) {
        return;
    }
    let values: Vec<(&[u8], &[u8])> = values.split(|byte| *byte == b'\n').take(5).map(|v| (v, &[MARK][..])).collect();
    let looked_for = || values.iter().map(|(value, _)| *value).filter(|value| value.len() >= REDACT_BYTES_MIN);
    let whole = redacted(&values, std::iter::once(output));
    assert_eq!(whole.is_some(), looked_for().next().is_some());
    let Some(whole) = whole else { return };

    let mut covered = vec![false; output.len()];
    for value in looked_for() {
        let found = output.windows(value.len()).enumerate().filter(|(_, window)| *window == value);
        found.for_each(|(at, _)| covered[at..at + value.len()].fill(true));
    }
    let kept = output.iter().zip(&covered).filter(|(_, covered)| !**covered);
    let want: Vec<u8> = kept.map(|(byte, _)| *byte).collect();
    assert_eq!(without_names(&whole), want);
    let places = covered.chunk_by(|one, next| one == next).filter(|run| run[0]).count();
    assert!(whole.split(|byte| *byte == MARK).count() > places, "a name for every place");
    let pieces = redacted(&values, output.chunks(usize::from(*step) + 1)).expect("the same values");
    assert_eq!(without_names(&pieces), want, "however it is cut");
}

fn without_names(passed: &[u8]) -> Vec<u8> {
    let label = [&b"[secret "[..], &[MARK], b"]"].concat();
    let mut plain = Vec::new();
    let mut rest = passed;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(&label[..]) {
            rest = after;
        } else {
            plain.push(*first);
            rest = &rest[1..];
        }
    }
    plain
}
